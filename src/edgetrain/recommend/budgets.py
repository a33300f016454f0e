"""How good and how safe choosing is: every power limit of a range answered on a table whose truth is known.

The rules are those of the checks: modes to profile first are chosen once per seed, from a random quarter of the
table; each limit then starts afresh from them; picks, confirmations and the true optimum range over the whole
table. A limit under the least or over the greatest power of the table is answered but not averaged. No answer
on a feasible limit counts as a penalty of 100 %; a broken limit counts as 0, never as a gain.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from edgetrain.errors import UsageError
from edgetrain.predict import Prior, choose_modes, fit, load_prior
from edgetrain.predict.base import ModeTable
from edgetrain.recommend.choose import best_row
from edgetrain.recommend.confirm import confirm as confirm_choice
from edgetrain.recommend.goals import Goal, Limits, Work
from edgetrain.recommend.outlook import SELECTION_FACTOR, Candidates, look
from edgetrain.schema import ModeMeasurement, Origin, PowerMode

STEP_W = 1.0
NO_ANSWER_PCT = 100.0
BROKEN_CLEARLY_W = 1.0


@dataclass(frozen=True, slots=True)
class Answer:
    """One limit answered: what was picked, what it truly costs, and what the best would have cost."""

    seed: int
    limit_w: float
    row: int | None
    time_s: float | None
    power_w: float | None
    optimum_time_s: float | None  # None: no mode keeps this limit
    penalty_pct: float | None
    broken: bool
    over_w: float
    profiles: int  # the shared ones and the confirmations
    averaged: bool


class TableMeasure:
    """A table standing in for a board: measuring a mode looks it up. Counts what it is asked."""

    def __init__(self, table: ModeTable, origin: Origin = Origin.REPLAYED) -> None:
        if table.time_s is None or table.power_w is None:
            raise UsageError("a table that stands in for a board needs the time and power of every mode")
        self._table, self._origin = table, origin
        self._rows = {_key(table.mode(row)): row for row in range(len(table))}
        self.asked = 0

    def __call__(self, mode: PowerMode) -> ModeMeasurement:
        row = self._rows.get(_key(mode))
        if row is None:
            raise UsageError(f"the table has no mode {mode}; choose among the modes it holds")
        self.asked += 1
        return measurement_of(self._table, row, self._origin)


def _key(mode: PowerMode) -> tuple[int, int, int | None, int | None]:
    return mode.cores, mode.cpu_hz, mode.gpu_hz, mode.emc_hz


def measurement_of(table: ModeTable, row: int, origin: Origin = Origin.REPLAYED) -> ModeMeasurement:
    """Return one row of a table as a measurement."""
    assert table.time_s is not None and table.power_w is not None
    mean = None if table.time_mean_s is None else float(table.time_mean_s[row])
    return ModeMeasurement(table.mode(row), float(table.time_s[row]), float(table.power_w[row]), origin, mean)


def evaluate_budgets(
    table: ModeTable,
    profile: int,
    seeds: int | Sequence[int],
    lo_w: float,
    hi_w: float,
    confirm: int = 0,
    confidence: float = 0.95,
    prior: Prior | str | None = "orin",
    without: Sequence[str] = (),
    factor: float = SELECTION_FACTOR,
) -> dict[str, Any]:
    """Answer every limit from `lo_w` to `hi_w` in steps of 1 W and sum up penalties and broken limits."""
    limits = _limits(lo_w, hi_w)
    if table.batch_size is not None and len(np.unique(table.batch_size)) > 1:
        raise UsageError("limits are about one training: keep one batch_size in the table, there are several")
    if confirm < 0:
        raise UsageError(f"--confirm must be 0 or more, not {confirm}")
    if not 2 <= profile <= len(table):
        raise UsageError(f"--profile must be from 2 to the table's {len(table)} modes, not {profile}")
    known = load_prior(prior, without=tuple(without)) if isinstance(prior, str) else prior
    wanted = range(seeds) if isinstance(seeds, int) else seeds
    start = {int(seed): profiled_candidates(table, profile, int(seed), known) for seed in wanted}
    return answer_limits(table, start, limits, confirm, confidence, factor)


def answer_limits(
    table: ModeTable,
    start: Mapping[int, Candidates],
    limits: Sequence[float],
    confirm: int = 0,
    confidence: float = 0.95,
    factor: float = SELECTION_FACTOR,
) -> dict[str, Any]:
    """Answer each limit afresh from the candidates of each seed, and sum up."""
    answers: list[Answer] = []
    for seed, candidates in start.items():
        for limit in limits:
            goal = Goal("time", Limits(max_power_w=float(limit)), confidence, Work(median=True))
            row, used = _pick(table, candidates, goal, confirm, factor)
            answers.append(judge(table, seed, float(limit), row, len(candidates.seen) + used))
    profile = max(len(candidates.seen) for candidates in start.values())
    return {"confidence": confidence, "confirm": confirm, "profile": profile, **sum_up(answers)}


def _limits(lo_w: float, hi_w: float) -> list[float]:
    if not (np.isfinite(lo_w) and np.isfinite(hi_w) and 0 < lo_w <= hi_w):
        raise UsageError(f"limits run from a lower to a higher number of watts, as in 10:50, not {lo_w:g}:{hi_w:g}")
    return [float(limit) for limit in np.arange(lo_w, hi_w + STEP_W / 2, STEP_W)]


def _pick(table: ModeTable, candidates: Candidates, goal: Goal, confirm: int, factor: float) -> tuple[int | None, int]:
    """Return the row chosen and how many confirmations it took."""
    if not confirm:
        return best_row(look(candidates, goal, factor), goal), 0
    confirmed = confirm_choice(candidates, goal, TableMeasure(table), confirm, factor=factor)
    best = confirmed.choice.best
    return None if best is None else best.row, len(confirmed.trail)


def profiled_candidates(table: ModeTable, count: int, seed: int, prior: Prior | None) -> Candidates:
    """Return what is known after profiling the first modes: those measured, all others predicted."""
    rows = profiled_rows(table, count, seed, prior)
    modes = replace(table, time_s=None, time_mean_s=None, power_w=None)
    seen = {row: measurement_of(table, row) for row in rows}
    predictions = fit(table.take(np.array(sorted(rows))), prior, seed, modes).predict(modes)
    return Candidates.of(modes, predictions, seen)


def profiled_rows(table: ModeTable, count: int, seed: int, prior: Prior | None) -> list[int]:
    """Return the modes profiled first: chosen by the tool within a random quarter of the table."""
    size = max(count, len(table) // 4)
    quarter = np.sort(np.random.default_rng(seed).permutation(len(table))[:size])
    modes = replace(table, time_s=None, time_mean_s=None, power_w=None)
    chosen = choose_modes(modes.take(quarter), count, prior=prior, seed=seed, board=modes)
    return [int(quarter[row]) for row in chosen]


def judge(table: ModeTable, seed: int, limit_w: float, row: int | None, profiles: int) -> Answer:
    """Hold one answer against the truth."""
    assert table.time_s is not None and table.power_w is not None
    within = table.power_w <= limit_w
    optimum = float(table.time_s[within].min()) if within.any() else None
    averaged = bool(table.power_w.min() <= limit_w <= table.power_w.max())
    if row is None:
        penalty = NO_ANSWER_PCT if optimum is not None else None
        return Answer(seed, limit_w, None, None, None, optimum, penalty, False, 0.0, profiles, averaged)
    time_s, power_w = float(table.time_s[row]), float(table.power_w[row])
    over = max(0.0, power_w - limit_w)
    penalty = 0.0 if over > 0 or optimum is None else 100.0 * (time_s / optimum - 1.0)
    return Answer(seed, limit_w, row, time_s, power_w, optimum, penalty, over > 0, over, profiles, averaged)


def sum_up(answers: Sequence[Answer]) -> dict[str, Any]:
    """Return penalties, shares of broken limits and the answers; shares are of the limits averaged."""
    counted = [answer for answer in answers if answer.averaged]
    if not counted:
        raise UsageError(
            "none of the limits lies between the least and the greatest power of the table; widen --budgets"
        )
    penalties = np.array([answer.penalty_pct for answer in counted], dtype=float)
    over = np.array([answer.over_w for answer in counted])
    return {
        "limits": len(counted),
        "penalty_pct": {"mean": float(penalties.mean()), "median": float(np.median(penalties))},
        "broken": float((over > 0).mean()),
        "broken_1w": float((over > BROKEN_CLEARLY_W).mean()),
        "broken_count": int((over > 0).sum()),
        "over_w_max": float(over.max()),
        "no_answer": float(np.mean([answer.row is None for answer in counted])),
        "profiles_mean": float(np.mean([answer.profiles for answer in counted])),
        "per_budget": [asdict(answer) for answer in answers],
    }
