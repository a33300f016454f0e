"""Which modes to profile: greedily those that leave the least uncertainty over all the others.

The uncertainty is that of an ensemble: networks drawn from the prior, or members of the fit where modes are already
profiled, plus the residual process. By how much one more mode would lower the error to expect of log time and log
power, summed over all modes, is known before it is measured, so the greedy choice needs no measurement. The top mode
comes first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from edgetrain.errors import UsageError
from edgetrain.predict.base import Array, ModeTable, bare, join
from edgetrain.predict.modes import noise as scatter
from edgetrain.predict.modes.ensemble import draw
from edgetrain.predict.modes.fit import fit_modes
from edgetrain.predict.modes.physics import (
    POWER_TERMS,
    TIME_TERMS,
    TOP,
    Features,
    Reference,
    log_accelerator,
    log_power,
    log_time,
)
from edgetrain.predict.modes.prior import GENERIC, Prior
from edgetrain.predict.modes.residual import Kernel

_DRAWS = 150
_TARGETS = 300  # modes over which the variance is summed: a spread sample of the board's
_POOL = 800  # candidates weighed at a time


@dataclass(frozen=True, slots=True)
class Plan:
    """Modes to profile, most telling first, and what is left open after each."""

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
    reference = Reference.of(candidates, board, *([profiled] if profiled is not None else []))
    rng = np.random.default_rng(seed)
    pool = np.arange(len(candidates))
    if len(pool) > _POOL:
        pool = np.union1d(rng.choice(pool, _POOL, replace=False), [_top(candidates)])
    pick = rng.choice(len(board), min(_TARGETS, len(board)), replace=False)
    fresh = profiled is None or profiled.time_s is None or len(profiled) < 2
    weighed = bare(candidates.take(pool))
    if fresh and profiled is not None and len(profiled):
        weighed = join([weighed, bare(profiled)])  # too few to fit: at least they need not be asked again
    f_pool = Features.of(weighed, reference)
    f_board = Features.of(board.take(pick), reference)
    if fresh:
        members, theta = _networks(prior, rng)
    else:
        assert profiled is not None
        fitted = fit_modes(profiled, prior, seed, board=ModeTable(*_tops(reference)), members=80)
        members, theta = fitted.members, fitted.time
    share = scatter.shares(theta, f_pool)
    risk = (scatter.risk_factor(share, f_pool), np.ones(len(f_pool)))  # it is the times that are wrong there
    pooled, aimed = members(f_pool), members(f_board)
    left = []
    for i, (base, factor) in enumerate(zip(prior.scatter(), (scatter.time_factor, scatter.power_factor), strict=True)):
        at_pool, at_board = f_pool.matrix(), f_board.matrix()
        left.append(_Uncertainty.of(pooled[i], aimed[i], at_pool, at_board, base, base * factor(share) * risk[i]))
        if not fresh:
            assert profiled is not None
            left[-1].note_neighbours(Features.of(profiled, reference).matrix(), at_pool)
    known = list(range(len(pool), len(f_pool)))
    for row in known:
        for u in left:
            u.see(row)
    taken: list[int] = []
    sds: tuple[list[float], list[float]] = ([], [])
    for step in range(count):
        gain = np.asarray(sum(u.gain() for u in left))
        gain[known + taken] = -1.0
        best = int(np.argmax(gain))
        if step == 0 and fresh and not known:
            best = int(np.flatnonzero(pool == _top(candidates))[0])
        taken.append(best)
        for u, sd in zip(left, sds, strict=True):
            u.see(best)
            sd.append(u.typical_sd())
    return Plan([int(pool[i]) for i in taken], *sds)


def _tops(reference: Reference) -> tuple[Array, ...]:
    one = np.ones(1)
    return (one * reference.cores, one * reference.cpu_hz, one * reference.gpu_hz, one * reference.emc_hz,
            one * reference.batch_size)  # fmt: skip


def _top(table: ModeTable) -> int:
    """Return the row nearest to everything at its largest."""
    ratio = [np.log(c / c.max()) for c in (table.cores, table.cpu_hz, table.gpu_hz, table.emc_hz)]
    return int(np.argmax(np.sum(ratio, axis=0)))


def _networks(prior: Prior, rng: np.random.Generator) -> tuple[Callable[[Features], tuple[Array, Array]], Array]:
    """Return a function giving log time and log power of networks drawn from the prior, and their coefficients."""
    theta = prior.time().mean + draw(prior.time(), TIME_TERMS, rng, _DRAWS)
    phi = prior.power().mean + draw(prior.power(), POWER_TERMS, rng, _DRAWS)

    def members(f: Features) -> tuple[Array, Array]:
        time, _ = log_time(theta, f)
        # Relative to the top mode: the scale is what the first profiled mode gives.
        tau = time - log_time(theta, TOP)[0]
        busy = np.minimum(log_accelerator(theta, f) - time, 0.0)
        top_busy = np.minimum(log_accelerator(theta, TOP) - log_time(theta, TOP)[0], 0.0)
        top = log_power(phi, TOP, np.zeros((1, 1)), top_busy)[0]
        return tau, log_power(phi, f, tau, busy)[0] - top

    return members, theta


class _Uncertainty:
    """Joint covariance of candidates and targets, updated mode by mode."""

    def __init__(self, pool: Array, cross: Array, variance: Array, noise: Array) -> None:
        self.pool, self.cross, self.variance, self.noise = pool, cross, variance, noise

    @staticmethod
    def of(pooled: Array, aimed: Array, at_pool: Array, at_aimed: Array, base: float, noise: Array) -> _Uncertainty:
        kernel = Kernel(base)
        a = (pooled - pooled.mean(axis=0)) / np.sqrt(len(pooled) - 1)
        b = (aimed - aimed.mean(axis=0)) / np.sqrt(len(aimed) - 1)
        pool = a.T @ a + kernel(at_pool, at_pool)
        cross = b.T @ a + kernel(at_aimed, at_pool)
        return _Uncertainty(pool, cross, (b**2).sum(axis=0) + base**2, noise)

    def gain(self) -> Array:
        """Return by how much each candidate would lower the summed standard deviation, which is the error to expect."""
        after = self.variance[:, None] - self.cross**2 / (np.diag(self.pool) + self.noise**2)
        now = np.sqrt(np.maximum(self.variance, 0.0)).sum()
        return np.asarray(now - np.sqrt(np.maximum(after, 0.0)).sum(axis=0))

    def see(self, row: int) -> None:
        """Take a candidate as measured."""
        column, reach = self.pool[:, row].copy(), self.cross[:, row].copy()
        denominator = column[row] + self.noise[row] ** 2
        self.pool -= np.outer(column, column) / denominator
        self.cross -= np.outer(reach, column) / denominator
        self.variance = self.variance - reach**2 / denominator

    def note_neighbours(self, seen: Array, at_pool: Array) -> None:
        """Profiled modes are already in the ensemble; a candidate beside one would mostly repeat it."""
        near = Kernel(1.0)(at_pool, seen).max(axis=1)
        self.noise = self.noise * (1.0 + near**8)

    def typical_sd(self) -> float:
        """Return what is left open at a mode, on average, with the scatter of one measurement."""
        return float(np.mean(np.sqrt(np.maximum(self.variance, 0.0) + np.median(self.noise) ** 2)))
