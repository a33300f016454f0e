"""The gain of one setting over another from repeated trials, with a bootstrap interval over trials and blocks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgetrain.schema import LoaderMeasurement

DRAWS = 2000
LEVEL = 0.9
NORMAL = 1.645  # 95 % quantile of the normal distribution
# 95 % quantiles of Student's t by degrees of freedom; a bootstrap of two or three trials shows too little spread.
STUDENT = {1: 6.314, 2: 2.920, 3: 2.353, 4: 2.132, 5: 2.015, 6: 1.943, 7: 1.895, 8: 1.860}


@dataclass(frozen=True, slots=True)
class GainInterval:
    """How much less time (or energy) a minibatch takes, in percent of the start; [lo, hi] is a 90 % interval."""

    value: float
    lo: float
    hi: float


def all_begin_passes(*groups: Sequence[LoaderMeasurement]) -> bool:
    """Return whether a pass began in each of these trials: only then can what the starts of passes add be compared.

    A fast setting gets to the next pass within a trial where a slow one does not, and would be charged for it alone.
    """
    return all(trial.passes > 0 for group in groups for trial in group)


def mean_time_s(trials: Sequence[LoaderMeasurement], with_passes: bool) -> float:
    """Return the mean time per minibatch of trials of one setting."""
    return sum(trial.time_s(with_passes) for trial in trials) / len(trials)


def mean_cost(trials: Sequence[LoaderMeasurement], minimize: str, with_passes: bool) -> float:
    """Return the mean of what is minimized over trials of one setting."""
    return sum(trial.cost(minimize, with_passes) for trial in trials) / len(trials)


def gain_interval(
    starts: Sequence[LoaderMeasurement], bests: Sequence[LoaderMeasurement], minimize: str = "time", seed: int = 0
) -> GainInterval:
    """Return the gain; trials are resampled first, then blocks of minibatches within each, never single minibatches."""
    random = np.random.default_rng(seed)
    with_passes = all_begin_passes(starts, bests)
    drawn = [_draw(trials, minimize, with_passes, random) for trials in (bests, starts)]
    gains = 100.0 * (1.0 - drawn[0] / drawn[1])
    lo, hi = np.quantile(gains, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    value = 100.0 * (1.0 - mean_cost(bests, minimize, with_passes) / mean_cost(starts, minimize, with_passes))
    wider = _few_trials(len(starts), len(bests))
    return GainInterval(value, value - wider * max(0.0, value - float(lo)), value + wider * max(0.0, float(hi) - value))


def _few_trials(starts: int, bests: int) -> float:
    """Return how much wider an interval of few trials must be than their bootstrap: Student's t, and n / (n - 1)."""
    fewest = min(starts, bests)
    freedom = max(1, starts + bests - 2)
    quantile = STUDENT.get(freedom, NORMAL)
    return quantile / NORMAL * (math.sqrt(fewest / (fewest - 1)) if fewest > 1 else 1.0)


def _draw(
    trials: Sequence[LoaderMeasurement], minimize: str, with_passes: bool, random: np.random.Generator
) -> NDArray[np.float64]:
    """Return resampled means of the cost, one per draw."""
    count = len(trials)
    drawn = np.empty((count, DRAWS, count))
    for place, trial in enumerate(trials):
        blocks = np.asarray(trial.block_s)
        picked = blocks[random.integers(len(blocks), size=(DRAWS, count, len(blocks)))].mean(axis=2)
        pass_s = trial.pass_s if with_passes else 0.0
        drawn[place] = (picked + pass_s) * trial.cost(minimize) / trial.e2e_s
    which = random.integers(count, size=(DRAWS, count))
    found: NDArray[np.float64] = np.take_along_axis(drawn, which[np.newaxis], axis=0)[0].mean(axis=1)
    return found
