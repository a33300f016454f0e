"""Which modes to profile: greedily those that leave the least uncertainty over all the others.

The uncertainty is that of an ensemble: networks drawn from the prior, or members of the fit where modes are already profiled,
plus the residual process. One more mode lowers the summed variance over all modes (A-optimality) by an amount that is
known before it is measured, so the greedy choice needs no measurement. The top mode comes first.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from edgetrain.errors import UsageError
from edgetrain.predict.base import Array, ModeTable
from edgetrain.predict.modes.fit import TOP, fit_modes
from edgetrain.predict.modes.physics import Features, Reference, log_power, log_time
from edgetrain.predict.modes.prior import GENERIC, Prior
from edgetrain.predict.modes.residual import Kernel

_DRAWS = 200
_TARGETS = 400  # modes over which the variance is summed: a spread sample of the board's
_POOL = 1500  # candidates weighed at a time


@dataclass(frozen=True, slots=True)
class Plan:
    """Modes to profile, in order of use, and what is left open after each."""

    rows: list[int]
    time_sd: list[float]  # typical standard deviation of log time left after this mode
    power_sd: list[float]


def plan_modes(
    candidates: ModeTable,
    count: int,
    profiled: ModeTable | None = None,
    prior: Prior | None = None,
    seed: int = 0,
    board: ModeTable | None = None,
) -> Plan:
    """Choose `count` rows of `candidates`; `board` is what is to be predicted (default: the candidates)."""
    if count < 1 or count > len(candidates):
        raise UsageError(f"asked for {count} modes of {len(candidates)}; ask for 1 to {len(candidates)}")
    prior = GENERIC if prior is None else prior
    board = candidates if board is None else board
    tables = [candidates, board] + ([profiled] if profiled is not None else [])
    reference = Reference.of(*tables)
    rng = np.random.default_rng(seed)
    pool = np.arange(len(candidates))
    if len(pool) > _POOL:
        pool = np.sort(rng.choice(pool, _POOL, replace=False))
        pool = np.union1d(pool, [_top(candidates)])
    pick = rng.choice(len(board), min(_TARGETS, len(board)), replace=False)
    f_pool = Features.of(candidates.take(pool), reference)
    f_board = Features.of(board.take(pick), reference)
    scatter_t, scatter_p = prior.scatter()
    if profiled is not None and profiled.time_s is not None and len(profiled) >= 2:
        fitted = fit_modes(profiled, prior, seed, board=ModeTable(*_tops(reference)), members=80)
        draw = fitted.members
    else:
        draw = _draws(prior, rng)
    covariances = []
    for which, scatter in ((0, scatter_t), (1, scatter_p)):
        pooled, aimed = draw(f_pool)[which], draw(f_board)[which]
        covariances.append(_Uncertainty.of(pooled, aimed, f_pool.matrix(), f_board.matrix(), scatter))
        if profiled is not None and len(profiled):
            seen = Features.of(profiled, reference).matrix()
            covariances[-1].note_neighbours(seen, f_pool.matrix(), scatter)
    rows: list[int] = []
    sds: tuple[list[float], list[float]] = ([], [])
    for step in range(count):
        gain = sum(c.gain() / c.start for c in covariances)
        gain = np.asarray(gain)
        gain[[int(np.flatnonzero(pool == r)[0]) for r in rows]] = -1.0
        best = int(np.argmax(gain))
        if step == 0 and (profiled is None or not len(profiled)):
            best = int(np.flatnonzero(pool == _top(candidates))[0])
        rows.append(int(pool[best]))
        for c, sd in zip(covariances, sds, strict=True):
            c.see(best)
            sd.append(c.typical_sd())
    return Plan(rows, *sds)


def _tops(reference: Reference) -> tuple[Array, ...]:
    one = np.ones(1)
    return (one * reference.cores, one * reference.cpu_hz, one * reference.gpu_hz, one * reference.emc_hz,
            one * reference.batch_size)  # fmt: skip


def _top(table: ModeTable) -> int:
    """Return the row nearest to everything at its largest."""
    ratio = [np.log(c / c.max()) for c in (table.cores, table.cpu_hz, table.gpu_hz, table.emc_hz)]
    return int(np.argmax(np.sum(ratio, axis=0)))


def _draws(prior: Prior, rng: np.random.Generator):  # type: ignore[no-untyped-def]
    """Return a function giving log time and log power of networks drawn from the prior."""
    from edgetrain.predict.modes.fit import _without_scale
    from edgetrain.predict.modes.physics import POWER_TERMS, TIME_TERMS

    time, power = prior.time(), prior.power()
    theta = (
        time.mean
        + rng.standard_normal((_DRAWS, len(time.mean))) @ np.linalg.cholesky(_without_scale(time, TIME_TERMS)).T
    )
    phi = (
        power.mean
        + rng.standard_normal((_DRAWS, len(power.mean))) @ np.linalg.cholesky(_without_scale(power, POWER_TERMS)).T
    )

    def draw(f: Features) -> tuple[Array, Array]:
        value, _ = log_time(theta, f)
        tau = value - log_time(theta, TOP)[0]
        # Relative to the top mode: the scale is what the first profiled mode gives.
        return tau, log_power(phi, f, tau)[0] - log_power(phi, TOP, np.zeros((1, 1)))[0]

    return draw


class _Uncertainty:
    """Joint covariance of candidates and targets, updated mode by mode."""

    def __init__(self, pool: Array, cross: Array, variance: Array, noise: float) -> None:
        self.pool, self.cross, self.variance, self.noise = pool, cross, variance, noise
        self.start = float(variance.sum())

    @staticmethod
    def of(pooled: Array, aimed: Array, at_pool: Array, at_aimed: Array, scatter: float) -> _Uncertainty:
        kernel = Kernel(scatter)
        a = (pooled - pooled.mean(axis=0)) / np.sqrt(len(pooled) - 1)
        b = (aimed - aimed.mean(axis=0)) / np.sqrt(len(aimed) - 1)
        pool = a.T @ a + kernel(at_pool, at_pool)
        cross = b.T @ a + kernel(at_aimed, at_pool)
        return _Uncertainty(pool, cross, (b**2).sum(axis=0) + scatter**2, 1.5 * scatter)

    def gain(self) -> Array:
        """Return by how much each candidate would lower the summed variance."""
        out: Array = (self.cross**2).sum(axis=0) / (np.diag(self.pool) + self.noise**2)
        return out

    def see(self, row: int) -> None:
        column, reach = self.pool[:, row].copy(), self.cross[:, row].copy()
        denominator = column[row] + self.noise**2
        self.pool = self.pool - np.outer(column, column) / denominator
        self.cross = self.cross - np.outer(reach, column) / denominator
        self.variance = self.variance - reach**2 / denominator

    def note_neighbours(self, seen: Array, at_pool: Array, scatter: float) -> None:
        """Profiled modes are already in the ensemble; make candidates beside them as useless as they are."""
        near = Kernel(1.0)(at_pool, seen).max(axis=1)
        self.pool = self.pool + np.diag(near**8 * scatter**2)

    def typical_sd(self) -> float:
        return float(np.sqrt(np.median(np.maximum(self.variance, 0.0)) + self.noise**2 / 2.25))
