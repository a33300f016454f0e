"""Variance components of nested observations: units, runs of one unit, epochs of one run, with intervals.

Values are logarithms, so that a standard deviation is a coefficient of variation. Each level has a mean square with
its degrees of freedom; a component is a difference of mean squares, and its interval comes from drawing each mean
square's expectation from what it implies (generalised confidence interval: Weerahandi 1993; units with unequal
numbers of runs by unweighted means, Thomas and Hultquist 1978). It needs no table of quantiles and keeps its level with
few units. Mean squares of units are as uncertain as their tails are heavy: excess kurtosis lowers their degrees of
freedom, as far as that many units can show it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

LEVEL = 0.9
DRAWS = 20_000
# Shrinks the kurtosis seen in n units by n / (n + this): a few units hardly show any. With it, 90 % intervals contain
# the truth in 90 to 94 % of 500 drawn fleets with normal and 84 to 91 % with Student-t (5) units (5 and 10 units).
KURTOSIS_PRIOR = 10
MIN_FOR_KURTOSIS = 4

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class MeanSquare:
    """A variance as observed, and the degrees of freedom behind it."""

    value: float
    freedom: float

    def draws(self, draw: np.random.Generator) -> Array:
        """Return what the true variance may be."""
        return np.asarray(self.value * self.freedom / draw.chisquare(self.freedom, DRAWS))


@dataclass(frozen=True, slots=True)
class Component:
    """A standard deviation of logarithms, with its interval."""

    value: float
    lo: float
    hi: float


@dataclass(frozen=True, slots=True)
class NestedSquares:
    """The mean squares of nested observations. None: nothing was repeated at that level."""

    units: MeanSquare | None  # of the units' means
    runs: MeanSquare | None  # of runs within units
    epochs: MeanSquare | None  # of epochs within runs
    runs_per_unit: float  # harmonic mean
    epochs_per_run: float  # harmonic mean


def nested_squares(runs: Sequence[Sequence[Array]], unit_means: Array | None = None, lost: int = 0) -> NestedSquares:
    """Return the mean squares of runs grouped in cells of equal conditions; a run is its epochs' logarithms.

    `unit_means` are the means of units where they are not those of the cells (software effects removed); `lost` is how
    many degrees of freedom that removal took from them.
    """
    means = [np.asarray([run.mean() for run in cell]) for cell in runs]
    if unit_means is None:
        unit_means = np.asarray([cell.mean() for cell in means])
    flat = [run for cell in runs for run in cell]
    per_cell = len(means) / sum(1 / len(cell) for cell in means)
    return NestedSquares(
        _between(unit_means, lost),
        _pooled(means),
        _pooled(flat),
        per_cell * len(means) / len(unit_means),
        len(flat) / sum(1 / len(run) for run in flat),
    )


def _pooled(groups: Sequence[Array]) -> MeanSquare | None:
    freedom = sum(len(group) - 1 for group in groups)
    squares = sum(float(((group - group.mean()) ** 2).sum()) for group in groups)
    return MeanSquare(squares / freedom, float(freedom)) if freedom else None


def _between(means: Array, lost: int) -> MeanSquare | None:
    freedom = len(means) - 1 - lost
    if freedom < 1:
        return None
    squares = float(((means - means.mean()) ** 2).sum())
    count = freedom + 1
    return MeanSquare(squares / freedom, 2.0 / (2.0 / freedom + _excess_kurtosis(means) / count))


def _excess_kurtosis(values: Array) -> float:
    """Return how much heavier than normal the tails are, shrunk; 0 where they are lighter or too few values show it."""
    count = len(values)
    if count < MIN_FOR_KURTOSIS:
        return 0.0
    off = values - values.mean()
    second, fourth = float((off**2).mean()), float((off**4).mean())
    if second <= 0:
        return 0.0
    seen = (count - 1) / ((count - 2) * (count - 3)) * ((count + 1) * (fourth / second**2 - 3) + 6)
    return max(0.0, seen) * count / (count + KURTOSIS_PRIOR)


def combine(*terms: tuple[float, MeanSquare | None]) -> Component:
    """Return the square root of a sum of mean squares, each times its factor; what falls below 0 is 0."""
    draw = np.random.default_rng(0)
    value, drawn = 0.0, np.zeros(DRAWS)
    for factor, square in terms:
        if square is not None:
            value += factor * square.value
            drawn = drawn + factor * square.draws(draw)
    lo, hi = np.quantile(np.maximum(drawn, 0.0), [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    root = math.sqrt(max(0.0, value))
    return Component(root, min(root, math.sqrt(lo)), max(root, math.sqrt(hi)))


def epoch_component(squares: NestedSquares) -> Component | None:
    """Return how much epochs of one run differ."""
    return None if squares.epochs is None else combine((1.0, squares.epochs))


def run_component(squares: NestedSquares) -> Component | None:
    """Return how much runs of one unit differ beyond what their epochs imply."""
    if squares.runs is None:
        return None
    return combine((1.0, squares.runs), (-1 / squares.epochs_per_run, squares.epochs))


def time_component(squares: NestedSquares) -> Component | None:
    """Return how much single epochs of one unit differ over time, runs and epochs together."""
    if squares.runs is None:
        return epoch_component(squares)
    return combine((1.0, squares.runs), (1 - 1 / squares.epochs_per_run, squares.epochs))


def unit_component(squares: NestedSquares) -> Component | None:
    """Return how much units differ; with one run per unit, differences between runs are contained in it."""
    if squares.units is None:
        return None
    if squares.runs is not None:
        return combine((1.0, squares.units), (-1 / squares.runs_per_unit, squares.runs))
    return combine((1.0, squares.units), (-1 / (squares.epochs_per_run * squares.runs_per_unit), squares.epochs))


def coefficient_of_variation(deviation: float) -> float:
    """Return the coefficient of variation of values whose logarithms have this standard deviation."""
    return math.sqrt(math.expm1(deviation**2))
