"""Draws figures with matplotlib: one column wide, in fonts of a paper and colours that everybody can tell apart."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from edgetrain.errors import EdgetrainError
from edgetrain.report.figures.figure import FigureKind, FigureRow, PaperFigure, figure_csv

WIDTH_IN = 3.35  # one column of a two-column paper
HEIGHT_IN = 2.3
MAX_TICKS = 8
# Okabe and Ito's palette, which all common kinds of colour blindness can tell apart.
PALETTE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#882255", "#5d6b70")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
PARTS = {
    "blocked": "#d55e00",
    "pre-processing": "#e69f00",
    "contention": "#cc79a7",
    "hand-over": "#882255",
    "stall of unknown cause": "#b34700",
    "copy": "#56b4e9",
    "compute": "#009e73",
    "overhead": "#93a0a6",
    "idle baseload": "#93a0a6",
    "added by training": "#0072b2",
}
HATCHES = {"blocked": "///", "pre-processing": "...", "contention": "xxx", "hand-over": "\\\\\\", "copy": "---"}
LYING = (FigureKind.STACKED, FigureKind.VIOLINS, FigureKind.INTERVALS)  # settings down, values across
STYLE = {
    "font.size": 7.5,
    "axes.labelsize": 7.5,
    "xtick.labelsize": 6.5,
    "ytick.labelsize": 6.5,
    "legend.fontsize": 6.0,
    "axes.linewidth": 0.6,
    "lines.linewidth": 1.0,
    "lines.markersize": 3.0,
    "axes.grid": True,
    "grid.linewidth": 0.3,
    "grid.color": "#d0d6d9",
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "pdf.fonttype": 42,  # fonts that publishers take
    "svg.hashsalt": "edgetrain",
    "hatch.linewidth": 0.3,
}


def write_figures(figures: Sequence[PaperFigure], folder: Path, formats: Sequence[str] = ("pdf", "svg")) -> list[Path]:
    """Write each figure in every format, with its CSV; return the files."""
    try:
        import matplotlib

        matplotlib.use("Agg")
        from matplotlib import pyplot
    except ImportError as error:
        raise EdgetrainError("figures need matplotlib: pip install 'edgetrain[plots]'") from error
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for figure in figures:
        with matplotlib.rc_context(STYLE):
            drawing, axes = pyplot.subplots(figsize=(WIDTH_IN, _height(figure)), layout="constrained")
            _draw(figure, axes)
            axes.set_title(figure.title, fontsize=7.5, loc="left")
            lying = figure.kind in LYING
            axes.set_xlabel(figure.y_label if lying else figure.x_label)
            axes.set_ylabel(figure.x_label if lying else figure.y_label)
            for form in formats:
                path = folder / f"{figure.name}.{form}"
                dates = {"pdf": {"CreationDate": None}, "svg": {"Date": None}}  # the same input gives the same file
                drawing.savefig(path, metadata=dates.get(form), dpi=300)
                written.append(path)
            pyplot.close(drawing)
        table = folder / f"{figure.name}.csv"
        table.write_text(figure_csv(figure), encoding="utf-8")
        written.append(table)
    captions = folder / "captions.txt"
    lines = (f"{figure.name}: {figure.title}. {figure.note}." for figure in figures)
    captions.write_text("\n".join(textwrap.fill(line, 100, subsequent_indent="    ") for line in lines) + "\n", "utf-8")
    return [*written, captions]


def _height(figure: PaperFigure) -> float:
    if figure.kind in LYING:
        return max(1.5, 0.75 + 0.17 * len({row.x for row in figure.rows}))
    return HEIGHT_IN


def _shown(name: str) -> str:
    """Return a name as matplotlib is to write it: short, and a dollar sign is no formula."""
    return textwrap.shorten(name, 44, placeholder=" …").replace("$", r"\$")


def _by_series(rows: Sequence[FigureRow]) -> dict[str, list[FigureRow]]:
    found: dict[str, list[FigureRow]] = {}
    for row in rows:
        found.setdefault(row.series, []).append(row)
    return found


def _draw(figure: PaperFigure, axes: Any) -> None:
    kinds = {
        FigureKind.STACKED: _stacked,
        FigureKind.LINES: _lines,
        FigureKind.VIOLINS: _violins,
        FigureKind.SCATTER: _scatter,
        FigureKind.SERIES: _series,
        FigureKind.INTERVALS: _intervals,
    }
    kinds[figure.kind](figure, axes)
    if figure.log_x:
        axes.set_xscale("log")


def _stacked(figure: PaperFigure, axes: Any) -> None:
    settings = list(dict.fromkeys(str(row.x) for row in figure.rows))
    place = {name: number for number, name in enumerate(settings)}
    left = np.zeros(len(settings))
    for name, rows in _by_series(figure.rows).items():
        values = np.zeros(len(settings))
        for row in rows:
            values[place[str(row.x)]] = row.y
        colour = PARTS.get(name, PALETTE[0])
        axes.barh(range(len(settings)), values, 0.72, left, label=name, color=colour, hatch=HATCHES.get(name), lw=0)
        left += values
    ends = {str(row.x): (row.low, row.high) for row in figure.rows if row.low is not None and row.high is not None}
    for name, (low, high) in ends.items():
        if low is not None and high is not None and high > low:
            at = left[place[name]]
            reach = [[max(0.0, at - low)], [max(0.0, high - at)]]
            axes.errorbar([at], [place[name]], xerr=reach, color="#1a2124", lw=0.6, capsize=1.5)
    axes.set_yticks(range(len(settings)), [_shown(name) for name in settings])
    axes.invert_yaxis()
    axes.grid(False, axis="y")
    axes.set_xlim(left=0)
    axes.figure.legend(loc="outside lower center", ncols=3, frameon=False, handlelength=1.2)


def _lines(figure: PaperFigure, axes: Any) -> None:
    for number, (name, rows) in enumerate(_by_series(figure.rows).items()):
        x, y = [row.x for row in rows], np.asarray([row.y for row in rows])
        low = np.asarray([row.y if row.low is None else row.low for row in rows])
        high = np.asarray([row.y if row.high is None else row.high for row in rows])
        marker, colour = MARKERS[number % len(MARKERS)], PALETTE[number % len(PALETTE)]
        reach = [np.maximum(y - low, 0.0), np.maximum(high - y, 0.0)]
        axes.errorbar(x, y, yerr=reach, label=_shown(name), marker=marker, color=colour, capsize=1.5, elinewidth=0.6)
    axes.set_ylim(bottom=0)
    values = sorted({row.x for row in figure.rows if isinstance(row.x, float)})
    if len(values) <= MAX_TICKS and all(value.is_integer() for value in values):
        axes.set_xticks(values)
    if len(_by_series(figure.rows)) > 1:
        axes.legend(frameon=False)


def _violins(figure: PaperFigure, axes: Any) -> None:
    settings: dict[str, list[float]] = {}
    for row in figure.rows:
        settings.setdefault(str(row.x), []).append(row.y)
    values = [np.log10(np.maximum(group, 1e-6)) if figure.log_y else group for group in settings.values()]
    bodies = axes.violinplot(
        values, positions=range(len(values)), orientation="horizontal", widths=0.85, showmedians=True, showextrema=False
    )
    for body in bodies["bodies"]:
        body.set(facecolor=PALETTE[0], alpha=0.55, edgecolor=PALETTE[0], linewidth=0.4)
    bodies["cmedians"].set(color="#1a2124", linewidth=0.9)
    axes.set_yticks(range(len(settings)), [_shown(name) for name in settings])
    axes.invert_yaxis()
    axes.grid(False, axis="y")
    if figure.log_y:
        axes.xaxis.set_major_formatter(lambda value, _: f"{10**value:.3g}")
    else:
        axes.set_xlim(left=0)


def _intervals(figure: PaperFigure, axes: Any) -> None:
    names = list(dict.fromkeys(str(row.x) for row in figure.rows))
    series = _by_series(figure.rows)
    for number, (name, rows) in enumerate(series.items()):
        at = [names.index(str(row.x)) + 0.26 * (number - (len(series) - 1) / 2) for row in rows]
        y = np.asarray([row.y for row in rows])
        low = np.asarray([row.y if row.low is None else row.low for row in rows])
        high = np.asarray([row.y if row.high is None else row.high for row in rows])
        reach = [np.maximum(y - low, 0.0), np.maximum(high - y, 0.0)]
        marker, colour = MARKERS[number % len(MARKERS)], PALETTE[number % len(PALETTE)]
        axes.errorbar(y, at, xerr=reach, fmt=marker, color=colour, capsize=1.5, elinewidth=0.6, label=_shown(name))
    axes.set_yticks(range(len(names)), [_shown(name) for name in names])
    axes.invert_yaxis()
    axes.axvline(0.0, color="#1a2124", lw=0.5)
    if len(series) > 1:
        axes.figure.legend(loc="outside lower center", ncols=3, frameon=False, handlelength=1.2)


def _scatter(figure: PaperFigure, axes: Any) -> None:
    for name, rows in _by_series(figure.rows).items():
        x, y = [row.x for row in rows], [row.y for row in rows]
        if name == "all modes":
            axes.scatter(x, y, s=1.2, color="#b9c3c7", linewidths=0, label=f"{name} ({len(rows):,})", rasterized=False)
        elif name == "frontier":
            marks = {"marker": "o", "markersize": 2.0, "color": PALETTE[0], "label": "frontier"}
            axes.plot(x, y, **marks, lw=0.9 if figure.name == "time-power" else 0)
        else:
            axes.plot(x, y, "s", color=PALETTE[1], markersize=4)
            axes.annotate(_shown(name), (rows[0].x, rows[0].y), xytext=(3, 3), textcoords="offset points", fontsize=6)
    axes.legend(frameon=False)


def _series(figure: PaperFigure, axes: Any) -> None:
    styles = ("-", "--", "-.", ":")
    for number, (name, rows) in enumerate(_by_series(figure.rows).items()):
        x, y = [row.x for row in rows], [row.y for row in rows]
        colour = PALETTE[number % len(PALETTE)]
        axes.plot(x, y, styles[number % len(styles)], color=colour, label=_shown(name))
        if rows[0].low is not None:
            low = [row.y if row.low is None else row.low for row in rows]
            high = [row.y if row.high is None else row.high for row in rows]
            axes.fill_between(x, low, high, color=colour, alpha=0.15, lw=0)
    axes.set_ylim(bottom=0)
    if len(_by_series(figure.rows)) > 1:
        axes.legend(frameon=False)
