"""The epochs of one process: which minibatches, when it began and ended, and what lies in its time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgetrain.analysis.parts import Parts
from edgetrain.analysis.turn_rows import NULL
from edgetrain.analysis.turns import Turns
from edgetrain.record import Table
from edgetrain.units import S_PER_US

Ints = NDArray[np.int64]
LEFT_WITHIN_US = 100_000  # workers stopped this soon after the last step were stopped because the loop was left


@dataclass(frozen=True, slots=True)
class EpochSpan:
    """One epoch: minibatches [first, stop) of the process, and their times summed up."""

    epoch: int
    first: int
    stop: int
    begin_us: int
    end_us: int  # the loop had seen the end of its loader, or had been left; else the last minibatch was done
    stall_s: float
    hidden_s: float
    fill_s: float
    copy_s: float
    compute_s: float
    fetched: bool  # loaders were asked: the stall is known
    trained: int
    worker_join_s: float | None  # of the time, waiting for workers of a pass that was over; None: not recorded
    evaluation_s: float  # of the time, evaluation between its minibatches
    optimizer_steps: int | None  # None: not recorded
    passes: tuple[tuple[int, int], ...]  # over which loaders, and which pass over each

    @property
    def e2e_s(self) -> float:
        """The whole time."""
        return (self.end_us - self.begin_us) * S_PER_US


def find_epochs(minibatches: Table, turns: Turns, parts: Parts) -> list[EpochSpan]:
    """Return the epochs in order."""
    firsts = np.flatnonzero(parts.first)
    stops = np.append(firsts[1:], len(parts)) if len(firsts) else firsts
    others = _OtherRows(minibatches, turns, parts)
    spans = []
    for first, stop, steps in zip(firsts.tolist(), stops.tolist(), others.steps(firsts), strict=True):
        part = parts.take(slice(first, stop))
        passes = others.passes(first, stop)
        begin_us = int(part.begin_us[0])
        end_us, joined_us = others.end(first, stop, passes)
        stalls = part.stall_s
        spans.append(
            EpochSpan(
                epoch=int(part.epoch[0]),
                first=first,
                stop=stop,
                begin_us=begin_us,
                end_us=end_us,
                stall_s=float(stalls.sum()),
                hidden_s=float(part.hidden_s.sum()),
                fill_s=float(stalls[0]),
                copy_s=float(part.copy_s.sum()),
                compute_s=float(part.compute_s.sum()),
                fetched=part.fetched is None or bool(part.fetched.any()),
                trained=len(part) if part.trained is None else int(np.count_nonzero(part.trained)),
                worker_join_s=None if joined_us is None else joined_us * S_PER_US,
                evaluation_s=others.evaluated_us(begin_us, end_us) * S_PER_US,
                optimizer_steps=steps,
                passes=tuple(sorted(passes)),
            )
        )
    return spans


class _OtherRows:
    """The rows of the record that are not minibatches: ends of passes, evaluation, steps."""

    def __init__(self, minibatches: Table, turns: Turns, parts: Parts) -> None:
        self._minibatches, self._turns, self._parts = minibatches, turns, parts
        self._loader, self._generation = (_column(minibatches, name) for name in ("loader", "generation"))
        ends = np.zeros(0, np.int64) if turns.ends is None else turns.ends
        self._ends = ends
        self._asked, self._ready, self._site = (
            minibatches[name][ends] if len(ends) else ends for name in ("asked_us", "ready_us", "site")
        )

    def steps(self, firsts: Ints) -> list[int | None]:
        """Return the optimizer steps of each epoch, those after its last minibatch included."""
        if self._turns.labelled or not len(firsts):
            return [None] * len(firsts)
        edges = np.array([self._first_row(first) for first in firsts.tolist()])
        edges[0] = 0
        total = np.zeros(len(firsts), np.int64)
        for name in ("steps", "other_steps"):
            if self._minibatches.constant(name) != 0:
                total += np.add.reduceat(self._minibatches.once(name), edges)
        return [int(one) for one in total]

    def _first_row(self, turn: int) -> int:
        if self._turns.start is None:
            return self._turns.rows.row(turn)
        return self._turns.rows.row(int(self._turns.start[turn]))

    def end(self, first: int, stop: int, passes: set[tuple[int, int]]) -> tuple[int, int | None]:
        """Return when an epoch ended, and how long the loop waited in it for passes to end."""
        parts = self._parts
        begin_us, done_us = int(parts.begin_us[first]), int(parts.done_us[stop - 1])
        if self._turns.labelled:
            return done_us, None
        following_us = int(parts.begin_us[stop]) if stop < len(parts) else np.iinfo(np.int64).max
        end_us, joined_us = done_us, 0
        for at in np.flatnonzero((self._asked >= begin_us) & (self._asked < following_us)).tolist():
            row, asked, ready = int(self._ends[at]), int(self._asked[at]), int(self._ready[at])
            if (int(self._loader[row]), int(self._generation[row])) not in passes:
                continue
            if ready > done_us:
                left = self._site[at] < 0
                if left and (asked - end_us > LEFT_WITHIN_US or self.evaluated_us(end_us, asked)):
                    continue  # stopped later, for another reason
                end_us = max(end_us, ready)
            joined_us += ready - asked
        return min(end_us, following_us), joined_us

    def passes(self, first: int, stop: int) -> set[tuple[int, int]]:
        """Return the passes that an epoch's batches came from."""
        parts = self._parts
        if parts.wait_turn is None:
            runs = parts.picked.between(first, stop)
            loader, generation = runs.take(self._loader), runs.take(self._generation)
        else:
            low, high = np.searchsorted(parts.wait_turn, [first, stop]).tolist()
            rows = parts.wait_rows[low:high]
            loader, generation = self._loader[rows], self._generation[rows]
        changes = np.ones(len(loader), bool)
        changes[1:] = (loader[1:] != loader[:-1]) | (generation[1:] != generation[:-1])
        found = set(zip(loader[changes].tolist(), generation[changes].tolist(), strict=True))
        return {one for one in found if one[0] != NULL}

    def evaluated_us(self, since_us: int, until_us: int) -> int:
        """Return how long evaluation was under way between two instants."""
        windows = self._turns.evaluation_us
        if windows is None:
            return 0
        return int(np.maximum(np.minimum(windows[:, 1], until_us) - np.maximum(windows[:, 0], since_us), 0).sum())


def _column(minibatches: Table, name: str) -> Ints:
    found = minibatches.get(name)
    return np.full(len(minibatches), NULL, np.int64) if found is None else found
