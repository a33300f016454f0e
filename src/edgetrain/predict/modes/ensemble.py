"""Members of the posterior: plausible networks, given a prior and a few measured rows.

The best coefficients are found from many starts; then the prior's mean and the measurements are disturbed as their own spreads
say and the best is found again ("randomise, then optimise"). The scatter of the members at a mode says what the
profiled modes leave open, without a straight-line approximation.
"""

from __future__ import annotations

import numpy as np

from edgetrain.predict.base import Array
from edgetrain.predict.modes.prior import SCALE_WIDTH, Gaussian
from edgetrain.predict.modes.solver import DOF, Curve, fit_map

STARTS = 12
_TRUST = 8.0  # rows that the prior's word on the scatter is worth against the rows' own residuals
_SCALE_LIMITS = (0.7, 4.0)


def best_fit(
    curve: Curve,
    target: Array,
    noise: Array,
    prior: Gaussian,
    terms: int,
    rng: np.random.Generator,
    iterations: int = 40,
    narrow: float = 1.0,
) -> tuple[Array, Array]:
    """Return the most probable coefficients and the prior's mean put at the height of the data."""
    starts = prior.mean + draw(prior, terms, rng, STARTS) * (narrow * np.linspace(0, 1.2, STARTS))[:, None]
    # The common scale is free: put each start at the height of the data.
    offset = np.median(target - curve(starts, False)[0], axis=1)
    starts[:, :terms] += offset[:, None]
    mean = prior.mean[None].copy()
    mean[:, :terms] += offset[0]
    precision = np.linalg.inv(prior.covariance)
    found, objective = fit_map(curve, target[None], noise[None], starts, mean, precision, iterations)
    order = np.argsort(objective)
    return found[order[0]], mean


def scatter_scale(residual: Array, noise: Array) -> float:
    """Return by how much the rows scatter more (or less) than the prior said."""
    z = residual / noise
    weight = (DOF + 1.0) / (DOF + z**2)
    seen = float((weight * z**2).sum())
    return float(np.clip(np.sqrt((_TRUST + seen) / (_TRUST + 0.6 * len(z))), *_SCALE_LIMITS))


def spread(
    curve: Curve,
    target: Array,
    noise: Array,
    prior: Gaussian,
    terms: int,
    best: Array,
    mean: Array,
    rng: np.random.Generator,
    members: int,
) -> Array:
    """Return the members: the best fit of as many disturbed problems."""
    disturbed = mean + draw(prior, terms, rng, members)
    targets = target + noise * rng.standard_normal((members, len(target)))
    start = np.repeat(best[None], members, axis=0)
    precision = np.linalg.inv(prior.covariance)
    out, _ = fit_map(curve, targets, noise[None], start, disturbed, precision, 15)
    return out


def draw(prior: Gaussian, terms: int, rng: np.random.Generator, count: int) -> Array:
    """Return departures from the prior's mean, without the free common scale of the first `terms` coefficients."""
    shift = np.zeros(len(prior.mean))
    shift[:terms] = SCALE_WIDTH
    covariance = prior.covariance - np.outer(shift, shift) + 1e-9 * np.eye(len(shift))
    return np.asarray(rng.standard_normal((count, len(shift))) @ np.linalg.cholesky(covariance).T)
