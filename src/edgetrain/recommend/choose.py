"""The choice: the best setting within limits, how sure each limit is, the runner-up, what relaxing a limit buys."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from edgetrain.predict import student
from edgetrain.predict.base import Estimate
from edgetrain.recommend.goals import Goal, Limits
from edgetrain.recommend.outlook import SELECTION_FACTOR, Candidates, Outlook, look
from edgetrain.schema import Origin, PowerMode

RELAXED_BY = 1.10  # what "relaxing a limit" means in every answer
# Set together with SELECTION_FACTOR (docs/results/recommend.md): it breaks a fifth fewer limits at the same penalty.
SAFETY_PRICE = 0.002
MOST_SAFETY_PRICE = 2.0
_SAME = 0.002  # a runner-up within this share of the choice on every axis is the same setting for a user


@dataclass(frozen=True, slots=True)
class Pick:
    """One setting with what it costs; intervals at the level of the estimates."""

    row: int
    mode: PowerMode
    time_s: Estimate
    power_w: Estimate
    energy_j: Estimate
    holds: Mapping[str, float]  # limit → probability that it holds
    stock_name: str | None = None
    extrapolated: bool = False


@dataclass(frozen=True, slots=True)
class Relaxed:
    """What one limit relaxed by 10 % would bring."""

    limit: str
    from_value: float
    to_value: float
    gain_pct: float | None  # less of what is minimised; None: still no answer
    pick: Pick | None


@dataclass(frozen=True, slots=True)
class Nearest:
    """The setting that comes nearest to limits nothing can keep, and what it would need."""

    pick: Pick
    needs: Mapping[str, float]  # limit → the value that this setting keeps at the confidence asked
    separately: tuple[str, ...]  # limits that could be kept if they were alone


@dataclass(frozen=True, slots=True)
class Choice:
    """The answer to a goal; where no setting keeps the limits `best` is None and `nearest` says what comes closest."""

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
    """Return the best setting within the limits, every limit held at the goal's confidence.

    With `measured_only` the answer and the runner-up must have been measured; what relaxing a limit would buy may
    still be predicted.
    """
    outlook = look(candidates, goal, factor)
    if measured_only:
        outlook = replace(outlook, feasible=outlook.feasible & outlook.measured)
    row = best_row(outlook, goal)
    considered, feasible = int(outlook.allowed.sum()), int(outlook.feasible.sum())
    if row is None:
        nearest = _nearest(candidates, goal, outlook, factor, level)
        return Choice(goal, None, None, (), nearest, considered, 0, outlook.notes)
    second = _runner_up(outlook, goal, row)
    return Choice(
        goal,
        pick(candidates, outlook, row, level),
        None if second is None else pick(candidates, outlook, second, level),
        tuple(_relax(candidates, goal, name, row, outlook, factor, level) for name in outlook.holds),
        None,
        considered,
        feasible,
        outlook.notes,
    )


def best_row(outlook: Outlook, goal: Goal) -> int | None:
    """Return the feasible row of least cost, a safer one where it costs next to nothing; ties go to less power.

    Among modes that all keep the limits at the confidence asked, the last half percent of speed is often bought with
    most of the room. A point of probability is therefore worth `SAFETY_PRICE` / (1 − confidence)² percent of the
    cost: 0.8 % at 95 %.
    """
    rows = np.flatnonzero(outlook.feasible)
    if len(rows) == 0:
        return None
    price = min(SAFETY_PRICE / (1.0 - goal.confidence) ** 2, MOST_SAFETY_PRICE)
    cost = np.log(outlook.cost(goal.minimise)[rows]) + price * (1.0 - outlook.all_hold()[rows])
    order = np.lexsort((outlook.power_w[rows], cost))
    return int(rows[order[0]])


def pick(candidates: Candidates, outlook: Outlook, row: int, level: float = 0.9) -> Pick:
    """Spell one row out, with its intervals."""
    z = student.quantile(0.5 + level / 2, outlook.dof)
    seen = candidates.seen.get(row)
    origin = Origin.PREDICTED if seen is None else seen.origin

    def estimate(value: float, log_sd: float) -> Estimate:
        return Estimate(
            float(value), float(value * np.exp(-z * log_sd)), float(value * np.exp(z * log_sd)), level, origin
        )

    names = [name for name, at in candidates.stock.items() if at == row]
    mode = candidates.modes.mode(row)
    return Pick(
        row,
        replace(mode, name=names[0]) if names else mode,
        estimate(outlook.time_s[row], outlook.time_log_sd[row]),
        estimate(outlook.power_w[row], outlook.power_log_sd[row]),
        estimate(outlook.energy_j[row], outlook.energy_log_sd[row]),
        {name: float(column[row]) for name, column in outlook.holds.items()},
        names[0] if names else None,
        bool(candidates.predictions.extrapolated[row]) and seen is None,
    )


def _runner_up(outlook: Outlook, goal: Goal, best: int) -> int | None:
    """Return the next best row that a user could tell from the best."""
    rows = np.flatnonzero(outlook.feasible)
    differs = np.zeros(len(rows), dtype=bool)
    for column in (outlook.time_s, outlook.power_w):
        differs |= np.abs(column[rows] / column[best] - 1.0) > _SAME
    rows = rows[differs & (rows != best)]
    if len(rows) == 0:
        return None
    return int(rows[np.argmin(outlook.cost(goal.minimise)[rows])])


def _relax(
    candidates: Candidates, goal: Goal, name: str, row: int, outlook: Outlook, factor: float, level: float
) -> Relaxed:
    before = getattr(goal.limits, _FIELD[name])
    wider = with_limits(goal, **{_FIELD[name]: before * RELAXED_BY})
    view = look(candidates, wider, factor)
    other = best_row(view, wider)
    if other is None:
        return Relaxed(name, before, before * RELAXED_BY, None, None)
    now, then = outlook.cost(goal.minimise)[row], view.cost(goal.minimise)[other]
    if then > now:
        # The wider limit made a safer mode worth its price; the mode chosen before is still allowed.
        other, then = row, now
    return Relaxed(
        name, before, before * RELAXED_BY, float(100.0 * (1.0 - then / now)), pick(candidates, view, other, level)
    )


_FIELD = {"power": "max_power_w", "time": "max_time_s", "energy": "max_energy_j"}


def with_limits(goal: Goal, **changes: float | None) -> Goal:
    """Return the goal with some limits changed; the axes it minimises stay."""
    limits: Limits = replace(goal.limits, **changes)  # type: ignore[arg-type]
    return replace(goal, limits=limits)


def _nearest(candidates: Candidates, goal: Goal, outlook: Outlook, factor: float, level: float) -> Nearest | None:
    rows = np.flatnonzero(outlook.allowed)
    if len(rows) == 0:
        return None
    z = student.quantile(goal.confidence, outlook.dof)
    ratio = candidates.peak_ratio if goal.limits.peak and candidates.peak_ratio else 1.0
    upper = {
        "power": outlook.power_w * ratio * np.exp(z * factor * outlook.power_log_sd),
        "time": outlook.time_s * np.exp(z * factor * outlook.time_log_sd),
        "energy": outlook.energy_j * np.exp(z * factor * outlook.energy_log_sd),
    }
    worst = np.full(len(rows), -np.inf)
    for name in outlook.holds:
        limit = getattr(goal.limits, _FIELD[name])
        worst = np.maximum(worst, np.log(upper[name][rows] / limit))
    if not outlook.holds:
        return None
    row = int(rows[np.argmin(worst)])
    needs = {
        name: float(upper[name][row]) for name in outlook.holds if upper[name][row] > getattr(goal.limits, _FIELD[name])
    }
    alone = tuple(name for name, column in outlook.holds.items() if bool((column[rows] >= goal.confidence).any()))
    return Nearest(pick(candidates, outlook, row, level), needs, alone)
