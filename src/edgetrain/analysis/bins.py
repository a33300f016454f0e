"""Long traces in few points: equal bins in time, each with its smallest, mean and largest value.

No extreme is lost: the smallest value of all bins is the smallest of the trace, and likewise the largest.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
BRIDGED = 3.5  # sampling intervals without a value that are bridged; longer ones are a gap


@dataclass(frozen=True)
class Bins:
    """A trace in equal bins between two instants; NaN where a bin holds nothing."""

    start: float
    stop: float
    low: Floats
    mean: Floats
    high: Floats
    each: float  # values in one bin, on average; 1 or less: nothing was summed up

    def __len__(self) -> int:
        return len(self.mean)


def put_in_bins(at: Floats, values: Floats, start: float, stop: float, most: int) -> Bins:
    """Return values in at most `most` bins; `at` rises. With fewer values than that, each has a bin of its own."""
    inside = np.isfinite(values) & (at >= start) & (at <= stop)
    at, values = at[inside], values[inside]
    count = max(1, min(most, len(values)))
    empty = np.full(count, np.nan)
    if not len(values) or stop <= start:
        return Bins(start, stop, empty, empty.copy(), empty.copy(), 0.0)
    place = np.minimum(((at - start) / (stop - start) * count).astype(np.int64), count - 1)
    firsts = np.flatnonzero(np.diff(place, prepend=-1))
    held = place[firsts]
    low, mean, high = empty, empty.copy(), empty.copy()
    low[held] = np.minimum.reduceat(values, firsts)
    high[held] = np.maximum.reduceat(values, firsts)
    counts = np.diff(np.append(firsts, len(values)))
    mean[held] = np.add.reduceat(values, firsts) / counts
    gap = BRIDGED * _usual_gap(at) / ((stop - start) / count)
    for column in (low, mean, high):
        _bridge(column, held, max(gap, 1.5))
    return Bins(start, stop, low, mean, high, len(values) / count)


def _usual_gap(at: Floats) -> float:
    return float(np.median(np.diff(at))) if len(at) > 1 else 0.0


def _bridge(column: Floats, held: Ints, most: float) -> None:
    """Fill bins between two neighbours that are no further apart than is usual for this trace."""
    inside = np.flatnonzero(np.isnan(column))
    if not len(inside) or len(held) < 2:
        return
    after = np.searchsorted(held, inside)
    between = (after > 0) & (after < len(held))
    inside, after = inside[between], after[between]
    near = held[after] - held[after - 1] <= most
    column[inside[near]] = np.interp(inside[near], held, column[held])
