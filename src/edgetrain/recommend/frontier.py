"""The frontier: settings that nothing else beats on every axis, its knee, and what a stock mode loses against it.

Every axis is a cost: less is better. Axes that are a product of others add nothing (energy is time × power, so
a setting that nothing beats on time and power is also one that nothing beats on all three), but any two or
three axes may be asked.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgetrain.errors import UsageError
from edgetrain.predict import student
from edgetrain.predict.base import Array, ModeTable, Predictions
from edgetrain.recommend.learn import smooth_draws

Rows = NDArray[np.intp]


def frontier(*axes: Array) -> Rows:
    """Return the rows that no other row beats, ordered by the first axis.

    A row beats another when it is nowhere worse and somewhere better; equal rows do not beat each other and are
    all kept. Exact, in n log n. A row with a NaN on any axis was not measured there and cannot be judged: it is
    refused.
    """
    if len(axes) not in (2, 3):
        raise ValueError(f"a frontier has two or three axes, not {len(axes)}")
    columns = [np.asarray(axis, dtype=np.float64) for axis in axes]
    if len({column.shape for column in columns}) != 1 or columns[0].ndim != 1:
        raise ValueError("the axes of a frontier must be columns of one length")
    if len(columns[0]) == 0:
        return np.empty(0, dtype=np.intp)
    if any(np.isnan(column).any() for column in columns):
        raise UsageError("a setting without a value cannot be placed on the frontier; leave out what was not measured")
    order: Rows = np.lexsort(columns[::-1])
    kept = _two(columns, order) if len(columns) == 2 else _three(columns, order)
    return order[kept]


def _two(columns: list[Array], order: Rows) -> NDArray[np.bool_]:
    x, y = columns[0][order], columns[1][order]
    least_before = np.minimum.accumulate(np.concatenate(([np.inf], y[:-1])))
    # Sorted by x then y: a row survives when its y is below all before it, or when it repeats the last
    # survivor.
    fresh = y < least_before
    last = np.maximum.accumulate(np.where(fresh, np.arange(len(x)), 0))
    kept: NDArray[np.bool_] = fresh | ((x == x[last]) & (y == y[last]))
    return kept


def _three(columns: list[Array], order: Rows) -> NDArray[np.bool_]:
    x, y, z = (column[order] for column in columns)
    kept = np.zeros(len(x), dtype=bool)
    # Rows arrive by x; those so far are a staircase over (y, z): y rising, z falling. A row is beaten when the
    # step at or before its y is at or below its z, unless that step is the very same point.
    steps_y: list[float] = []
    steps_z: list[float] = []
    last: tuple[float, float, float] | None = None
    for row, point in enumerate(zip(x.tolist(), y.tolist(), z.tolist(), strict=True)):
        if point == last:
            kept[row] = True
            continue
        _, here_y, here_z = point
        at = bisect_right(steps_y, here_y)
        if at and steps_z[at - 1] <= here_z:
            continue
        kept[row] = True
        last = point
        start = bisect_left(steps_y, here_y)
        stop = start
        while stop < len(steps_y) and steps_z[stop] >= here_z:
            stop += 1
        steps_y[start:stop] = [here_y]
        steps_z[start:stop] = [here_z]
    return kept


def knee(x: Array, y: Array) -> int:
    """Return the position of the knee: the point farthest below the line that joins the frontier's two ends.

    Axes are taken in logarithms and scaled to the frontier's own extent, so the knee does not depend on units
    or scale. With fewer than three points there is nothing between the ends, and the first is returned.
    """
    if len(x) == 0:
        raise UsageError("an empty frontier has no knee; nothing was measured or predicted")
    if len(x) < 3:
        return 0
    if (np.asarray(x) <= 0).any() or (np.asarray(y) <= 0).any():
        raise ValueError("a knee needs positive times, powers or energies")
    across, down = _unit(np.log(x)), _unit(np.log(y))
    return int(np.argmax(1.0 - across - down))


def _unit(values: Array) -> Array:
    extent = values.max() - values.min()
    return (values - values.min()) / extent if extent > 0 else np.zeros_like(values)


@dataclass(frozen=True, slots=True)
class FrontierPoint:
    """One setting on the frontier, with the share of draws in which it stays there."""

    row: int
    time_s: tuple[float, float, float]  # lo, value, hi
    power_w: tuple[float, float, float]
    energy_j: tuple[float, float, float]
    stays: float  # probability of being on the frontier, given the predictions' spread
    is_knee: bool = False


def frontier_with_intervals(
    predictions: Predictions,
    modes: ModeTable,
    axes: tuple[str, str] = ("time_s", "power_w"),
    level: float = 0.9,
    draws: int = 100,
    seed: int = 0,
) -> list[FrontierPoint]:
    """Return the predicted frontier; each point with intervals and how often it survives draws from the spread.

    Neighbouring modes err alike, so errors are drawn as smooth functions over the modes (see `learn.smooth_draws`).
    """
    spread = Spread.of(predictions)
    values = {"time_s": predictions.time_s, "power_w": predictions.power_w, "energy_j": spread.energy_j}
    rows = frontier(values[axes[0]], values[axes[1]])
    generator = np.random.default_rng(seed)
    counts = np.zeros(len(predictions.time_s))
    near = _could_reach(values, spread, axes)
    errors = smooth_draws(modes.take(near), 2 * draws, generator)
    for draw in range(draws):
        drawn = spread.draw(near, errors[2 * draw], errors[2 * draw + 1])
        counts[near[frontier(drawn[axes[0]], drawn[axes[1]])]] += 1
    at_knee = rows[knee(values[axes[0]][rows], values[axes[1]][rows])]
    z = student.quantile(0.5 + level / 2, predictions.dof)
    return [
        FrontierPoint(
            int(row),
            _interval(predictions.time_s[row], z * predictions.time_log_sd[row]),
            _interval(predictions.power_w[row], z * predictions.power_log_sd[row]),
            _interval(spread.energy_j[row], z * spread.energy_log_sd[row]),
            float(counts[row] / draws),
            bool(row == at_knee),
        )
        for row in rows
    ]


def _could_reach(values: Mapping[str, Array], spread: Spread, axes: tuple[str, str]) -> Rows:
    """Return the rows not hopelessly beaten: within three spreads of the frontier. Keeps the draws cheap."""
    shrunk = [values[axis] * np.exp(-3.0 * spread.log_sd(axis)) for axis in axes]
    grown = [values[axis] * np.exp(3.0 * spread.log_sd(axis)) for axis in axes]
    order = np.argsort(grown[0], kind="stable")
    best = np.minimum.accumulate(grown[1][order])
    at = np.searchsorted(grown[0][order], shrunk[0], side="left")
    beaten = (at > 0) & (best[np.maximum(at - 1, 0)] < shrunk[1])
    return np.flatnonzero(~beaten)


def _interval(value: float, half: float) -> tuple[float, float, float]:
    return float(value * np.exp(-half)), float(value), float(value * np.exp(half))


@dataclass(frozen=True, slots=True)
class Spread:
    """The spread of predictions' logarithms, energy's worked out from those of time and power."""

    predictions: Predictions
    energy_j: Array
    energy_log_sd: Array

    @classmethod
    def of(cls, predictions: Predictions) -> Spread:
        """Energy per minibatch follows the mean time where it is known: epochs do."""
        p = predictions
        time_s = p.time_s if p.time_mean_s is None else p.time_mean_s
        covariance = 2.0 * p.correlation * p.time_log_sd * p.power_log_sd
        variance = p.time_log_sd**2 + p.power_log_sd**2 + covariance
        return cls(p, time_s * p.power_w, np.sqrt(np.maximum(variance, 0.0)))

    def log_sd(self, axis: str) -> Array:
        """Return the spread of one axis."""
        return {
            "time_s": self.predictions.time_log_sd,
            "power_w": self.predictions.power_log_sd,
            "energy_j": self.energy_log_sd,
        }[axis]

    def draw(self, rows: Rows, first: Array, second: Array) -> dict[str, Array]:
        """Return time, power and energy at the rows under two standard errors, correlated as the predictions say."""
        p = self.predictions
        mixed = p.correlation * first + np.sqrt(max(0.0, 1.0 - p.correlation**2)) * second
        time_factor = np.exp(p.time_log_sd[rows] * first)
        power_factor = np.exp(p.power_log_sd[rows] * mixed)
        return {
            "time_s": p.time_s[rows] * time_factor,
            "power_w": p.power_w[rows] * power_factor,
            "energy_j": self.energy_j[rows] * time_factor * power_factor,
        }


@dataclass(frozen=True, slots=True)
class Loss:
    """What a setting gives up against the frontier; zero when it lies on it."""

    name: str
    row: int | None  # None: the setting is not among the modes that were measured or predicted
    time_pct: float | None  # how much slower than the best setting that draws no more power
    energy_pct: float | None  # how much more energy than the best setting that is no slower
    power_pct: float | None  # how much more power than the best setting that is no slower
    better_row: int | None = None  # the fastest setting that draws no more power


def losses(time_s: Array, power_w: Array, stock: Mapping[str, int | None], energy_j: Array | None = None) -> list[Loss]:
    """Return what each stock mode (name → row, None where unknown) gives up against the best of all settings."""
    energy = time_s * power_w if energy_j is None else energy_j
    out: list[Loss] = []
    for name, row in stock.items():
        if row is None:
            out.append(Loss(name, None, None, None, None))
            continue
        within_power = np.flatnonzero(power_w <= power_w[row])
        within_time = time_s <= time_s[row]
        best = within_power[np.argmin(time_s[within_power])]
        out.append(
            Loss(
                name,
                row,
                _excess_pct(time_s[row], time_s[best]),
                _excess_pct(energy[row], energy[within_time].min()),
                _excess_pct(power_w[row], power_w[within_time].min()),
                int(best) if time_s[best] < time_s[row] else None,
            )
        )
    return out


def _excess_pct(value: float, best: float) -> float:
    return float(100.0 * (value / best - 1.0))


def as_columns(points: list[FrontierPoint]) -> dict[str, Any]:
    """Return the frontier as plain columns, for JSON and figures."""
    return {
        "row": [point.row for point in points],
        "time_s": [point.time_s[1] for point in points],
        "power_w": [point.power_w[1] for point in points],
        "energy_j": [point.energy_j[1] for point in points],
        "stays": [point.stays for point in points],
        "knee": [point.is_knee for point in points],
    }
