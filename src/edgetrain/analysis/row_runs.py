"""Rows of a table as runs of neighbours: a few numbers where an index of millions of rows would be slow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
LONG = 16  # rows per run from which on copying runs is faster than picking rows


@dataclass(frozen=True, slots=True)
class RowRuns:
    """Rows in order: `count[k]` neighbours from `first[k]` on, one run after the other."""

    first: Ints
    count: Ints

    @classmethod
    def joined(cls, first: Ints, count: Ints) -> RowRuns:
        """Join runs that follow one another."""
        if not len(first):
            return cls(first, count)
        begins = np.ones(len(first), bool)
        begins[1:] = first[1:] != (first + count)[:-1]
        starts = np.flatnonzero(begins)
        return cls(first[starts], np.add.reduceat(count, starts))

    def __len__(self) -> int:
        return int(self.count.sum())

    def take(self, column: NDArray[Any]) -> NDArray[Any]:
        """Return these rows of a column."""
        if len(self.first) == 1 and self.first[0] == 0 and self.count[0] == len(column):
            return column
        if len(self) < LONG * len(self.first):
            return column[self.rows()]
        pieces = zip(self.first.tolist(), (self.first + self.count).tolist(), strict=True)
        return np.concatenate([column[:0], *(column[start:stop] for start, stop in pieces)])

    def rows(self) -> Ints:
        """Return every row."""
        offsets = self.first - (np.cumsum(self.count) - self.count)
        rows: Ints = np.arange(len(self)) + np.repeat(offsets, self.count)
        return rows

    def row(self, place: int) -> int:
        """Return the row at one place."""
        stops = np.cumsum(self.count)
        run = int(np.searchsorted(stops, place, side="right"))
        return int(self.first[run] + place - (stops[run] - self.count[run]))

    def between(self, start: int, stop: int) -> RowRuns:
        """Return the rows at places [start, stop)."""
        stops = np.cumsum(self.count)
        low = np.maximum(stops - self.count, start)
        high = np.minimum(stops, stop)
        keep = high > low
        return RowRuns((self.first + low - (stops - self.count))[keep], (high - low)[keep])
