"""The lab's claims, measured: requested and measured value of every limit, and what an unlimited lab costs.

    python benchmarks/lab.py [--quick] [--repeats 10] [-o docs/results/lab.md]

Needs root and a quiet machine. The own cost is paired: each repeat makes one run outside the lab and one inside it with
limits that do not restrict anything (all cores, most of the RAM, a warm dataset on the slow disk), in random order; the
statistic is the ratio of their epochs after the first, with a 90 % interval over the repeats (Student's t on
logarithms). Of a run's later epochs the faster half counts: a shared host slows a core by a tenth for seconds at a
time, and the cost of the lab is in every epoch.
"""

from __future__ import annotations

import argparse
import math
import os
import random
import statistics
import sys
import tempfile
import time
from pathlib import Path

from edgetrain.analysis import summarize
from edgetrain.errors import EdgetrainError
from edgetrain.lab import TOLERANCE, measure_limits
from edgetrain.record import FolderStore
from edgetrain.runner import execute
from edgetrain.schema import Experiment, Limits, Loading, Workload
from edgetrain.studies.pictures import LightPictures

# Student's t, 95 % one-sided, by degrees of freedom: a 90 % interval.
T95 = {2: 2.920, 3: 2.353, 4: 2.132, 5: 2.015, 6: 1.943, 7: 1.895, 8: 1.860, 9: 1.833, 10: 1.812, 11: 1.796, 14: 1.761}


def say(text: str) -> None:
    """Print on stderr."""
    print(text, file=sys.stderr, flush=True)


def proofs_markdown() -> tuple[list[str], bool]:
    """Measure every limit; return the table and whether all hold."""
    proofs = measure_limits(say=say)
    lines = ["| limit | what | requested | measured | deviation | within 15 % | by |", "|---|---|---|---|---|---|---|"]
    for proof in proofs:
        off = "–" if proof.off is None else f"{proof.off:+.1%}"
        verdict = {True: "yes", False: "**no**", None: "not judged"}[proof.holds]
        got = "–" if proof.got is None else f"{proof.got:.3g} {proof.unit}"
        asked = f"{proof.asked:.3g} {proof.unit}"
        lines.append(f"| {proof.limit} | {proof.what} | {asked} | {got} | {off} | {verdict} | {proof.by} |")
    return lines, all(proof.holds is not False for proof in proofs)


def later_s(store: FolderStore, run: str) -> float:
    """Return the mean of the faster half of the epochs after the first."""
    times = sorted(epoch.e2e_s for epoch in summarize(store.open(run)).epochs[1:])
    return statistics.fmean(times[: (len(times) + 1) // 2])


def own_cost(repeats: int, epochs: int) -> tuple[float, float, float, list[float]]:
    """Return the ratio inside over outside, with its 90 % interval, and every pair's."""
    with tempfile.TemporaryDirectory(prefix="edgetrain-own-cost-") as folder:
        store = FolderStore(folder)
        dataset = LightPictures(61 * 16).make(store.data)
        plain = Experiment(
            Workload("mobilenet_v3", dataset=str(dataset)),
            Loading(workers=1, cache="warm"),
            epochs=epochs,
            compute="paced",
            compute_ms=1.0,
        )
        total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        limits = Limits(storage="ssd", page_cache=str(int(total * 0.8)), cores=len(os.sched_getaffinity(0)))
        inside = Experiment(
            plain.workload, plain.loading, epochs=epochs, compute="paced", compute_ms=1.0, limits=limits
        )
        order = random.Random(0)
        ratios = []
        for number in range(repeats):
            pair = [("outside", plain), ("inside", inside)]
            order.shuffle(pair)
            try:
                took = {name: later_s(store, execute(experiment, "auto", store).run) for name, experiment in pair}
            except (EdgetrainError, statistics.StatisticsError) as error:
                say(f"pair {number + 1}/{repeats} left out: {error}")
                continue
            ratios.append(took["inside"] / took["outside"])
            say(f"pair {number + 1}/{repeats}: {took['outside']:.3f} s outside, {took['inside']:.3f} s inside")
    logs = [math.log(ratio) for ratio in ratios]
    half = T95.get(len(logs) - 1, 1.7) * statistics.stdev(logs) / math.sqrt(len(logs)) if len(logs) > 1 else math.inf
    mean = statistics.fmean(logs)
    return math.exp(mean), math.exp(mean - half), math.exp(mean + half), ratios


def main() -> int:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="three pairs, short epochs: to see that it works")
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    repeats = 3 if options.quick else options.repeats
    start_s = time.monotonic()
    load = os.getloadavg()[0]
    table, within = proofs_markdown()
    ratio, low, high, ratios = own_cost(repeats, 3 if options.quick else 11)
    lines = [
        "# The lab: limits requested and measured",
        "",
        f"**{'All judged limits are' if within else 'Not all judged limits are'} within {100 * TOLERANCE:.0f} % of the"
        f" request; an unlimited lab costs {'less' if high < 1.02 else 'perhaps more'} than 2 %.**",
        "",
        "## Limits: requested and measured",
        "",
        *table,
        "",
        "## What an unlimited lab costs",
        "",
        f"{len(ratios)} pairs in random order, MobileNetV3's loader with one worker, warm, paced step of 1 ms; ratio"
        f" of the faster half of the later epochs, inside over outside: **{ratio:.3f}**,"
        f" 90 % interval {low:.3f} to {high:.3f}"
        f" ({'below' if high < 1.02 else '**not below**'} 1.02).",
        "",
        "Pairs: " + ", ".join(f"{one:.3f}" for one in ratios) + ".",
        "",
        f"`python benchmarks/lab.py{' --quick' if options.quick else ''}` on Linux {os.uname().release},"
        f" {os.cpu_count()} cores, load {load:.1f} at the start, {time.monotonic() - start_s:.0f} s,"
        f" {time.strftime('%Y-%m-%d')}. Origin: measured.",
    ]
    text = "\n".join(lines) + "\n"
    if options.output:
        options.output.write_text(text)
    print(text)
    return 0 if within and high < 1.02 else 1


if __name__ == "__main__":
    sys.exit(main())
