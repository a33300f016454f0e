"""Confirming a choice: measure the chosen mode, learn from the miss, pick again, at most K times.

What is returned was seen within the limits, or is so far within them that it needs no confirmation. A mode seen
over a limit is never returned. Confirmations left over after a success go to modes that promise to be better.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from edgetrain.errors import DeviceError
from edgetrain.predict import student
from edgetrain.predict.base import Array, Predictions
from edgetrain.recommend.choose import Choice, Pick, choose
from edgetrain.recommend.goals import Goal
from edgetrain.recommend.learn import learn
from edgetrain.recommend.outlook import SELECTION_FACTOR, Candidates, Outlook, look, peak_ratio
from edgetrain.schema import Measure, ModeMeasurement

UNCONFIRMED_CONFIDENCE = 0.995  # what an answer that could not be confirmed must reach
MUCH_BETTER = 0.8  # of the cost of the best mode seen: only then an unseen one is preferred to it
WORTH_PCT = 0.1  # an expected gain below this share of the cost is not worth a confirmation
NO_ANSWER_COST = 2.0  # having no answer counts as twice the cost of the best: a penalty of 100 %

Relearn = Callable[[Mapping[int, ModeMeasurement]], Predictions]
"""Predictions anew from everything measured (row → measurement). None: `learn`, forty times quicker and no worse."""


@dataclass(frozen=True, slots=True)
class Confirmation:
    """One mode tried, and what came of it."""

    row: int
    expected_time_s: float
    expected_power_w: float
    measurement: ModeMeasurement | None  # None: the board refused the mode
    within: bool
    reason: str


@dataclass(frozen=True, slots=True)
class Confirmed:
    """The choice after its confirmations, and the trail to it."""

    choice: Choice
    confirmed: bool  # the returned mode was itself measured within the limits
    trail: tuple[Confirmation, ...]
    candidates: Candidates


def confirm(
    candidates: Candidates,
    goal: Goal,
    measure: Measure,
    count: int,
    relearn: Relearn | None = None,
    factor: float = SELECTION_FACTOR,
) -> Confirmed:
    """Choose, measuring up to `count` modes on the way."""
    first = candidates.predictions
    already = set(candidates.seen)
    trail: list[Confirmation] = []
    for turn in range(count):
        row = next_to_confirm(candidates, goal, factor, last=turn == count - 1)
        if row is None:
            break
        outlook = look(candidates, goal, factor)
        expected = float(outlook.time_s[row] / goal.work.minibatches), float(outlook.power_w[row])
        try:
            measurement = measure(candidates.modes.mode(row))
        except DeviceError as refusal:
            trail.append(Confirmation(row, *expected, None, False, str(refusal)))
            candidates = replace(candidates, unusable=candidates.unusable | {row})
            continue
        seen = {**candidates.seen, row: measurement}
        fresh = {at: m for at, m in seen.items() if at not in already}
        predictions = learn(first, candidates.modes, fresh) if relearn is None else relearn(seen)
        candidates = replace(candidates, seen=seen, predictions=predictions, peak_ratio=peak_ratio(seen.values()))
        after = look(candidates, goal, factor)
        within = bool(after.feasible[row])
        trail.append(
            Confirmation(row, *expected, measurement, within, "within the limits" if within else "over a limit")
        )
    return Confirmed(*_settle(candidates, goal, factor), tuple(trail), candidates)


def _settle(candidates: Candidates, goal: Goal, factor: float) -> tuple[Choice, bool]:
    """Return the best mode seen within the limits, or a safe unseen one that is much better, or no answer."""
    seen = choose(candidates, goal, factor, measured_only=True)
    strict = replace(goal, confidence=max(goal.confidence, UNCONFIRMED_CONFIDENCE))
    # Without the factor's discount: this is the one answer nobody has looked at.
    unseen = choose(candidates, strict, max(factor, 1.0))
    if seen.best is None:
        return unseen, False
    if unseen.best is None or _cost(unseen.best, goal) > MUCH_BETTER * _cost(seen.best, goal):
        return seen, True
    return unseen, unseen.best.row in candidates.seen


def _cost(pick: Pick, goal: Goal) -> float:
    return {"time": pick.time_s, "energy": pick.energy_j, "power": pick.power_w}[goal.minimise].value


def next_to_confirm(
    candidates: Candidates, goal: Goal, factor: float = SELECTION_FACTOR, last: bool = True
) -> int | None:
    """Return the unseen mode whose measurement is expected to bring most; None where nothing is worth measuring.

    The gain of measuring a mode is the probability that it keeps the limits times the expected improvement over
    what could be returned without it (Bayesian optimisation with constraints, on the logarithm of the cost).
    Before the last turn a miss is not lost, since the next pick learns from it, so the probability is counted
    with its square root.
    """
    outlook = look(candidates, goal, factor)
    fallback = _fallback_log_cost(outlook, goal)
    log_cost = np.log(outlook.cost(goal.minimise))
    sd = outlook.cost_log_sd(goal.minimise) * factor
    gain = _expected_gain(log_cost, sd, fallback, outlook.dof)
    probability = outlook.all_hold()
    score = gain * (probability if last else np.sqrt(probability))
    score[outlook.measured] = 0.0
    row = int(np.argmax(score))
    return row if score[row] > WORTH_PCT / 100.0 else None


def _fallback_log_cost(outlook: Outlook, goal: Goal) -> float:
    """Return the log cost of what would be answered with no further measurement."""
    cost = outlook.cost(goal.minimise)
    seen = outlook.feasible & outlook.measured
    if bool(seen.any()):
        return float(np.log(cost[seen].min()))
    safe = outlook.all_hold() >= max(goal.confidence, UNCONFIRMED_CONFIDENCE)
    if bool(safe.any()):
        return float(np.log(cost[safe].min()))
    likely = outlook.allowed & (outlook.all_hold() > 0.2)
    if not bool(likely.any()):
        likely = outlook.allowed if bool(outlook.allowed.any()) else np.ones(len(cost), dtype=bool)
    reference = cost[likely].min()
    return float(np.log(NO_ANSWER_COST * reference))


def _expected_gain(log_cost: Array, sd: Array, fallback: float, dof: float) -> Array:
    """Return E[max(fallback − log cost, 0)] under the Student t of each mode."""
    gap = fallback - log_cost
    safe = np.where(sd > 0, sd, 1.0)
    return np.where(sd > 0, sd * expected_shortfall(gap / safe, dof), np.maximum(gap, 0.0))


def expected_shortfall(z: Array, dof: float) -> Array:
    """Return E[max(z − T, 0)] for a standard Student t, the mean by which it falls short of z.

    With f the density, t·f(t) has the primitive −(dof + t²)/(dof − 1)·f(t), which gives the closed form below.
    A spread with dof ≤ 1 has no mean; it is read as dof = 1.5.
    """
    dof = min(max(dof, 1.5), 1e6)
    scale = math.lgamma((dof + 1) / 2) - math.lgamma(dof / 2) - 0.5 * math.log(dof * math.pi)
    density = np.exp(scale - (dof + 1) / 2 * np.log1p(z * z / dof))
    shortfall: Array = z * student.probability_below(z, dof) + (dof + z * z) / (dof - 1) * density
    return shortfall
