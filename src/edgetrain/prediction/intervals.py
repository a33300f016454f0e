"""From spreads to intervals, from time and power to energy, and how good an interval was."""

from __future__ import annotations

import numpy as np

from edgetrain import student
from edgetrain.prediction.base import Array, Predictions
from edgetrain.schema import Estimate, Origin

LEVEL = 0.9


def bounds(value: Array, log_sd: Array, dof: float, level: float = LEVEL) -> tuple[Array, Array]:
    """Return the ends of the interval that holds the truth in `level` of the cases."""
    reach = student.quantile(0.5 + level / 2, dof) * log_sd
    return value * np.exp(-reach), value * np.exp(reach)


def energy(predictions: Predictions) -> tuple[Array, Array]:
    """Return the energy per minibatch in joules and the spread of its logarithm.

    Energy follows the mean minibatch, because an epoch does. Where only medians were profiled it is too low wherever
    the loader makes minibatches bimodal; the command that shows it warns about that.
    """
    time_s = predictions.time_s if predictions.time_mean_s is None else predictions.time_mean_s
    t, p = predictions.time_log_sd, predictions.power_log_sd
    variance = t**2 + p**2 + 2.0 * predictions.correlation * t * p
    return time_s * predictions.power_w, np.sqrt(np.maximum(variance, 0.1 * (t**2 + p**2)))


def estimate(
    value: float, log_sd: float, dof: float, unit: str, level: float = LEVEL, origin: Origin = Origin.PREDICTED
) -> Estimate:
    """Return one value with the interval that its spread gives."""
    reach = student.quantile(0.5 + level / 2, dof) * log_sd
    return Estimate(float(value), float(value * np.exp(-reach)), float(value * np.exp(reach)), unit, origin, level)


def expected_error(log_sd: Array, dof: float) -> float:
    """Return the mean |relative error| to expect, provided that the spreads are right."""
    # The mean of |t|, as an average over equally probable quantiles.
    levels = np.linspace(0.0005, 0.9995, 1000)
    typical = float(np.mean([abs(student.quantile(float(level), dof)) for level in levels]))
    return typical * float(np.mean(log_sd))


def interval_score(truth: Array, lo: Array, hi: Array, level: float = LEVEL) -> Array:
    """Return the Winkler score relative to the truth: the width plus a penalty for every miss. Less is better."""
    penalty = 2.0 / (1.0 - level)
    score = (hi - lo) + penalty * np.maximum(lo - truth, 0.0) + penalty * np.maximum(truth - hi, 0.0)
    return np.asarray(score / truth)
