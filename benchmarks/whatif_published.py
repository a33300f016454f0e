"""From published figures of a board without workers, warm: what other numbers of workers take, beside the published.

    python benchmarks/whatif_published.py ../shared/reference/published_numbers.csv [--device agx_xavier]

Every board, network and figure counts that has an end-to-end time and a stall without workers and an end-to-end time
with some; of those whose dataset may not lie in the page cache, only figures on an SSD. Only the figures without
workers go in. What handing a minibatch over costs is assumed, as for any run without workers, and slower by as much as
the board's cores are slower than the machine the assumption comes from: by its published time per photograph (the
lab's presets) against 4.4 ms there; where none is known, as slow as those of AGX Xavier.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from edgetrain.lab import Preset, presets
from edgetrain.prediction import (
    PipelineCosts,
    PipelineSetting,
    StepCosts,
    StepKind,
    assumed_hand_over,
    simulate_epoch,
)

IMAGE_S = 4.4e-3  # time per photograph on the machine that the assumed hand-over was measured on
USUAL_IMAGE_S = 11.8e-3  # of AGX Xavier
WARM_EPOCHS = ("1+", "median of 3")
METRICS = ("e2e", "stall", "gpu_compute", "overhead")
RAM_FOR_PHOTOGRAPHS = 16e9  # from which the 2.8 GB of photographs stay in the page cache


@dataclass(frozen=True, slots=True)
class PublishedWorkload:
    """Minibatches per epoch and bytes of one, by the papers' recipes, and the error that is aimed at."""

    minibatches: int
    minibatch_bytes: int
    aim: float
    photographs: bool = False


WORKLOADS = {
    "lenet5/MNIST": PublishedWorkload(3750, 16 * 28 * 28 * 4, 0.15),
    "resnet18/CIFAR-10": PublishedWorkload(3125, 16 * 3 * 32 * 32 * 4, 0.06),
    "mobilenet_v3/GLD-23k": PublishedWorkload(1443, 16 * 3 * 224 * 224 * 4, 0.06, True),
    "mobilenet_v3_large/GLD-23k": PublishedWorkload(1443, 16 * 3 * 224 * 224 * 4, 0.06, True),
    "vgg11/CIFAR-10": PublishedWorkload(3125, 16 * 3 * 32 * 32 * 4, 0.06),
}


@dataclass(slots=True)
class Figure:
    """One workload on one board and medium: seconds by workers and metric."""

    source: str
    device: str
    workload: str
    storage: str
    seconds: dict[int, dict[str, float]] = field(default_factory=dict)


def published(path: Path) -> Iterator[Figure]:
    """Yield what a table has of warm epochs with and without workers, at the papers' batch size."""
    found: dict[tuple[str, ...], Figure] = {}
    with path.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            usual = row["epoch"] in WARM_EPOCHS and row["batch"] == "16" and row["dataset_scale"] == "1x"
            known = row["workload"] in WORKLOADS and row["metric"] in METRICS and row["unit"] == "s"
            if not (usual and known and row["workers"].isdigit()):
                continue
            key = tuple(row[name] for name in ("source", "device", "workload", "storage"))
            by_workers = found.setdefault((*key, row["power_mode"]), Figure(*key)).seconds
            by_workers.setdefault(int(row["workers"]), {})[row["metric"]] = float(row["value"])
    for figure in found.values():
        if {"e2e", "stall"} <= set(figure.seconds.get(0, {})):
            yield figure


def board_of(device: str) -> Preset | None:
    """Return the lab's preset of a board, however its words are ordered."""
    words = set(device.replace("_", "-").split("-"))
    return next((each for name, each in presets().items() if set(name.split("-")) == words), None)


def costs_of(figures: dict[str, float], workload: PublishedWorkload, slower: float) -> PipelineCosts:
    """Return the costs per minibatch that figures without workers imply."""
    overhead_s = figures.get("overhead", 0.0)
    compute_s = figures.get("gpu_compute", figures["e2e"] - figures["stall"] - overhead_s)
    step = StepCosts(
        StepKind.ACCELERATOR, np.array([compute_s / workload.minibatches]), gap_s=overhead_s / workload.minibatches
    )
    return PipelineCosts(
        batch_size=16,
        fetch_cpu_s=np.array([figures["stall"] / workload.minibatches]),
        fetch_wait_s=np.zeros(1),
        fetch_fixed_s=0.0,
        cold_cpu_s=0.0,
        collate_s=0.0,
        hand_over=assumed_hand_over(workload.minibatch_bytes).slowed(slower),
        step=step,
        minibatch_bytes=workload.minibatch_bytes,
        in_loop=True,
    )


def main() -> int:
    """Print the table; return 1 where an aim is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", type=Path)
    parser.add_argument("--device", help="this board only, as the table names it")
    options = parser.parse_args()
    missed = 0
    print("| source | board | workload | medium | workers | predicted | published | error | aim |")
    print("|---|---|---|---|---|---|---|---|---|")
    for figure in published(options.table):
        board, workload = board_of(figure.device), WORKLOADS[figure.workload]
        if board is None or options.device not in (None, figure.device):
            continue
        if workload.photographs and board.ram_bytes < RAM_FOR_PHOTOGRAPHS and figure.storage != "ssd":
            continue
        costs = costs_of(figure.seconds[0], workload, (board.image_s or USUAL_IMAGE_S) / IMAGE_S)
        for workers in sorted(workers for workers, known in figure.seconds.items() if workers and "e2e" in known):
            setting = PipelineSetting(workers, 2, 16, 16 * workload.minibatches, board.cores)
            predicted_s = simulate_epoch(setting, costs, 1).e2e_s
            true_s = figure.seconds[workers]["e2e"]
            error = predicted_s / true_s - 1.0
            missed += abs(error) > workload.aim
            print(
                f"| {figure.source} | {board.name} | {figure.workload} | {figure.storage} | {workers} | "
                f"{predicted_s:.1f} s | {true_s:.1f} s | {error:+.1%} | {workload.aim:.0%} |"
            )
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
