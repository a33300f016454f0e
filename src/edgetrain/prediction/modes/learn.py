"""Fits a table of many measured modes and returns one entry of a prior."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from edgetrain import student
from edgetrain.errors import PredictError
from edgetrain.prediction.base import Array, ModeTable, check_clocks, results
from edgetrain.prediction.modes import noise as scatter
from edgetrain.prediction.modes.ensemble import best_fit
from edgetrain.prediction.modes.fit import MEAN_WIDTH
from edgetrain.prediction.modes.physics import (
    POWER_TERMS,
    TIME_TERMS,
    TOP,
    Features,
    ReferenceMode,
    log_accelerator,
    log_power,
    log_time,
)
from edgetrain.prediction.modes.prior import GENERIC, Gaussian, PriorEntry
from edgetrain.prediction.modes.solver import DOF, Curve, fit_map

_FEWEST_MODES = 40  # with fewer, the coefficients depend more on the generic guess than on the network
# Neighbouring modes have similar residuals, so thousands of modes determine the coefficients no better than this many.
_EFFECTIVE_MODES = 200
_WIDER = 2.0  # factor on the width of the generic guess when there are many modes


def learn_entry(
    table: ModeTable, network: str, board: str, kind: str = "train", weight: float = 1.0, source: str = ""
) -> PriorEntry:
    """Fit a whole table and return its coefficients relative to the top mode."""
    time_s, power_w = results(table)
    if len(table) < _FEWEST_MODES:
        raise PredictError(f"{len(table)} modes are too few to learn a prior from; measure at least {_FEWEST_MODES}")
    check_clocks(table)
    batch_size = None
    if table.batch_size is not None and np.ptp(table.batch_size) == 0:
        batch_size = float(table.batch_size[0])
        table = replace(table, batch_size=None)
    log_t, log_p = np.log(time_s), np.log(power_w)
    f = Features.of(table, ReferenceMode.of(table))
    rng = np.random.default_rng(0)

    def time_curve(theta: Array, slopes: bool) -> tuple[Array, Array | None]:
        return log_time(theta, f, slopes)

    noise_t: Array = np.full(len(table), 0.03)
    for _ in range(2):
        theta, prior_t = _full_fit(time_curve, log_t, noise_t, GENERIC.time(), TIME_TERMS, rng)
        share = scatter.shares(theta[None], f)
        noise_t = 0.02 * scatter.time_factor(share)
    paced_by, log_mean = theta, log_t
    if table.time_mean_s is not None:
        log_mean = np.log(table.time_mean_s)
        near = np.diag(1.0 / np.square(MEAN_WIDTH))
        paced_by = fit_map(time_curve, log_mean[None], noise_t[None], theta[None], theta[None], near)[0][0]
    top_t = float(log_time(paced_by[None], TOP)[0][0, 0])
    tau = log_mean[None] - top_t
    busy = np.minimum(log_accelerator(paced_by[None], f) - log_mean, 0.0)

    def power_curve(phi: Array, slopes: bool) -> tuple[Array, Array | None]:
        return log_power(phi, f, tau, busy, slopes)

    noise_p = 0.015 * scatter.power_factor(share)
    phi, prior_p = _full_fit(power_curve, log_p, noise_p, GENERIC.power(), POWER_TERMS, rng)
    left_t = (log_t - log_time(theta[None], f)[0][0]) / scatter.time_factor(share)
    left_p = (log_p - power_curve(phi[None], False)[0][0]) / scatter.power_factor(share)
    spread_t = _spread(time_curve, theta, noise_t, prior_t, TIME_TERMS)
    spread_p = _spread(power_curve, phi, noise_p, prior_p, POWER_TERMS)

    top_time = log_time(theta[None], TOP)[0]
    top_busy = np.minimum(log_accelerator(paced_by[None], TOP) - top_t, 0.0)
    theta[:TIME_TERMS] -= top_time[0, 0]
    phi[:POWER_TERMS] -= log_power(phi[None], TOP, np.zeros((1, 1)), top_busy)[0][0, 0]
    return PriorEntry(
        network=network,
        board=board,
        kind=kind,
        time=tuple(theta.tolist()),
        power=tuple(phi.tolist()),
        time_spread=tuple(spread_t.tolist()),
        power_spread=tuple(spread_p.tolist()),
        time_scatter=_scatter(left_t),
        power_scatter=_scatter(left_p),
        modes=len(table),
        batch_size=batch_size,
        weight=weight,
        source=source,
    )


def _full_fit(
    curve: Curve, target: Array, noise: Array, guess: Gaussian, terms: int, rng: np.random.Generator
) -> tuple[Array, Gaussian]:
    wide = Gaussian(guess.mean, guess.covariance * _WIDER**2)
    peak = best_fit(curve, target, noise, wide, terms, rng, iterations=80, narrow=1.0 / _WIDER)
    return peak.best, wide


def _scatter(left: Array) -> float:
    """Return the scale of a Student t whose 90th percentile of |x| is that of the residuals."""
    return round(float(np.quantile(np.abs(left), 0.9)) / student.quantile(0.95, DOF), 4)


def _spread(curve: Curve, best: Array, noise: Array, prior: Gaussian, terms: int) -> Array:
    """Return the standard deviation with which the modes determined each coefficient, the common scale aside."""
    _, slope = curve(best[None], True)
    assert slope is not None
    weighted = slope[0] / noise[:, None] * np.sqrt(min(1.0, _EFFECTIVE_MODES / len(noise)))
    covariance = np.linalg.inv(weighted.T @ weighted + np.linalg.inv(prior.covariance))
    return np.asarray(np.sqrt(np.diag(covariance)))
