"""The lab on a machine with a real GPU: limits proved, then findings A, B, D and F with real compute.

    PYTHONPATH=src python3 benchmarks/lab_gpu.py [--minutes 8] [-o $OUT/lab_gpu.md]

Needs root. Times of the media are divided by a speed, because this GPU's step is that much shorter than a board's;
the pictures are light for the same reason. The step is real (`compute: cuda`) and is not divided by anything. On so
fast a GPU a step of MobileNetV3 takes less than fetching its pictures, which III-B needs; for III-A, which needs the
opposite, a deep network trains on half as many a step (lab_gpu_workload.py).
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path

from edgetrain.analysis import digest
from edgetrain.analysis.factors import Row, tabulate
from edgetrain.analysis.findings import Finding, Judge
from edgetrain.lab.measure import Proof, measure
from edgetrain.runner import execute
from edgetrain.runner.campaign import Campaign
from edgetrain.runner.plan import Plan
from edgetrain.runner.reproduce import RAM_FILES
from edgetrain.runner.reproduce_data import MEAN_BYTES, light_pictures
from edgetrain.store import Store

SPEED = 10.0  # of HDD and SD: 2.0 and 0.9 ms an image
SSD_SPEED = 4.0  # 0.23 ms: below that the mechanism's own floor begins
SIZE = (200, 150)


def say(text: str) -> None:
    """Tell on stderr, with the time."""
    print(f"[{time.strftime('%H:%M:%S')}] {text}", file=sys.stderr, flush=True)


def carry_out(plan: Plan, store: Store, until_s: float) -> list[Row]:
    """Carry a plan out; what failed or found no time left is said and left out."""

    def run_one(experiment):  # type: ignore[no-untyped-def]
        if time.monotonic() > until_s:
            from edgetrain.errors import WorkloadError

            raise WorkloadError("no time left")
        start_s = time.monotonic()
        run = execute(experiment, "auto", store)
        say(f"{plan.name} {dict(experiment.factors)}: {time.monotonic() - start_s:.1f} s")
        return run

    standing = Campaign(plan, store, run_one).carry_out()
    for key, reason in standing.failed.items():
        say(f"failed: {key}: {reason}")
    return tabulate([digest(store.open(run)).document() for run in standing.done.values()])


def plans(data: Path, compute: str, media: Sequence[str]) -> dict[str, Callable[[], Plan]]:
    """Return the campaigns, the most telling first; pictures are made when a plan is asked for."""
    speeds = {"hdd": SPEED, "sd": SPEED, "ssd": SSD_SPEED}
    common = {"network": "mobilenet_v3", "compute": compute, "cache": "cold", "epochs": 2}
    if compute == "paced":  # to try the script without a GPU
        common["compute_ms"] = 45.0

    def pictures(count: int) -> str:
        return str(light_pictures(data, count, *SIZE))

    def grid(*asked: tuple[str, int]) -> tuple[dict[str, object], ...]:
        return tuple({"storage": medium, "workers": count, "speed": speeds[medium]} for medium, count in asked)

    def one_worker() -> Plan:
        points = grid(*((medium, count) for medium in media for count in (0, 1)))
        every = {**common, "network": "lab_gpu_workload:deep", "dataset": pictures(61 * 8), "batch_size": 8}
        return Plan("gpu-one-worker", every, points=points, retries=0)

    def workers() -> Plan:
        points = grid(*((medium, count) for medium in ("hdd", "ssd") for count in (0, 1, 2, 4)), ("sd", 0))
        return Plan("gpu-workers", {**common, "dataset": pictures(61 * 16)}, points=points, retries=0)

    def sizes() -> Plan:
        points = tuple(
            {"storage": "hdd", "workers": 0, "dataset_scale": scale, "dataset": pictures(round(480 * scale / 0.25))}
            for scale in (0.25, 1.0)
        )
        held = int(0.7 * 480 / 0.25 * MEAN_BYTES)
        every = {**common, "batch_size": 8, "speed": SPEED, "page_cache": str(held)}
        return Plan("gpu-sizes", every, points=points, retries=0)

    def ram() -> Plan:
        every = {**common, "dataset": pictures(RAM_FILES), "storage": "hdd", "speed": SPEED, "workers": 2}
        return Plan("gpu-ram", every, factors={"page_cache": ["150MB", "400MB"]}, retries=0)

    return {"one worker": one_worker, "workers": workers, "sizes": sizes, "ram": ram}


def markdown(proofs: Sequence[Proof], findings: Sequence[Finding], rows: dict[str, list[Row]], took_s: float) -> str:
    """Return the report."""
    lines = [
        "# The lab on a GPU machine",
        "",
        f"`PYTHONPATH=src python3 benchmarks/lab_gpu.py`, {took_s:.0f} s, Linux {os.uname().release},"
        f" {os.cpu_count()} cores. Steps are real GPU compute, storage is emulated (speed {SPEED:g}, SSD"
        f" {SSD_SPEED:g}); times as run.",
        "",
        "## Limits: asked against got (measured)",
        "",
        "| limit | what | asked | got | off | within 15 % | by |",
        "|---|---|---|---|---|---|---|",
    ]
    for proof in proofs:
        off = "–" if proof.off is None else f"{proof.off:+.1%}"
        verdict = {True: "yes", False: "**no**", None: "not judged"}[proof.holds]
        got = "–" if proof.got is None else f"{proof.got:.3g} {proof.unit}"
        asked = f"{proof.asked:.3g} {proof.unit}"
        lines.append(f"| {proof.limit} | {proof.what} | {asked} | {got} | {off} | {verdict} | {proof.by} |")
    lines += ["", "## Findings", ""]
    for finding in findings:
        reason = f" ({finding.reason})" if finding.reason else ""
        lines += [f"### III-{finding.letter} {finding.claim}: **{finding.verdict}**{reason}", ""]
        lines += ["| | ours | paper (other boards) | speaks for it |", "|---|---|---|---|"]
        lines += [
            f"| {one.what} | {one.ours} | {one.paper} | {'yes' if one.speaks_for else '**no**'} |"
            for one in finding.evidence
        ]
        lines.append("")
    for name, found in rows.items():
        lines += [f"## Runs: {name}", ""]
        heads = ("setting", "cold end to end s", "stall s", "fill s", "later end to end s", "stall s", "compute s")
        lines += ["| " + " | ".join((*heads, "read again MB")) + " |"]
        lines += ["|---|---|---|---|---|---|---|---|"]
        for row in found:
            setting = ", ".join(f"{key} {value}" for key, value in row.factors.items() if key != "dataset")
            first, later = row.first, row.later
            read = None if later is None or later.read_bytes is None else later.read_bytes / 1e6
            numbers = [first and first.e2e_s, first and first.stall_s, first and first.fill_s]
            numbers += [later and later.e2e_s, later and later.stall_s, row.median.compute_s, read]
            lines.append(f"| {setting} | " + " | ".join("–" if n is None else f"{n:.2f}" for n in numbers) + " |")
        lines.append("")
    return "\n".join(lines) + "\n"


def main() -> int:
    """Measure, judge, write, and print a short table last."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=8.0)
    parser.add_argument("--compute", default="cuda", help="cuda, or paced to try the script")
    parser.add_argument("--only", help="one campaign, without proving the limits: one worker, workers, sizes or ram")
    parser.add_argument("--media", default="hdd,sd,ssd", help="media of the runs with one worker")
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    output = options.output or Path(os.environ.get("OUT", ".")) / "lab_gpu.md"
    here = str(Path(__file__).resolve().parent)
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (here, os.environ.get("PYTHONPATH"))))
    start_s = time.monotonic()
    until_s = start_s + options.minutes * 60 - 20
    proofs: list[Proof] = []
    rows: dict[str, list[Row]] = {}
    with tempfile.TemporaryDirectory(prefix="edgetrain-lab-gpu-") as folder:
        os.environ.setdefault("EDGETRAIN_LAB_IMAGES", f"{folder}/images")
        store = Store(folder)
        if options.only is None:
            try:
                proofs = measure(say=say)
            except Exception:
                traceback.print_exc()
        for name, plan in plans(store.data, options.compute, options.media.split(",")).items():
            if options.only not in (None, name):
                continue
            try:
                rows[name] = carry_out(plan(), store, until_s)
            except Exception:
                traceback.print_exc()
            # After every campaign, so that a limit on the whole script loses nothing.
            findings = _judge(rows)
            output.write_text(markdown(proofs, findings, rows, time.monotonic() - start_s))
        say(f"done after {time.monotonic() - start_s:.0f} s")
    print("limit                                        asked      got    off")
    for proof in proofs:
        mark = {True: "", False: "  OFF", None: "  not judged"}[proof.holds]
        got = float("nan") if proof.got is None else proof.got
        print(f"{proof.limit + ' ' + proof.what:42} {proof.asked:8.3g} {got:8.3g} {proof.off or 0:+6.1%}{mark}")
    for finding in findings:
        print(f"III-{finding.letter}: {finding.verdict} {finding.reason}")
        for one in finding.evidence:
            print(f"   {'yes' if one.speaks_for else 'NO '} {one.what}: {one.ours}")
    return 0


def _judge(rows: dict[str, list[Row]]) -> list[Finding]:
    size_bytes = float(RAM_FILES * MEAN_BYTES)
    pipelining = Judge(rows.get("one worker", ()))
    others = Judge(rows.get("workers", ()), rows.get("sizes", ()), rows.get("ram", ()), 1.0, size_bytes)
    return [*pipelining.all("A"), *others.all("BDF")]


if __name__ == "__main__":
    sys.exit(main())
