"""From published figures of AGX Xavier without workers, warm: what 1, 2 and 4 workers take, beside what was published.

    python benchmarks/whatif_published.py ../shared/reference/published_numbers.csv

Only the figures without workers go in. What handing a minibatch over costs is assumed, as for any run without workers,
and slower by as much as this board's cores are slower than the machine the assumption comes from: 11.8 ms per picture
there (derived from the same figures) against 4.4 ms.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from edgetrain.prediction import (
    PipelineCosts,
    PipelineSetting,
    StepCosts,
    StepKind,
    assumed_hand_over,
    simulate_epoch,
)

FIGURE, DEVICE = "SIGMETRICS23 Fig2a", "agx_xavier"
CORES = 8
SLOWER_CORES = 11.8 / 4.4
# Minibatches per epoch, and bytes of one: the tensors that the papers' recipes make.
WORKLOADS = {
    "lenet5/MNIST": (3750, 16 * 28 * 28 * 4, 0.15),
    "resnet18/CIFAR-10": (3125, 16 * 3 * 32 * 32 * 4, 0.06),
    "mobilenet_v3/GLD-23k": (1443, 16 * 3 * 224 * 224 * 4, 0.06),
}


def published(path: Path) -> dict[tuple[str, str], dict[str, float]]:
    """Return stall, compute, overhead and end-to-end seconds by workload and workers."""
    found: dict[tuple[str, str], dict[str, float]] = {}
    with path.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if row["source"] == FIGURE and row["device"] == DEVICE:
                found.setdefault((row["workload"], row["workers"]), {})[row["metric"]] = float(row["value"])
    return found


def costs_of(figures: dict[str, float], minibatches: int, size_bytes: int) -> PipelineCosts:
    """Return the costs per minibatch that figures without workers imply."""
    hand_over = assumed_hand_over(size_bytes).slowed(SLOWER_CORES)
    step = StepCosts(
        StepKind.ACCELERATOR,
        np.array([figures["gpu_compute"] / minibatches]),
        gap_s=figures["overhead"] / minibatches,
    )
    return PipelineCosts(
        batch_size=16,
        fetch_cpu_s=np.array([figures["stall"] / minibatches]),
        fetch_wait_s=np.zeros(1),
        fetch_fixed_s=0.0,
        cold_cpu_s=0.0,
        collate_s=0.0,
        hand_over=hand_over,
        step=step,
        minibatch_bytes=size_bytes,
        in_loop=True,
    )


def main(arguments: Sequence[str]) -> int:
    """Print the table; return 1 where an aim is missed."""
    if len(arguments) != 1 or not Path(arguments[0]).is_file():
        print(__doc__, file=sys.stderr)
        return 2
    figures, missed = published(Path(arguments[0])), 0
    print("| workload | workers | predicted | published | error | aim |\n|---|---|---|---|---|---|")
    for workload, (minibatches, size_bytes, aim) in WORKLOADS.items():
        costs = costs_of(figures[workload, "0"], minibatches, size_bytes)
        for workers in (1, 2, 4):
            setting = PipelineSetting(workers, 2, 16, 16 * minibatches, CORES)
            predicted_s = simulate_epoch(setting, costs, 1).e2e_s
            true_s = figures[workload, str(workers)]["e2e"]
            error = predicted_s / true_s - 1.0
            missed += abs(error) > aim
            print(f"| {workload} | {workers} | {predicted_s:.1f} s | {true_s:.1f} s | {error:+.1%} | {aim:.0%} |")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
