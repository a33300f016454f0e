"""Chooses the best mode within limits, with the probability of each limit, the runner-up, and the gain of relaxing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from edgetrain.prediction import estimate, student_quantile
from edgetrain.recommendation.assessment import SELECTION_FACTOR, Assessment, Candidates, assess
from edgetrain.recommendation.goals import Goal
from edgetrain.schema import Estimate, Origin, PowerMode

RELAXED_BY = 1.10  # factor on a limit in every answer about relaxing it
# Set together with SELECTION_FACTOR (docs/results/recommend.md): a fifth fewer limits are exceeded at the same penalty.
SAFETY_PRICE = 0.002
MAX_SAFETY_PRICE = 2.0
_SAME = 0.002  # a runner-up within this share of the choice in time and power is the same mode to a user


@dataclass(frozen=True, slots=True)
class Pick:
    """One mode with its costs for the work of the goal."""

    row: int  # of the modes to choose from
    mode: PowerMode
    time_s: Estimate
    power_w: Estimate
    energy_j: Estimate
    holds: Mapping[str, float]  # limit → probability that it holds
    stock_name: str | None = None
    extrapolated: bool = False

    def cost(self, axis: str) -> Estimate:
        """Return time, energy or power."""
        return {"time": self.time_s, "energy": self.energy_j, "power": self.power_w}[axis]


@dataclass(frozen=True, slots=True)
class Relaxed:
    """What relaxing one limit by 10 % would gain."""

    limit: str
    from_: float
    to: float
    gain_pct: float | None  # reduction of what is minimized; None: still no answer
    pick: Pick | None


@dataclass(frozen=True, slots=True)
class Nearest:
    """The mode that comes nearest to limits that no mode keeps, and the limits it would need."""

    pick: Pick
    needs: Mapping[str, float]  # limit → the value that this mode keeps with the requested confidence
    separately_possible: tuple[str, ...]  # limits that could be kept if they were the only one


@dataclass(frozen=True, slots=True)
class Choice:
    """The answer to a goal; where no mode keeps the limits, `best` is None and `nearest` is what comes closest."""

    goal: Goal
    best: Pick | None
    runner_up: Pick | None
    relaxed: tuple[Relaxed, ...]
    nearest: Nearest | None
    considered: int
    feasible: int
    notes: tuple[str, ...]


def choose(
    candidates: Candidates,
    goal: Goal,
    factor: float = SELECTION_FACTOR,
    level: float = 0.9,
    measured_only: bool = False,
) -> Choice:
    """Return the best mode within the limits, each of which holds with the goal's confidence.

    With `measured_only` the answer and the runner-up must have been measured; the effect of relaxing a limit may still
    be predicted.
    """
    assessment = assess(candidates, goal, factor)
    if measured_only:
        assessment = replace(assessment, feasible=assessment.feasible & assessment.measured)
    row = best_row(assessment, goal)
    considered, feasible = int(assessment.allowed.sum()), int(assessment.feasible.sum())
    if row is None:
        nearest = _nearest(candidates, goal, assessment, factor, level)
        return Choice(goal, None, None, (), nearest, considered, 0, assessment.notes)
    second = _runner_up(assessment, goal, row)
    return Choice(
        goal,
        pick(candidates, assessment, row, level),
        None if second is None else pick(candidates, assessment, second, level),
        tuple(_relax(candidates, goal, name, row, assessment, factor, level) for name in assessment.holds),
        None,
        considered,
        feasible,
        assessment.notes,
    )


def best_row(assessment: Assessment, goal: Goal) -> int | None:
    """Return the feasible row of least cost, or a safer one that costs almost the same; ties go to less power.

    Among modes that all keep the limits with the requested confidence, the last half percent of speed often uses up
    most of the margin. A point of probability is therefore worth `SAFETY_PRICE` / (1 − confidence)² percent of the
    cost: 0.8 % at 95 %.
    """
    rows = np.flatnonzero(assessment.feasible)
    if len(rows) == 0:
        return None
    price = min(SAFETY_PRICE / (1.0 - goal.confidence) ** 2, MAX_SAFETY_PRICE)
    cost = np.log(assessment.cost(goal.minimize)[rows]) + price * (1.0 - assessment.all_hold()[rows])
    order = np.lexsort((assessment.power_w[rows], cost))
    return int(rows[order[0]])


def pick(candidates: Candidates, assessment: Assessment, row: int, level: float = 0.9) -> Pick:
    """Return one row with its intervals."""
    a, seen = assessment, candidates.seen.get(row)
    origin = Origin.PREDICTED if seen is None else seen.origin
    names = [name for name, at in candidates.stock.items() if at == row]
    mode = candidates.modes.mode(row)
    return Pick(
        row,
        replace(mode, name=names[0]) if names else mode,
        estimate(float(a.time_s[row]), float(a.time_log_sd[row]), a.dof, "s", level, origin),
        estimate(float(a.power_w[row]), float(a.power_log_sd[row]), a.dof, "W", level, origin),
        estimate(float(a.energy_j[row]), float(a.energy_log_sd[row]), a.dof, "J", level, origin),
        {name: float(column[row]) for name, column in a.holds.items()},
        names[0] if names else None,
        bool(candidates.predictions.extrapolated[row]) and seen is None,
    )


def _runner_up(assessment: Assessment, goal: Goal, best: int) -> int | None:
    """Return the next best row that differs noticeably from the best."""
    rows = np.flatnonzero(assessment.feasible)
    differs = np.zeros(len(rows), dtype=bool)
    for column in (assessment.time_s, assessment.power_w):
        differs |= np.abs(column[rows] / column[best] - 1.0) > _SAME
    rows = rows[differs & (rows != best)]
    if len(rows) == 0:
        return None
    return int(rows[np.argmin(assessment.cost(goal.minimize)[rows])])


def _relax(
    candidates: Candidates, goal: Goal, name: str, row: int, assessment: Assessment, factor: float, level: float
) -> Relaxed:
    before = goal.limits.estimated()[name]
    after = before * RELAXED_BY
    wider = replace(goal, limits=goal.limits.with_limit(name, after))
    wider_assessment = assess(candidates, wider, factor)
    other = best_row(wider_assessment, wider)
    if other is None:
        return Relaxed(name, before, after, None, None)
    now, then = assessment.cost(goal.minimize)[row], wider_assessment.cost(goal.minimize)[other]
    if then > now:
        # With the wider limit a safer mode was worth its price; the mode chosen before is still allowed.
        other, then = row, now
    gain_pct = float(100.0 * (1.0 - then / now))
    return Relaxed(name, before, after, gain_pct, pick(candidates, wider_assessment, other, level))


def _nearest(candidates: Candidates, goal: Goal, assessment: Assessment, factor: float, level: float) -> Nearest | None:
    rows = np.flatnonzero(assessment.allowed)
    limits = goal.limits.estimated()
    if len(rows) == 0 or not limits:
        return None
    z = student_quantile(goal.confidence, assessment.dof)
    ratio = candidates.peak_ratio if goal.limits.peak and candidates.peak_ratio else 1.0
    upper = {
        "power": assessment.power_w * ratio * np.exp(z * factor * assessment.power_log_sd),
        "time": assessment.time_s * np.exp(z * factor * assessment.time_log_sd),
        "energy": assessment.energy_j * np.exp(z * factor * assessment.energy_log_sd),
    }
    worst = np.full(len(rows), -np.inf)
    for name, limit in limits.items():
        worst = np.maximum(worst, np.log(upper[name][rows] / limit))
    row = int(rows[np.argmin(worst)])
    needs = {name: float(upper[name][row]) for name, limit in limits.items() if upper[name][row] > limit}
    alone = tuple(name for name, column in assessment.holds.items() if bool((column[rows] >= goal.confidence).any()))
    return Nearest(pick(candidates, assessment, row, level), needs, alone)
