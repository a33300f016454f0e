"""How many runs or units are needed to see a difference of a given size."""

from __future__ import annotations

import math
from dataclasses import dataclass

from edgetrain.analysis.variance import MeanSquare, combine
from edgetrain.student import quantile

SIGNIFICANCE = 0.05  # two-sided
POWER = 0.8
MOST = 100_000


@dataclass(frozen=True, slots=True)
class SampleSize:
    """What it takes to detect a difference in four of five tries, at 5 % significance. None: not known.

    `_most` is the same where the spread lies at the upper end of its interval.
    """

    difference: float  # as a share
    runs: int | None  # per setting, both settings on the same unit
    runs_most: int | None
    units: int | None  # per setting, each setting on units of its own
    units_most: int | None
    runs_per_unit: float | None  # of those units, as in these data (mean)


def sample_size(
    difference: float, runs: MeanSquare | None, units: MeanSquare | None, runs_per_unit: float
) -> SampleSize:
    """Return the numbers for a difference of this share, from the mean squares of runs and of units' means."""
    by_run, by_run_most = _both(difference, runs)
    by_unit, by_unit_most = _both(difference, units)
    return SampleSize(
        difference, by_run, by_run_most, by_unit, by_unit_most, None if by_unit is None else runs_per_unit
    )


def _both(difference: float, square: MeanSquare | None) -> tuple[int | None, int | None]:
    if square is None:
        return None, None
    return needed(math.sqrt(square.value), difference), needed(combine((1.0, square)).hi, difference)


def needed(deviation: float, difference: float) -> int:
    """Return how many observations per side show a difference, given their standard deviation (of logarithms)."""
    size = abs(math.log1p(difference))
    count = 2
    while count < MOST:
        freedom = 2.0 * count - 2
        reach = quantile(1 - SIGNIFICANCE / 2, freedom) + quantile(POWER, freedom)
        wanted = 2 * (reach * deviation / size) ** 2
        if wanted <= count:
            return count
        # From here on more observations hardly change the quantiles: go there at once, or one further.
        count = max(count + 1, min(MOST, math.floor(wanted) if freedom > 60 else count + 1))
    return MOST
