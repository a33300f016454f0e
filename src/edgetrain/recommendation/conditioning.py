"""Updates predictions with newly measured modes, without a new fit.

The errors of the predictions are modelled as a Gaussian process over the modes: the spread is the predictor's, the
correlation falls with the distance between modes in the logarithms of cores and clocks, each scaled to its own range
(so that nothing depends on units or on a board's clock table). Conditioning on the measured errors is then linear
algebra in the number of new measurements.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from edgetrain.prediction import FACTORS, Array, ModeTable, Predictions
from edgetrain.schema import ModeMeasurement

REACH = 0.5  # distance, as a share of each clock's range, over which errors are correlated
SHARED = 0.25  # share of the error's variance that is common to all modes
NOISE = 0.15  # share of the variance that belongs to the single measurement, independent of its neighbours


def positions(modes: ModeTable) -> Array:
    """Return the modes as points: logarithms of cores and clocks, each scaled to [0, 1] over the modes.

    A clock that is constant or that the board does not have contributes 0.
    """
    columns = []
    for name in FACTORS:
        logs = np.log(modes.factor(name))
        extent = logs.max() - logs.min()
        columns.append((logs - logs.min()) / extent if extent > 0 else np.zeros(len(logs)))
    return np.stack(columns, axis=1)


def correlation(left: Array, right: Array) -> Array:
    """Return the correlation between the errors at two sets of positions."""
    squared = ((left[:, None, :] - right[None, :, :]) ** 2).sum(axis=2)
    found: Array = SHARED + (1.0 - SHARED) * np.exp(-0.5 * squared / REACH**2)
    return found


def smooth_draws(modes: ModeTable, count: int, generator: np.random.Generator, waves: int = 96) -> Array:
    """Return `count` draws of a standard error over the modes, with the correlation of `correlation`.

    Random waves approximate the process (their covariance is its kernel), so that a hundred thousand modes need no
    matrix of that size.
    """
    where = positions(modes)
    directions = generator.standard_normal((where.shape[1], waves)) / REACH
    shifts = generator.uniform(0.0, 2.0 * np.pi, waves)
    basis = np.sqrt(2.0 / waves) * np.cos(where @ directions + shifts)
    rough = generator.standard_normal((count, waves)) @ basis.T
    common = generator.standard_normal((count, 1))
    drawn: Array = np.sqrt(SHARED) * common + np.sqrt(1.0 - SHARED) * rough
    return drawn


def condition(predictions: Predictions, modes: ModeTable, measured: Mapping[int, ModeMeasurement]) -> Predictions:
    """Return the predictions conditioned on modes measured after they were made.

    `measured` (row → measurement) holds what the predictor has not seen. Those rows move towards their measured values
    too, up to noise; choosing uses the measurement itself there.
    """
    if not measured:
        return predictions
    rows = np.array(sorted(measured), dtype=np.intp)
    where = positions(modes)
    between = correlation(where[rows], where[rows])
    across = correlation(where, where[rows])
    time_error = np.log([measured[row].time_s for row in rows]) - np.log(predictions.time_s[rows])
    power_error = np.log([measured[row].power_w for row in rows]) - np.log(predictions.power_w[rows])
    time_shift, time_sd = _condition(predictions.time_log_sd, rows, between, across, time_error)
    power_shift, power_sd = _condition(predictions.power_log_sd, rows, between, across, power_error)
    mean = predictions.time_mean_s
    return replace(
        predictions,
        time_s=predictions.time_s * np.exp(time_shift),
        time_mean_s=None if mean is None else mean * np.exp(time_shift),
        power_w=predictions.power_w * np.exp(power_shift),
        time_log_sd=time_sd,
        power_log_sd=power_sd,
    )


def _condition(
    log_sd: Array, rows: NDArray[np.intp], between: Array, across: Array, error: Array
) -> tuple[Array, Array]:
    """Condition one log error on its values at a few rows, in units of the spread, where the variance is 1."""
    smooth = 1.0 - NOISE
    covariance = smooth * between + NOISE * np.eye(len(rows))
    gain = np.linalg.solve(covariance, smooth * across.T).T
    shift = log_sd * (gain @ (error / log_sd[rows]))
    left = 1.0 - (gain * smooth * across).sum(axis=1)
    # An error larger than the spread allows means that the spread itself was too small.
    surprise = float(error / log_sd[rows] @ np.linalg.solve(covariance, error / log_sd[rows])) / len(rows)
    widen = max(1.0, (4.0 + len(rows) * surprise) / (4.0 + len(rows)))
    return shift, log_sd * np.sqrt(np.maximum(left, NOISE) * widen)
