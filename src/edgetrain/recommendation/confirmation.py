"""Confirms a choice: measures the chosen mode, updates the predictions with it, chooses again, at most K times.

The returned mode was measured within the limits, or is so far within them that it needs no confirmation. A mode
measured over a limit is never returned. Confirmations left after a success go to modes that may be better.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from edgetrain.errors import DeviceError
from edgetrain.prediction import Array, Predictions, student_probability_below
from edgetrain.recommendation.assessment import SELECTION_FACTOR, Assessment, Candidates, assess, peak_ratio
from edgetrain.recommendation.choice import Choice, choose
from edgetrain.recommendation.conditioning import condition
from edgetrain.recommendation.goals import Goal
from edgetrain.schema import Measure, ModeMeasurement, Origin, PowerMode

UNCONFIRMED_CONFIDENCE = 0.995  # what an answer that was not measured must reach
MUCH_BETTER = 0.8  # share of the cost of the best measured mode below which an unmeasured one is preferred
WORTH_PCT = 0.1  # an expected gain below this share of the cost is not worth a confirmation
NO_ANSWER_COST = 2.0  # having no answer counts as twice the cost of the best: a penalty of 100 %

Refit = Callable[[Mapping[int, ModeMeasurement]], Predictions]
"""New predictions from everything measured (row → measurement). None: `condition`, forty times faster and no worse."""


@dataclass(frozen=True, slots=True)
class Confirmation:
    """One mode that was tried. Times are per minibatch; None where the board refused the mode."""

    row: int
    mode: PowerMode
    expected_time_s: float
    expected_power_w: float
    time_s: float | None
    power_w: float | None
    origin: Origin | None
    within: bool
    reason: str


@dataclass(frozen=True, slots=True)
class Confirmed:
    """The choice after its confirmations, with the confirmations in order."""

    choice: Choice
    confirmed: bool  # the returned mode was itself measured within the limits
    trail: tuple[Confirmation, ...]
    candidates: Candidates


def confirm(
    candidates: Candidates,
    goal: Goal,
    measure: Measure,
    count: int,
    refit: Refit | None = None,
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
        assessment = assess(candidates, goal, factor)
        mode = candidates.modes.mode(row)
        expected = float(assessment.time_s[row] / goal.work.minibatches), float(assessment.power_w[row])
        try:
            found = measure(mode)
        except DeviceError as refusal:
            trail.append(Confirmation(row, mode, *expected, None, None, None, False, str(refusal)))
            candidates = replace(candidates, unusable=candidates.unusable | {row})
            continue
        seen = {**candidates.seen, row: found}
        fresh = {at: m for at, m in seen.items() if at not in already}
        predictions = condition(first, candidates.modes, fresh) if refit is None else refit(seen)
        candidates = replace(candidates, seen=seen, predictions=predictions, peak_ratio=peak_ratio(seen.values()))
        within = bool(assess(candidates, goal, factor).feasible[row])
        reason = "within the limits" if within else "over a limit"
        time_s = found.time_mean_s or found.time_s
        trail.append(Confirmation(row, mode, *expected, time_s, found.power_w, found.origin, within, reason))
    return Confirmed(*_settle(candidates, goal, factor), tuple(trail), candidates)


def _settle(candidates: Candidates, goal: Goal, factor: float) -> tuple[Choice, bool]:
    """Return the best mode measured within the limits, or a safe unmeasured one that is much better, or no answer."""
    seen = choose(candidates, goal, factor, measured_only=True)
    strict = replace(goal, confidence=max(goal.confidence, UNCONFIRMED_CONFIDENCE))
    # With the full spread: this is the one answer that no measurement supports.
    unseen = choose(candidates, strict, max(factor, 1.0))
    if seen.best is None:
        return unseen, False
    if unseen.best is None or _cost(unseen, goal) > MUCH_BETTER * _cost(seen, goal):
        return seen, True
    return unseen, unseen.best.row in candidates.seen


def _cost(choice: Choice, goal: Goal) -> float:
    return math.inf if choice.best is None else choice.best.cost(goal.minimize).value


def next_to_confirm(
    candidates: Candidates, goal: Goal, factor: float = SELECTION_FACTOR, last: bool = True
) -> int | None:
    """Return the unmeasured mode with the largest expected gain from measuring it; None where none is worth it.

    The gain is the probability that the mode keeps the limits times the expected improvement over the answer without
    it (Bayesian optimisation with constraints, on the logarithm of the cost). Before the last turn a failure is not
    lost, because the next choice uses it, so the square root of the probability is taken.
    """
    assessment = assess(candidates, goal, factor)
    fallback = _fallback_log_cost(assessment, goal)
    log_cost = np.log(assessment.cost(goal.minimize))
    sd = assessment.cost_log_sd(goal.minimize) * factor
    gain = _expected_gain(log_cost, sd, fallback, assessment.dof)
    probability = assessment.all_hold()
    score = gain * (probability if last else np.sqrt(probability))
    score[assessment.measured] = 0.0
    row = int(np.argmax(score))
    return row if score[row] > WORTH_PCT / 100.0 else None


def _fallback_log_cost(assessment: Assessment, goal: Goal) -> float:
    """Return the log cost of the answer without any further measurement."""
    cost = assessment.cost(goal.minimize)
    seen = assessment.feasible & assessment.measured
    if bool(seen.any()):
        return float(np.log(cost[seen].min()))
    safe = assessment.all_hold() >= max(goal.confidence, UNCONFIRMED_CONFIDENCE)
    if bool(safe.any()):
        return float(np.log(cost[safe].min()))
    likely = assessment.allowed & (assessment.all_hold() > 0.2)
    if not bool(likely.any()):
        likely = assessment.allowed if bool(assessment.allowed.any()) else np.ones(len(cost), dtype=bool)
    reference = cost[likely].min()
    return float(np.log(NO_ANSWER_COST * reference))


def _expected_gain(log_cost: Array, sd: Array, fallback: float, dof: float) -> Array:
    """Return E[max(fallback − log cost, 0)] under the Student t of each mode."""
    gap = fallback - log_cost
    safe = np.where(sd > 0, sd, 1.0)
    return np.where(sd > 0, sd * expected_shortfall(gap / safe, dof), np.maximum(gap, 0.0))


def expected_shortfall(z: Array, dof: float) -> Array:
    """Return E[max(z − T, 0)] for a standard Student t: the mean by which it falls short of z.

    With f the density, t·f(t) has the primitive −(dof + t²)/(dof − 1)·f(t), which gives the closed form below.
    A spread with dof ≤ 1 has no mean; it is taken as dof = 1.5.
    """
    dof = min(max(dof, 1.5), 1e6)
    scale = math.lgamma((dof + 1) / 2) - math.lgamma(dof / 2) - 0.5 * math.log(dof * math.pi)
    density = np.exp(scale - (dof + 1) / 2 * np.log1p(z * z / dof))
    shortfall: Array = z * student_probability_below(z, dof) + (dof + z * z) / (dof - 1) * density
    return shortfall
