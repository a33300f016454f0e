"""Resamples runs, then their epochs as blocks; never single minibatches of one run.

Minibatches of one run share its conditions (clocks, cache, other load), so a thousand of them are not a thousand
independent observations: the run is what repeats. With few runs a plain bootstrap interval is too narrow; `expansion`
is the factor by which it is stretched: sqrt(n / (n - 1)) and Student's quantile over the normal one (Hesterberg's
expanded percentile interval).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

MIN_RUNS = 3  # with fewer, the spread between runs is not known
RESAMPLES = 4000
LEVEL = 0.95
# Two-sided 95 % quantiles of Student's t for 1..30 degrees of freedom.
STUDENT = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip
NORMAL = 1.960

Array = NDArray[np.float64]


def resampled_means(runs: Sequence[Array], draw: np.random.Generator, resamples: int = RESAMPLES) -> Array:
    """Return means of resampled runs, each with its epochs resampled.

    A run is an array of one value per epoch, or of one row of values per epoch; then the means have such rows too.
    """
    means = np.stack([_epoch_means(epochs, draw, resamples) for epochs in runs])
    chosen = draw.integers(0, len(runs), (resamples, len(runs)))
    mixed: Array = means[chosen, np.arange(resamples)[:, None]].mean(axis=1)
    return mixed


def _epoch_means(epochs: Array, draw: np.random.Generator, resamples: int) -> Array:
    picked = draw.integers(0, len(epochs), (resamples, len(epochs)))
    means: Array = epochs[picked].mean(axis=1)
    return means


def student_quantile(freedom: int) -> float:
    """Return the two-sided 95 % quantile of Student's t."""
    return STUDENT[freedom - 1] if freedom <= len(STUDENT) else NORMAL


def expansion(freedom: int, fewest: int) -> float:
    """Return by how much a bootstrap interval must be stretched; `fewest` runs on the side that has fewer."""
    return student_quantile(freedom) / NORMAL * math.sqrt(fewest / (fewest - 1))
