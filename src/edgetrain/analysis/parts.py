"""Where each minibatch's time went: the instants that bound its parts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgetrain.analysis.row_runs import RowRuns
from edgetrain.units import S_PER_US

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Parts:
    """Where each minibatch's time went: its instants, in the order the loop took them.

    Seconds are worked out when they are asked for: for ten million minibatches memory is what takes the time.
    """

    epoch: Ints
    picked: RowRuns  # row of each minibatch (of its first batch) in the record
    begin_us: Ints  # done of the previous minibatch, or asked of the first
    start_us: Ints  # work on the accelerator began
    copied_us: Ints  # the copy was over; equal to start_us where none was seen
    done_us: Ints
    first: Bools  # the first minibatch of its epoch: its stall is the pipeline's fill
    copy_seen: bool
    # Waits, in order; one per minibatch where `wait_turn` is None.
    asked_us: Ints
    ready_us: Ints
    stall_from_us: Ints  # the visible part of the wait; equal to stall_to_us where there was none
    stall_to_us: Ints
    wait_turn: Ints | None = None  # which minibatch waited
    wait_row: Ints | None = None  # row of the wait in the record; None: that of the minibatch
    compute_us: Ints | None = None  # None: from copied to done
    trained: Bools | None = None  # None: all
    fetched: Bools | None = None  # a loader was asked for it; None: for all

    def __len__(self) -> int:
        return len(self.epoch)

    @property
    def rows(self) -> Ints:
        """The row of each minibatch in the record."""
        return self.picked.rows()

    @property
    def wait_rows(self) -> Ints:
        """The row of each wait in the record."""
        return self.rows if self.wait_row is None else self.wait_row

    @property
    def wait_epoch(self) -> Ints:
        """The epoch of each wait."""
        return self.epoch if self.wait_turn is None else self.epoch[self.wait_turn]

    @property
    def wait_stall_s(self) -> Floats:
        """The visible part of each wait."""
        return _seconds(self.stall_from_us, self.stall_to_us)

    def take(self, rows: slice) -> Parts:
        """Return some of the minibatches, one after the other."""
        start, stop, _ = rows.indices(len(self))
        waits, turn = rows, self.wait_turn
        if turn is not None:
            waits = slice(*np.searchsorted(turn, [start, stop]).tolist())
        return Parts(
            epoch=self.epoch[rows],
            picked=self.picked.between(start, stop),
            begin_us=self.begin_us[rows],
            start_us=self.start_us[rows],
            copied_us=self.copied_us[rows],
            done_us=self.done_us[rows],
            first=self.first[rows],
            copy_seen=self.copy_seen,
            asked_us=self.asked_us[waits],
            ready_us=self.ready_us[waits],
            stall_from_us=self.stall_from_us[waits],
            stall_to_us=self.stall_to_us[waits],
            wait_turn=None if turn is None else turn[waits] - start,
            wait_row=None if self.wait_row is None else self.wait_row[waits],
            compute_us=None if self.compute_us is None else self.compute_us[rows],
            trained=None if self.trained is None else self.trained[rows],
            fetched=None if self.fetched is None else self.fetched[rows],
        )

    @property
    def e2e_s(self) -> Floats:
        """The whole minibatch."""
        return _seconds(self.begin_us, self.done_us)

    @property
    def stall_s(self) -> Floats:
        """Fetch stall: waiting for data with nothing to do."""
        return self._summed(self.wait_stall_s)

    @property
    def hidden_s(self) -> Floats:
        """Waiting that overlaps with earlier steps on the accelerator."""
        waited_s = _seconds(self.asked_us, self.ready_us)
        waited_s -= self.wait_stall_s
        return self._summed(np.maximum(waited_s, 0.0, out=waited_s))

    @property
    def copy_s(self) -> Floats:
        """Bringing the minibatch to the accelerator."""
        return _seconds(self.start_us, self.copied_us)

    @property
    def compute_s(self) -> Floats:
        """Forward, backward and update."""
        if self.compute_us is not None:
            return np.asarray(self.compute_us * S_PER_US)
        return _seconds(self.copied_us, self.done_us)

    @property
    def busy_s(self) -> Floats:
        """Copy and compute together."""
        if self.compute_us is not None:
            return self.copy_s + self.compute_s
        return _seconds(self.start_us, self.done_us)

    @property
    def overhead_s(self) -> Floats:
        """The rest: what the loop itself did while the accelerator was idle."""
        if self.compute_us is None and self.wait_turn is None:
            return np.asarray(((self.start_us - self.begin_us) - (self.stall_to_us - self.stall_from_us)) * S_PER_US)
        return np.maximum(self.e2e_s - self.stall_s - self.busy_s, 0.0)

    def _summed(self, waits_s: Floats) -> Floats:
        if self.wait_turn is None:
            return waits_s
        return np.asarray(np.bincount(self.wait_turn, waits_s, len(self)), np.float64)


def first_of_epoch(epoch: Ints) -> Bools:
    """Return which minibatches are the first of their epoch."""
    first = np.ones(len(epoch), bool)
    first[1:] = epoch[1:] != epoch[:-1]
    return first


def after_evaluation(begin: Ints, asked: Ints, evaluation_us: Ints | None) -> Ints:
    """Return when minibatches began, not counting evaluation between the one before and the first fetch of this one."""
    if evaluation_us is None or not len(evaluation_us):
        return begin
    # The last evaluation that had ended when this minibatch was asked for.
    at = np.searchsorted(evaluation_us[:, 1], asked, side="right") - 1
    return np.where(at >= 0, np.maximum(begin, evaluation_us[np.maximum(at, 0), 1]), begin)


def _seconds(since_us: Ints, until_us: Ints) -> Floats:
    # Subtracted as floats, which hold these instants exactly: one array is made instead of two.
    between: Floats = np.subtract(until_us, since_us, dtype=np.float64)
    between *= S_PER_US
    return between
