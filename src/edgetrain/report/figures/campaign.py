"""The figures of a campaign: times by setting and by factor, minibatches, energy, page cache and power over time."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from edgetrain.analysis import (
    FactorRow,
    Summary,
    TraceKind,
    cache_curve,
    find_loops,
    label,
    put_in_bins,
    slowest,
    tabulate,
    traces,
)
from edgetrain.record import Run
from edgetrain.report.figures.figure import FigureKind, FigureRow, PaperFigure
from edgetrain.report.page.epochs import TIME_PARTS, seconds_by_part
from edgetrain.report.page.factor_plots import factor_plots
from edgetrain.units import S_PER_US

MAX_VALUES = 2_000  # minibatches of one setting in a violin; more are thinned evenly by rank
MAX_BINS = 400  # of a series over time
MAX_VIOLINS = 16
MAX_SERIES = 6
WIDE_RANGE = 20.0  # p99.5 over the median from which a logarithmic axis is used


@dataclass(frozen=True)
class SettingRun:
    """One run of a campaign: its summary, and the record where minibatches and samples are drawn too."""

    summary: Summary
    run: Run | None = None


def campaign_figures(runs: Sequence[SettingRun]) -> list[PaperFigure]:
    """Return every figure that these runs have the data for."""
    summaries = [one.summary for one in runs if one.summary.epochs]
    rows = tabulate(summaries)
    found = [_stacked(rows, summaries), *_by_factor(rows, summaries), _violins(rows, runs), _energy(rows, summaries)]
    found += [_cache(rows, runs), _power(rows, runs)]
    note = "values are " + " or ".join(sorted({str(summary.origin) for summary in summaries}))
    return [replace(one, note=f"{one.note}; {note}".lstrip("; ")) for one in found if one is not None and one.rows]


def _stacked(rows: Sequence[FactorRow], summaries: Sequence[Summary]) -> PaperFigure:
    by_run = {summary.run: summary for summary in summaries}
    found = []
    used = set()
    for row in rows:
        epochs = [epoch for run in row.runs for epoch in by_run[run].epochs[1:] or by_run[run].epochs]
        parts = [seconds_by_part(epoch) for epoch in epochs]
        took = [epoch.e2e_s for epoch in epochs]
        for name, words in TIME_PARTS:
            mean = sum(part[name] for part in parts) / len(parts)
            used |= {words} if mean > 0 else set()
            found.append(FigureRow(words, label(row.factors), mean, min(took), max(took)))
    found = [row for row in found if row.series in used]
    return PaperFigure(
        "time-by-setting",
        FigureKind.STACKED,
        "Where the time of an epoch goes",
        "",
        "seconds per epoch",
        ("part", "setting", "seconds_per_epoch"),
        found,
        note="means over later epochs and repeats; whiskers: shortest and longest epoch, low and high in the CSV",
    )


def _by_factor(rows: Sequence[FactorRow], summaries: Sequence[Summary]) -> list[PaperFigure]:
    found = []
    for plot in factor_plots(rows, {summary.run: summary for summary in summaries}):
        marks = [
            FigureRow(series.name, float(x), float(y), float(low), float(high))
            for series in plot.series
            if series.low is not None and series.high is not None
            for x, y, low, high in zip(series.x, series.y, series.low, series.high, strict=True)
        ]
        heads = ("setting", re.sub(r"\W+", "_", plot.x.label), "seconds_per_epoch")
        kind = FigureKind.LINES
        found.append(PaperFigure(plot.id, kind, plot.title, plot.x.label, plot.y.label, heads, marks, note=plot.note))
    return found


def _thinned(values: NDArray[np.float64]) -> list[float]:
    """Return at most MAX_VALUES of the values, evenly by rank, the smallest and the largest among them."""
    ordered = np.sort(values)
    if len(ordered) > MAX_VALUES:
        ordered = ordered[np.linspace(0, len(ordered) - 1, MAX_VALUES).astype(np.intp)]
    return [float(value) for value in ordered.tolist()]


def _violins(rows: Sequence[FactorRow], runs: Sequence[SettingRun]) -> PaperFigure | None:
    """Return the minibatches of each setting, without the first of each epoch."""
    records = {one.summary.run: one.run for one in runs if one.run is not None}
    found: list[FigureRow] = []
    for row in rows[:MAX_VIOLINS]:
        values = []
        for name in row.runs:
            record = records.get(name)
            if record is not None:
                parts = slowest(find_loops(record)).parts
                values.append(parts.e2e_s[~parts.first])
        if values:
            together = np.asarray(np.concatenate(values), np.float64)
            found += [FigureRow("minibatch", label(row.factors), value) for value in _thinned(together)]
    if not found:
        return None
    every = np.asarray([row.y for row in found])
    wide = float(np.percentile(every, 99.5)) > WIDE_RANGE * float(np.median(every)) > 0
    return PaperFigure(
        "minibatches-by-setting",
        FigureKind.VIOLINS,
        "Time of single minibatches",
        "",
        "seconds per minibatch",
        ("what", "setting", "seconds_per_minibatch"),
        found,
        log_y=wide,
        note=f"all epochs, without the first minibatch of each; at most {MAX_VALUES} per setting, evenly by rank",
    )


def _energy(rows: Sequence[FactorRow], summaries: Sequence[Summary]) -> PaperFigure | None:
    by_run = {summary.run: summary for summary in summaries}
    found: list[FigureRow] = []
    for row in rows:
        epochs = [epoch for run in row.runs for epoch in by_run[run].epochs[1:] or by_run[run].epochs]
        joules = [epoch.energy_j for epoch in epochs if epoch.energy_j is not None]
        if not joules or len(joules) < len(epochs):
            continue
        base = [epoch.baseload_j for epoch in epochs if epoch.baseload_j is not None]
        base_j = sum(base) / len(base) if len(base) == len(epochs) else 0.0
        mean = sum(joules) / len(joules)
        pm = (sum((epoch.energy_pm_j or 0.0) ** 2 for epoch in epochs) ** 0.5) / len(epochs)
        setting = label(row.factors)
        if base_j:
            found.append(FigureRow("idle baseload", setting, min(base_j, mean), mean - pm, mean + pm))
        found.append(FigureRow("added by training", setting, max(0.0, mean - base_j), mean - pm, mean + pm))
    return PaperFigure(
        "energy-by-setting",
        FigureKind.STACKED,
        "Energy per epoch",
        "",
        "joules per epoch",
        ("part", "setting", "joules_per_epoch"),
        found,
        note="means over later epochs and repeats; whiskers: ± of the mean at about 95 %",
    )


def _first_runs(rows: Sequence[FactorRow], runs: Sequence[SettingRun]) -> list[tuple[str, Summary, Run]]:
    """Return the first run of each setting whose record is there."""
    known = {one.summary.run: one for one in runs}
    found = []
    for row in rows:
        one = known[row.runs[0]]
        if one.run is not None:
            found.append((label(row.factors), one.summary, one.run))
    return found


def _cache(rows: Sequence[FactorRow], runs: Sequence[SettingRun]) -> PaperFigure | None:
    found: list[FigureRow] = []
    drawn = 0
    for name, summary, run in _first_runs(rows, runs):
        curve = cache_curve(run, summary.epochs)
        if curve is None or not len(curve.cached_share) or drawn >= MAX_SERIES:
            continue
        drawn += 1
        pairs = zip(curve.share_at_s.tolist(), curve.cached_share.tolist(), strict=True)
        found += [FigureRow(name, at, 100 * share) for at, share in pairs]
    return PaperFigure(
        "cache-over-time",
        FigureKind.SERIES,
        "Dataset in the page cache",
        "seconds since the first minibatch",
        "% of the dataset",
        ("setting", "seconds", "cached_percent"),
        found,
        note="first run of each setting",
    )


def _power(rows: Sequence[FactorRow], runs: Sequence[SettingRun]) -> PaperFigure | None:
    found: list[FigureRow] = []
    drawn = 0
    for name, summary, run in _first_runs(rows, runs):
        total = next((trace for trace in traces(run) if trace.kind is TraceKind.POWER and trace.main), None)
        if total is None or drawn >= MAX_SERIES:
            continue
        drawn += 1
        at_s = np.asarray((total.at_us - summary.epochs[0].begin_us) * S_PER_US, np.float64)
        stop_s = (summary.epochs[-1].end_us - summary.epochs[0].begin_us) * S_PER_US
        bins = put_in_bins(at_s, total.values, 0.0, stop_s, MAX_BINS)
        edges = np.linspace(0.0, stop_s, len(bins) + 1)
        middle = ((edges[1:] + edges[:-1]) / 2).tolist()
        marks = zip(middle, bins.mean.tolist(), bins.low.tolist(), bins.high.tolist(), strict=True)
        found += [FigureRow(name, at, mean, low, high) for at, mean, low, high in marks if mean == mean]
    return PaperFigure(
        "power-over-time",
        FigureKind.SERIES,
        "Power of the total rail",
        "seconds since the first minibatch",
        "W",
        ("setting", "seconds", "watts"),
        found,
        note="first run of each setting; band: smallest and largest reading in a bin",
    )
