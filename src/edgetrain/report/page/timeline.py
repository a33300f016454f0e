"""The timeline of a run: minibatches, processors, memory, storage, power, clocks and temperatures on one time axis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from edgetrain.analysis import EpochSummary, Parts, Summary, Trace, TraceKind, put_in_bins, traces
from edgetrain.record import Run
from edgetrain.report.page.epochs import define_total
from edgetrain.report.page.plot import COLOURS, Floats, Plot, PlotAxis, PlotMark, PlotSeries
from edgetrain.units import S_PER_US, spell_seconds

GROUP = "timeline"
MAX_BINS, MIN_BINS = 2_000, 240
BUDGET_BYTES = 760_000  # of all series of a timeline, in the page
BYTES_PER_BIN = 8.1  # smallest, mean and largest, packed
MAX_EVENTS = 200
FAR, MIN_FOR_CUT = 2.0, 50  # an axis is cut where the longest of at least 50 is beyond twice the usual range
TITLES = {
    TraceKind.CPU: ("CPU utilisation", "share of time"),
    TraceKind.GPU: ("GPU and memory controller utilisation", "share of time"),
    TraceKind.MEMORY: ("Memory", "in use"),
    TraceKind.READS: ("Reads from the storage medium", "bytes per second"),
    TraceKind.REQUESTS: ("Read requests to the dataset's device (IOPS)", "requests per second"),
    TraceKind.CACHE: ("Dataset in the page cache", "share of the dataset"),
    TraceKind.POWER: ("Power by rail", "power"),
    TraceKind.CLOCK: ("Clocks", "clock"),
    TraceKind.TEMPERATURE: ("Temperature", "temperature"),
    TraceKind.FAN: ("Fan", "share of full speed"),
}
TALL = {TraceKind.CPU, TraceKind.POWER}
SHARES = {TraceKind.CPU, TraceKind.GPU, TraceKind.CACHE, TraceKind.FAN}
MINIBATCH_PARTS = (("fetch stall", "stall_s", "stall"), ("copy and compute", "busy_s", "compute"))


def timeline(run: Run, summary: Summary, parts: Parts, budget_bytes: int = BUDGET_BYTES) -> list[Plot]:
    """Return the pictures of a run's timeline; all share their time axis."""
    known = traces(run)
    begin_us, end_us = _window(run, summary.epochs, known)
    zero_us = summary.epochs[0].begin_us if summary.epochs else begin_us
    series = len(known) + len(MINIBATCH_PARTS)
    bins = int(np.clip(budget_bytes / BYTES_PER_BIN / max(series, 1), MIN_BINS, MAX_BINS))
    axis = PlotAxis(
        "time since the first minibatch was asked for" if summary.epochs else "time",
        "s",
        (begin_us - zero_us) * S_PER_US,
        (end_us - zero_us) * S_PER_US,
    )
    marks = (*_epoch_marks(summary.epochs, zero_us), *_event_marks(run, zero_us))
    found = [minibatch_panel(parts, axis, zero_us, bins, marks, str(run.manifest.origin))] if len(parts) else []
    for kind in TraceKind:
        some = [trace for trace in known if trace.kind is kind]
        if some:
            found.append(panel(run, kind, some, axis, zero_us, bins, marks))
    return found


def _window(run: Run, epochs: Sequence[EpochSummary], known: Sequence[Trace]) -> tuple[int, int]:
    """Return the instants between which there is something to see: the epochs, and the baseload before them."""
    if epochs:
        base = run.manifest.baseload
        begin = min(epochs[0].begin_us, base.from_us) if base else epochs[0].begin_us
        return begin, max(epochs[-1].end_us, begin + 1)
    ends = [(int(trace.at_us[0]), int(trace.at_us[-1])) for trace in known if len(trace.at_us)]
    begin = min((first for first, _ in ends), default=0)
    return begin, max(max((last for _, last in ends), default=0), begin + 1)


def _epoch_marks(epochs: Sequence[EpochSummary], zero_us: int) -> list[PlotMark]:
    return [PlotMark((epoch.begin_us - zero_us) * S_PER_US, f"epoch {epoch.epoch}") for epoch in epochs]


def _event_marks(run: Run, zero_us: int) -> list[PlotMark]:
    events = [event for event in run.events if event.at_us is not None and event.kind not in ("cost", "epoch")]
    return [
        PlotMark(((event.at_us or 0) - zero_us) * S_PER_US, f"{event.kind}: {event.text}", "event")
        for event in events[:MAX_EVENTS]
    ]


def minibatch_panel(
    parts: Parts, axis: PlotAxis, zero_us: int, bins: int, marks: tuple[PlotMark, ...], origin: str
) -> Plot:
    """Return stall and compute of each minibatch over time."""
    at_s = np.asarray((parts.done_us - zero_us) * S_PER_US, np.float64)
    found = []
    each = 1.0
    for name, column, colour in MINIBATCH_PARTS:
        values: Floats = getattr(parts, column)
        series, each = _series(name, at_s, values, axis, bins, colour)
        found.append(series)
    count = "one or two" if each < 1.5 else f"about {each:.0f}"
    what = f"each point is {count} minibatches: mean, and the shortest and longest as a band" if each > 1 else ""
    first_hi, beyond = _first_hi(parts)
    return Plot(
        "minibatches",
        "Time per minibatch",
        axis,
        PlotAxis("seconds per minibatch", "s", 0.0, first_hi=first_hi),
        tuple(found),
        "Fetch stall and compute of each minibatch over time",
        marks,
        f"{what or 'every minibatch'}{beyond}; {origin}",
        GROUP,
        240,
    )


def _first_hi(parts: Parts) -> tuple[float | None, str]:
    """Return where the axis ends at first, if a few minibatches are far longer than the others, and a note on them."""
    values = np.maximum(parts.stall_s, parts.busy_s)
    usual = float(np.percentile(values, 99)) * 1.5
    longest = float(values.max())
    if len(values) < MIN_FOR_CUT or longest <= FAR * usual:
        return None, ""
    count = int((values > usual).sum())
    words = f"{count} longer than {spell_seconds(usual)}, up to {spell_seconds(longest)}: zoom in on a part to see all"
    return usual, f"; {words}"


def panel(
    run: Run,
    kind: TraceKind,
    some: Sequence[Trace],
    axis: PlotAxis,
    zero_us: int,
    bins: int,
    marks: tuple[PlotMark, ...],
) -> Plot:
    """Return the traces of one kind over time."""
    title, label = TITLES[kind]
    found = []
    for place, trace in enumerate(some):
        colour = "ink" if trace.main else str(place % COLOURS)
        at_s = np.asarray((trace.at_us - zero_us) * S_PER_US, np.float64)
        series, _ = _series(trace.name, at_s, trace.values, axis, bins, colour, trace.main)
        found.append(replace(series, dashed=place >= COLOURS))
    upper = 1.0 if kind in SHARES else None
    lower = None if kind is TraceKind.TEMPERATURE else 0.0
    words = [str(run.manifest.origin)]
    if kind is TraceKind.POWER:
        words.insert(0, define_total(run.manifest.power))
        words += ["rails may contain each other and do not add up to the total"] if len(some) > 1 else []
    return Plot(
        kind.value,
        title,
        axis,
        PlotAxis(label, kind.unit, lower, upper),
        tuple(found),
        f"{title} over time: {', '.join(trace.name for trace in some[:12])}",
        marks,
        "; ".join(word for word in words if word),
        GROUP,
        230 if kind in TALL else 170,
    )


def _series(
    name: str, at_s: Floats, values: Floats, axis: PlotAxis, bins: int, colour: str, strong: bool = False
) -> tuple[PlotSeries, float]:
    """Return a series in at most `bins` bins, and how many values one bin holds; few values stay as they are."""
    assert axis.lo is not None and axis.hi is not None
    known = np.isfinite(values) & (at_s >= axis.lo) & (at_s <= axis.hi)
    if known.sum() <= bins:
        return PlotSeries(name, at_s[known], values[known], colour=colour, strong=strong), 1.0
    binned = put_in_bins(at_s, values, axis.lo, axis.hi, bins)
    edges = np.linspace(axis.lo, axis.hi, len(binned) + 1)
    middle = (edges[1:] + edges[:-1]) / 2
    series = PlotSeries(name, middle, binned.mean, binned.low, binned.high, colour=colour, strong=strong)
    return series, binned.each
