"""Variability for the terminal and as figures: what varies by how much, and which units are outliers."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from edgetrain.analysis import MeasureVariability, SettingVariability, VariabilityReport
from edgetrain.report.figures.figure import FigureKind, FigureRow, PaperFigure
from edgetrain.report.text import plain_table
from edgetrain.report.variability_rows import SOURCES, estimates_of, setting_label, with_interval
from edgetrain.schema import Estimate
from edgetrain.units import spell, spell_seconds

MAX_UNITS = 24  # shown in the terminal; the document has all
MAX_LEFT_OUT = 5


def show_variability(report: VariabilityReport) -> RenderableType:
    """Return the report for the terminal."""
    lines: list[RenderableType] = []
    for one in report.settings:
        lines += [Text(f"{setting_label(one, report.settings)}: {_counts(one)}, {one.origin}", style="bold"), Text("")]
        lines += [variation_table(one), Text("")]
        for found in one.measures:
            lines += _sentences(found)
        if any(found.units > 1 for found in one.measures):
            lines += [Text(""), unit_table(one)]
        doubts = dict.fromkeys(doubt.text for doubt in (*one.doubts, *(d for m in one.measures for d in m.doubts)))
        lines += [Text(f"doubt: {text}", style="yellow") for text in doubts]
        lines.append(Text(""))
    lines.append(
        Text(
            f"[lo, hi] contains the true value in {report.level:.0%} of all cases; values per minibatch of later epochs"
        )
    )
    if report.left_out:
        more = len(report.left_out) - MAX_LEFT_OUT
        lines += [Text(f"left out: {text}", style="yellow") for text in report.left_out[:MAX_LEFT_OUT]]
        lines += [Text(f"left out: {more} more", style="yellow")] if more > 0 else []
    return Group(*lines)


def _counts(one: SettingVariability) -> str:
    units = max((found.units for found in one.measures), default=0)
    return f"{units} unit{'' if units == 1 else 's'}, {len(one.run_ids)} run{'' if len(one.run_ids) == 1 else 's'}"


def variation_table(one: SettingVariability) -> Table:
    """Return the coefficients of variation, time and energy side by side."""
    table = plain_table("varies between", *(found.measure for found in one.measures))
    columns = [estimates_of(found) for found in one.measures]
    for words, name in SOURCES:
        if any(column[name] is not None for column in columns):
            table.add_row(words, *(with_interval(column[name]) for column in columns))
    if any(found.drift_per_h is not None for found in one.measures):
        table.add_row("drift per hour", *(with_interval(found.drift_per_h, signed=True) for found in one.measures))
    return table


def unit_table(one: SettingVariability) -> Table:
    """Return where each unit lies: its mean, and its distance from the mean of all."""
    heads = [head for found in one.measures for head in (found.measure, "from mean")]
    table = plain_table("unit", "runs", *heads, "drift per hour")
    rows = {unit.unit: unit for found in reversed(one.measures) for unit in found.by_unit}
    for name, unit in list(rows.items())[:MAX_UNITS]:
        cells = []
        for found in one.measures:
            mine = next((each for each in found.by_unit if each.unit == name), None)
            if mine is None:
                cells += ["–", "–"]
                continue
            pm = "" if mine.deviation_hi is None else f" ± {50 * (mine.deviation_hi - (mine.deviation_lo or 0.0)):.2g}"
            mark = "  outlier" if mine.outlier else ""
            cells += [_spell_mean(mine.mean, found.per), f"{100 * mine.deviation:+.2g}{pm} %{mark}"]
        table.add_row(name, str(unit.runs), *cells, with_interval(unit.drift_per_h, signed=True))
    if len(rows) > MAX_UNITS:
        table.add_row(f"… {len(rows) - MAX_UNITS} more", *[""] * (len(heads) + 2))
    return table


def _spell_mean(value: float, per: str) -> str:
    return spell_seconds(value) if per.startswith("s") else spell(value, "J")


def _sentences(found: MeasureVariability) -> list[Text]:
    lines = []
    if found.outliers:
        lines.append(
            Text(f"{found.measure}: {', '.join(found.outliers)} is an outlier among the units", style="yellow")
        )
    for each in found.software:
        ends = "" if each.lo is None or each.hi is None else f" [{100 * each.lo:+.2g}, {100 * each.hi:+.2g}]"
        where = "on the same units" if each.same_units else "on other units"
        lines.append(
            Text(f"{found.measure}: {each.software} against {each.against}: {100 * each.change:+.2g} %{ends}, {where}")
        )
    size = found.sample_size
    asked = f"{100 * size.difference:g} %"
    if size.runs is not None:
        text = (
            f"{found.measure}: detecting {asked} takes {size.runs} runs per setting on one unit "
            f"({size.runs_most} to be safe)"
        )
        if size.units is not None:
            text += f", or {size.units} units per setting on different units ({size.units_most} to be safe)"
        lines.append(Text(text))
    return lines


def variability_figures(report: VariabilityReport) -> list[PaperFigure]:
    """Return the figures: what varies by how much, where units lie, and drift of each unit."""
    sources, units, drifts = [], [], []
    several = len(report.settings) > 1
    for one in report.settings:
        prefix = f"{setting_label(one, report.settings)}: " if several else ""
        for found in one.measures:
            for words, name in SOURCES:
                seen = estimates_of(found)[name]
                if seen is not None:
                    sources.append(_row(found.measure, prefix + words, seen))
            for unit in found.by_unit:
                ends = [None if end is None else 100 * end for end in (unit.deviation_lo, unit.deviation_hi)]
                name = f"{prefix}{unit.unit}{' (outlier)' if unit.outlier else ''}"
                units.append(FigureRow(found.measure, name, 100 * unit.deviation, ends[0], ends[1]))
                if unit.drift_per_h is not None:
                    drifts.append(_row(found.measure, prefix + unit.unit, unit.drift_per_h))
    origins = " or ".join(sorted({str(one.origin) for one in report.settings}))
    note = f"whiskers: {report.level:.0%} intervals; per minibatch of later epochs; values are {origins}"
    kind = FigureKind.INTERVALS
    found_figures = [
        PaperFigure(
            "variation-by-source", kind, "What varies by how much", "", "coefficient of variation, %",
            ("measure", "between", "coefficient_of_variation_percent"), sources, note=note,
        ),
        PaperFigure(
            "units", kind, "Units against their mean", "", "deviation, %",
            ("measure", "unit", "deviation_percent"), units, note=note,
        ),
        PaperFigure(
            "drift-by-unit", kind, "Drift over hours", "", "% per hour",
            ("measure", "unit", "percent_per_hour"), drifts, note=note,
        ),
    ]  # fmt: skip
    return [figure for figure in found_figures if figure.rows]


def _row(series: str, x: str, seen: Estimate) -> FigureRow:
    return FigureRow(series, x, 100 * seen.value, 100 * seen.lo, 100 * seen.hi)
