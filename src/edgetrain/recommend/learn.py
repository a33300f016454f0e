"""Learning from a miss: a freshly measured mode moves its neighbours' estimates, without a new fit.

The errors of the predictions are taken as a Gaussian process over the modes: spreads as the predictor says,
correlation falling with the distance between modes in the logarithms of cores and clocks, each scaled to its
own extent (so nothing depends on units or on a board's clock table). Conditioning on the misses seen is then
linear algebra of the size of what was confirmed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from edgetrain.predict.base import Array, ModeTable, Predictions
from edgetrain.schema import ModeMeasurement

REACH = 0.5  # distance, as a share of each clock's extent, over which errors stay alike
SHARED = 0.25  # share of the error's variance common to every mode (a level that is off everywhere)
NOISE = 0.15  # share of the variance that is the measurement's own and tells nothing about neighbours


def places(modes: ModeTable) -> Array:
    """Return the modes as points: logarithms of cores and clocks, each scaled to [0, 1] over the modes."""
    columns = []
    for column in (modes.cores, modes.cpu_hz, modes.gpu_hz, modes.emc_hz):
        logs = np.log(np.maximum(column, 1e-9))
        extent = logs.max() - logs.min()
        columns.append((logs - logs.min()) / extent if extent > 0 else np.zeros_like(logs))
    return np.stack(columns, axis=1)


def alike(left: Array, right: Array) -> Array:
    """Return the correlation between the errors at two sets of places."""
    squared = ((left[:, None, :] - right[None, :, :]) ** 2).sum(axis=2)
    correlation: Array = SHARED + (1.0 - SHARED) * np.exp(-0.5 * squared / REACH**2)
    return correlation


def smooth_draws(modes: ModeTable, count: int, generator: np.random.Generator, waves: int = 96) -> Array:
    """Return `count` draws of a standard error over the modes, correlated as `alike` says.

    Random waves stand in for the process (their covariance is its kernel), so that a hundred thousand modes cost no
    matrix of them all.
    """
    where = places(modes)
    directions = generator.standard_normal((where.shape[1], waves)) / REACH
    shifts = generator.uniform(0.0, 2.0 * np.pi, waves)
    basis = np.sqrt(2.0 / waves) * np.cos(where @ directions + shifts)
    rough = generator.standard_normal((count, waves)) @ basis.T
    common = generator.standard_normal((count, 1))
    drawn: Array = np.sqrt(SHARED) * common + np.sqrt(1.0 - SHARED) * rough
    return drawn


def learn(predictions: Predictions, modes: ModeTable, misses: Mapping[int, ModeMeasurement]) -> Predictions:
    """Return the predictions conditioned on modes measured after they were made.

    `misses` are the measurements the predictor has not seen. Their own rows get the measured values through the
    update too, up to noise; the chooser uses the measurement itself there.
    """
    if not misses:
        return predictions
    rows = np.array(sorted(misses), dtype=np.intp)
    where = places(modes)
    between = alike(where[rows], where[rows])
    across = alike(where, where[rows])
    time_miss = np.log([misses[row].time_s for row in rows]) - np.log(predictions.time_s[rows])
    power_miss = np.log([misses[row].power_w for row in rows]) - np.log(predictions.power_w[rows])
    time_shift, time_sd = _condition(predictions.time_log_sd, rows, between, across, time_miss)
    power_shift, power_sd = _condition(predictions.power_log_sd, rows, between, across, power_miss)
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
    log_sd: Array, rows: NDArray[np.intp], between: Array, across: Array, miss: Array
) -> tuple[Array, Array]:
    """Condition one log error on its values at a few rows; work in units of the spread, where the variance is 1."""
    smooth = 1.0 - NOISE
    covariance = smooth * between + NOISE * np.eye(len(rows))
    gain = np.linalg.solve(covariance, smooth * across.T).T
    shift = log_sd * (gain @ (miss / log_sd[rows]))
    left = 1.0 - (gain * smooth * across).sum(axis=1)
    # A miss larger than the spread allowed for says that the spread itself was too small.
    surprise = float(miss / log_sd[rows] @ np.linalg.solve(covariance, miss / log_sd[rows])) / len(rows)
    widen = max(1.0, (4.0 + len(rows) * surprise) / (4.0 + len(rows)))
    return shift, log_sd * np.sqrt(np.maximum(left, NOISE) * widen)
