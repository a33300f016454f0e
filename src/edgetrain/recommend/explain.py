"""The reasoning behind a choice, in a few sentences with the numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from edgetrain.recommend.choose import RELAXED_BY
from edgetrain.recommend.goals import spell_limit
from edgetrain.units import spell, spell_hz, spell_seconds

_WORST = {"time": "slowest", "power": "most power-hungry", "energy": "most energy-hungry"}


def explain(document: Mapping[str, Any]) -> list[str]:
    """Return the sentences for a document of `choice_document` or `confirmed_document`."""
    goal, best = document["goal"], document["best"]
    limits = {
        name: goal["limits"][f"max_{name}_{unit}"] for name, unit in (("power", "w"), ("time", "s"), ("energy", "j"))
    }
    bound = [spell_limit(name, value) for name, value in limits.items() if value is not None]
    confidence = 100 * goal["confidence"]
    asked = f"you asked for the least {goal['minimise']}" + (f" with {' and '.join(bound)}" if bound else "")
    count = document["considered"]
    sentences = [f"{asked}; {count} mode{'' if count == 1 else 's'} may be used"]
    if best is None:
        return sentences + _infeasible(document, confidence)
    if bound:
        sentences[-1] += (
            f", and {document['feasible']} of them keep every limit with at least {confidence:g} % probability"
        )
    sentences.append(_chosen(best, goal))
    for name, value in limits.items():
        if value is not None:
            sentences.append(_margin(best, name, value, confidence))
    sentences += _trail(document.get("trail") or ())
    runner_up = document.get("runner_up")
    if runner_up is not None:
        sentences.append(_compare(best, runner_up, goal["minimise"]))
    for relaxed in document["relaxed"]:
        gain = relaxed["gain_pct"]
        if gain is not None:
            buys = f"{gain:.1f} % less {goal['minimise']}" if gain > 0.05 else "nothing"
            percent = 100 * (RELAXED_BY - 1)
            sentences.append(f"relaxing the {relaxed['limit']} limit by {percent:.0f} % would buy {buys}")
    return sentences


def _chosen(best: Mapping[str, Any], goal: Mapping[str, Any]) -> str:
    time, power, energy = best["time_s"], best["power_w"], best["energy_j"]
    label = goal["work"]["label"]
    interval = ""
    if power["hi"] > power["lo"]:
        watts = f"{spell(power['lo'], 'W')} to {spell(power['hi'], 'W')}"
        interval = f" (90 % intervals {watts}, {spell_seconds(time['lo'])} to {spell_seconds(time['hi'])})"
    return (
        f"chosen is {spell_mode(best['mode'])}: {spell_seconds(time['value'])} and "
        f"{spell(energy['value'], 'J', 4)} for {label} at "
        f"{spell(power['value'], 'W')}, {power['origin']}{interval}"
    )


def _margin(best: Mapping[str, Any], name: str, limit: float, confidence: float) -> str:
    column = {"power": "power_w", "time": "time_s", "energy": "energy_j"}[name]
    value, held = best[column]["value"], 100 * best["holds"][name]
    room = 100 * (1 - value / limit)
    if best[column]["origin"] != "predicted":
        return f"its {name} was seen {room:.1f} % below the limit"
    return (
        f"its {name} is expected {room:.1f} % below the limit, which keeps it with {held:.1f} % probability, as "
        "calibrated on "
        f"modes that were chosen ({confidence:g} % was asked); the room is there because a mode that looks best is "
        "more "
        "often under- than over-estimated"
    )


def _trail(trail: Sequence[Mapping[str, Any]]) -> list[str]:
    sentences = []
    for place, step in enumerate(trail, start=1):
        if step["time_s"] is None:
            sentences.append(f"confirmation {place}: the board refused {spell_mode(step['mode'])} ({step['reason']})")
            continue
        miss = 100 * (step["power_w"] / step["expected_power_w"] - 1)
        sentences.append(
            f"confirmation {place}: {spell_mode(step['mode'])} drew {spell(step['power_w'], 'W')} where "
            f"{spell(step['expected_power_w'], 'W')} "
            f"was expected ({miss:+.1f} %) and took {spell_seconds(step['time_s'])} a minibatch: "
            f"{step['reason']}"
        )
    return sentences


def _compare(best: Mapping[str, Any], other: Mapping[str, Any], minimise: str) -> str:
    column = {"power": "power_w", "time": "time_s", "energy": "energy_j"}[minimise]
    worse = 100 * (other[column]["value"] / best[column]["value"] - 1)
    return f"the runner-up is {spell_mode(other['mode'])}, with {worse:.1f} % more {minimise}"


def _infeasible(document: Mapping[str, Any], confidence: float) -> list[str]:
    nearest = document["nearest"]
    if nearest is None:
        return ["no mode is left to choose from: the limits on cores, stock modes or temperature exclude all"]
    sentences = [f"none of them keeps every limit with {confidence:g} % probability"]
    possible = nearest["separately_possible"]
    if len(possible) > 1:
        sentences.append(f"the limits on {' and '.join(possible)} can each be kept alone, but not together")
    needs = " and ".join(spell_limit(name, value) for name, value in nearest["needs"].items())
    sentences.append(f"nearest comes {spell_mode(nearest['pick']['mode'])}, which would need {needs}")
    return sentences


def spell_mode(mode: Mapping[str, Any]) -> str:
    """Spell a mode for people."""
    clocks = ", ".join(
        (
            f"{mode['cores']} cores at {spell_hz(mode['cpu_hz'])}",
            f"GPU {spell_hz(mode['gpu_hz'])}",
            f"memory {spell_hz(mode['emc_hz'])}",
        )
    )
    return f"{mode['name']} ({clocks})" if mode.get("name") else clocks
