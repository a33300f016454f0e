"""Fits the physical model and its residual to a few profiled modes under a prior, and predicts every other mode."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgetrain.errors import PredictError
from edgetrain.prediction.base import CLOCKS, Array, ModeTable, Predictions, check_clocks, largest, results, varies
from edgetrain.prediction.modes import noise as scatter
from edgetrain.prediction.modes.ensemble import best_fits, scatter_scale, spread
from edgetrain.prediction.modes.physics import (
    POWER_TERMS,
    TIME_TERMS,
    TOP,
    WITH_TIME,
    Features,
    ReferenceMode,
    log_accelerator,
    log_power,
    log_time,
)
from edgetrain.prediction.modes.prior import GENERIC, Prior
from edgetrain.prediction.modes.residual import MaternKernel, Residual
from edgetrain.prediction.modes.solver import DOF, fit_map
from edgetrain.prediction.modes.unit_correction import UnitCorrection

MEMBERS = 40
PREDICTIVE_DOF = 4.0  # matches the frequency of outliers in the published tables
_CHUNK = 1024  # modes predicted at once: fits the cache, and bounds the memory that a million modes need
# Of the scatter around the model, half the variance is rough (independent from mode to mode) and half is smooth.
_ROUGH = _SMOOTH = 0.7
# Calibration, found by leaving out one network at a time on the published tables (benchmarks/prediction.py): factors on
# the variances with which nine of ten measured values lie in the 90 % interval. Open: what the profiled modes leave
# undetermined; own: the scatter of the mode itself; followed: the scatter of time, which power depends on.
_OPEN_TIME, _OWN_TIME = 0.75, 1.6
_OPEN_POWER, _OWN_POWER, _FOLLOWED = 0.52, 0.8, 5.0
_THIN = 5  # every fifth member
_MARGIN = 0.05  # a clock within 5 % of the profiled ones is not called extrapolated
# How far the coefficients of the mean minibatch may differ from those of the median: the loader's most.
MEAN_WIDTH = (
    [0.03, 0.03, 0.4, 0.2, 0.15] + [0.05, 0.5, 0.3] + [0.02, 0.02, 0.05, 0.05, 0.1, 0.02, 0.05] + [0.2] * 5 + [0.02]
)


@dataclass(frozen=True, slots=True)
class Fitted:
    """Time and power of one network on one board, as an ensemble of coefficients and a residual."""

    reference: ReferenceMode
    time: Array  # members x coefficients
    time_mean: Array | None  # the same for the mean minibatch, member by member; None: never profiled
    power: Array
    time_rest: Residual
    power_rest: Residual
    time_noise: float  # scatter of one measured mode where the accelerator dominates
    power_noise: float
    mean_noise: float  # scatter of the mean minibatch, which power depends on
    low: Array  # the range of the profiled modes, as logs relative to the reference
    high: Array
    warnings: tuple[str, ...] = ()
    unit: UnitCorrection | None = None  # None: as the profiled unit, or the kind, is

    def predict(self, modes: ModeTable) -> Predictions:
        """Return time and power of every mode with calibrated spreads."""
        if not len(modes):
            raise PredictError("no modes to predict; give a table of modes")
        self._check_clocks(modes)
        parts = [self._predict(modes.take(slice(i, i + _CHUNK))) for i in range(0, len(modes), _CHUNK)]
        time, mean, power, time_sd, power_sd, shared = (np.concatenate(part) for part in zip(*parts, strict=True))
        correlation = float(np.median(shared / (time_sd * power_sd)))
        outside = self._outside(modes)
        warnings = list(self.warnings)
        if outside.any():
            count = int(outside.sum())
            warnings.append(f"{count} of {len(modes)} modes lie outside the clocks that were profiled: extrapolated")
        found = Predictions(
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
        return found if self.unit is None else self.unit.applied(found)

    def members(self, f: Features) -> tuple[Array, Array]:
        """Return log time and log power of every member, without the residual."""
        time, _ = log_time(self.time, f)
        _, tau, busy = self._pace(f, time, np.zeros(len(f)))
        return time, log_power(self.power, f, tau, busy)[0]

    def _pace(self, f: Features, time: Array, rest: Array) -> tuple[Array, Array, Array]:
        """Return the inputs of power: logs of the mean time, of it relative to the top mode's, of the busy share."""
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
        # Averages over a part of the members are accurate enough for shares and slopes.
        some = slice(None, None, _THIN)
        share = scatter.shares(self.time[some], f)
        _, slope = log_power(self.power[some], f, tau[some], busy[some], True)
        assert slope is not None
        follows = -slope[..., WITH_TIME].sum(axis=-1).mean(axis=0)  # d log power / d log time, with the sign changed
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

    def _check_clocks(self, modes: ModeTable) -> None:
        """Refuse modes that leave out a clock which the profiled ones varied, or that vary one those leave out."""
        check_clocks(modes)
        for place, name, top in ((2, "gpu_hz", self.reference.gpu_hz), (3, "emc_hz", self.reference.emc_hz)):
            column, varied = modes.factor(name), bool(self.high[place] > self.low[place])
            if varied and largest(column) is None:
                raise PredictError(
                    f"the profiled modes differ in {CLOCKS[name]} and these modes do not give it ({name})"
                )
            if top is None and varies(column):
                raise PredictError(
                    f"these modes differ in {CLOCKS[name]} and the profiled ones do not give it ({name})"
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
    """Fit the profiled modes; `board` (all modes there are) only provides the largest clocks."""
    prior = GENERIC if prior is None else prior
    results(profiled)
    if len(profiled) < 2:
        raise PredictError(f"{len(profiled)} profiled mode is too few to predict from; profile at least 2")
    tables = [profiled] if board is None else [profiled, board]
    check_clocks(*tables)
    reference = ReferenceMode.of(*tables)
    f = Features.of(profiled, reference)
    at = f.matrix()
    rng = np.random.default_rng(seed)
    time = _fit_time(profiled, f, prior, rng, members)
    power = _fit_power(profiled, f, prior, rng, members, time)
    return Fitted(
        reference=reference,
        time=time.members,
        time_mean=time.mean_members,
        power=power.members,
        time_rest=time.residual(at),
        power_rest=power.residual(at),
        time_noise=time.base * time.scale,
        power_noise=power.base * power.scale,
        mean_noise=time.base * time.mean_scale,
        low=at.min(axis=0),
        high=at.max(axis=0),
    )


@dataclass(frozen=True, slots=True)
class _QuantityFit:
    """The fit of time or of power to the profiled modes."""

    members: Array
    base: float  # typical scatter of the prior
    scale: float  # by how much the profiled modes scatter more than that
    noise: Array  # scatter of each profiled mode
    left: Array  # residuals
    share: Array  # share of each term in the time of each profiled mode
    mean_members: Array | None = None
    mean_scale: float = 1.0

    def residual(self, at: Array) -> Residual:
        kernel = MaternKernel(_SMOOTH * self.base * self.scale)
        return Residual.fit(kernel, at, _tame(self.left, self.noise), self.noise)


def _fit_time(profiled: ModeTable, f: Features, prior: Prior, rng: np.random.Generator, members: int) -> _QuantityFit:
    log_t = np.log(results(profiled)[0])

    def curve(theta: Array, slopes: bool) -> tuple[Array, Array | None]:
        return log_time(theta, f, slopes)

    # The scatter of a row depends on the term that dominates its mode, which a first fit shows.
    base, _ = prior.scatter()
    priors = prior.times()
    share = scatter.shares(priors[0].mean[None], f)
    first = best_fits(curve, log_t, base * scatter.time_factor(share), priors, TIME_TERMS, rng)[0]
    base, _ = prior.scatter(first.which)
    share = scatter.shares(first.best[None], f)
    noise = base * scatter.time_factor(share)
    peaks = best_fits(curve, log_t, noise, priors, TIME_TERMS, rng)
    left = log_t - curve(peaks[0].best[None], False)[0][0]
    scale = scatter_scale(left, noise, peaks[0].leverage)
    noise = noise * scale
    time = spread(curve, log_t, noise, peaks, TIME_TERMS, rng, members)
    time_mean, mean_scale = None, scale
    if profiled.time_mean_s is not None:
        log_mean = np.log(profiled.time_mean_s)
        target = log_mean + noise * rng.standard_normal((members, len(log_t)))
        near = np.diag(1.0 / np.square(MEAN_WIDTH))
        time_mean, _ = fit_map(curve, target, noise[None], time, time, near, 15)
        left = log_mean - curve(time_mean, False)[0].mean(axis=0)
        mean_scale = max(scale, scale * scatter_scale(left, noise, peaks[0].leverage))
    left = log_t - curve(time, False)[0].mean(axis=0)
    return _QuantityFit(time, base, scale, noise, left, share, time_mean, mean_scale)


def _fit_power(
    profiled: ModeTable, f: Features, prior: Prior, rng: np.random.Generator, members: int, time: _QuantityFit
) -> _QuantityFit:
    """Fit power, which depends on time: on the measured mean where there is one, because power is an average too."""
    time_s, power_w = results(profiled)
    log_p = np.log(power_w)
    log_mean = np.log(time_s if profiled.time_mean_s is None else profiled.time_mean_s)
    paced_by = time.members if time.mean_members is None else time.mean_members
    tau = log_mean[None] - log_time(paced_by, TOP)[0].mean()
    busy = np.minimum(log_accelerator(paced_by, f).mean(axis=0, keepdims=True) - log_mean, 0.0)

    def curve(phi: Array, slopes: bool) -> tuple[Array, Array | None]:
        return log_power(phi, f, tau, busy, slopes)

    factor = scatter.power_factor(time.share)
    priors = prior.powers()
    first = best_fits(curve, log_p, prior.scatter()[1] * factor, priors, POWER_TERMS, rng)[0]
    base = prior.scatter(first.which)[1]
    noise = base * factor
    peaks = best_fits(curve, log_p, noise, priors, POWER_TERMS, rng)
    left = log_p - curve(peaks[0].best[None], False)[0][0]
    scale = scatter_scale(left, noise, peaks[0].leverage)
    noise = noise * scale
    power = spread(curve, log_p, noise, peaks, POWER_TERMS, rng, members)
    left = log_p - curve(power, False)[0].mean(axis=0)
    return _QuantityFit(power, base, scale, noise, left, time.share)


def _tame(residual: Array, noise: Array) -> Array:
    """Shrink residuals that are improbable under Student's t, so that the process does not follow an outlier."""
    return np.asarray(residual * (DOF + 1) / (DOF + (residual / noise) ** 2)).clip(-3 * noise, 3 * noise)
