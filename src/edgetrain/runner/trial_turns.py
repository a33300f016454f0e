"""Counts the minibatches that a training loop has taken so far, while its record grows, as `analysis` will count them.

A block is some fetches and the training that follows them. Several fetches from one loader with as many backward
passes after them are as many minibatches (gradient accumulation that fetches them all first); fetches from several
loaders before one training are one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgetrain.record import Table
from edgetrain.units import S_PER_US

Ints = NDArray[np.int64]
# Of the column `phase`: a backward pass or step was seen; gradients were off, or the network was in evaluation mode.
TRAINED, EVALUATED = (1, 4), (2, 3)


@dataclass(frozen=True, slots=True)
class LoopTurns:
    """The trained minibatches of one process that came from a loader, in order."""

    asked_us: Ints  # when the loop asked for the first batch of their block
    loader: Ints  # where that came from
    generation: Ints  # which pass over it
    steps_without_loader: int = 0  # trainings with no fetch before them

    def __len__(self) -> int:
        return len(self.asked_us)

    def after(self, warm_up: int) -> LoopTurns:
        """Return those after warm-up."""
        return LoopTurns(self.asked_us[warm_up:], self.loader[warm_up:], self.generation[warm_up:])

    @property
    def seconds(self) -> float:
        """The time from the first to the last."""
        return float(self.asked_us[-1] - self.asked_us[0]) * S_PER_US if len(self) else 0.0

    @property
    def begins_pass(self) -> bool:
        """Whether a pass began after the first of them, and its first minibatch is over."""
        changes = (self.loader[1:] != self.loader[:-1]) | (self.generation[1:] != self.generation[:-1])
        return bool(changes[:-1].any())


def find_fetched(rows: Table) -> NDArray[np.bool_]:
    """Return which rows are a minibatch that came from a loader, trained or not; those of evaluation are left out."""
    fetched: NDArray[np.bool_] = (rows["loader"] >= 0) & ~np.isin(rows["phase"], EVALUATED)
    batch = rows.get("batch")
    return fetched if batch is None else fetched & (batch >= 0)


def find_turns(rows: Table) -> LoopTurns:
    """Return the minibatches of a process so far."""
    nothing = np.zeros(0, np.int64)
    if not len(rows):
        return LoopTurns(nothing, nothing, nothing)
    phase, loader, asked_us = rows["phase"], rows["loader"], rows["asked_us"]
    generation, thread = rows.get("generation"), rows.get("thread")
    trained, fetched = np.isin(phase, TRAINED), find_fetched(rows)
    use = trained | fetched
    if thread is not None and trained.any():
        thread = np.maximum(thread, 0)  # one that is not known is the first
        use &= thread == np.bincount(thread[trained]).argmax()
    places = np.flatnonzero(use)
    places = places[np.argsort(asked_us[places], kind="stable")]
    trained, fetched = trained[places], fetched[places]
    begins = fetched.copy()
    begins[1:] &= trained[:-1]
    block = np.cumsum(begins) - 1
    counted = block >= 0  # steps before the first fetch are of no block
    alone = int(np.count_nonzero(trained & ~counted))
    places, trained, fetched, block = places[counted], trained[counted], fetched[counted], block[counted]
    if not len(places):
        return LoopTurns(nothing, nothing, nothing, alone)
    first = places[np.flatnonzero(np.diff(block, prepend=-1))]  # the first fetch of each block
    same = fetched & (loader[places] == loader[first][block])
    trainings = np.bincount(block, trained, len(first)).astype(np.int64)
    batches = np.bincount(block, same, len(first)).astype(np.int64)
    count = np.where(batches > 1, np.minimum(batches, trainings), np.minimum(trainings, 1))
    which = np.repeat(first, count)
    passes = np.zeros(len(which), np.int64) if generation is None else generation[which]
    return LoopTurns(asked_us[which], loader[which], passes, alone)
