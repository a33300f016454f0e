"""A recommendation for the terminal: the mode, its costs, the probability of each limit, and what else was asked."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from edgetrain.recommendation import (
    AppliedMode,
    BatteryLife,
    Confirmation,
    FrontierPoint,
    JobCycle,
    Payback,
    PhaseAdvice,
    Pick,
    Recommendation,
    StockLoss,
    WholeTraining,
    explain,
    spell_limit,
    spell_mode,
)
from edgetrain.report.text import plain_table
from edgetrain.units import J_PER_WH, spell, spell_seconds

SHOWN = 24  # points of a frontier that a terminal shows


def spell_quantity(axis: str, value: float) -> str:
    """Spell a time, a power or an energy."""
    if axis == "time":
        return spell_seconds(value)
    return spell(value, "W") if axis == "power" else spell(value, "J", 4)


def show_choice(answer: Recommendation, explained: bool = False) -> RenderableType:
    """Return the answer of `recommend` for the terminal."""
    best = answer.best
    parts: list[RenderableType] = []
    if best is None:
        parts.append(Text("no mode keeps the limits", style="bold red"))
    else:
        parts.append(Text(spell_mode(best.mode), style="bold green"))
        parts.append(_costs(answer, best))
    if explained or best is None:
        parts += [Text(""), *(Text(f"· {sentence}") for sentence in explain(answer))]
    parts += _relaxed(answer) if best is not None and not explained else []
    if answer.trail and not explained:
        parts += [Text(""), _trail(answer.trail)]
    for title, section in (
        ("whole training", None if answer.training is None else show_training(answer.training)),
        ("one mode per phase", None if answer.phases is None else show_phases(answer.phases)),
        ("stock modes against the frontier", show_stock(answer.stock) if answer.stock else None),
        ("frontier", show_frontier(answer.frontier) if answer.frontier else None),
    ):
        if section is not None:
            parts += [Text(""), Text(title, style="bold"), section]
    notes = [*answer.notes]
    if answer.goal.work.epochs is None and best is not None:
        notes.append("times and energies are per minibatch; give --minibatches (per epoch) for those of an epoch")
    parts += [Text("")] if notes else []
    parts += [Text(f"note: {note}", style="yellow") for note in notes]
    return Group(*parts)


def _costs(answer: Recommendation, best: Pick) -> RenderableType:
    other, label = answer.runner_up, answer.goal.work.label
    limits = answer.goal.limits.estimated()
    level = f"{100 * best.time_s.level:g} % interval"
    table = plain_table("", "value", level, "origin", "limit", "holds with", "runner-up")
    for axis, name in (("time", f"time of {label}"), ("power", "power"), ("energy", f"energy of {label}")):
        estimate = best.cost(axis)
        interval = f"{spell_quantity(axis, estimate.lo)} to {spell_quantity(axis, estimate.hi)}"
        table.add_row(
            name,
            spell_quantity(axis, estimate.value),
            "–" if estimate.is_exact else interval,
            str(estimate.origin),
            "–" if axis not in limits else spell_quantity(axis, limits[axis]),
            "–" if axis not in best.holds else f"{100 * best.holds[axis]:.1f} %",
            "–" if other is None else spell_quantity(axis, other.cost(axis).value),
        )
    lines: list[RenderableType] = [table]
    if other is not None:
        lines.append(Text(f"runner-up: {spell_mode(other.mode)}"))
    if answer.confirmed is not None:
        words = "measured within the limits" if answer.confirmed else "not measured, but far enough within the limits"
        lines.append(Text(f"{words}; {len(answer.trail or ())} confirmations"))
    return Group(*lines)


def _relaxed(answer: Recommendation) -> list[RenderableType]:
    lines: list[RenderableType] = []
    for relaxed in answer.relaxed:
        gain = relaxed.gain_pct
        what = "still no answer" if gain is None else f"{gain:.1f} % less {answer.goal.minimize}"
        lines.append(Text(f"{spell_limit(relaxed.limit, relaxed.to)} instead: {what}"))
    return [Text(""), *lines] if lines else []


def _trail(trail: Sequence[Confirmation]) -> RenderableType:
    table = plain_table("measured mode", "expected", "measured", "time per minibatch", "outcome")
    for step in trail:
        table.add_row(
            spell_mode(step.mode),
            spell(step.expected_power_w, "W"),
            spell(step.power_w, "W"),
            spell_seconds(step.time_s),
            step.reason,
        )
    return table


def show_training(training: WholeTraining) -> RenderableType:
    """Return a whole training for the terminal."""
    time, energy = training.time_s, training.energy_j
    lines = [
        f"{training.epochs:g} epochs: {spell_seconds(time.value)} ({spell_seconds(time.lo)} to "
        f"{spell_seconds(time.hi)}), {spell(energy.value / J_PER_WH, 'Wh')} ({spell(energy.lo / J_PER_WH)} to "
        f"{spell(energy.hi / J_PER_WH, 'Wh')}), {energy.origin}"
    ]
    if training.cold_extra_s is not None:
        lines.append(f"of that the cold first epoch adds {spell_seconds(training.cold_extra_s)}")
    if training.baseload_j is not None:
        share = 100 * training.baseload_j / energy.value
        lines.append(f"baseload: {spell(training.baseload_j / J_PER_WH, 'Wh')} of it, {share:.0f} %")
    if training.between is not None:
        lines.append(_spell_cycle(training.between))
    if training.battery is not None:
        lines.append(_spell_battery(training.battery))
    if training.pay_off is not None:
        lines += _spell_payback(training.pay_off)
    return Group(*(Text(line) for line in [*lines, *(f"note: {note}" for note in training.notes)]))


def _spell_cycle(cycle: JobCycle) -> str:
    return (
        f"one job every {spell_seconds(cycle.period_s)}, {cycle.state} at {spell(cycle.power_w, 'W')} "
        f"({cycle.origin}) in between: {spell(cycle.energy_j.value / J_PER_WH, 'Wh')} per job, "
        f"{spell(cycle.mean_power_w, 'W')} on average"
    )


def _spell_battery(battery: BatteryLife) -> str:
    last = f", lasting {spell_seconds(battery.lasts_s)}" if battery.lasts_s else ""
    return (
        f"on {spell(battery.capacity_wh, 'Wh')}: {battery.rounds} training{'' if battery.rounds == 1 else 's'}{last}; "
        f"{battery.rounds_sure} at the upper end of the interval"
    )


def _spell_payback(payback: Payback) -> list[str]:
    lines = []
    for axis, cost, epochs in (
        ("time", spell_seconds(payback.profiling_s), payback.epochs_for_time),
        (
            "energy",
            None if payback.profiling_j is None else spell(payback.profiling_j / J_PER_WH, "Wh"),
            payback.epochs_for_energy,
        ),
    ):
        if cost is not None:
            when = "never" if epochs is None else f"after {epochs:.1f} epochs"
            lines.append(f"profiling cost {cost}; compared with the factory default it pays off in {axis} {when}")
    return lines


def show_phases(phases: PhaseAdvice) -> RenderableType:
    """Return what switching between phases would gain."""
    lines = [f"{'switch' if phases.advised else 'do not switch'}: {phases.reason}"]
    if phases.gain_pct and phases.switched is not None:
        lines.append(
            f"expected gain {phases.gain_pct:.1f} % ({100 * phases.level:.0f} % interval {phases.gain_lo_pct:.1f} "
            f"to {phases.gain_hi_pct:.1f} %), switching cost included"
        )
        lines += [f"{name}: {spell_mode(mode)}" for name, mode in phases.switched.modes.items()]
    return Group(*(Text(line) for line in lines))


def show_stock(losses: Sequence[StockLoss]) -> RenderableType:
    """Return what each stock mode loses against the frontier."""
    table = plain_table("mode", "slower", "more energy", "more power", "better at no more power")
    for loss in losses:
        name = loss.name + (" (factory default)" if loss.factory_default else "")
        percentages = (loss.slower_pct, loss.more_energy_pct, loss.more_power_pct)
        table.add_row(
            name,
            *("–" if percent is None else f"{percent:.1f} %" for percent in percentages),
            "–" if loss.better is None else spell_mode(loss.better),
        )
    return table


def show_frontier(points: Sequence[FrontierPoint]) -> RenderableType:
    """Return the frontier, in the order of its first axis."""
    table = plain_table("mode", "time", "power", "energy", "stays", "")
    step = max(1, len(points) // SHOWN)
    shown = [point for place, point in enumerate(points) if place % step == 0 or point.knee or place == len(points) - 1]
    for point in shown:
        table.add_row(
            spell_mode(point.mode),
            spell_seconds(point.time_s.value),
            spell(point.power_w.value, "W"),
            spell(point.energy_j.value, "J", 4),
            f"{100 * point.stays:.0f} %",
            "knee" if point.knee else "",
        )
    words = "per minibatch; stays: probability that the mode is on the frontier"
    if len(shown) < len(points):
        words = f"{len(shown)} of {len(points)} points, all are in --json; {words}"
    return Group(table, Text(words))


def show_applied(applied: AppliedMode) -> RenderableType:
    """Return what was set on the device, or would be."""
    if not applied.dry_run:
        return Text(f"set on {applied.device}; {applied.undo} undoes it")
    lines = [f"would write {len(applied.writes)} settings on {applied.device}"]
    return Group(*(Text(line) for line in [*lines, *(f"  {write}" for write in applied.writes)]))
