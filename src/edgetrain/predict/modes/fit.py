"""Fits the physics to a few profiled modes under a prior, as an ensemble, and predicts with it.

The ensemble is made by disturbing the prior's mean and the measurements as their own spreads say and finding the
most probable coefficients again ("randomise, then optimise"): each member is a plausible network, so their scatter at a mode says
what the profiled modes leave open, without a straight-line approximation.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from edgetrain.errors import PredictError
from edgetrain.predict.base import Array, ModeTable, Predictions
from edgetrain.predict.modes.physics import (
    POWER_TERMS,
    TIME_TERMS,
    Features,
    Reference,
    log_power,
    log_time,
)
from edgetrain.predict.modes.prior import GENERIC, Gaussian, Prior
from edgetrain.predict.modes.residual import Kernel, Residual
from edgetrain.predict.modes.solver import DOF, Curve, fit_map

MEMBERS = 40
STARTS = 12
_CHUNK = 4096  # modes predicted at once, which bounds the memory a million modes need
_PREDICTIVE_DOF = 6.0
TOP = Features(*[np.zeros(1)] * 4, np.ones(1))


@dataclass(frozen=True, slots=True)
class Fitted:
    """Time and power of one network on one board, as an ensemble of coefficients and a residual."""

    reference: Reference
    time: Array  # members x coefficients
    power: Array
    time_rest: Residual
    power_rest: Residual
    time_noise: float
    power_noise: float
    low: Array  # what the profiled modes span, as logs relative to the reference
    high: Array
    mean_ratio: tuple[float, float] | None  # log(mean/median) = first + second x share of the loader
    correlation: float = -0.3
    warnings: tuple[str, ...] = ()

    def predict(self, modes: ModeTable) -> Predictions:
        parts = [self._predict(modes.take(slice(i, i + _CHUNK))) for i in range(0, len(modes), _CHUNK)]
        if not parts:
            raise PredictError("no modes to predict; give a table of modes")
        stacked = [np.concatenate([part[i] for part in parts]) for i in range(5)]
        outside = np.concatenate([part[5] for part in parts])
        warnings = list(self.warnings)
        if outside.any():
            warnings.append(
                f"{int(outside.sum())} of {len(modes)} modes lie outside the clocks that were profiled: extrapolated"
            )
        mean = stacked[4] if self.mean_ratio is not None else None
        return Predictions(
            time_s=np.exp(stacked[0]),
            time_mean_s=None if mean is None else np.exp(stacked[0] + mean),
            power_w=np.exp(stacked[1]),
            time_log_sd=stacked[2],
            power_log_sd=stacked[3],
            correlation=self.correlation,
            dof=_PREDICTIVE_DOF,
            extrapolated=outside.astype(bool),
            warnings=tuple(warnings),
        )

    def members(self, f: Features) -> tuple[Array, Array]:
        """Return log time and log power of every member, without the residual."""
        time, _ = log_time(self.time, f)
        power, _ = log_power(self.power, f, time - log_time(self.time, TOP)[0])
        return time, power

    def _predict(self, modes: ModeTable) -> tuple[Array, ...]:
        f = Features.of(modes, self.reference)
        at = f.matrix()
        rest_t, rest_t_sd = self.time_rest(at)
        rest_p, rest_p_sd = self.power_rest(at)
        time, _ = log_time(self.time, f)
        tau = time + rest_t - log_time(self.time, TOP)[0]
        power, _ = log_power(self.power, f, tau)
        centre_t, centre_p = time.mean(axis=0) + rest_t, power.mean(axis=0) + rest_p
        sd_t = np.sqrt(time.var(axis=0) + rest_t_sd**2 + self.time_noise**2)
        sd_p = np.sqrt(power.var(axis=0) + rest_p_sd**2 + self.power_noise**2)
        mean = np.zeros(len(modes))
        if self.mean_ratio is not None:
            mean = self.mean_ratio[0] + self.mean_ratio[1] * _loader_share(self.time, f)
        margin = 0.05
        outside = ((at < self.low - margin) | (at > self.high + margin)).any(axis=1)
        return centre_t, centre_p, sd_t, sd_p, mean, outside


def _loader_share(theta: Array, f: Features) -> Array:
    _, slope = log_time(theta, f, True)
    assert slope is not None
    return np.asarray(slope[..., 4].mean(axis=0))


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
    scatter_t, scatter_p = prior.scatter()
    log_t, log_p = np.log(profiled.time_s), np.log(profiled.power_w)

    noise_t = 1.5 * scatter_t
    time = _ensemble(lambda a, d: log_time(a, f, d), log_t, noise_t, prior.time(), TIME_TERMS, rng, members)
    top = log_time(time, TOP)[0]
    # Power depends on time: the measured one where there is one.
    tau = log_t[None] - top.mean()
    noise_p = 1.5 * scatter_p
    power = _ensemble(lambda a, d: log_power(a, f, tau, d), log_p, noise_p, prior.power(), POWER_TERMS, rng, members)

    left_t = log_t - log_time(time, f)[0].mean(axis=0)
    left_p = log_p - log_power(power, f, tau)[0].mean(axis=0)
    rows = np.ones(len(profiled))
    rest_t = Residual.learn(Kernel(scatter_t), at, _tame(left_t, noise_t), rows * noise_t)
    rest_p = Residual.learn(Kernel(scatter_p), at, _tame(left_p, noise_p), rows * noise_p)
    mean_ratio = None
    if profiled.time_mean_s is not None:
        share = _loader_share(time, f)
        ratio = np.log(profiled.time_mean_s / profiled.time_s)
        design = np.stack([np.ones(len(share)), share], axis=1)
        ridge = np.diag([1.0, 0.05])
        solved = np.linalg.solve(design.T @ design + ridge, design.T @ ratio)
        mean_ratio = (float(solved[0]), float(solved[1]))
    return Fitted(
        reference=reference,
        time=time,
        power=power,
        time_rest=rest_t,
        power_rest=rest_p,
        time_noise=scatter_t,
        power_noise=scatter_p,
        low=at.min(axis=0),
        high=at.max(axis=0),
        mean_ratio=mean_ratio,
    )


def _tame(residual: Array, noise: float) -> Array:
    """Shrink residuals that Student's t does not believe, so that the process does not chase a bad row."""
    return np.asarray(residual * (DOF + 1) / (DOF + (residual / noise) ** 2)).clip(-3 * noise, 3 * noise)


def _ensemble(
    curve: Curve,
    target: Array,
    noise: float,
    prior: Gaussian,
    terms: int,
    rng: np.random.Generator,
    members: int,
) -> Array:
    """Return members of the posterior: the best fit found from many starts, then disturbed and found again."""
    size = len(prior.mean)
    root = np.linalg.cholesky(_without_scale(prior, terms))
    precision = np.linalg.inv(prior.covariance)
    starts = prior.mean + rng.standard_normal((STARTS, size)) @ root.T * np.linspace(0, 1.2, STARTS)[:, None]
    # The common scale is free: put each start at the height of the data.
    offset = np.median(target - curve(starts, False)[0], axis=1)
    starts[:, :terms] += offset[:, None]
    mean = prior.mean[None].copy()
    mean[:, :terms] += np.median(offset)
    found, objective = fit_map(curve, target[None], np.full((1, 1), noise), starts, mean, precision)
    best = found[int(np.argmin(objective))]
    disturbed = mean + rng.standard_normal((members, size)) @ root.T
    targets = target + noise * rng.standard_normal((members, len(target)))
    out, _ = fit_map(
        curve, targets, np.full((1, 1), noise), np.repeat(best[None], members, axis=0), disturbed, precision, 15
    )
    return out


def _without_scale(prior: Gaussian, terms: int) -> Array:
    """Return the covariance without the free common scale, for drawing."""
    from edgetrain.predict.modes.prior import _SCALE_WIDTH

    shift = np.zeros(len(prior.mean))
    shift[:terms] = _SCALE_WIDTH
    return prior.covariance - np.outer(shift, shift) + 1e-9 * np.eye(len(shift))
