"""Numbers with their uncertainty, carried through arithmetic as draws.

Each group of runs is drawn once; whatever is computed from groups is computed draw by draw, so that a ratio of two
stalls has the interval that follows from both.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgetrain.analysis import LEVEL, RESAMPLES

Draws = NDArray[np.float64]
_TINY = 1e-12  # a stall of nothing may stand below a fraction line


@dataclass(frozen=True, eq=False, slots=True)
class Uncertain:
    """A value and draws of what it could be."""

    value: float
    draws: Draws

    @classmethod
    def exact(cls, value: float) -> Uncertain:
        """Return a value that is known."""
        return cls(value, np.full(RESAMPLES, value))

    @classmethod
    def around(cls, value: float, deviation: float, seed: int) -> Uncertain:
        """Return a value with this standard deviation."""
        return cls(value, value + deviation * np.random.default_rng(seed).standard_normal(RESAMPLES))

    @property
    def lo(self) -> float:
        """Lower end of the 95 % interval."""
        return min(self.value, float(np.quantile(self.draws, (1 - LEVEL) / 2)))

    @property
    def hi(self) -> float:
        """Upper end of the 95 % interval."""
        return max(self.value, float(np.quantile(self.draws, (1 + LEVEL) / 2)))

    def __add__(self, other: Uncertain | float) -> Uncertain:
        value, draws = _parts(other)
        return Uncertain(self.value + value, self.draws + draws)

    def __sub__(self, other: Uncertain | float) -> Uncertain:
        value, draws = _parts(other)
        return Uncertain(self.value - value, self.draws - draws)

    def __rsub__(self, other: float) -> Uncertain:
        return Uncertain(other - self.value, other - self.draws)

    def __mul__(self, other: Uncertain | float) -> Uncertain:
        value, draws = _parts(other)
        return Uncertain(self.value * value, self.draws * draws)

    def __truediv__(self, other: Uncertain | float) -> Uncertain:
        value, draws = _parts(other)
        return Uncertain(self.value / _not_zero(value), self.draws / _none_zero(np.asarray(draws, float)))

    def power(self, exponent: float) -> Uncertain:
        """Return it raised to a power; what is below 0 counts as 0."""
        return Uncertain(max(self.value, 0.0) ** exponent, np.maximum(self.draws, 0.0) ** exponent)

    def log(self) -> Uncertain:
        """Return its logarithm."""
        return Uncertain(float(np.log(max(self.value, _TINY))), np.log(np.maximum(self.draws, _TINY)))


def share_seen(shares: Sequence[float], relative: float, floor: float, seed: int) -> Uncertain:
    """Return the mean of a share that some runs show.

    A run is taken to scatter as the runs differ, but at least by this part of the share, and by `floor`: even a share
    of 0, seen once, is not known exactly.
    """
    value = statistics.fmean(shares)
    seen = statistics.stdev(shares) if len(shares) > 1 else 0.0
    around = Uncertain.around(value, max(relative * value, floor, seen) / math.sqrt(len(shares)), seed)
    return Uncertain(value, np.maximum(around.draws, 0.0))


def _parts(other: Uncertain | float) -> tuple[float, Draws | float]:
    return (other.value, other.draws) if isinstance(other, Uncertain) else (other, other)


def _not_zero(value: float) -> float:
    return value if abs(value) > _TINY else _TINY


def _none_zero(draws: Draws) -> Draws:
    return np.where(np.abs(draws) > _TINY, draws, _TINY)


def lowest(values: Iterable[Uncertain]) -> Uncertain:
    """Return the one with the lowest value."""
    return min(values, key=lambda one: one.value)


def highest(values: Iterable[Uncertain]) -> Uncertain:
    """Return the one with the highest value."""
    return max(values, key=lambda one: one.value)
