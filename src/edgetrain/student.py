"""Student's t with numpy alone: probabilities and quantiles at any level."""

from __future__ import annotations

from functools import lru_cache
from typing import cast

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_NORMAL_ABOVE = 200.0  # degrees of freedom from which the normal is as good as our grid


@lru_cache(maxsize=64)
def _grid(dof: float) -> tuple[Array, Array]:
    """Tabulate the distribution on x = sinh(u), which puts points where the mass and where the tail is."""
    u = np.linspace(-12.0, 12.0, 24_001)
    x = np.sinh(u)
    if dof >= _NORMAL_ABOVE:
        log_density = -0.5 * x**2
    else:
        log_density = -0.5 * (dof + 1.0) * np.log1p(x**2 / dof)
    mass = np.exp(log_density) * np.cosh(u)
    below = np.concatenate([[0.0], np.cumsum(0.5 * (mass[1:] + mass[:-1]))])
    return x, below / below[-1]


def probability_below(x: float | Array, dof: float) -> Array:
    """Return the probability that a standard t variable lies below x."""
    points, below = _grid(float(dof))
    return cast(Array, np.interp(x, points, below))


def quantile(probability: float, dof: float) -> float:
    """Return the x below which a standard t variable lies with this probability."""
    points, below = _grid(float(dof))
    return float(np.interp(probability, below, points))
