"""Variability in words: coefficients with their intervals, settings by what differs, and the rows of a page's table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from edgetrain.analysis import MeasureVariability, SettingVariability, VariabilityReport
from edgetrain.schema import Estimate, Scalar

UNIT_HEADS = ("setting", "measure", "units", "runs", "one unit over time", "between units", "software", "outliers")
SOURCES = (
    ("epochs of one run", "between_epochs"),
    ("runs of one unit", "between_runs"),
    ("one unit over time", "within_unit"),
    ("units", "between_units"),
    ("units, without outliers", "between_units_without_outliers"),
    ("software versions", "between_software"),
)


def with_interval(found: Estimate | None, signed: bool = False) -> str:
    """Spell a share with its interval in per cent."""
    if found is None:
        return "–"
    sign = "+" if signed else ""
    value, lo, hi = (f"{100 * one:{sign}.2g}" for one in (found.value, found.lo, found.hi))
    return f"{value} % [{lo}, {hi}]"


def estimates_of(found: MeasureVariability) -> dict[str, Estimate | None]:
    """Return the coefficients of variation by the name of their field."""
    return {
        "between_epochs": found.between_epochs,
        "between_runs": found.between_runs,
        "within_unit": found.within_unit,
        "between_units": found.between_units,
        "between_units_without_outliers": found.between_units_without_outliers,
        "between_software": found.between_software,
    }


def setting_label(one: SettingVariability, every: Sequence[SettingVariability]) -> str:
    """Spell a setting by its board, its network and what differs between the settings of a report."""
    names = dict.fromkeys(name for each in every for name in each.setting)
    differs = [name for name in names if len({str(each.setting.get(name)) for each in every}) > 1]
    shown: Mapping[str, Scalar] = {
        name: one.setting[name] for name in differs if name != "network" and name in one.setting
    }
    parts = [str(part) for part in (one.board, one.setting.get("network")) if part is not None]
    return ", ".join([*parts, *(f"{name} {value}" for name, value in shown.items())])


def unit_rows(report: VariabilityReport) -> list[list[str]]:
    """Return one row per setting and measure that was made on several units."""
    rows = []
    for one in report.settings:
        for found in one.measures:
            if found.units > 1:
                shares = (found.within_unit, found.between_units, found.between_software)
                name = setting_label(one, report.settings)
                cells = [name, found.measure, str(found.units), str(found.runs), *map(with_interval, shares)]
                rows.append([*cells, ", ".join(found.outliers) or "none found"])
    return rows
