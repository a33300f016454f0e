"""Which modes to profile: greedily those that leave the least uncertainty over all the others.

The uncertainty is that of an ensemble: networks drawn from the prior, or members of the fit where modes are already
profiled, plus the residual process. How much one more mode would lower the expected error of log time and log power,
summed over all modes, is known before it is measured, so the greedy choice needs no measurement. The top mode comes
first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgetrain.errors import UsageError
from edgetrain.prediction.base import Array, ModeTable, bare, check_clocks, join
from edgetrain.prediction.modes import noise as scatter
from edgetrain.prediction.modes.ensemble import draw
from edgetrain.prediction.modes.fit import fit_modes
from edgetrain.prediction.modes.physics import (
    POWER_TERMS,
    TIME_TERMS,
    TOP,
    Features,
    ReferenceMode,
    log_accelerator,
    log_power,
    log_time,
)
from edgetrain.prediction.modes.prior import GENERIC, Prior
from edgetrain.prediction.modes.residual import MaternKernel

_DRAWS = 150
_TARGETS = 300  # modes over which the uncertainty is summed: a random sample of the board's
_POOL = 800  # candidates compared at a time

_Members = Callable[[Features], tuple[Array, Array]]


@dataclass(frozen=True, slots=True)
class ModeDesign:
    """Modes to profile, the most informative first, and the uncertainty left after each."""

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
) -> ModeDesign:
    """Choose `count` rows of `candidates`; `board` are the modes to be predicted (default: the candidates)."""
    if count < 1 or count > len(candidates):
        raise UsageError(f"cannot choose {count} of {len(candidates)} modes; ask for 1 to {len(candidates)}")
    prior = GENERIC if prior is None else prior
    board = candidates if board is None else board
    tables = [candidates, board, *([profiled] if profiled is not None else [])]
    check_clocks(*tables)
    reference = ReferenceMode.of(*tables)
    rng = np.random.default_rng(seed)
    pool = np.arange(len(candidates))
    if len(pool) > _POOL:
        pool = np.union1d(rng.choice(pool, _POOL, replace=False), [_top(candidates)])
    targets = board.take(rng.choice(len(board), min(_TARGETS, len(board)), replace=False))
    fresh = profiled is None or profiled.time_s is None or len(profiled) < 2
    compared = bare(candidates.take(pool))
    if fresh and profiled is not None and len(profiled):
        compared = join([compared, bare(profiled)])  # too few to fit, but they need not be chosen again
    f_pool, f_board = Features.of(compared, reference), Features.of(targets, reference)
    if fresh:
        members, theta = _networks(prior, rng)
        left = _uncertainties(prior, members, theta, f_pool, f_board)
    else:
        assert profiled is not None
        fitted = fit_modes(profiled, prior, seed, board=reference.table(), members=80)
        left = _uncertainties(prior, fitted.members, fitted.time, f_pool, f_board)
        for uncertainty in left:
            uncertainty.discount_neighbours(Features.of(profiled, reference).matrix(), f_pool.matrix())
    known = list(range(len(pool), len(f_pool)))
    first = int(np.flatnonzero(pool == _top(candidates))[0]) if fresh and not known else None
    return _choose(left, pool, count, known, first)


def _uncertainties(
    prior: Prior, members: _Members, theta: Array, f_pool: Features, f_board: Features
) -> list[_Uncertainty]:
    """Return the uncertainty of log time and of log power."""
    share = scatter.shares(theta, f_pool)
    risk = (scatter.risk_factor(share, f_pool), np.ones(len(f_pool)))  # only times are unreliable there
    factors = (scatter.time_factor(share), scatter.power_factor(share))
    at_pool, at_board = f_pool.matrix(), f_board.matrix()
    pooled, aimed = members(f_pool), members(f_board)
    return [
        _Uncertainty.of(pooled[i], aimed[i], at_pool, at_board, base, base * factors[i] * risk[i])
        for i, base in enumerate(prior.scatter())
    ]


def _choose(
    left: list[_Uncertainty], pool: NDArray[np.intp], count: int, known: list[int], first: int | None
) -> ModeDesign:
    """Choose candidates one by one; `known` ones are measured already, `first` is chosen before any other."""
    for row in known:
        for uncertainty in left:
            uncertainty.see(row)
    taken: list[int] = []
    sds: tuple[list[float], list[float]] = ([], [])
    for step in range(count):
        gain = np.asarray(sum(uncertainty.gain() for uncertainty in left))
        gain[known + taken] = -1.0
        best = first if step == 0 and first is not None else int(np.argmax(gain))
        taken.append(best)
        for uncertainty, sd in zip(left, sds, strict=True):
            uncertainty.see(best)
            sd.append(uncertainty.typical_sd())
    return ModeDesign([int(pool[i]) for i in taken], *sds)


def _top(table: ModeTable) -> int:
    """Return the row nearest to all clocks and cores at their largest."""
    f = Features.of(table, ReferenceMode.of(table))
    return int(np.argmax(np.sum([f.cores, f.cpu, f.gpu, f.emc], axis=0)))


def _networks(prior: Prior, rng: np.random.Generator) -> tuple[_Members, Array]:
    """Return a function giving log time and log power of networks drawn from the prior, and their coefficients."""
    theta = prior.time().mean + draw(prior.time(), TIME_TERMS, rng, _DRAWS)
    phi = prior.power().mean + draw(prior.power(), POWER_TERMS, rng, _DRAWS)

    def members(f: Features) -> tuple[Array, Array]:
        time, _ = log_time(theta, f)
        # Relative to the top mode: the first profiled mode determines the scale.
        tau = time - log_time(theta, TOP)[0]
        busy = np.minimum(log_accelerator(theta, f) - time, 0.0)
        top_busy = np.minimum(log_accelerator(theta, TOP) - log_time(theta, TOP)[0], 0.0)
        top = log_power(phi, TOP, np.zeros((1, 1)), top_busy)[0]
        return tau, log_power(phi, f, tau, busy)[0] - top

    return members, theta


class _Uncertainty:
    """Joint covariance of candidates and targets, updated for each mode chosen."""

    def __init__(self, pool: Array, cross: Array, variance: Array, noise: Array) -> None:
        self.pool, self.cross, self.variance, self.noise = pool, cross, variance, noise

    @staticmethod
    def of(pooled: Array, aimed: Array, at_pool: Array, at_aimed: Array, base: float, noise: Array) -> _Uncertainty:
        kernel = MaternKernel(base)
        a = (pooled - pooled.mean(axis=0)) / np.sqrt(len(pooled) - 1)
        b = (aimed - aimed.mean(axis=0)) / np.sqrt(len(aimed) - 1)
        pool = a.T @ a + kernel(at_pool, at_pool)
        cross = b.T @ a + kernel(at_aimed, at_pool)
        return _Uncertainty(pool, cross, (b**2).sum(axis=0) + base**2, noise)

    def gain(self) -> Array:
        """Return by how much each candidate would lower the summed standard deviation, the error to expect."""
        after = self.variance[:, None] - self.cross**2 / (np.diag(self.pool) + self.noise**2)
        now = np.sqrt(np.maximum(self.variance, 0.0)).sum()
        return np.asarray(now - np.sqrt(np.maximum(after, 0.0)).sum(axis=0))

    def see(self, row: int) -> None:
        """Condition on a candidate as if it were measured."""
        column, reach = self.pool[:, row].copy(), self.cross[:, row].copy()
        denominator = column[row] + self.noise[row] ** 2
        self.pool -= np.outer(column, column) / denominator
        self.cross -= np.outer(reach, column) / denominator
        self.variance = self.variance - reach**2 / denominator

    def discount_neighbours(self, seen: Array, at_pool: Array) -> None:
        """Lower the value of candidates next to a profiled mode: they would mostly repeat it."""
        near = MaternKernel(1.0)(at_pool, seen).max(axis=1)
        self.noise = self.noise * (1.0 + near**8)

    def typical_sd(self) -> float:
        """Return the average standard deviation left per mode, the scatter of one measurement included."""
        return float(np.mean(np.sqrt(np.maximum(self.variance, 0.0) + np.median(self.noise) ** 2)))
