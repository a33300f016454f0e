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


def gain_interval(
    starts: Sequence[LoaderMeasurement], bests: Sequence[LoaderMeasurement], minimise: str = "time", seed: int = 0
) -> GainInterval:
    """Return the gain; trials are resampled first, then blocks of minibatches within each, never single minibatches."""
    random = np.random.default_rng(seed)
    gains = 100.0 * (1.0 - _draw(bests, minimise, random) / _draw(starts, minimise, random))
    lo, hi = np.quantile(gains, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    value = 100.0 * (1.0 - _plain(bests, minimise) / _plain(starts, minimise))
    wider = _few_trials(len(starts), len(bests))
    return GainInterval(value, value - wider * max(0.0, value - float(lo)), value + wider * max(0.0, float(hi) - value))


def _few_trials(starts: int, bests: int) -> float:
    """Return how much wider an interval of few trials must be than their bootstrap: Student's t, and n / (n - 1)."""
    fewest = min(starts, bests)
    freedom = max(1, starts + bests - 2)
    quantile = STUDENT.get(freedom, NORMAL)
    return quantile / NORMAL * (math.sqrt(fewest / (fewest - 1)) if fewest > 1 else 1.0)


def _plain(trials: Sequence[LoaderMeasurement], minimise: str) -> float:
    return sum(trial.cost(minimise) for trial in trials) / len(trials)


def _draw(trials: Sequence[LoaderMeasurement], minimise: str, random: np.random.Generator) -> NDArray[np.float64]:
    """Return resampled means of the cost, one per draw."""
    count = len(trials)
    drawn = np.empty((count, DRAWS, count))
    for place, trial in enumerate(trials):
        blocks = np.asarray(trial.block_s)
        picked = blocks[random.integers(len(blocks), size=(DRAWS, count, len(blocks)))].mean(axis=2)
        drawn[place] = (picked + trial.pass_s) * trial.cost(minimise) / trial.e2e_s
    which = random.integers(count, size=(DRAWS, count))
    found: NDArray[np.float64] = np.take_along_axis(drawn, which[np.newaxis], axis=0)[0].mean(axis=1)
    return found
