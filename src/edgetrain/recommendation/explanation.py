"""The reasoning behind a choice, in a few sentences with the numbers."""

from __future__ import annotations

from collections.abc import Sequence

from edgetrain.recommendation.answer import Recommendation
from edgetrain.recommendation.choice import RELAXED_BY, Pick
from edgetrain.recommendation.confirmation import Confirmation
from edgetrain.recommendation.goals import Goal, spell_limit
from edgetrain.schema import Origin, PowerMode
from edgetrain.units import spell, spell_hz, spell_seconds


def explain(answer: Recommendation) -> list[str]:
    """Return the sentences for a recommendation."""
    goal, best = answer.goal, answer.best
    limits = goal.limits.estimated()
    listed = [spell_limit(name, value) for name, value in limits.items()]
    asked = f"you asked for the least {goal.minimize}" + (f" with {' and '.join(listed)}" if listed else "")
    plural = "" if answer.considered == 1 else "s"
    sentences = [f"{asked}; {answer.considered} mode{plural} may be used"]
    if best is None:
        return sentences + _infeasible(answer)
    confidence = 100 * goal.confidence
    if limits:
        sentences[-1] += f", and {answer.feasible} of them keep every limit with at least {confidence:g} % probability"
    sentences.append(_chosen(best, goal))
    sentences += [_margin(best, name, limit, confidence) for name, limit in limits.items()]
    sentences += _trail(answer.trail or ())
    if answer.runner_up is not None:
        worse = 100 * (answer.runner_up.cost(goal.minimize).value / best.cost(goal.minimize).value - 1)
        differs = f"{worse:.1f} % more {goal.minimize}"
        if worse < 0:
            differs = f"{-worse:.1f} % less {goal.minimize} but a smaller probability of keeping the limits"
        sentences.append(f"the runner-up is {spell_mode(answer.runner_up.mode)}, with {differs}")
    for relaxed in answer.relaxed:
        if relaxed.gain_pct is not None:
            gain = f"{relaxed.gain_pct:.1f} % less {goal.minimize}" if relaxed.gain_pct > 0.05 else "nothing"
            percent = 100 * (RELAXED_BY - 1)
            sentences.append(f"relaxing the {relaxed.limit} limit by {percent:.0f} % would mean {gain}")
    return sentences


def _chosen(best: Pick, goal: Goal) -> str:
    time, power, energy = best.time_s, best.power_w, best.energy_j
    interval = ""
    if power.hi > power.lo:
        watts = f"{spell(power.lo, 'W')} to {spell(power.hi, 'W')}"
        level = 100 * power.level
        interval = f" ({level:g} % intervals {watts}, {spell_seconds(time.lo)} to {spell_seconds(time.hi)})"
    return (
        f"the chosen mode is {spell_mode(best.mode)}: {spell_seconds(time.value)} and "
        f"{spell(energy.value, 'J', 4)} for {goal.work.label} at {spell(power.value, 'W')}, {power.origin}{interval}"
    )


def _margin(best: Pick, name: str, limit: float, confidence: float) -> str:
    estimate = best.cost(name)
    below = 100 * (1 - estimate.value / limit)
    if estimate.origin is not Origin.PREDICTED:
        return f"its {name} was measured {below:.1f} % below the limit"
    return (
        f"its {name} is expected {below:.1f} % below the limit and keeps it with {100 * best.holds[name]:.1f} % "
        f"probability ({confidence:g} % was required); the margin is needed because the power and time of the "
        "best-looking mode are more often predicted too low than too high"
    )


def _trail(trail: Sequence[Confirmation]) -> list[str]:
    sentences = []
    for place, step in enumerate(trail, start=1):
        if step.time_s is None or step.power_w is None:
            sentences.append(f"confirmation {place}: the board refused {spell_mode(step.mode)} ({step.reason})")
            continue
        error = 100 * (step.power_w / step.expected_power_w - 1)
        sentences.append(
            f"confirmation {place}: {spell_mode(step.mode)} drew {spell(step.power_w, 'W')} where "
            f"{spell(step.expected_power_w, 'W')} was expected ({error:+.1f} %) and took "
            f"{spell_seconds(step.time_s)} per minibatch: {step.reason}"
        )
    return sentences


def _infeasible(answer: Recommendation) -> list[str]:
    nearest = answer.nearest
    if nearest is None:
        return ["no mode is left to choose from: the limits on cores, stock modes or temperature exclude all of them"]
    sentences = [f"none of them keeps every limit with {100 * answer.goal.confidence:g} % probability"]
    possible = nearest.separately_possible
    if len(possible) > 1:
        sentences.append(f"the limits on {' and '.join(possible)} can each be kept alone, but not together")
    needs = " and ".join(spell_limit(name, value) for name, value in nearest.needs.items())
    sentences.append(f"the nearest mode is {spell_mode(nearest.pick.mode)}; it would need {needs}")
    return sentences


def spell_mode(mode: PowerMode) -> str:
    """Spell a mode for people; a clock that the board does not have is left out."""
    parts = [f"{mode.cores} cores at {spell_hz(mode.cpu_hz)}"]
    if mode.gpu_hz is not None:
        parts.append(f"GPU {spell_hz(mode.gpu_hz)}")
    if mode.emc_hz is not None:
        parts.append(f"memory {spell_hz(mode.emc_hz)}")
    clocks = ", ".join(parts)
    return f"{mode.name} ({clocks})" if mode.name else clocks
