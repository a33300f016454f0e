"""How right is the attribution of stalls? Injects known causes and compares what the rule says with the injector's log.

    python benchmarks/attribution.py --markdown docs/results/attribution.md
    python benchmarks/attribution.py --quick            # one repeat, a few scenarios
    python benchmarks/attribution.py --only straggler

Scenarios (scenarios.py) come in two sets: the rule was tuned on one, the other was held out. A repeat during which the
host stole CPU time gets no verdict and is run again, at most twice.
"""

from __future__ import annotations

import argparse
import functools
import multiprocessing
import os
import pickle
import platform
import re
import shutil
import statistics
import sys
import tempfile
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import injection as inject
import numpy as np
import torch
from scenarios import BATCH, HARD, MIXED, PURE, Scenario, scenarios
from torch.utils.data import DataLoader

from edgetrain.analysis.attribution import attribute
from edgetrain.analysis.breakdown import break_down
from edgetrain.analysis.parts import Parts
from edgetrain.inside import session
from edgetrain.record import Table, read_run

CAUSES = ("blocked", "preprocess", "contention", "handover")


@dataclass(frozen=True)
class Outcome:
    """What one run said, and what was true, as shares of the stall."""

    said: dict[str, float]
    truth: dict[str, float]
    stall_s: float
    doubts: tuple[str, ...]  # why there is no verdict


@dataclass(frozen=True)
class Seen:
    """What one run recorded, beside the injector's log; and the stall of its counterparts."""

    minibatches: Table
    workers: Table
    log: Any
    steal: float
    without_s: float | None = None
    idle_s: float = 0.0  # the stall of the same loader with nothing injected


def train(scenario: Scenario, workers: int, dataset: Any, core: int | None) -> Seen:
    """Run one loop; return what was recorded."""
    arguments: dict[str, Any] = {"batch_size": BATCH, **scenario.loader}
    if workers:
        arguments["num_workers"] = workers
        if core is not None:
            arguments["worker_init_fn"] = functools.partial(pin, core)
    else:
        arguments.pop("prefetch_factor", None)
        arguments.pop("persistent_workers", None)
    loader = DataLoader(dataset, **arguments)
    folder = tempfile.mkdtemp(prefix="edgetrain-attribution-")
    steal = Steal()
    try:
        recording = session.begin(folder)
        recording.epoch(0)
        log = []
        with ExitStack() as stack:
            if core is not None and workers == 0:
                stack.enter_context(pinned(core))
            for batch in loader:
                if scenario.step_s:
                    time.sleep(scenario.step_s)
                recording.launched()
                small = isinstance(batch, torch.Tensor) and batch.dim() == 2
                log.append(batch[:, :3].sum(0).tolist() if small else [0.0, 0.0, 0.0])
        recording.end()
        del loader  # workers that would persist end, and write what they have
        run = read_run(Path(folder))
        return Seen(
            run.main.minibatches.take(slice(None)), run.workers().take(slice(None)), np.array(log), steal.share()
        )
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def look(scenario: Scenario, workers: int) -> Seen:
    """Run a scenario once, with its counterpart where the truth is what vanishes."""
    cores = sorted(os.sched_getaffinity(0))
    core = cores[-1] if scenario.hogs else None
    dataset = scenario.make(scenario.minibatches)
    with hogs(scenario.hogs, core):
        if scenario.cold:
            inject.make_cold(dataset.paths)
        seen = train(scenario, workers, dataset, core)
        if scenario.without is not None:
            counterpart = train(scenario, workers, scenario.without(scenario.minibatches), core)
            return replace(seen, without_s=_stall_s(counterpart, workers))
    if scenario.truth is None and workers:
        idle = train(scenario, workers, scenario.make.idle(scenario.minibatches), core)
        return replace(seen, idle_s=_stall_s(idle, workers))
    return seen


def _stall_s(seen: Seen, workers: int) -> float:
    parts = break_down(seen.minibatches)
    return float(parts.stall_s[_counts(parts, workers)].sum())


def _counts(parts: Parts, workers: int) -> Any:
    return np.arange(len(parts)) >= max(1, 2 * workers)


def judge(scenario: Scenario, workers: int, seen: Seen) -> Outcome:
    """Set what the rule says of a run against the truth."""
    parts = break_down(seen.minibatches)
    verdict = attribute(seen.minibatches, seen.workers, parts.rows, parts.stall_s, seen.steal)
    counts = _counts(parts, workers)
    stall_s = float(parts.stall_s[counts].sum())
    sums = {cause: float(getattr(verdict, f"{cause}_s")[counts].sum()) for cause in CAUSES}
    said = {cause: value / max(stall_s, 1e-9) for cause, value in sums.items()}
    if seen.without_s is not None:
        truth = {scenario.vanishes: min(1.0, max(0.0, 1 - seen.without_s / max(stall_s, 1e-9)))}
    elif scenario.truth is not None:
        truth = scenario.truth
    else:
        cpu, blocked, waited = seen.log[counts].sum(axis=0)
        truth = {"preprocess": cpu, "blocked": blocked, "contention": waited}
        stays = min(1.0, seen.idle_s / max(stall_s, 1e-9))
        truth = {cause: (1 - stays) * value / max(cpu + blocked + waited, 1e-9) for cause, value in truth.items()}
        truth["handover"] = stays
    return Outcome(said, truth, stall_s, tuple(doubt.kind for doubt in verdict.doubts))


@dataclass(frozen=True)
class Shelf:
    """Where runs are kept, to be judged again by another rule, or taken from instead of being run."""

    keep: Path | None
    take: Path | None

    def run(self, scenario: Scenario, workers: int, number: int) -> Seen | None:
        """Return the run of that number, made or taken; None where none is kept."""
        name = f"{re.sub('[^a-z0-9]+', '-', scenario.name.lower())}-{workers}-{number}.pickle"
        if self.take is not None:
            kept = self.take / name
            return pickle.loads(kept.read_bytes()) if kept.exists() else None
        seen = look(scenario, workers)
        if self.keep is not None:
            self.keep.mkdir(parents=True, exist_ok=True)
            (self.keep / name).write_bytes(pickle.dumps(seen))
        return seen


def error_points(scenario: Scenario, outcome: Outcome) -> float:
    """How far off, in points: what was given to wrong causes; for a vanishing cause, the distance to its share."""
    if scenario.without is not None:
        return 100 * abs(outcome.said[scenario.vanishes] - outcome.truth[scenario.vanishes])
    wrong = [abs(outcome.said[cause] - outcome.truth.get(cause, 0.0)) for cause in CAUSES]
    return 100 * (sum(wrong) / 2 if scenario.promise == PURE else max(wrong))


def allowed_points(scenario: Scenario, workers: int) -> float:
    """What is promised for a scenario."""
    return {PURE: 10.0 if workers < 4 else 15.0, MIXED: 8.0, HARD: 12.0}[scenario.promise]


class Steal:
    """Share of the machine's CPU time its host gave to others, since this object was made."""

    def __init__(self) -> None:
        self.start = self._read()

    def share(self) -> float:
        """Return the share so far."""
        stolen, total = (now - then for now, then in zip(self._read(), self.start, strict=True))
        return stolen / total if total > 0 else 0.0

    @staticmethod
    def _read() -> tuple[int, int]:
        ticks = [int(word) for word in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
        return ticks[7], sum(ticks)


def pin(core: int, worker: int) -> None:
    """Hold a loader worker to one core."""
    os.sched_setaffinity(0, {core})


@contextmanager
def pinned(core: int) -> Any:
    """Hold this thread to one core."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def hog(core: int) -> None:
    """Compute for ever on one core."""
    os.sched_setaffinity(0, {core})
    while True:
        sum(range(1000))


@contextmanager
def hogs(count: int, core: int | None) -> Any:
    """Other processes that want the same core."""
    running = [multiprocessing.get_context("fork").Process(target=hog, args=(core,), daemon=True) for _ in range(count)]
    for process in running:
        process.start()
    try:
        yield
    finally:
        for process in running:
            process.kill()
            process.join()


def cell(scenario: Scenario, workers: int, repeats: int, shelf: Shelf) -> tuple[str, bool | None]:
    """Measure one scenario with one number of workers; return its table row and whether its error is allowed."""
    outcomes: list[Outcome] = []
    refused: list[str] = []
    while len(outcomes) < repeats and len(refused) <= 2:
        seen = shelf.run(scenario, workers, len(outcomes) + len(refused))
        if seen is None:
            break
        outcome = judge(scenario, workers, seen)
        if outcome.doubts:
            refused += outcome.doubts
        else:
            outcomes.append(outcome)
    if not outcomes:
        return f"| {scenario.name} | {workers} | – | no verdict: {', '.join(sorted(set(refused)))} | – | – | – |", None
    said = {cause: statistics.median(o.said[cause] for o in outcomes) for cause in CAUSES}
    truth = {cause: statistics.median(o.truth.get(cause, 0.0) for o in outcomes) for cause in CAUSES}
    middle = replace(outcomes[0], said=said, truth={c: truth[c] for c in outcomes[0].truth})
    errors = sorted(error_points(scenario, outcome) for outcome in outcomes)
    typical, allowed = error_points(scenario, middle), allowed_points(scenario, workers)
    kept = typical <= allowed

    def spell(shares: dict[str, float]) -> str:
        return ", ".join(f"{cause} {100 * value:.0f}" for cause, value in shares.items() if value >= 0.005) or "none"

    stall_ms = 1e3 * statistics.median(o.stall_s for o in outcomes)
    row = (
        f"| {scenario.name} | {workers} | {stall_ms:.0f} | {spell(middle.truth)} | {spell(said)} | "
        f"{typical:.1f} ({errors[0]:.1f}–{errors[-1]:.1f}) | {'yes' if kept else '**no**'}, {allowed:.0f} |"
    )
    return row, kept


REQUIRED_SHARE = 95 / 112  # of the cells


def misses(rows: list[str]) -> list[str]:
    """Return one line for each cell outside its allowed error: promised, measured, and which shares are wrong."""
    lines = []
    for row in rows:
        cells = [cell.strip() for cell in row.strip("| ").split("|")]
        if "**no**" not in cells[-1]:
            continue
        true, said = (dict(part.rsplit(" ", 1) for part in cell.split(", ")) for cell in cells[4:6])
        # Where a cause was removed, only its share is known.
        known = set(true) if sum(map(int, true.values())) < 90 else {*true, *said}
        names = sorted(known, key=lambda name: -abs(int(said.get(name, 0)) - int(true.get(name, 0))))
        wrong = ", ".join(f"{name} {said.get(name, 0)} instead of {true.get(name, 0)}" for name in names[:2])
        allowed = cells[-1].rpartition(" ")[2]
        error = cells[6].partition(" ")[0]
        lines.append(f"- missed: {cells[1]}, {cells[2]} workers: promised {allowed} points, measured {error}; {wrong}")
    return [*lines, ""] if lines else []


def page(rows: list[str], tally: dict[bool | None, int], took_s: float, stolen: float, finished: bool) -> str:
    """Return the result page: verdict, one table, command, date."""
    judged = tally[True] + tally[False]
    verdict = "no cell judged" if not judged else "holds" if tally[True] >= REQUIRED_SHARE * judged else "does not hold"
    lines = [
        "# Attribution of stalls to injected causes",
        "",
        f"**{verdict[0].upper()}{verdict[1:]}: {tally[True]} of {judged} cells are within their allowed error "
        f"(required: 95 of 112); {tally[None]} without a verdict.**"
        + ("" if finished else " The run was cut off: cells are missing."),
        "",
        *misses(rows),
        "Shares of the visible stall in %, median of the repeats, without the first 2W minibatches. True: what"
        " the injector logged, scaled to the stall that disappears when nothing is injected (the rest is the loader's"
        " hand-over), or the stall that disappears without one cause. Error: percentage points given to wrong causes"
        " (one cause injected: half the sum; several: the largest; a cause that is removed: the distance to its share)."
        " The rule was tuned on the set `tuning`; `held out` was not used for that.",
        "",
        "| set | injected | workers | stall ms | true | attributed | error (range) | within, allowed |",
        "|---|---|---|---|---|---|---|---|",
        *rows,
        "",
        f"`{' '.join(['python', *sys.argv])}` on {os.cpu_count()} cores, Linux {platform.release()}, torch"
        f" {torch.__version__}, {time.strftime('%Y-%m-%d', time.gmtime())}; {took_s:.0f} s, {stolen:.1%} of the CPU"
        " time taken by other guests of the host.",
    ]
    return "\n".join(lines) + "\n"


def main() -> int:
    """Run the scenarios asked for and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="one repeat, workers 0 and 1, few files")
    parser.add_argument("--only", help="scenarios whose name contains this")
    parser.add_argument("--set", choices=("tuning", "held-out", "all"), default="all", dest="which")
    parser.add_argument("--workers", help="numbers of workers, e.g. 1,2")
    parser.add_argument("--files", type=Path, default=Path(tempfile.gettempdir()) / "edgetrain-attribution-files")
    parser.add_argument("--keep", type=Path, help="keep what each run recorded here")
    parser.add_argument("--take", type=Path, help="judge runs kept earlier instead of running")
    parser.add_argument("--markdown", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    repeats = 1 if arguments.quick else arguments.repeats
    asked = [int(w) for w in arguments.workers.split(",")] if arguments.workers else None
    chosen = [
        (scenario, workers)
        for held_out in (False, True)
        for scenario in scenarios(arguments.files, arguments.quick)
        if scenario.held_out == held_out and arguments.which in ("all", "held-out" if held_out else "tuning")
        if not arguments.only or arguments.only in scenario.name
        for workers in scenario.workers
        if (workers in asked if asked else workers <= 1 or not arguments.quick)
    ]
    rows: list[str] = []
    tally: dict[bool | None, int] = {True: 0, False: 0, None: 0}
    began, steal = time.monotonic(), Steal()
    for number, (scenario, workers) in enumerate(chosen, 1):
        row, kept = cell(scenario, workers, repeats, Shelf(arguments.keep, arguments.take))
        tally[kept] += 1
        rows.append(f"| {'held out' if scenario.held_out else 'tuning'} {row}")
        print(rows[-1], flush=True)
        text = page(rows, tally, time.monotonic() - began, steal.share(), number == len(chosen))
        if arguments.markdown:  # after every cell: a run that is cut off leaves what it had
            arguments.markdown.write_text(text)
    print(text.splitlines()[2])
    return 1 if tally[True] < REQUIRED_SHARE * (tally[True] + tally[False]) else 0


if __name__ == "__main__":
    sys.exit(main())
