"""How much runs of one setting differ: within a unit over time, between units, between software versions.

Only like is compared with like: runs are grouped by board and by everything that was chosen for them. Values are per
minibatch of the later epochs; see `variance` for the intervals.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from edgetrain.analysis.drift import MIN_SPAN_H, Slope, TimedRun, common_slope, on_one_axis, span_h, unit_slope
from edgetrain.analysis.outliers import MIN_UNITS_FOR_OUTLIERS, outliers
from edgetrain.analysis.sample_size import sample_size
from edgetrain.analysis.software_effects import Array, SoftwareEffects, cell_mean, software_effects
from edgetrain.analysis.unit_runs import UnitRun
from edgetrain.analysis.variability_types import (
    MeasureVariability,
    SettingVariability,
    UnitVariation,
    VariabilityReport,
)
from edgetrain.analysis.variance import (
    LEVEL,
    Component,
    MeanSquare,
    coefficient_of_variation,
    epoch_component,
    nested_squares,
    run_component,
    time_component,
    unit_component,
)
from edgetrain.schema import Doubt, Estimate, Origin
from edgetrain.student import quantile

MIN_EPOCHS = 3  # of a single run, from which its spread over time says something
UNKNOWN = "unknown"
MEASURES = (("time", "s per minibatch"), ("energy", "J per minibatch"))


def variability(runs: Sequence[UnitRun], source: str = "runs", difference: float = 0.01) -> VariabilityReport:
    """Return how much runs of equal settings differ; `difference` is the share that sample sizes are given for."""
    groups: dict[tuple[str, Origin, str], list[UnitRun]] = {}
    left_out = []
    for run in runs:
        if not run.epochs:
            left_out.append(f"{run.run}: holds no epoch")
            continue
        key = (run.board, run.origin, str(sorted(run.setting.items(), key=str)))
        groups.setdefault(key, []).append(run)
    found = []
    for group in groups.values():
        known, doubts = _with_units(group, left_out)
        if len(known) == 1 and len(known[0].epochs) < MIN_EPOCHS:
            left_out.append(f"{known[0].run}: the only run of its setting, with {len(known[0].epochs)} later epochs")
            continue
        found.append(_setting(known, doubts, difference))
    return VariabilityReport(source, LEVEL, tuple(found), tuple(left_out))


def _with_units(group: Sequence[UnitRun], left_out: list[str]) -> tuple[list[UnitRun], list[Doubt]]:
    """Return the runs whose unit is known; all of them as one unit where it is known of none."""
    known = [run for run in group if run.unit is not None]
    doubts = []
    if not known:
        text = (
            "no run records a serial number, a host name or a factor `unit`: all are taken to be of one unit; record "
            "them on their boards, or name the unit in the plan's factors"
        )
        doubts.append(Doubt("unit_unknown", text))
        known = list(group)
    else:
        left_out += [f"{run.run}: its unit is not recorded" for run in group if run.unit is None]
    first_only = [run.run for run in known if run.first_only]
    if first_only:
        text = f"{len(first_only)} of {len(known)} runs have one epoch, which contains the warm-up; record two or more"
        doubts.append(Doubt("first_epochs", text))
    return known, doubts


def _setting(runs: Sequence[UnitRun], doubts: Sequence[Doubt], difference: float) -> SettingVariability:
    noted = list(doubts)
    measures = []
    for measure, per in MEASURES:
        values = [(run, *_values(run, measure)) for run in runs]
        kept = [(run, after_s, logs) for run, after_s, logs in values if len(logs)]
        without = sorted({_unit(run) for run, _, logs in values if not len(logs)})
        if without:
            noted.append(_no_energy(runs, without, len({_unit(run) for run, _, _ in kept})))
        if kept:
            measures.append(_measure(kept, measure, per, difference, runs[0].origin))
    first = runs[0]
    names = tuple(run.run for run in runs)
    return SettingVariability(first.board, dict(first.setting), first.origin, names, tuple(measures), tuple(noted))


def _unit(run: UnitRun) -> str:
    return run.unit or UNKNOWN


def _values(run: UnitRun, measure: str) -> tuple[Array, Array]:
    """Return seconds after the run's start and logarithms, of the epochs that have the measure."""
    pairs = [(epoch.after_s, epoch.time_s if measure == "time" else epoch.energy_j) for epoch in run.epochs]
    known = [(after_s, math.log(value)) for after_s, value in pairs if value is not None]
    return np.asarray([after for after, _ in known]), np.asarray([log for _, log in known])


def _no_energy(runs: Sequence[UnitRun], without: Sequence[str], others: int) -> Doubt:
    reason = next((run.energy_reason for run in runs if _unit(run) in without and run.energy_reason), "not recorded")
    if not others:
        return Doubt("no_energy", f"energy was not measured: {reason}")
    return Doubt("no_energy", f"some runs of {', '.join(without)} have no energy ({reason}) and are missing there")


def _measure(
    kept: Sequence[tuple[UnitRun, Array, Array]], measure: str, per: str, difference: float, origin: Origin
) -> MeasureVariability:
    cells: dict[tuple[str, str], list[Array]] = {}
    by_unit: dict[str, list[tuple[UnitRun, Array, Array]]] = {}
    for run, after_s, logs in kept:
        cells.setdefault((_unit(run), run.software or UNKNOWN), []).append(logs)
        by_unit.setdefault(_unit(run), []).append((run, after_s, logs))
    effects = software_effects(cells, nested_squares(list(cells.values())).runs)
    means = np.asarray([_unit_mean(cells, effects, unit) for unit in by_unit])
    squares = nested_squares(list(cells.values()), means, effects.lost)
    apart = outliers(means)
    usual = np.delete(means, apart)
    within_cells = [runs for (unit, _), runs in cells.items() if unit not in {list(by_unit)[row] for row in apart}]
    timed = {unit: on_one_axis(_adjusted(runs, effects)) for unit, runs in by_unit.items()}
    slopes = {unit: unit_slope(runs) for unit, runs in timed.items()}
    units = tuple(
        _unit_variation(unit, timed[unit], means, row, squares.runs, slopes[unit], row in apart, origin)
        for row, unit in enumerate(by_unit)
    )
    clean = unit_component(nested_squares(within_cells, usual, effects.lost)) if apart else None
    version = effects.coefficient
    return MeasureVariability(
        measure=measure,
        per=per,
        mean=math.exp(float(means.mean())),
        units=len(by_unit),
        runs=len(kept),
        epochs=sum(len(logs) for _, _, logs in kept),
        between_epochs=_share(epoch_component(squares), origin),
        between_runs=_share(run_component(squares), origin),
        within_unit=_share(time_component(squares), origin),
        between_units=_share(unit_component(squares), origin),
        between_units_without_outliers=_share(clean, origin),
        range_of_units=math.expm1(float(means.max() - means.min())) if len(means) > 1 else None,
        between_software=_share(None if version is None else Component(*version), origin),
        drift_per_h=_drift(common_slope([slope for slope in slopes.values() if slope is not None]), origin),
        outliers=tuple(units[row].unit for row in apart),
        software=effects.differences,
        sample_size=sample_size(difference, squares.runs, squares.units, squares.runs_per_unit),
        by_unit=units,
        doubts=tuple(_doubts(cells, units, effects, squares.runs)),
    )


def _unit_mean(cells: dict[tuple[str, str], list[Array]], effects: SoftwareEffects, unit: str) -> float:
    own = [cell_mean(runs) - effects.offsets[software] for (name, software), runs in cells.items() if name == unit]
    return float(np.mean(own))


def _adjusted(
    runs: Sequence[tuple[UnitRun, Array, Array]], effects: SoftwareEffects
) -> list[tuple[UnitRun, Array, Array]]:
    return [(run, after_s, logs - effects.offsets[run.software or UNKNOWN]) for run, after_s, logs in runs]


def _unit_variation(
    unit: str,
    runs: Sequence[TimedRun],
    means: Array,
    row: int,
    within: MeanSquare | None,
    slope: Slope | None,
    outlier: bool,
    origin: Origin,
) -> UnitVariation:
    off = float(means[row] - means.mean())
    reach = None
    if within is not None:
        # The mean of all units is as uncertain as its parts; this unit is one of them.
        deviation = math.sqrt(within.value / len(runs) * (1 - 1 / len(means)))
        reach = quantile(0.5 + LEVEL / 2, within.freedom) * deviation
    logs = np.concatenate([run.logs for run in runs])
    return UnitVariation(
        unit,
        len(runs),
        len(logs),
        math.exp(float(means[row])),
        math.expm1(off),
        None if reach is None else math.expm1(off - reach),
        None if reach is None else math.expm1(off + reach),
        coefficient_of_variation(float(logs.std(ddof=1))) if len(logs) > 1 else None,
        span_h(runs),
        _drift(slope, origin),
        outlier,
    )


def _share(component: Component | None, origin: Origin) -> Estimate | None:
    if component is None:
        return None
    value, lo, hi = (coefficient_of_variation(min(one, 5.0)) for one in (component.value, component.lo, component.hi))
    return Estimate(value, lo, hi, "1", origin, LEVEL)


def _drift(slope: Slope | None, origin: Origin) -> Estimate | None:
    if slope is None:
        return None
    lo, hi = (math.expm1(min(5.0, max(-5.0, end))) for end in slope.bounds(LEVEL))
    return Estimate(math.expm1(slope.value), lo, hi, "1/h", origin, LEVEL)


def _doubts(
    cells: dict[tuple[str, str], list[Array]],
    units: Sequence[UnitVariation],
    effects: SoftwareEffects,
    within: MeanSquare | None,
) -> list[Doubt]:
    found = []
    if len(units) == 1:
        text = f"all runs are of one unit, {units[0].unit}: how much units differ is not known"
        found.append(Doubt("one_unit", text))
    elif len(units) < MIN_UNITS_FOR_OUTLIERS:
        text = f"{len(units)} units: intervals are wide, and no unit can be called an outlier with fewer than 5"
        found.append(Doubt("few_units", text))
    if within is None:
        text = (
            "no run was repeated on its unit: differences between runs count as differences between units; repeat each "
            "run at least twice"
        )
        found.append(Doubt("one_run_per_unit", text))
    confounded = [one.software for one in effects.differences if one.lo is None]
    if confounded:
        text = (
            f"{' and '.join(confounded)} ran on one unit that ran nothing else, or once: its effect and the unit's "
            "cannot be separated; run both versions on the same units"
        )
        found.append(Doubt("software_and_unit", text))
    if units and max(one.span_h for one in units) < MIN_SPAN_H:
        minutes = 60 * max(one.span_h for one in units)
        text = f"no unit was observed for longer than {minutes:.1f} minutes: drift over hours is not known"
        found.append(Doubt("short_span", text))
    return found
