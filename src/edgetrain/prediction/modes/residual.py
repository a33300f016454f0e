"""A small Gaussian process on the residuals of the physical model, in the logarithms of clocks and cores."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from edgetrain.prediction.base import Array


@dataclass(frozen=True, slots=True)
class MaternKernel:
    """Matérn 3/2 over the logs of cores, CPU, GPU, memory clock and batch size."""

    amplitude: float  # standard deviation of the residual
    lengths: tuple[float, ...] = (0.7, 0.9, 0.9, 0.9, 1.5)

    def __call__(self, one: Array, other: Array) -> Array:
        scaled = (one[:, None, :] - other[None, :, :]) / np.asarray(self.lengths)
        distance = np.sqrt(3.0 * np.einsum("ijk,ijk->ij", scaled, scaled))
        out: Array = self.amplitude**2 * (1.0 + distance) * np.exp(-distance)
        return out


@dataclass(frozen=True, slots=True)
class Residual:
    """The process conditioned on the profiled modes."""

    kernel: MaternKernel
    at: Array  # modes x features
    factor: Array  # Cholesky factor of kernel + noise
    weights: Array  # (kernel + noise)^-1 residual

    @staticmethod
    def fit(kernel: MaternKernel, at: Array, residual: Array, noise: Array) -> Residual:
        factor = np.linalg.cholesky(kernel(at, at) + np.diag(noise**2))
        weights = np.linalg.solve(factor.T, np.linalg.solve(factor, residual))
        return Residual(kernel, at, np.asarray(factor, dtype=np.float64), np.asarray(weights, dtype=np.float64))

    def __call__(self, at: Array) -> tuple[Array, Array]:
        """Return mean and standard deviation of the residual at other modes."""
        cross = self.kernel(at, self.at)
        explained = np.linalg.solve(self.factor, cross.T)
        variance = self.kernel.amplitude**2 - (explained**2).sum(axis=0)
        return cross @ self.weights, np.sqrt(np.maximum(variance, 1e-12))
