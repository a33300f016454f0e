"""Prediction for the terminal: a plan of modes, a table of predictions, an evaluation, the priors."""

from __future__ import annotations

import numpy as np
from rich.console import Group, RenderableType
from rich.text import Text

from edgetrain.prediction import (
    MethodErrors,
    PredictionTable,
    PriorList,
    ProfilingCost,
    ProfilingPlan,
    ProfilingRun,
    UnitFactors,
)
from edgetrain.recommendation import BudgetEvaluation, Evaluation, spell_mode
from edgetrain.report.text import plain_table
from edgetrain.schema import PowerMode
from edgetrain.units import HZ_PER_KHZ, MS_PER_S, W_PER_MW, spell, spell_seconds

MAX_ROWS = 12


def show_evaluation(found: Evaluation) -> RenderableType:
    """Return errors, coverage and cost of each method over the modes that it did not see."""
    held = ", ".join(found.prior.held) or "no networks, only generic coefficients"
    table = plain_table(
        "method", "time", "power", "energy", "p95 time", "in 90 %: t / p", "width t / p", "fit + predict"
    )
    for name, errors in [(found.method, found), *found.baselines.items()]:
        table.add_row(name, *_error_cells(errors))
    parts: list[RenderableType] = [
        Text(f"{found.table}: {found.modes} modes, {found.profile} profiled", style="bold"),
        Text(f"mean error over the modes not profiled, {len(found.seeds)} seeds; predictions against the table"),
        Text(""),
        table,
        Text(f"\nthe prior holds: {held}", style="bright_black"),
        Text(f"energy follows {found.energy_follows}", style="bright_black"),
    ]
    if found.budgets is not None:
        parts.append(Text(f"\n{_spell_budgets(found.budgets)}"))
    return Group(*parts)


def _error_cells(errors: MethodErrors) -> list[str]:
    cover, width = errors.coverage90, errors.width90
    return [
        *(f"{quantity.mape.mean:.1f} %" for quantity in (errors.time, errors.power, errors.energy)),
        f"{errors.time.p95.mean:.1f} %",
        "–" if cover is None else f"{cover.time:.0f} / {cover.power:.0f} %",
        "–" if width is None else f"{width.time:.0f} / {width.power:.0f} %",
        spell_seconds(errors.fit_s),
    ]


def _spell_budgets(budgets: BudgetEvaluation) -> str:
    return (
        f"choosing under {budgets.limits} power limits: {budgets.penalty_pct.mean:.1f} % slower than the best mode "
        f"on average (median {budgets.penalty_pct.median:.1f} %), {100 * budgets.broken:.1f} % of the limits exceeded, "
        f"at most by {spell(budgets.over_w_max, 'W')}"
    )


def show_plan(plan: ProfilingPlan) -> RenderableType:
    """Return which modes to profile, in the order of the visit, and the error to expect after each."""
    table = plain_table("mode", "importance", "expected error: time", "power")
    for planned in plan.modes:
        table.add_row(
            spell_mode(planned.power_mode),
            f"{planned.rank}.",
            _percent(planned.time_error_after),
            _percent(planned.power_error_after),
        )
    parts: list[RenderableType] = [
        Text(f"profile these {len(plan.modes)} modes, in this order", style="bold"),
        Text(""),
        table,
        Text(f"\n{_spell_cost(plan.cost)}"),
        Text("errors are expected means over all modes (predicted), once the modes up to this importance are profiled"),
    ]
    parts += [Text(f"! {warning}", style="yellow") for warning in plan.warnings]
    return Group(*parts)


def show_profiling(run: ProfilingRun) -> RenderableType:
    """Return what profiling one mode at a time found."""
    table = plain_table("mode", "time", "power", "error expected: time", "power")
    for step in run.steps:
        if step.refusal is not None:
            table.add_row(step.mode, "refused", "–", "–", "–")
            continue
        table.add_row(
            step.mode,
            spell_seconds(step.time_s),
            spell(step.power_w, "W"),
            _percent(step.time_error),
            _percent(step.power_error),
        )
    words = "reached" if run.reached else "NOT reached"
    return Group(
        Text(f"{len(run.steps)} modes profiled ({run.origin}); {run.until_pct:g} % {words}", style="bold"),
        Text(""),
        table,
        *(Text(f"! {warning}", style="yellow") for warning in run.warnings),
    )


def show_table(found: PredictionTable) -> RenderableType:
    """Return the fastest modes of a prediction; all of them are in the CSV or the JSON."""
    table = plain_table("mode", "time", "power", "energy", "")
    columns = found.columns
    fastest = np.argsort(columns.time_ms, kind="stable")[:MAX_ROWS].tolist()
    for row in fastest:
        times = [spell_seconds(float(column[row]) / MS_PER_S)
                 for column in (columns.time_ms, columns.time_ms_lo, columns.time_ms_hi)]  # fmt: skip
        watts = [float(column[row]) * W_PER_MW
                 for column in (columns.power_mw, columns.power_mw_lo, columns.power_mw_hi)]  # fmt: skip
        table.add_row(
            spell_mode(_mode(found, row)),
            f"{times[0]} ({times[1]} to {times[2]})",
            f"{watts[0]:.1f} W ({watts[1]:.1f} to {watts[2]:.1f})",
            f"{columns.energy_mj[row] / 1e3:.3g} J",
            "extrapolated" if columns.extrapolated[row] else "",
        )
    level, error = f"{100 * found.level:g} % intervals", found.expected_error
    unit = [] if found.unit is None else [Text(_unit_line(found.unit))]
    return Group(
        Text(f"the fastest {len(fastest)} of {found.modes} modes; predicted, {level}, per minibatch", style="bold"),
        Text(""),
        table,
        Text(f"\nexpected error: time {_percent(error.time)}, power {_percent(error.power)}"),
        *unit,
        *(Text(f"! {warning}", style="yellow") for warning in found.warnings),
    )


def _unit_line(unit: UnitFactors) -> str:
    parts = [
        f"{name} {100 * (factor.value - 1):+.1f} % ({100 * (factor.lo - 1):+.1f} to {100 * (factor.hi - 1):+.1f})"
        for name, factor in (("time", unit.time), ("power", unit.power))
    ]
    modes = "1 mode" if unit.modes == 1 else f"{unit.modes} modes"
    return f"this unit against its kind, by {modes} of {unit.profile}: {', '.join(parts)}"


def _mode(found: PredictionTable, row: int) -> PowerMode:
    columns = found.columns
    gpu, emc = (None if np.isnan(clock[row]) else int(clock[row]) for clock in (columns.gpu_hz, columns.emc_hz))
    return PowerMode(int(columns.cores[row]), round(float(columns.cpu_khz[row]) * HZ_PER_KHZ), gpu, emc)


def show_priors(found: PriorList) -> RenderableType:
    """Return the priors and the networks in each."""
    table = plain_table("prior", "network", "board", "kind", "modes", "scatter: time", "power")
    for prior in found.priors:
        for entry in prior.entries:
            kind = entry.kind + (f", batch {entry.batch_size:g}" if entry.batch_size else "")
            table.add_row(
                prior.name,
                entry.network,
                entry.board,
                kind,
                str(entry.modes),
                _percent(entry.time_scatter),
                _percent(entry.power_scatter),
            )
    sources = [Text(f"{prior.name}: {prior.provenance}", style="bright_black") for prior in found.priors]
    return Group(table, Text(""), *sources)


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.1f} %"


def _spell_cost(cost: ProfilingCost) -> str:
    if cost.training_min is None:
        return (
            f"takes {cost.switching_min:.0f} min of switching and settling, plus {cost.minibatches} minibatches "
            "in each mode (how long those take is not known before one mode is profiled; give --minibatch-ms)"
        )
    return (
        f"takes about {cost.switching_min + cost.training_min:.0f} min: {cost.switching_min:.0f} of switching and "
        f"settling, {cost.training_min:.0f} of training ({cost.minibatches} minibatches in each mode, predicted)"
    )
