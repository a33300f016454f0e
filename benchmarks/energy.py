"""Is the energy right? Our integral of sampled power against the device's own counter, and injected stalls split off.

    python benchmarks/energy.py --markdown docs/results/energy.md
    python benchmarks/energy.py --quick                        # 15 s of training each

Needs a GPU whose NVML has power and an energy counter (Volta and later). Two runs of ResNet-18, batch 64: one that
never waits for data, over which the integral of sampled power (the counter set aside) is compared with the counter; and
one that stands still for 2 s after every 3 s, whose energy must split into stall, compute and baseload that add up.
Promises: within 2 %, the stated ± at most 3 %, and the parts' sum within ± of the total.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from edgetrain.analysis import Summary, summarize
from edgetrain.analysis.energy import Power, energy, find_power
from edgetrain.device.nvml import NvmlProbe
from edgetrain.errors import ProbeUnavailable
from edgetrain.record import FolderStore, Run

HERE = Path(__file__).resolve().parent
WITHIN, MAX_PM = 0.02, 0.03
CALIBRATION = 100  # minibatches


def train(store: Path, name: str, minibatches: int, workers: int, baseload_s: float, compute: list[str]) -> str:
    """Run one training; return its id."""
    environment = {**os.environ, "PYTHONPATH": f"{HERE}:{os.environ.get('PYTHONPATH', '')}"}
    command = [sys.executable, "-m", "edgetrain", "run", f"energy_workload:{name}", "--json", "--epochs", "1"]
    command += ["--minibatches", str(minibatches), "--workers", str(workers), "--baseload-s", f"{baseload_s:g}"]
    command += ["--store", str(store), *compute]
    ran = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True)
    return str(json.loads(ran.stdout)["run"])


def window_us(run: Run) -> tuple[int, int]:
    """Return the training from its second minibatch to its last: the first one compiles and allocates."""
    asked, done = run.minibatches()["asked_us"], run.minibatches()["done_us"]
    return int(asked[1]), int(done[-1])


def without_counter(power: Power) -> Power:
    return dataclasses.replace(power, counter_at_s=np.zeros(0), counter_j=np.zeros(0))


def against_counter(run: Run) -> tuple[list[str], bool]:
    """Compare the integral with the counter; return lines and whether the promises hold."""
    power, reason = find_power(run)
    if power is None or not power.counted:
        raise SystemExit(f"no power with a counter was recorded: {reason or 'no counter column'}")
    start_us, stop_us = window_us(run)
    counted = energy(power, start_us, stop_us)
    lines, good = [], True
    for stream, column in (("gpu_power", "gpu_power_w"), ("gpu", "gpu_power_average_w")):
        source = run.manifest.power
        if source is None or column not in run.samples(stream):
            continue
        this = dataclasses.replace(source, stream=stream, columns=(column,))
        other, _ = find_power(dataclasses.replace(run, manifest=dataclasses.replace(run.manifest, power=this)))
        assert other is not None and counted is not None
        found = energy(without_counter(other), start_us, stop_us)
        assert found is not None
        off, pm = found.joules / counted.joules - 1, found.pm_j / found.joules
        lines.append(
            f"| {column} | {found.joules:.1f} ± {found.pm_j:.1f} J ({pm:.2%}) | {counted.joules:.1f} ± "
            f"{counted.pm_j:.1f} J | {off:+.2%} | {found.refreshes} |"
        )
        if column in source.columns:
            good = abs(off) <= WITHIN and pm <= MAX_PM
    return lines, good


def split(summary: Summary) -> tuple[list[str], bool]:
    """Return lines about the split of a run with injected stalls, and whether it adds up."""
    parts = summary.energy_by
    if parts is None:
        return [f"no split: {summary.energy_by_reason}"], False
    epochs = summary.epochs
    total, pm = sum(each.energy_j or 0.0 for each in epochs), sum(each.energy_pm_j or 0.0 for each in epochs)
    added = parts.stall_j + parts.compute_j + parts.baseload_j
    stall_s, e2e_s = sum(each.fetch_stall_s or 0.0 for each in epochs), sum(each.e2e_s for each in epochs)
    lines = [
        f"- {e2e_s:.1f} s, of which {stall_s:.1f} s fetch stall",
        f"- total {total:.1f} ± {pm:.1f} J; stall {parts.stall_j:.1f} J + compute {parts.compute_j:.1f} J + "
        f"baseload {parts.baseload_j:.1f} J = {added:.1f} J",
        f"- above baseload, stalls draw {parts.stall_j / stall_s:.1f} W and compute "
        f"{parts.compute_j / (e2e_s - stall_s):.1f} W",
    ]
    return lines, abs(added - total) <= pm


def refreshes() -> str:
    """Return how often each power reading has a new value, read as fast as it goes."""
    probe = NvmlProbe()
    found = []
    for column in ("gpu_power_w", "gpu_power_average_w", "gpu_energy_j"):
        if column in probe.columns:
            period_s = probe.refresh_s(column)
            found.append(f"{column} {'unknown' if period_s is None else f'{period_s * 1e3:.0f} ms'}")
    names = ", ".join(gpu.name() or "GPU" for gpu in probe.gpus)
    probe.close()
    return f"{names}; new values while idle every: {', '.join(found)}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--paced-seconds", type=float, help="of the run with injected stalls, if it is to be another")
    parser.add_argument("--workers", type=int, default=4, help="of the run that never waits")
    parser.add_argument("--paced-ms", type=float, help="no training: steps that sleep so long, to try the script")
    parser.add_argument("--markdown", type=Path)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    seconds = 15.0 if options.quick else options.seconds
    compute = ["--compute", "paced", "--compute-ms", str(options.paced_ms)] if options.paced_ms else []
    try:
        about = refreshes()
    except ProbeUnavailable as error:
        print(f"no GPU to measure: {error}", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder:
        store = FolderStore(Path(folder))
        first = train(store.path, "steady", CALIBRATION, options.workers, 0, compute)
        step_s = (summarize(store.open(first)).minibatch.mean_ms or 0.0) / 1e3
        count = max(int(seconds * 1.1 / step_s), CALIBRATION)
        lines, close = against_counter(store.open(train(store.path, "steady", count, options.workers, 5, compute)))
        # The paced run trains three fifths of the time, in the loop's own process.
        paced_s = options.paced_seconds or seconds
        paced = train(store.path, "paced", max(int(paced_s * 0.6 / step_s), CALIBRATION), 0, 10, compute)
        parts, adds_up = split(summarize(store.open(paced)))
    text = "\n".join(
        [
            "# Energy",
            "",
            f"`python benchmarks/energy.py --seconds {seconds:g}` on {about}. Origin: measured.",
            "",
            f"ResNet-18, batch 64, {step_s * 1e3:.1f} ms per minibatch, about {seconds:g} s of training.",
            "",
            "| reading | integral | counter | difference | refreshes |",
            "|---|---|---|---|---|",
            *lines,
            "",
            f"Integral within 2 % of the counter and its ± at most 3 %: {'yes' if close else 'NO'}.",
            "",
            "With injected stalls:",
            "",
            *parts,
            "",
            f"The parts add up to the total within ±: {'yes' if adds_up else 'NO'}.",
            "",
        ]
    )
    print(text)
    if options.markdown:
        options.markdown.parent.mkdir(parents=True, exist_ok=True)
        options.markdown.write_text(text)
    return 0 if close and adds_up else 1


if __name__ == "__main__":
    sys.exit(main())
