"""Prediction for the terminal: a plan of modes, a table of predictions, an evaluation, the priors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from edgetrain.report.text import plain_table
from edgetrain.units import spell, spell_seconds

MOST_ROWS = 12


def show_evaluation(document: Mapping[str, Any]) -> RenderableType:
    """Return errors, coverage and cost of each method over the modes it did not see."""
    prior = document["prior"]
    held = ", ".join(prior["held"]) or "nothing: only the generic guess"
    table = plain_table(
        "method", "time", "power", "energy", "p95 time", "in 90 %: t / p", "width t / p", "fit + predict"
    )
    for name, found in [(document["method"], document), *document.get("baselines", {}).items()]:
        cover, width = found.get("coverage90"), found.get("width90")
        table.add_row(
            name,
            *(f"{found[q]['mape']['mean']:.1f} %" for q in ("time", "power", "energy")),
            f"{found['time']['p95']['mean']:.1f} %",
            "–" if cover is None else f"{cover['time']:.0f} / {cover['power']:.0f} %",
            "–" if width is None else f"{width['time']:.0f} / {width['power']:.0f} %",
            spell_seconds(found["fit_s"]),
        )
    parts: list[RenderableType] = [
        Text(f"{document['table']}: {document['modes']} modes, {document['profile']} profiled", style="bold"),
        Text(f"mean error over the modes not profiled, {len(document['seeds'])} seeds; predicted against the table"),
        Text(""),
        table,
        Text(f"\nthe prior held: {held}", style="bright_black"),
        Text(f"energy follows {document['energy_follows']}", style="bright_black"),
    ]
    budgets = document.get("budgets")
    if budgets:
        penalty = budgets["penalty_pct"]
        said = (
            f"\nchoosing under {budgets['limits']} power limits: {penalty['mean']:.1f} % slower than the best mode "
            f"on average (median {penalty['median']:.1f} %), {100 * budgets['broken']:.1f} % of the limits broken, "
            f"worst by {spell(budgets['over_w_max'], 'W')}"
        )
        parts.append(Text(said))
    return Group(*parts)


def show_plan(document: Mapping[str, Any]) -> RenderableType:
    """Return which modes to profile, in the board's order, and what to expect after each."""
    table = plain_table("mode", "how telling", "error left after it: time", "power")
    for row in document["modes"]:
        table.add_row(
            row["mode"],
            f"{row['rank']}.",
            _percent(row["time_error_after"]),
            _percent(row["power_error_after"]),
        )
    parts: list[RenderableType] = [
        Text(f"profile these {len(document['modes'])} modes, in this order", style="bold"),
        Text(""),
        table,
        Text(f"\n{_cost(document['cost'])}"),
        Text("errors are expected means over all modes (predicted), had the modes before been profiled too"),
    ]
    parts += [Text(f"! {warning}", style="yellow") for warning in document.get("warnings", ())]
    return Group(*parts)


def show_steps(document: Mapping[str, Any]) -> RenderableType:
    """Return what profiling one mode at a time found."""
    table = plain_table("mode", "time", "power", "error expected: time", "power")
    for step in document["steps"]:
        if step["refusal"] is not None:
            table.add_row(step["mode"], "refused", "–", "–", "–")
            continue
        table.add_row(
            step["mode"],
            spell_seconds(step["time_s"]),
            spell(step["power_w"], "W"),
            _percent(step["time_error"]),
            _percent(step["power_error"]),
        )
    words = "reached" if document["reached"] else "NOT reached"
    origin = document["origin"]
    return Group(
        Text(f"{len(document['steps'])} modes profiled ({origin}); {document['until_pct']:g} % {words}", style="bold"),
        Text(""),
        table,
        *(Text(f"! {warning}", style="yellow") for warning in document.get("warnings", ())),
    )


def show_table(document: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> RenderableType:
    """Return the quickest modes of a prediction; the whole of it is in the CSV or the JSON."""
    table = plain_table("mode", "time", "power", "energy", "")
    for row in rows:
        table.add_row(
            row["mode"],
            f"{spell_seconds(row['time_s'])} ({spell_seconds(row['time_s_lo'])} to {spell_seconds(row['time_s_hi'])})",
            f"{row['power_w']:.1f} W ({row['power_w_lo']:.1f} to {row['power_w_hi']:.1f})",
            f"{row['energy_j']:.3g} J",
            "extrapolated" if row["extrapolated"] else "",
        )
    more = f"the quickest {len(rows)} of {document['modes']} modes; predicted, 90 % intervals, per minibatch"
    return Group(
        Text(more, style="bold"),
        Text(""),
        table,
        Text(f"\nexpected error: time {_percent(document['expected_error']['time'])}, power "
             f"{_percent(document['expected_error']['power'])}"),
        *(Text(f"! {warning}", style="yellow") for warning in document["warnings"]),
    )  # fmt: skip


def show_priors(document: Mapping[str, Any]) -> RenderableType:
    """Return the priors and the networks in each."""
    table = plain_table("prior", "network", "board", "kind", "modes", "scatter: time", "power")
    for prior in document["priors"]:
        for entry in prior["entries"]:
            kind = entry["kind"] + (f", batch {entry['batch_size']:g}" if entry["batch_size"] else "")
            table.add_row(
                prior["name"], entry["network"], entry["board"], kind, str(entry["modes"]),
                _percent(entry["time_scatter"]), _percent(entry["power_scatter"]),
            )  # fmt: skip
    sources = [Text(f"{prior['name']}: {prior['provenance']}", style="bright_black") for prior in document["priors"]]
    return Group(table, Text(""), *sources)


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.1f} %"


def _cost(cost: Mapping[str, Any]) -> str:
    training = cost["training_min"]
    if training is None:
        return (
            f"takes {cost['switching_min']:.0f} min of switching and settling, plus {cost['minibatches']} minibatches "
            "in each mode (how long those take is not known before one mode is profiled; give --minibatch-ms)"
        )
    return (
        f"takes about {cost['switching_min'] + training:.0f} min: {cost['switching_min']:.0f} of switching and "
        f"settling, {training:.0f} of training ({cost['minibatches']} minibatches in each mode, predicted)"
    )
