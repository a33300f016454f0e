"""A figure as data: its kind, its axes and one row per mark; the CSV beside a figure is these rows."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum


class FigureKind(str, Enum):
    """The kinds that the papers use."""

    STACKED = "stacked"  # bars: x is the setting, series the part
    LINES = "lines"  # x is a number, series a setting; low and high are error bars
    VIOLINS = "violins"  # x is the setting, one row per value
    SCATTER = "scatter"  # points; the series `frontier` is joined by a line
    INTERVALS = "intervals"  # x is a name, y a value with its interval; one mark per series
    SERIES = "series"  # over time; low and high are a band


@dataclass(frozen=True, slots=True)
class FigureRow:
    """One mark of a figure. `low` and `high`: the range of what it sums up, or its ±."""

    series: str
    x: float | str
    y: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class PaperFigure:
    """One figure; `name` is that of its files, `heads` names series, x and y in the CSV, units last."""

    name: str
    kind: FigureKind
    title: str
    x_label: str
    y_label: str
    heads: tuple[str, str, str]
    rows: Sequence[FigureRow]
    colours: Sequence[str] = ()  # of the series, in order; default: the palette
    log_x: bool = False
    log_y: bool = False
    note: str = ""  # what a caption must say: origin, medians or means, what whiskers are


def figure_csv(figure: PaperFigure) -> str:
    """Return the rows of a figure as CSV; columns that no row has are left out."""
    ranged = any(row.low is not None for row in figure.rows)
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    y = figure.heads[2]
    writer.writerow([*figure.heads, *((f"{y}_low", f"{y}_high") if ranged else ())])
    for row in figure.rows:
        cells = [row.series, _cell(row.x), _cell(row.y)]
        writer.writerow([*cells, *((_cell(row.low), _cell(row.high)) if ranged else ())])
    return out.getvalue()


def _cell(value: float | str | None) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else f"{value:.7g}"
