"""Searches to compare ours with: random modes, and a slope search after GMD (Fulcrum, arXiv 2509.20205).

GMD starts in the middle of the board's range, measures how time and power change along each dimension, moves along the
one that saves most time per watt, and halves that dimension's range at each step. This is our own implementation of
that idea from its description; the published figure (14.2 % mean penalty with about 9 profiles per limit) is the
authors'.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgetrain.prediction import ModeTable
from edgetrain.schema import Measure, ModeMeasurement


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The best row measured within the limit (None: none was), and everything that was measured."""

    row: int | None
    seen: Mapping[int, ModeMeasurement]


def random_search(modes: ModeTable, max_power_w: float, measure: Measure, count: int, seed: int) -> SearchResult:
    """Measure random modes and keep the fastest within the limit."""
    rows = np.random.default_rng(seed).permutation(len(modes))[:count]
    seen = {int(row): measure(modes.mode(int(row))) for row in rows}
    return SearchResult(best_within(seen, max_power_w), seen)


def slope_search(modes: ModeTable, max_power_w: float, measure: Measure, count: int) -> SearchResult:
    """Follow the best ratio of time to power from the middle of the range; needs a full grid of modes."""
    grid = Grid.of(modes)
    low = np.zeros(4, dtype=int)
    high = np.array([len(levels) - 1 for levels in grid.levels])
    here = (low + high) // 2
    seen: dict[int, ModeMeasurement] = {}

    def value(place: NDArray[np.int_]) -> ModeMeasurement | None:
        row = grid.row(place)
        if row is None:
            return None
        if row not in seen:
            if len(seen) >= count:
                return None
            seen[row] = measure(modes.mode(row))
        return seen[row]

    start = value(here)
    assert start is not None  # the first measurement is always allowed; a grid has its middle
    over = start.power_w > max_power_w
    edge = low if over else high
    slopes: list[tuple[float, int]] = []
    for axis in np.flatnonzero(edge != here).tolist():
        there = here.copy()
        # Half way to the edge, the first step of the bisection below.
        there[axis] = (int(edge[axis]) + int(here[axis]) + 1) // 2 if not over else int(here[axis]) // 2
        probe = value(there)
        if probe is not None:
            slopes.append((_slope(start, probe, over), axis))
    # Along the best dimension first: bisect for the last step within the limit, then continue with the next
    # dimension. When the whole dimension is over the limit it stays at its lowest value, and the next one has to
    # reduce the power.
    for _, axis in sorted(slopes, reverse=True):
        least, most = (0, max(0, int(here[axis]) - 1)) if over else (int(here[axis]), int(high[axis]))
        while least < most:
            there = here.copy()
            there[axis] = (least + most + 1) // 2
            probe = value(there)
            if probe is None:
                break
            if probe.power_w <= max_power_w:
                least = int(there[axis])
            else:
                most = int(there[axis]) - 1
        here[axis] = least
        now = value(here)
        if now is None:
            break
        over = now.power_w > max_power_w
    return SearchResult(best_within(seen, max_power_w), seen)


def _slope(now: ModeMeasurement, probe: ModeMeasurement, over: bool) -> float:
    """Return the share of power saved per share of time lost when over the limit, and the reverse when within it."""
    faster, hungrier = np.log(now.time_s / probe.time_s), np.log(probe.power_w / now.power_w)
    if over:
        return float(-hungrier / max(-faster, 1e-9))
    return float(faster / max(hungrier, 1e-9))


def best_within(seen: Mapping[int, ModeMeasurement], max_power_w: float) -> int | None:
    """Return the fastest row seen within the limit."""
    within = [row for row, m in seen.items() if m.power_w <= max_power_w]
    return min(within, key=lambda row: seen[row].time_s) if within else None


@dataclass(frozen=True, slots=True)
class Grid:
    """Modes as places on a grid of levels per dimension."""

    levels: tuple[tuple[float, ...], ...]
    rows: Mapping[tuple[int, ...], int]

    @classmethod
    def of(cls, modes: ModeTable) -> Grid:
        """Index every mode by its levels."""
        columns = (modes.cores, modes.cpu_hz, modes.gpu_hz, modes.emc_hz)
        levels = tuple(tuple(sorted(set(column.tolist()))) for column in columns)
        at = [{level: i for i, level in enumerate(known)} for known in levels]
        rows = {tuple(at[axis][column[row]] for axis, column in enumerate(columns)): row for row in range(len(modes))}
        return cls(levels, rows)

    def row(self, place: NDArray[np.int_]) -> int | None:
        """Return the row at a place; None where the grid has a hole."""
        return self.rows.get(tuple(int(step) for step in place))
