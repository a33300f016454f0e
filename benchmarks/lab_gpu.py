"""The lab on a machine with a real GPU: limits measured, then findings A, B, D and F with real compute.

    PYTHONPATH=src python3 benchmarks/lab_gpu.py [--minutes 8] [-o $OUT/lab_gpu.md]

Needs root. Times of the media are divided by a speed, because this GPU's step is that much shorter than a board's;
the pictures are light for the same reason. The step is real (`compute: cuda`) and is not divided by anything. On a GPU
this fast a step of MobileNetV3 takes less than fetching its pictures, which III-B needs; for III-A, which needs the
opposite, a deep network trains on half as many pictures per step (lab_gpu_workload.py).
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

from edgetrain.analysis import FactorRow, StudyFinding, summarize, tabulate
from edgetrain.lab import measure_limits
from edgetrain.record import FolderStore
from edgetrain.runner import execute
from edgetrain.runner.campaign import CampaignRunner
from edgetrain.runner.plan import Plan
from edgetrain.schema import LimitProof
from edgetrain.studies import ObservedRun, judge_runs, observe
from edgetrain.studies.hipc.plans import RAM_FILES
from edgetrain.studies.pictures import MEAN_BYTES, LightPictures

SPEED = 10.0  # of HDD and SD: 2.0 and 0.9 ms per image
SSD_SPEED = 4.0  # 0.23 ms: below that the mechanism's own floor begins
SIZE = (200, 150)
SUPPORTS = {True: "yes", False: "**no**", None: "cannot say"}


def say(text: str) -> None:
    """Print on stderr, with the time."""
    print(f"[{time.strftime('%H:%M:%S')}] {text}", file=sys.stderr, flush=True)


def carry_out(plan: Plan, store: FolderStore, until_s: float) -> tuple[list[FactorRow], list[ObservedRun]]:
    """Carry a plan out; runs that failed or had no time left are reported and left out.

    Returns a table row for each setting, and each run as the findings are judged by it.
    """

    def run_one(experiment):  # type: ignore[no-untyped-def]
        if time.monotonic() > until_s:
            from edgetrain.errors import WorkloadError

            raise WorkloadError("no time left")
        start_s = time.monotonic()
        run = execute(experiment, "auto", store).run
        say(f"{plan.name} {dict(experiment.factors)}: {time.monotonic() - start_s:.1f} s")
        return run

    progress = CampaignRunner(plan, store, run_one).carry_out()
    for key, reason in progress.failed.items():
        say(f"failed: {key}: {reason}")
    runs = [store.open(run) for run in progress.done.values()]
    summaries = [summarize(run) for run in runs]
    return tabulate(summaries), [observe(run, summary) for run, summary in zip(runs, summaries, strict=True)]


def plans(data: Path, compute: str, media: Sequence[str]) -> dict[str, Callable[[], Plan]]:
    """Return the campaigns, the most informative first; pictures are made when a plan is called for."""
    speeds = {"hdd": SPEED, "sd": SPEED, "ssd": SSD_SPEED}
    common = {"network": "mobilenet_v3", "compute": compute, "cache": "cold", "epochs": 2}
    if compute == "paced":  # to try the script without a GPU
        common["compute_ms"] = 45.0

    def pictures(count: int) -> str:
        return str(LightPictures(count, *SIZE).make(data))

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


def markdown(
    proofs: Sequence[LimitProof], findings: Sequence[StudyFinding], rows: dict[str, list[FactorRow]], took_s: float
) -> str:
    """Return the report."""
    lines = [
        "# The lab on a GPU machine",
        "",
        _verdict(proofs, findings),
        "",
        f"Steps are real GPU compute, storage is emulated (speed {SPEED:g}, SSD {SSD_SPEED:g}); times as run.",
        "",
        "## Limits: requested and measured",
        "",
        "| limit | what | requested | measured | deviation | within 15 % | by |",
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
        lines += [f"### III-{finding.letter} {finding.claim}: **{finding.verdict.value}**{reason}", ""]
        lines += ["| | ours | paper (other boards) | supports it |", "|---|---|---|---|"]
        lines += [f"| {one.what} | {one.ours} | {one.paper} | {SUPPORTS[one.supports]} |" for one in finding.evidence]
        lines.append("")
    for name, found in rows.items():
        lines += [f"## Runs: {name}", ""]
        heads = ("setting", "cold end to end s", "stall s", "fill s", "later end to end s", "stall s", "compute s")
        lines += ["| " + " | ".join((*heads, "read again MB")) + " |"]
        lines += ["|---|---|---|---|---|---|---|---|"]
        for row in found:
            setting = ", ".join(f"{key} {value}" for key, value in row.factors.items() if key != "dataset")
            first, later = row.first_epoch, row.later_epochs
            read = None if later is None or later.read_bytes is None else later.read_bytes / 1e6
            numbers = [first and first.e2e_s, first and first.stall_s, first and first.fill_s]
            numbers += [later and later.e2e_s, later and later.stall_s, row.median_epoch.compute_s, read]
            lines.append(f"| {setting} | " + " | ".join("–" if n is None else f"{n:.2f}" for n in numbers) + " |")
        lines.append("")
    lines.append(
        f"`PYTHONPATH=src python3 benchmarks/lab_gpu.py`, {took_s:.0f} s, Linux {os.uname().release},"
        f" {os.cpu_count()} cores, {time.strftime('%Y-%m-%d')}."
    )
    return "\n".join(lines) + "\n"


def _verdict(proofs: Sequence[LimitProof], findings: Sequence[StudyFinding]) -> str:
    """Return the sentence above the tables."""
    wrong = [f"{proof.limit} {proof.what}" for proof in proofs if proof.holds is False]
    limits = f"not within 15 %: {', '.join(wrong)}" if wrong else "all judged limits are within 15 %"
    by_verdict = [f"III-{one.letter} {one.verdict.value}" for one in findings]
    return f"**{limits[0].upper()}{limits[1:]}; findings: {', '.join(by_verdict) or 'none judged'}.**"


def main() -> int:
    """Measure, judge, write, and print a short table last."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=8.0)
    parser.add_argument("--compute", default="cuda", help="cuda, or paced to try the script")
    parser.add_argument("--only", help="one campaign, without measuring the limits: one worker, workers, sizes or ram")
    parser.add_argument("--media", default="hdd,sd,ssd", help="media of the runs with one worker")
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    output = options.output or Path(os.environ.get("OUT", ".")) / "lab_gpu.md"
    here = str(Path(__file__).resolve().parent)
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (here, os.environ.get("PYTHONPATH"))))
    start_s = time.monotonic()
    until_s = start_s + options.minutes * 60 - 20
    proofs: list[LimitProof] = []
    rows: dict[str, list[FactorRow]] = {}
    observed: list[ObservedRun] = []
    findings: list[StudyFinding] = []
    with tempfile.TemporaryDirectory(prefix="edgetrain-lab-gpu-") as folder:
        os.environ.setdefault("EDGETRAIN_LAB_IMAGES", f"{folder}/images")
        store = FolderStore(folder)
        if options.only is None:
            try:
                proofs = measure_limits(say=say)
            except Exception:
                traceback.print_exc()
        for name, plan in plans(store.data, options.compute, options.media.split(",")).items():
            if options.only not in (None, name):
                continue
            try:
                rows[name], runs = carry_out(plan(), store, until_s)
                observed += runs
            except Exception:
                traceback.print_exc()
            # After every campaign, so that a limit on the whole script loses nothing.
            findings = [one for one in judge_runs(observed, ["hipc"]) if one.letter in "ABDF"]
            output.write_text(markdown(proofs, findings, rows, time.monotonic() - start_s))
        say(f"done after {time.monotonic() - start_s:.0f} s")
    print("limit                                    requested measured  deviation")
    for proof in proofs:
        mark = {True: "", False: "  OFF", None: "  not judged"}[proof.holds]
        got = float("nan") if proof.got is None else proof.got
        print(f"{proof.limit + ' ' + proof.what:42} {proof.asked:8.3g} {got:8.3g} {proof.off or 0:+6.1%}{mark}")
    for finding in findings:
        print(f"III-{finding.letter}: {finding.verdict.value} {finding.reason}")
        for one in finding.evidence:
            print(f"   {SUPPORTS[one.supports]:10} {one.what}: {one.ours}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
