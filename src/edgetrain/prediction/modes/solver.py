"""Finds the most probable coefficients: Gaussian prior, Student likelihood, many starts at once.

Outliers among a few rows are frequent enough (see docs/prediction.md) that squared error is not an option: with
Student's t a row far from all the others has little influence. Levenberg-Marquardt on the reweighted problem, for an
ensemble of problems in the same arrays.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from edgetrain.prediction.base import Array

Curve = Callable[[Array, bool], tuple[Array, Array | None]]  # coefficients, derivatives? -> values, derivatives

DOF = 4.0  # Student's t of one row: heavy enough that a row 10 sd off pulls like one 1 sd off


def loss(residual: Array, dof: float = DOF) -> Array:
    """Return -log density (up to a constant) of standardised residuals, summed over rows."""
    out: Array = 0.5 * (dof + 1) * np.log1p(residual**2 / dof).sum(axis=-1)
    return out


def fit_map(
    curve: Curve,
    target: Array,
    noise: Array,
    start: Array,
    mean: Array,
    precision: Array,
    iterations: int = 40,
    dof: float = DOF,
) -> tuple[Array, Array]:
    """Return coefficients (problems x p) and objectives of as many problems as `start` has rows.

    `target` is (problems or 1) x rows, `noise` likewise, `mean` is (problems or 1) x p, `precision` p x p.
    """
    theta = start.copy()
    damping: Array = np.full(len(theta), 1e-2)
    eye = np.eye(theta.shape[1])

    def objective(at: Array, value: Array) -> Array:
        away = at - mean
        out: Array = loss((value - target) / noise, dof) + 0.5 * np.einsum("bi,ij,bj->b", away, precision, away)
        return out

    value, slope = curve(theta, True)
    best = objective(theta, value)
    for _ in range(iterations):
        assert slope is not None
        residual = (value - target) / noise
        weight = (dof + 1) / (dof + residual**2) / noise**2
        weighted = slope * weight[..., None]
        gradient = np.einsum("bnp,bn->bp", weighted, value - target) + (theta - mean) @ precision
        hessian = np.swapaxes(weighted, 1, 2) @ slope + precision
        scale = damping[:, None, None] * (np.einsum("bii->bi", hessian)[:, :, None] * eye)
        step = np.linalg.solve(hessian + scale, -gradient[..., None])[..., 0]
        step = np.clip(step, -2.0, 2.0)
        trial = theta + step
        trial_value, trial_slope = curve(trial, True)
        assert trial_slope is not None
        reached = objective(trial, trial_value)
        better = reached < best
        gain = np.where(better, best - reached, 0.0)
        theta = np.where(better[:, None], trial, theta)
        value = np.where(better[:, None], trial_value, value)
        slope = np.where(better[:, None, None], trial_slope, slope)
        best = np.where(better, reached, best)
        damping = np.clip(np.where(better, damping * 0.3, damping * 5.0), 1e-8, 1e8)
        if gain.max() < 1e-5 and (better.any() or damping.min() > 1e3):
            break
    return theta, best
