"""From spreads to intervals, from time and power to energy, and how good an interval was."""

from __future__ import annotations

import numpy as np

from edgetrain.predict import student
from edgetrain.predict.base import Array, Estimate, Predictions

LEVEL = 0.9


def bounds(value: Array, log_sd: Array, dof: float, level: float = LEVEL) -> tuple[Array, Array]:
    """Return the ends of the interval that holds the truth at `level` of the cases."""
    reach = student.quantile(0.5 + level / 2, dof) * log_sd
    return value * np.exp(-reach), value * np.exp(reach)


def energy(predictions: Predictions) -> tuple[Array, Array]:
    """Return the energy of a minibatch in joules and the spread of its logarithm.

    Energy follows the mean minibatch, because an epoch does; where only medians were profiled it is too low wherever
    the loader makes minibatches bimodal, and the predictions say so.
    """
    time_s = predictions.time_s if predictions.time_mean_s is None else predictions.time_mean_s
    t, p = predictions.time_log_sd, predictions.power_log_sd
    variance = t**2 + p**2 + 2.0 * predictions.correlation * t * p
    return time_s * predictions.power_w, np.sqrt(np.maximum(variance, 0.1 * (t**2 + p**2)))


def estimate(value: Array, log_sd: Array, dof: float, row: int, level: float = LEVEL) -> Estimate:
    """Return one row as an estimate."""
    lo, hi = bounds(value[row : row + 1], log_sd[row : row + 1], dof, level)
    return Estimate(float(value[row]), float(lo[0]), float(hi[0]), level)


def expected_error(log_sd: Array, dof: float) -> float:
    """Return the mean |relative error| to expect, if the spreads are right."""
    # The mean of |t|: twice the density's first moment over the positive half, from the tabulated quantiles.
    levels = np.linspace(0.0005, 0.9995, 1000)
    typical = float(np.mean([abs(student.quantile(float(level), dof)) for level in levels]))
    return typical * float(np.mean(log_sd))


def interval_score(truth: Array, lo: Array, hi: Array, level: float = LEVEL) -> Array:
    """Return the Winkler score relative to the truth: the width, plus a fine for every miss. Less is better."""
    fine = 2.0 / (1.0 - level)
    score = (hi - lo) + fine * np.maximum(lo - truth, 0.0) + fine * np.maximum(truth - hi, 0.0)
    return np.asarray(score / truth)
