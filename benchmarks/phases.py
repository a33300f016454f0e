"""Where in a step does recording take its time? Each step is cut into phases, bare and recorded in turns.

    python benchmarks/phases.py --network resnet18 --seconds 140                # on a GPU
    python benchmarks/phases.py --network lenet5 --seconds 20 --device cpu

What our own calls take stands in the phases that hold nothing else (copying, copied, launched) and in `next`; what
they do to the rest of the step, if anything, in the others. "events alone" records two events on a bare step: what the
driver takes, without any bookkeeping. The sampler and the thread that keeps the record do not run here.
"""

from __future__ import annotations

import argparse
import itertools
import math
import random
import statistics
import sys
import time
from typing import Any

import torch
from overhead import LOADERS, Turns

PHASES = ("next", "copying", "copy", "copied", "zero_grad", "forward", "backward", "optimizer", "launched")
STEPS = 4  # in a turn
EVENTS = 64
KEEP_S = 4.0  # how often what waits is written, between turns
QUANTILE = 1.65  # of the normal distribution, for 90 %


class EventsAlone:
    """Marks that record events and do nothing else."""

    def __init__(self) -> None:
        self._events = itertools.cycle([torch.cuda.Event(enable_timing=True) for _ in range(EVENTS)])
        self._record, self._stream = torch._C._CudaEventBase.record, torch.cuda.current_stream()

    def copying(self) -> None:
        """Nothing."""

    def copied(self) -> None:
        """Record one."""
        self._record(next(self._events), self._stream)

    launched = copied


def step(turns: Turns, batches: Any, marks: Any) -> list[float]:
    """Train one step; return the µs of its phases."""
    ends = [time.perf_counter()]

    def end() -> None:
        ends.append(time.perf_counter())

    images, labels = turns.delivered(batches)
    end()
    if marks is not None:
        marks.copying()
    end()
    if turns.cuda:
        images, labels = images.cuda(non_blocking=True), labels.cuda(non_blocking=True)
    end()
    if marks is not None:
        marks.copied()
    end()
    turns.optimizer.zero_grad(set_to_none=True)
    end()
    loss = torch.nn.functional.cross_entropy(turns.network(images), labels)
    end()
    loss.backward()
    end()
    turns.optimizer.step()
    end()
    if marks is not None:
        marks.launched()
    end()
    return [1e6 * (after - before) for before, after in itertools.pairwise(ends)]


def added(variant: list[list[float]], bare: list[list[float]]) -> list[tuple[float, float]]:
    """Return by phase what a variant's steps took more than bare ones, and the ± of it (90 %)."""
    differences = []
    for these, those in zip(zip(*variant, strict=True), zip(*bare, strict=True), strict=True):
        error = math.sqrt(statistics.variance(these) / len(these) + statistics.variance(those) / len(those))
        differences.append((statistics.fmean(these) - statistics.fmean(those), QUANTILE * error))
    return differences


def main() -> int:
    """Take turns for so long and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--network", default="resnet18")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--seconds", type=float, default=60.0)
    arguments = parser.parse_args()
    if arguments.device == "cuda" and not torch.cuda.is_available():
        parser.error("no CUDA device is visible; --device cpu compares on the CPU")
    turns = Turns(arguments.network, arguments.device, sampler=False)
    variants: dict[str, tuple[list[Any], Any]] = {
        "bare": (turns.bare, None),
        "recorded": (turns.watched, turns.marks),
    }
    if turns.cuda:
        variants["events alone"] = (turns.bare, EventsAlone())
    taken: dict[str, list[list[float]]] = {name: [] for name in variants}
    kept = began = time.monotonic()
    while time.monotonic() < began + arguments.seconds:
        number = random.randrange(LOADERS)
        for name in random.sample(list(variants), len(variants)):
            loaders, marks = variants[name]
            turns.finish()
            taken[name] += [step(turns, loaders[number], marks) for _ in range(STEPS)]
        if time.monotonic() > kept + KEEP_S:
            turns.marks.keep()
            kept = time.monotonic()
    turns.close()
    print(f"`{' '.join(['python', *sys.argv])}`, torch {torch.__version__}; µs a step, ± 90 %\n")
    print(f"| | steps | {' | '.join(PHASES)} | all |")
    print("|---" * (len(PHASES) + 3) + "|")
    bare = taken["bare"]
    means = [statistics.fmean(phase) for phase in zip(*bare, strict=True)]
    print(f"| bare | {len(bare)} | {' | '.join(format(mean, '.0f') for mean in means)} | {sum(means):.0f} |")
    for name in list(variants)[1:]:
        cells = [f"{more:+.1f} ± {error:.1f}" for more, error in added(taken[name], bare)]
        ((more, error),) = added([[sum(phases)] for phases in taken[name]], [[sum(phases)] for phases in bare])
        print(f"| {name}, more | {len(taken[name])} | {' | '.join(cells)} | {more:+.0f} ± {error:.0f} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
