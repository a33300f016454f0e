"""The training loop of each process of a run, broken down, and the loader it trained from.

A run reports the figures of the slowest loop.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from edgetrain.analysis.breakdown import break_down
from edgetrain.analysis.epochs import EpochSpan, find_epochs
from edgetrain.analysis.parts import Parts
from edgetrain.analysis.turns import Turns, assemble
from edgetrain.record import LoaderFacts, Process, ProcessFacts, Run


@dataclass(frozen=True, slots=True)
class TrainingLoop:
    """The minibatches and epochs of one training process."""

    process: Process
    turns: Turns
    parts: Parts
    epochs: tuple[EpochSpan, ...]

    @property
    def e2e_s(self) -> float:
        """The time of all epochs."""
        return sum(one.e2e_s for one in self.epochs)


def find_loop(process: Process) -> TrainingLoop:
    """Break one process down."""
    # A torch loader says how many workers it has, anything else that was watched does not.
    watched = frozenset(one.loader for one in process.facts.loaders if one.workers is None)
    turns = assemble(process.minibatches, watched)
    parts = break_down(process.minibatches, turns)
    epochs = find_epochs(process.minibatches, turns, parts)
    if hides_steps(process.facts) and not any(one.optimizer_steps for one in epochs):
        epochs = [replace(one, optimizer_steps=None) for one in epochs]
    return TrainingLoop(process, turns, parts, tuple(epochs))


def hides_steps(facts: ProcessFacts) -> bool:
    """Return whether steps may have been made that nobody saw: a compiled one does not call the optimizer's hooks."""
    return bool(facts.optimizers and facts.compiled_frames)


def find_loops(run: Run) -> list[TrainingLoop]:
    """Break every training process of a run down; one without minibatches where none was recorded."""
    return [find_loop(process) for process in run.training or (Process(),)]


def slowest(loops: list[TrainingLoop]) -> TrainingLoop:
    """Return the loop that took longest: in a distributed training the others wait for it."""
    return max(loops, key=lambda loop: loop.e2e_s)


def training_loader(loop: TrainingLoop) -> LoaderFacts | None:
    """Return the loader that most of the trained minibatches came from; None where no loader was seen.

    Loaders made at one place in the program (a new one for each epoch) count together; of those, it is the one with
    most minibatches.
    """
    counts = loader_minibatches(loop)
    together: dict[tuple[str, ...] | int, int] = {}
    for loader, count in counts:
        key = loader.made_at or loader.loader
        together[key] = together.get(key, 0) + count
    if not together:
        return None
    most = max(together, key=lambda key: together[key])
    return max((each for each in counts if (each[0].made_at or each[0].loader) == most), key=lambda each: each[1])[0]


def loader_minibatches(loop: TrainingLoop, first: int = 0) -> list[tuple[LoaderFacts, int]]:
    """Return the loaders that the minibatches from `first` on came from, with how many came from each."""
    found = loop.process.minibatches.get("loader")
    if found is None or not len(loop.parts):
        return []
    numbers = found[loop.parts.rows[first:]]
    counts = np.bincount(numbers[numbers >= 0])
    known = [one for one in loop.process.facts.loaders if one.loader < len(counts)]
    return [(one, int(counts[one.loader])) for one in known if counts[one.loader]]
