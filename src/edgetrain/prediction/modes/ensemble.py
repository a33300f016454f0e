"""Members of the posterior: plausible networks, given a prior and a few measured rows.

The best coefficients are found from many starts; then the prior's mean and the measurements are perturbed according to
their spreads and the best coefficients are found again ("randomise, then optimise"). The scatter of the members at a
mode is the uncertainty that the profiled modes leave, without a linear approximation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from edgetrain.prediction.base import Array
from edgetrain.prediction.modes.prior import SCALE_WIDTH, Gaussian
from edgetrain.prediction.modes.solver import DOF, Curve, fit_map

STARTS = 12
_PRIOR_ROWS = 4.0  # weight of the prior's scatter against the residuals of the rows, in rows
_SCALE_STEPS = 12
_SCALE_LIMITS = (0.4, 5.0)


@dataclass(frozen=True, slots=True)
class BestFit:
    """The most probable coefficients under one prior, and how well that prior predicted the rows."""

    best: Array
    prior: Gaussian  # its mean shifted to the scale of the data
    log_evidence: float
    leverage: Array  # how much each row determines its own fitted value, 0 to 1
    which: int = 0  # index of the prior among those tried


def best_fit(
    curve: Curve,
    target: Array,
    noise: Array,
    prior: Gaussian,
    terms: int,
    rng: np.random.Generator,
    iterations: int = 40,
    narrow: float = 1.0,
) -> BestFit:
    """Find the most probable coefficients from many starts."""
    starts = prior.mean + draw(prior, terms, rng, STARTS) * (narrow * np.linspace(0, 1.2, STARTS))[:, None]
    # The common scale is free: shift each start to the scale of the data.
    offset = np.median(target - curve(starts, False)[0], axis=1)
    starts[:, :terms] += offset[:, None]
    mean = prior.mean.copy()
    mean[:terms] += offset[0]
    precision = inverse(prior.covariance)
    found, objective = fit_map(curve, target[None], noise[None], starts, mean[None], precision, iterations)
    first = int(np.argmin(objective))
    best = found[first]
    value, slope = curve(best[None], True)
    assert slope is not None
    # Laplace approximation: height of the peak times its width relative to the prior's.
    weight = np.sqrt((DOF + 1) / (DOF + ((value[0] - target) / noise) ** 2)) / noise
    weighted = slope[0] * weight[:, None]
    normal = weighted.T @ weighted
    log_width = np.linalg.slogdet(np.eye(len(best)) + normal @ prior.covariance)[1]
    leverage = np.einsum("ni,ij,nj->n", weighted, np.linalg.inv(normal + precision), weighted)
    evidence = -float(objective[first]) - 0.5 * float(log_width)
    return BestFit(best, Gaussian(mean, prior.covariance), evidence, leverage)


def best_fits(
    curve: Curve, target: Array, noise: Array, priors: Sequence[Gaussian], terms: int, rng: np.random.Generator
) -> list[BestFit]:
    """Find the best fit under each prior, the prior with the most evidence first."""
    peaks = [replace(best_fit(curve, target, noise, prior, terms, rng), which=i) for i, prior in enumerate(priors)]
    return sorted(peaks, key=lambda peak: -peak.log_evidence)


def scatter_scale(residual: Array, noise: Array, leverage: Array) -> float:
    """Return by how much the rows scatter more (or less) than the prior expects.

    A row that determines its own fitted value leaves almost no residual, so each residual is scaled to what it would be
    without that row in the fit; outliers under Student's t count less.
    """
    left_out = (residual / noise) ** 2 / np.maximum(1.0 - leverage, 0.05)
    scale = 1.0
    for _ in range(_SCALE_STEPS):  # the most probable scale of Student's t: a fixed point
        seen = float((left_out * (DOF + 1.0) / (DOF + left_out / scale**2)).sum())
        scale = float(np.sqrt((_PRIOR_ROWS + seen) / (_PRIOR_ROWS + len(left_out))))
    return float(np.clip(scale, *_SCALE_LIMITS))


def spread(
    curve: Curve,
    target: Array,
    noise: Array,
    peaks: Sequence[BestFit],
    terms: int,
    rng: np.random.Generator,
    members: int,
) -> Array:
    """Return the members: best fits of perturbed problems, as many per prior as its evidence warrants."""
    weight = np.exp([peak.log_evidence - peaks[0].log_evidence for peak in peaks])
    share = np.floor(weight / weight.sum() * members).astype(int)
    share[0] += members - share.sum()
    out = []
    for peak, count in zip(peaks, share.tolist(), strict=True):
        if not count:
            continue
        perturbed = peak.prior.mean + draw(peak.prior, terms, rng, count)
        targets = target + noise * rng.standard_normal((count, len(target)))
        start = np.repeat(peak.best[None], count, axis=0)
        precision = inverse(peak.prior.covariance)
        out.append(fit_map(curve, targets, noise[None], start, perturbed, precision, 15)[0])
    return np.concatenate(out)


def inverse(matrix: Array) -> Array:
    """Return the inverse in double precision."""
    return np.asarray(np.linalg.inv(matrix), dtype=np.float64)


def draw(prior: Gaussian, terms: int, rng: np.random.Generator, count: int) -> Array:
    """Return departures from the prior's mean, without the free common scale of the first `terms` coefficients."""
    shift = np.zeros(len(prior.mean))
    shift[:terms] = SCALE_WIDTH
    covariance = prior.covariance - np.outer(shift, shift) + 1e-9 * np.eye(len(shift))
    return np.asarray(rng.standard_normal((count, len(shift))) @ np.linalg.cholesky(covariance).T)
