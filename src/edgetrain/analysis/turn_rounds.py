"""Cuts steps without a fetch into turns, by which optimizers stepped.

A round is one step of each of some optimizers (discriminator and generator, members of an ensemble): it ends before an
optimizer steps that has stepped in it. One that steps for the first time also begins a round where those of the round
never step again: another phase of the training.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from edgetrain.analysis.turn_rows import NULL

Ints = NDArray[np.int64]


class Rounds:
    """The rounds of a sequence of rows, given which optimizer stepped first in each (NULL: none did)."""

    def __init__(self, optimizers: Ints) -> None:
        self._optimizers = optimizers
        self._places = np.flatnonzero(optimizers != NULL)
        stepped = optimizers[self._places]
        known, first = np.unique(stepped, return_index=True)
        last = len(stepped) - 1 - np.unique(stepped[::-1], return_index=True)[1]
        self._first = dict(zip(known.tolist(), self._places[first].tolist(), strict=True))
        self._last = dict(zip(known.tolist(), self._places[last].tolist(), strict=True))

    def __bool__(self) -> bool:
        return bool(self._first)

    def ends(self, rows: Ints) -> Ints:
        """Return the last row of each round among these rows."""
        rows = rows[self._optimizers[rows] != NULL]
        if len(self._first) < 2 or len(rows) < 2:
            return rows
        members: set[int] = set()
        ends = []
        for at, (row, optimizer) in enumerate(zip(rows.tolist(), self._optimizers[rows].tolist(), strict=True)):
            next_phase = self._first[optimizer] == row and all(self._last[one] < row for one in members)
            if members and (optimizer in members or next_phase):
                ends.append(at - 1)
                members = set()
            members.add(optimizer)
        return rows[[*ends, len(rows) - 1]]

    def per_block(self, first: Ints, length: int) -> Ints:
        """Return the rounds of each block, given its first row: steps of the optimizer that steps first in it."""
        block = np.searchsorted(first, self._places, side="right") - 1
        stepped = self._optimizers[self._places]
        which, at = np.unique(block, return_index=True)
        leads = np.full(length, NULL, np.int64)
        leads[which] = stepped[at]
        return np.bincount(block[stepped == leads[block]], minlength=length)
