"""How good and how safe choosing is: every power limit in a range, answered on a table of measured modes.

The modes to profile first are chosen once per seed, from a random quarter of the table; each limit then starts again
from them; choices, confirmations and the true optimum range over the whole table. A limit below the least or above the
greatest power of the table is answered but not averaged. No answer to a feasible limit counts as a penalty of 100 %; an
exceeded limit counts as 0, never as a gain.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from edgetrain.errors import UsageError
from edgetrain.prediction import ModeTable, Prior, bare, choose_modes, fit, results
from edgetrain.recommendation.assessment import SELECTION_FACTOR, Candidates, assess
from edgetrain.recommendation.choice import best_row
from edgetrain.recommendation.confirmation import confirm as confirm_choice
from edgetrain.recommendation.goals import Goal, GoalLimits, Work
from edgetrain.schema import ModeMeasurement, Origin, PowerMode

STEP_W = 1.0
MAX_LIMITS = 10_000
NO_ANSWER_PCT = 100.0
CLEARLY_W = 1.0


@dataclass(frozen=True, slots=True)
class BudgetAnswer:
    """One limit answered: the chosen mode, what it truly costs, and what the best one would have cost."""

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


@dataclass(frozen=True, slots=True)
class Penalty:
    """How much slower than the true optimum, in %."""

    mean: float
    median: float


@dataclass(frozen=True, slots=True)
class BudgetEvaluation:
    """The answers to all limits; shares are of the limits that are averaged."""

    limits: int
    penalty_pct: Penalty
    broken: float  # share of limits exceeded
    broken_1w: float  # by more than 1 W
    broken_count: int
    over_w_max: float
    no_answer: float
    profiles_mean: float
    per_budget: tuple[BudgetAnswer, ...]
    confidence: float | None = None
    confirm: int | None = None
    profile: int | None = None


class TableMeasure:
    """A Measure that takes its values from a table, and counts its calls."""

    def __init__(self, table: ModeTable, origin: Origin = Origin.REPLAYED) -> None:
        results(table)
        self._table, self._origin = table, origin
        self._rows = {_key(table.mode(row)): row for row in range(len(table))}
        self.calls = 0

    def __call__(self, mode: PowerMode) -> ModeMeasurement:
        row = self._rows.get(_key(mode))
        if row is None:
            raise UsageError(f"the table has no mode {mode}; choose among the modes that it has")
        self.calls += 1
        return self._table.measurement(row, self._origin)


def _key(mode: PowerMode) -> tuple[int, int, int | None, int | None]:
    return mode.cores, mode.cpu_hz, mode.gpu_hz, mode.emc_hz


def evaluate_budgets(
    table: ModeTable,
    profile: int,
    seeds: int | Sequence[int],
    lo_w: float,
    hi_w: float,
    confirm: int = 0,
    confidence: float = 0.95,
    prior: Prior | None = None,
    factor: float = SELECTION_FACTOR,
) -> BudgetEvaluation:
    """Answer every limit from `lo_w` to `hi_w` in steps of 1 W; return penalties and the share of limits exceeded."""
    limits = _limits(lo_w, hi_w)
    if table.batch_size is not None and len(np.unique(table.batch_size)) > 1:
        raise UsageError("power limits are evaluated for one training: keep one batch_size in the table")
    if confirm < 0:
        raise UsageError(f"--confirm must be 0 or more, not {confirm}")
    if not 2 <= profile <= len(table):
        raise UsageError(f"--profile must be from 2 to the table's {len(table)} modes, not {profile}")
    listed = range(seeds) if isinstance(seeds, int) else seeds
    start = {int(seed): profiled_candidates(table, profile, int(seed), prior) for seed in listed}
    return answer_limits(table, start, limits, confirm, confidence, factor)


def answer_limits(
    table: ModeTable,
    start: Mapping[int, Candidates],
    limits: Sequence[float],
    confirm: int = 0,
    confidence: float = 0.95,
    factor: float = SELECTION_FACTOR,
) -> BudgetEvaluation:
    """Answer each limit from the candidates of each seed."""
    answers: list[BudgetAnswer] = []
    for seed, candidates in start.items():
        for limit in limits:
            goal = Goal("time", GoalLimits(max_power_w=float(limit)), confidence, Work(median=True))
            row, used = _choose(table, candidates, goal, confirm, factor)
            answers.append(judge_answer(table, seed, float(limit), row, len(candidates.seen) + used))
    profile = max(len(candidates.seen) for candidates in start.values())
    return summarize_answers(answers, confidence, confirm, profile)


def _limits(lo_w: float, hi_w: float) -> list[float]:
    if not (np.isfinite(lo_w) and np.isfinite(hi_w) and 0 < lo_w <= hi_w):
        raise UsageError(f"limits go from a lower to a higher number of watts, as in 10:50, not {lo_w:g}:{hi_w:g}")
    if (hi_w - lo_w) / STEP_W > MAX_LIMITS:
        raise UsageError(f"{lo_w:g}:{hi_w:g} holds more than {MAX_LIMITS} limits; narrow --budgets")
    return [float(limit) for limit in np.arange(lo_w, hi_w + STEP_W / 2, STEP_W)]


def _choose(
    table: ModeTable, candidates: Candidates, goal: Goal, confirm: int, factor: float
) -> tuple[int | None, int]:
    """Return the row chosen and how many confirmations it took."""
    if not confirm:
        return best_row(assess(candidates, goal, factor), goal), 0
    confirmed = confirm_choice(candidates, goal, TableMeasure(table), confirm, factor=factor)
    best = confirmed.choice.best
    return None if best is None else best.row, len(confirmed.trail)


def profiled_candidates(table: ModeTable, count: int, seed: int, prior: Prior | None) -> Candidates:
    """Return what is known after profiling the first modes: those measured, all others predicted."""
    rows = profiled_rows(table, count, seed, prior)
    modes = bare(table)
    seen = {row: table.measurement(row) for row in rows}
    predictions = fit(table.take(sorted(rows)), prior, seed, modes).predict(modes)
    return Candidates.of(modes, predictions, seen)


def profiled_rows(table: ModeTable, count: int, seed: int, prior: Prior | None) -> list[int]:
    """Return the modes profiled first: chosen by the tool within a random quarter of the table."""
    size = max(count, len(table) // 4)
    quarter = np.sort(np.random.default_rng(seed).permutation(len(table))[:size])
    modes = bare(table)
    chosen = choose_modes(modes.take(quarter), count, prior=prior, seed=seed, board=modes)
    return [int(quarter[row]) for row in chosen]


def judge_answer(table: ModeTable, seed: int, limit_w: float, row: int | None, profiles: int) -> BudgetAnswer:
    """Compare one answer with the truth."""
    times_s, powers_w = results(table)
    within = powers_w <= limit_w
    optimum = float(times_s[within].min()) if within.any() else None
    averaged = bool(powers_w.min() <= limit_w <= powers_w.max())
    if row is None:
        penalty = NO_ANSWER_PCT if optimum is not None else None
        return BudgetAnswer(seed, limit_w, None, None, None, optimum, penalty, False, 0.0, profiles, averaged)
    time_s, power_w = float(times_s[row]), float(powers_w[row])
    over = max(0.0, power_w - limit_w)
    penalty = 0.0 if over > 0 or optimum is None else 100.0 * (time_s / optimum - 1.0)
    return BudgetAnswer(seed, limit_w, row, time_s, power_w, optimum, penalty, over > 0, over, profiles, averaged)


def summarize_answers(
    answers: Sequence[BudgetAnswer],
    confidence: float | None = None,
    confirm: int | None = None,
    profile: int | None = None,
) -> BudgetEvaluation:
    """Return penalties, shares of exceeded limits and the answers."""
    counted = [answer for answer in answers if answer.averaged]
    if not counted:
        raise UsageError(
            "none of the limits lies between the least and the greatest power of the table; widen --budgets"
        )
    penalties = np.array([answer.penalty_pct for answer in counted], dtype=float)
    over = np.array([answer.over_w for answer in counted])
    return BudgetEvaluation(
        limits=len(counted),
        penalty_pct=Penalty(float(penalties.mean()), float(np.median(penalties))),
        broken=float((over > 0).mean()),
        broken_1w=float((over > CLEARLY_W).mean()),
        broken_count=int((over > 0).sum()),
        over_w_max=float(over.max()),
        no_answer=float(np.mean([answer.row is None for answer in counted])),
        profiles_mean=float(np.mean([answer.profiles for answer in counted])),
        per_budget=tuple(answers),
        confidence=confidence,
        confirm=confirm,
        profile=profile,
    )
