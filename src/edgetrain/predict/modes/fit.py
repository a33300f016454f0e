"""Fits physics and residual to a few profiled modes under a prior, and predicts every other mode."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgetrain.errors import PredictError
from edgetrain.predict.base import Array, ModeTable, Predictions
from edgetrain.predict.modes import noise as scatter
from edgetrain.predict.modes.ensemble import best_fits, scatter_scale, spread
from edgetrain.predict.modes.physics import (
    POWER_TERMS,
    TIME_TERMS,
    TOP,
    WITH_TIME,
    Features,
    Reference,
    log_accelerator,
    log_power,
    log_time,
)
from edgetrain.predict.modes.prior import GENERIC, Prior
from edgetrain.predict.modes.residual import Kernel, Residual
from edgetrain.predict.modes.solver import DOF, fit_map

MEMBERS = 40
PREDICTIVE_DOF = 4.0  # outliers in the published tables are as frequent as this
_CHUNK = 1024  # modes predicted at once: small enough for the cache, and it bounds what a million modes need
# Of the scatter around the physics, what is rough (one row differs from its neighbour) and what is smooth: half the
# variance each.
_ROUGH = _SMOOTH = 0.7
# Calibration, found by leaving out one network at a time on the published tables (benchmarks/prediction.py): by how
# much the variances must grow so that nine of ten measured values lie in the 90 % interval. Open: what the profiled
# modes leave undecided; own: the scatter of the mode itself; followed: the scatter of time that power follows.
_OPEN_TIME, _OWN_TIME = 0.75, 1.6
_OPEN_POWER, _OWN_POWER, _FOLLOWED = 0.52, 0.8, 5.0
_THIN = 5  # every fifth member
_MARGIN = 0.05  # a clock within 5 % of the profiled ones is not called extrapolated
# How the coefficients of the mean minibatch may differ from those of the median: the loader-bound ones most.
MEAN_WIDTH = (
    [0.03, 0.03, 0.4, 0.2, 0.15] + [0.05, 0.5, 0.3] + [0.02, 0.02, 0.05, 0.05, 0.1, 0.02, 0.05] + [0.2] * 5 + [0.02]
)


@dataclass(frozen=True, slots=True)
class Fitted:
    """Time and power of one network on one board, as an ensemble of coefficients and a residual."""

    reference: Reference
    time: Array  # members x coefficients
    time_mean: Array | None  # the same for the mean minibatch, member by member; None: never profiled
    power: Array
    time_rest: Residual
    power_rest: Residual
    time_noise: float  # scatter of one row where the accelerator rules
    power_noise: float
    mean_noise: float  # scatter of the mean minibatch, which power follows
    low: Array  # what the profiled modes span, as logs relative to the reference
    high: Array
    warnings: tuple[str, ...] = ()

    def predict(self, modes: ModeTable) -> Predictions:
        """Return time and power of every mode with calibrated spreads."""
        if not len(modes):
            raise PredictError("no modes to predict; give a table of modes")
        parts = [self._predict(modes.take(slice(i, i + _CHUNK))) for i in range(0, len(modes), _CHUNK)]
        time, mean, power, time_sd, power_sd, shared = (np.concatenate(part) for part in zip(*parts, strict=True))
        correlation = float(np.median(shared / (time_sd * power_sd)))
        outside = self._outside(modes)
        warnings = list(self.warnings)
        if outside.any():
            count = int(outside.sum())
            warnings.append(f"{count} of {len(modes)} modes lie outside the clocks that were profiled: extrapolated")
        return Predictions(
            time_s=np.exp(time),
            time_mean_s=None if self.time_mean is None else np.exp(mean),
            power_w=np.exp(power),
            time_log_sd=time_sd,
            power_log_sd=power_sd,
            correlation=float(np.clip(correlation, -0.95, 0.95)),
            dof=PREDICTIVE_DOF,
            extrapolated=outside,
            warnings=tuple(warnings),
        )

    def members(self, f: Features) -> tuple[Array, Array]:
        """Return log time and log power of every member, without the residual."""
        time, _ = log_time(self.time, f)
        _, tau, busy = self._pace(f, time, np.zeros(len(f)))
        return time, log_power(self.power, f, tau, busy)[0]

    def _pace(self, f: Features, time: Array, rest: Array) -> tuple[Array, Array, Array]:
        """Return what power depends on: logs of the mean minibatch, of it against the top mode's, of the busy share."""
        paced_by = self.time if self.time_mean is None else self.time_mean
        mean = time if self.time_mean is None else log_time(self.time_mean, f)[0]
        tau = mean + rest - log_time(paced_by, TOP)[0]
        return mean, tau, np.minimum(log_accelerator(paced_by, f) - mean, 0.0)

    def _predict(self, modes: ModeTable) -> tuple[Array, ...]:
        f = Features.of(modes, self.reference)
        at = f.matrix()
        rest_t, rest_t_sd = self.time_rest(at)
        rest_p, rest_p_sd = self.power_rest(at)
        time, _ = log_time(self.time, f)
        mean, tau, busy = self._pace(f, time, rest_t)
        power, _ = log_power(self.power, f, tau, busy)
        # What rules a mode, and how power answers to time, are averages that some of the members tell as well as all.
        some = slice(None, None, _THIN)
        share = scatter.shares(self.time[some], f)
        _, slope = log_power(self.power[some], f, tau[some], busy[some], True)
        assert slope is not None
        follows = -slope[..., WITH_TIME].sum(axis=-1).mean(axis=0)  # a slower minibatch draws this much less power
        own_t = rest_t_sd**2 + (_ROUGH * self.time_noise * scatter.time_factor(share)) ** 2
        own_p = rest_p_sd**2 + (_ROUGH * self.power_noise * scatter.power_factor(share)) ** 2
        own_m = own_t * (self.mean_noise / self.time_noise) ** 2
        shared = ((time - time.mean(axis=0)) * (power - power.mean(axis=0))).mean(axis=0) + follows * own_t
        return (
            time.mean(axis=0) + rest_t,
            mean.mean(axis=0) + rest_t,
            power.mean(axis=0) + rest_p,
            np.sqrt(_OPEN_TIME * time.var(axis=0) + _OWN_TIME * own_t),
            np.sqrt(_OPEN_POWER * power.var(axis=0) + _OWN_POWER * own_p + _FOLLOWED * follows**2 * own_m),
            shared,
        )

    def _outside(self, modes: ModeTable) -> NDArray[np.bool_]:
        at = Features.of(modes, self.reference).matrix()
        return np.asarray(((at < self.low - _MARGIN) | (at > self.high + _MARGIN)).any(axis=1))


def fit_modes(
    profiled: ModeTable,
    prior: Prior | None = None,
    seed: int = 0,
    board: ModeTable | None = None,
    members: int = MEMBERS,
) -> Fitted:
    """Fit; `board` (all modes there are) only tells the largest clocks when they were not profiled."""
    prior = GENERIC if prior is None else prior
    if profiled.time_s is None or profiled.power_w is None:
        raise PredictError("profiled modes need their time and power")
    if len(profiled) < 2:
        raise PredictError(f"{len(profiled)} profiled mode is too few to predict from; profile at least 2")
    reference = Reference.of(*([profiled] if board is None else [profiled, board]))
    f = Features.of(profiled, reference)
    at = f.matrix()
    rng = np.random.default_rng(seed)
    base_t, _ = prior.scatter()
    log_t, log_p = np.log(profiled.time_s), np.log(profiled.power_w)

    def time_curve(theta: Array, slopes: bool) -> tuple[Array, Array | None]:
        return log_time(theta, f, slopes)

    # The scatter of a row depends on what rules its mode, which a first fit tells.
    priors = prior.times()
    share = scatter.shares(priors[0].mean[None], f)
    first = best_fits(time_curve, log_t, base_t * scatter.time_factor(share), priors, TIME_TERMS, rng)[0]
    base_t, _ = prior.scatter(first.which)
    share = scatter.shares(first.best[None], f)
    noise_t = base_t * scatter.time_factor(share)
    peaks = best_fits(time_curve, log_t, noise_t, priors, TIME_TERMS, rng)
    left = log_t - time_curve(peaks[0].best[None], False)[0][0]
    scale_t = scatter_scale(left, noise_t, peaks[0].leverage)
    noise_t = noise_t * scale_t
    time = spread(time_curve, log_t, noise_t, peaks, TIME_TERMS, rng, members)
    time_mean, log_mean, scale_m = None, log_t, scale_t
    if profiled.time_mean_s is not None:
        log_mean = np.log(profiled.time_mean_s)
        target = log_mean + noise_t * rng.standard_normal((members, len(log_t)))
        near = np.diag(1.0 / np.square(MEAN_WIDTH))
        time_mean, _ = fit_map(time_curve, target, noise_t[None], time, time, near, 15)
        left = log_mean - time_curve(time_mean, False)[0].mean(axis=0)
        scale_m = max(scale_t, scale_t * scatter_scale(left, noise_t, peaks[0].leverage))

    # Power depends on time: the measured mean where there is one, because power is an average over time too.
    paced_by = time if time_mean is None else time_mean
    tau = log_mean[None] - log_time(paced_by, TOP)[0].mean()
    busy = np.minimum(log_accelerator(paced_by, f).mean(axis=0, keepdims=True) - log_mean, 0.0)

    def power_curve(phi: Array, slopes: bool) -> tuple[Array, Array | None]:
        return log_power(phi, f, tau, busy, slopes)

    factor = scatter.power_factor(share)
    first = best_fits(power_curve, log_p, prior.scatter()[1] * factor, prior.powers(), POWER_TERMS, rng)[0]
    base_p = prior.scatter(first.which)[1]
    noise_p = base_p * factor
    peaks = best_fits(power_curve, log_p, noise_p, prior.powers(), POWER_TERMS, rng)
    left = log_p - power_curve(peaks[0].best[None], False)[0][0]
    scale_p = scatter_scale(left, noise_p, peaks[0].leverage)
    noise_p = noise_p * scale_p
    power = spread(power_curve, log_p, noise_p, peaks, POWER_TERMS, rng, members)

    left_t = log_t - time_curve(time, False)[0].mean(axis=0)
    left_p = log_p - power_curve(power, False)[0].mean(axis=0)
    return Fitted(
        reference=reference,
        time=time,
        time_mean=time_mean,
        power=power,
        time_rest=Residual.learn(Kernel(_SMOOTH * base_t * scale_t), at, _tame(left_t, noise_t), noise_t),
        power_rest=Residual.learn(Kernel(_SMOOTH * base_p * scale_p), at, _tame(left_p, noise_p), noise_p),
        time_noise=base_t * scale_t,
        power_noise=base_p * scale_p,
        mean_noise=base_t * scale_m,
        low=at.min(axis=0),
        high=at.max(axis=0),
    )


def _tame(residual: Array, noise: Array) -> Array:
    """Shrink residuals that Student's t does not believe, so that the process does not chase a bad row."""
    return np.asarray(residual * (DOF + 1) / (DOF + (residual / noise) ** 2)).clip(-3 * noise, 3 * noise)
