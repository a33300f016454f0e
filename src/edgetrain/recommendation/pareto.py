"""The Pareto frontier of modes, its knee, and what each stock mode loses against it.

Every axis is a cost: less is better. A mode is on the frontier when no other mode is at least as good on every axis and
better on one. An axis that is the product of the others adds nothing (energy is time × power, so the frontier of time
and power is also that of all three), but any two or three axes may be used.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgetrain.errors import UsageError
from edgetrain.prediction import Array, ModeTable, Predictions, estimate
from edgetrain.recommendation.conditioning import smooth_draws
from edgetrain.schema import Estimate, PowerMode

Rows = NDArray[np.intp]


def frontier(*axes: Array) -> Rows:
    """Return the rows that no other row dominates, ordered by the first axis.

    A row dominates another when it is worse on no axis and better on one; equal rows do not dominate each other and
    are all kept. Exact, in n log n. A row with a NaN on any axis was not measured there and is refused.
    """
    if len(axes) not in (2, 3):
        raise ValueError(f"a frontier has two or three axes, not {len(axes)}")
    columns = [np.asarray(axis, dtype=np.float64) for axis in axes]
    if len({column.shape for column in columns}) != 1 or columns[0].ndim != 1:
        raise ValueError("the axes of a frontier must be columns of the same length")
    if len(columns[0]) == 0:
        return np.empty(0, dtype=np.intp)
    if any(np.isnan(column).any() for column in columns):
        raise UsageError("a mode without a value cannot be placed on the frontier; leave out what was not measured")
    order: Rows = np.lexsort(columns[::-1])
    kept = _two(columns, order) if len(columns) == 2 else _three(columns, order)
    return order[kept]


def _two(columns: list[Array], order: Rows) -> NDArray[np.bool_]:
    x, y = columns[0][order], columns[1][order]
    least_before = np.minimum.accumulate(np.concatenate(([np.inf], y[:-1])))
    # Sorted by x then y: a row is kept when its y is below all before it, or when it repeats the last one kept.
    fresh = y < least_before
    last = np.maximum.accumulate(np.where(fresh, np.arange(len(x)), 0))
    kept: NDArray[np.bool_] = fresh | ((x == x[last]) & (y == y[last]))
    return kept


def _three(columns: list[Array], order: Rows) -> NDArray[np.bool_]:
    x, y, z = (column[order] for column in columns)
    kept = np.zeros(len(x), dtype=bool)
    # Rows come in the order of x; those kept so far form a staircase over (y, z): y rising, z falling. A row is
    # dominated when the step at or before its y is at or below its z, unless that step is the very same point.
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
        raise UsageError("the frontier is empty: nothing was measured or predicted")
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
    """One mode on the frontier, per minibatch."""

    row: int
    mode: PowerMode
    time_s: Estimate
    power_w: Estimate
    energy_j: Estimate
    stays: float  # probability of being on the frontier, given the spread of the predictions
    knee: bool = False


def frontier_with_intervals(
    predictions: Predictions,
    modes: ModeTable,
    axes: tuple[str, str] = ("time_s", "power_w"),
    level: float = 0.9,
    draws: int = 100,
    seed: int = 0,
) -> list[FrontierPoint]:
    """Return the predicted frontier; each point with intervals and the share of draws in which it stays there.

    Errors of neighbouring modes are correlated, so they are drawn as smooth functions over the modes
    (see `conditioning.smooth_draws`).
    """
    spread = PredictionSpread.of(predictions)
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

    def at(axis: str, row: int, unit: str) -> Estimate:
        return estimate(float(values[axis][row]), float(spread.log_sd(axis)[row]), predictions.dof, unit, level)

    return [
        FrontierPoint(
            row,
            modes.mode(row),
            at("time_s", row, "s"),
            at("power_w", row, "W"),
            at("energy_j", row, "J"),
            float(counts[row] / draws),
            row == int(at_knee),
        )
        for row in rows.tolist()
    ]


def _could_reach(values: Mapping[str, Array], spread: PredictionSpread, axes: tuple[str, str]) -> Rows:
    """Return the rows within three spreads of the frontier: only these need to be drawn."""
    shrunk = [values[axis] * np.exp(-3.0 * spread.log_sd(axis)) for axis in axes]
    grown = [values[axis] * np.exp(3.0 * spread.log_sd(axis)) for axis in axes]
    order = np.argsort(grown[0], kind="stable")
    best = np.minimum.accumulate(grown[1][order])
    at = np.searchsorted(grown[0][order], shrunk[0], side="left")
    dominated = (at > 0) & (best[np.maximum(at - 1, 0)] < shrunk[1])
    return np.flatnonzero(~dominated)


@dataclass(frozen=True, slots=True)
class PredictionSpread:
    """The spread of the predictions' logarithms; that of energy follows from those of time and power."""

    predictions: Predictions
    energy_j: Array
    energy_log_sd: Array

    @classmethod
    def of(cls, predictions: Predictions) -> PredictionSpread:
        """Derive energy per minibatch, from the mean time where it is known, because epochs follow it."""
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
        """Return time, power and energy at the rows under two standard errors, correlated like the predictions."""
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
class StockLoss:
    """What a stock mode loses against the frontier; zero when it lies on it, None when it is not among the modes."""

    name: str
    factory_default: bool
    mode: PowerMode | None
    slower_pct: float | None  # than the fastest mode that draws no more power
    more_energy_pct: float | None  # than the mode with the least energy that is no slower
    more_power_pct: float | None  # than the mode with the least power that is no slower
    better: PowerMode | None = None  # the fastest mode that draws no more power; None: the stock mode itself


def stock_losses(
    modes: ModeTable,
    time_s: Array,
    power_w: Array,
    energy_j: Array,
    stock: Mapping[str, int | None],
    default: str | None = None,
) -> list[StockLoss]:
    """Return what each stock mode (name → row, None where unknown) loses against the best of all modes."""
    out: list[StockLoss] = []
    for name, row in stock.items():
        if row is None:
            out.append(StockLoss(name, name == default, None, None, None, None))
            continue
        within_power = np.flatnonzero(power_w <= power_w[row])
        within_time = time_s <= time_s[row]
        best = int(within_power[np.argmin(time_s[within_power])])
        out.append(
            StockLoss(
                name,
                name == default,
                modes.mode(row),
                _excess_pct(time_s[row], time_s[best]),
                _excess_pct(energy_j[row], energy_j[within_time].min()),
                _excess_pct(power_w[row], power_w[within_time].min()),
                modes.mode(best) if time_s[best] < time_s[row] else None,
            )
        )
    return out


def _excess_pct(value: float, best: float) -> float:
    return float(100.0 * (value / best - 1.0))
