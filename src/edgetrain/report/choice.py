"""What a person reads of a choice: the mode, what it costs, how sure each limit is, and what else there is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.text import Text

from edgetrain.recommend.explain import explain, spell_mode
from edgetrain.recommend.goals import spell_limit
from edgetrain.report.text import plain_table
from edgetrain.units import J_PER_WH, spell, spell_seconds

SHOWN = 24  # points of a frontier that a terminal shows


def _spelled(key: str, value: float) -> str:
    if key == "time_s":
        return spell_seconds(value)
    return spell(value, "W") if key == "power_w" else spell(value, "J", 4)


def show_choice(document: Mapping[str, Any], explained: bool = False) -> RenderableType:
    """Return the answer of `recommend` for the terminal."""
    goal, best = document["goal"], document["best"]
    parts: list[RenderableType] = []
    if best is None:
        parts.append(Text("no mode keeps the limits", style="bold red"))
    else:
        parts.append(Text(spell_mode(best["mode"]), style="bold green"))
        parts.append(_costs(document))
    if document["nearest"] is not None or explained or best is None:
        parts += [Text(""), *(Text(f"· {sentence}") for sentence in explain(document))]
    parts += _relaxed(document) if best is not None and not explained else []
    if document.get("trail") and not explained:
        parts += [Text(""), _trail(document["trail"])]
    for title, key, draw in (
        ("whole training", "training", show_training),
        ("one mode per phase", "phases", show_phases),
        ("stock modes against the frontier", "stock", show_stock),
        ("frontier", "frontier", show_frontier),
    ):
        if document.get(key):
            parts += [Text(""), Text(title, style="bold"), draw(document[key])]
    notes = [*document["notes"]]
    if goal["work"]["epochs"] is None and best is not None:
        notes.append("times and energies are of one minibatch; give --minibatches (per epoch) for those of an epoch")
    parts += [Text("")] if notes else []
    parts += [Text(f"note: {note}", style="yellow") for note in notes]
    return Group(*parts)


def _costs(document: Mapping[str, Any]) -> RenderableType:
    best, other = document["best"], document["runner_up"]
    label = document["goal"]["work"]["label"]
    table = plain_table("", "value", "90 % interval", "origin", "limit", "holds with", "runner-up")
    for key, name in (("time_s", f"time of {label}"), ("power_w", "power"), ("energy_j", f"energy of {label}")):
        estimate = best[key]
        exact = estimate["hi"] <= estimate["lo"] * (1 + 1e-6)
        axis = key.partition("_")[0]
        limit = document["goal"]["limits"][f"max_{key}"]
        table.add_row(
            name,
            _spelled(key, estimate["value"]),
            "–" if exact else f"{_spelled(key, estimate['lo'])} to {_spelled(key, estimate['hi'])}",
            estimate["origin"],
            "–" if limit is None else _spelled(key, limit),
            "–" if axis not in best["holds"] else f"{100 * best['holds'][axis]:.1f} %",
            "–" if other is None else _spelled(key, other[key]["value"]),
        )
    lines: list[RenderableType] = [table]
    if other is not None:
        lines.append(Text(f"runner-up: {spell_mode(other['mode'])}"))
    if "confirmed" in document:
        said = "measured within the limits" if document["confirmed"] else "not confirmed: far enough within the limits"
        lines.append(Text(f"{said}; {len(document['trail'])} confirmations"))
    return Group(*lines)


def _relaxed(document: Mapping[str, Any]) -> list[RenderableType]:
    lines: list[RenderableType] = []
    for relaxed in document["relaxed"]:
        gain = relaxed["gain_pct"]
        what = "still no answer" if gain is None else f"{gain:.1f} % less {document['goal']['minimise']}"
        lines.append(Text(f"{spell_limit(relaxed['limit'], relaxed['to'])} instead: {what}"))
    return [Text(""), *lines] if lines else []


def _trail(trail: Sequence[Mapping[str, Any]]) -> RenderableType:
    table = plain_table("confirmed", "expected", "measured", "time a minibatch", "outcome")
    for step in trail:
        table.add_row(
            escape(spell_mode(step["mode"])),
            spell(step["expected_power_w"], "W"),
            spell(step["power_w"], "W"),
            spell_seconds(step["time_s"]),
            step["reason"],
        )
    return table


def show_training(training: Mapping[str, Any]) -> RenderableType:
    """Return a whole training for the terminal."""
    time, energy = training["time_s"], training["energy_j"]
    lines = [
        f"{training['epochs']:g} epochs: {spell_seconds(time['value'])} ({spell_seconds(time['lo'])} to "
        f"{spell_seconds(time['hi'])}), "
        f"{spell(energy['value'] / J_PER_WH, 'Wh')} ({spell(energy['lo'] / J_PER_WH)} to "
        f"{spell(energy['hi'] / J_PER_WH, 'Wh')}), "
        f"{energy['origin']}"
    ]
    if training["cold_extra_s"] is not None:
        lines.append(f"of that the cold first epoch adds {spell_seconds(training['cold_extra_s'])}")
    if training["baseload_j"] is not None:
        share = 100 * training["baseload_j"] / energy["value"]
        lines.append(f"baseload: {spell(training['baseload_j'] / J_PER_WH, 'Wh')} of it, {share:.0f} %")
    between = training["between"]
    if between is not None:
        lines.append(
            f"one job every {spell_seconds(between['period_s'])}, {between['state']} at "
            f"{spell(between['power_w'], 'W')} "
            f"({between['origin']}) between: {spell(between['energy_j']['value'] / J_PER_WH, 'Wh')} a job, "
            f"{spell(between['mean_power_w'], 'W')} on "
            "average"
        )
    battery = training["battery"]
    if battery is not None:
        last = f", which last {spell_seconds(battery['lasts_s'])}" if battery["lasts_s"] else ""
        lines.append(
            f"on {spell(battery['capacity_wh'], 'Wh')}: {battery['rounds']} trainings{last}; "
            f"{battery['rounds_sure']} at the upper end of the "
            "interval"
        )
    pay = training["pay_off"]
    if pay is not None:
        for axis, key, unit in (("time", "epochs_for_time", "s"), ("energy", "epochs_for_energy", "j")):
            spent = pay[f"profiling_{unit}"]
            if spent is None:
                continue
            cost = spell_seconds(spent) if unit == "s" else spell(spent / J_PER_WH, "Wh")
            when = "never" if pay[key] is None else f"after {pay[key]:.1f} epochs"
            lines.append(f"profiling cost {cost}; against the factory default it has paid off in {axis} {when}")
    return Group(*(Text(line) for line in [*lines, *(f"note: {note}" for note in training["notes"])]))


def show_phases(phases: Mapping[str, Any]) -> RenderableType:
    """Return what switching between phases would bring."""
    gain = phases["gain_pct"]
    lines = [f"{'switch' if phases['advised'] else 'do not switch'}: {phases['reason']}"]
    if gain:
        lines.append(
            f"expected gain {gain:.1f} % ({100 * phases['level']:.0f} % interval {phases['gain_lo_pct']:.1f} "
            f"to {phases['gain_hi_pct']:.1f} %), "
            "switching cost included"
        )
        lines += [f"{name}: {spell_mode(mode)}" for name, mode in phases["switched"]["modes"].items()]
    return Group(*(Text(line) for line in lines))


def show_stock(losses: Sequence[Mapping[str, Any]]) -> RenderableType:
    """Return what each stock mode gives up."""
    table = plain_table("mode", "slower", "more energy", "more power", "better at no more power")
    for loss in losses:
        name = loss["name"] + (" (factory default)" if loss["factory_default"] else "")
        table.add_row(
            escape(name),
            *(
                "–" if loss[key] is None else f"{loss[key]:.1f} %"
                for key in ("slower_pct", "more_energy_pct", "more_power_pct")
            ),
            "–" if loss["better"] is None else escape(spell_mode(loss["better"])),
        )
    return table


def show_frontier(points: Sequence[Mapping[str, Any]]) -> RenderableType:
    """Return the frontier, fastest first."""
    table = plain_table("mode", "time", "power", "energy", "stays", "")
    step = max(1, len(points) // SHOWN)
    shown = [
        point for place, point in enumerate(points) if place % step == 0 or point["knee"] or place == len(points) - 1
    ]
    for point in shown:
        table.add_row(
            escape(spell_mode(point["mode"])),
            spell_seconds(point["time_s"]["value"]),
            spell(point["power_w"]["value"], "W"),
            spell(point["energy_j"]["value"], "J", 4),
            f"{100 * point['stays']:.0f} %",
            "knee" if point["knee"] else "",
        )
    if len(shown) == len(points):
        return table
    return Group(table, Text(f"{len(shown)} of {len(points)} points; all are in --json"))
