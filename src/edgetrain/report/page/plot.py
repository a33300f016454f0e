"""What a picture shows, as data: series, axes and marks. `static` draws it as SVG, the page's script draws it live."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
LOG_PAD = 0.02  # of a logarithmic axis, beyond its smallest and largest value
COLOURS = 8  # in the palette; a picture with more series repeats them with another dash


class PlotStyle(str, Enum):
    """How a series is drawn."""

    LINE = "line"  # with a band from low to high
    MARKED = "marked"  # a line with a dot and a whisker at each value
    BARS = "bars"  # x is the middle of each bar, all of one width
    POINTS = "points"


@dataclass(frozen=True)
class PointFact:
    """A number that belongs to each point of a series and is shown with it, such as a clock."""

    name: str
    unit: str
    values: Floats


@dataclass(frozen=True)
class PlotSeries:
    """One line, cloud of points or set of bars. `low` and `high`: the range of what each value sums up, or its ±."""

    name: str
    x: Floats
    y: Floats
    low: Floats | None = None
    high: Floats | None = None
    x_low: Floats | None = None
    x_high: Floats | None = None
    style: PlotStyle = PlotStyle.LINE
    colour: str = "0"  # place in the palette, or the name of a part of the time
    strong: bool = False  # the one to read first
    hidden: bool = False  # not drawn until it is switched on
    dashed: bool = False  # another series of the picture has the same colour
    facts: tuple[PointFact, ...] = ()
    labels: tuple[str, ...] = ()  # one per point; written beside it


@dataclass(frozen=True, slots=True)
class PlotAxis:
    """One axis. The unit decides how its numbers are spelled: s, B, B/s, Hz, W, J, °C, 1/s, `1` (a share) or none."""

    label: str
    unit: str = ""
    lo: float | None = None  # None: as the values need it
    hi: float | None = None
    log: bool = False
    whole: bool = False  # counts: only whole numbers are written along it
    first_hi: float | None = None  # upper end until the reader zooms in, where a few values are far above all others


@dataclass(frozen=True, slots=True)
class PlotMark:
    """A line across the picture: the boundary of an epoch, an event, a limit, a quantile."""

    at: float
    text: str
    kind: str = "epoch"  # epoch | event | limit | quantile
    axis: str = "x"


@dataclass(frozen=True)
class Plot:
    """One picture. Pictures of one group share their x axis: zooming and pointing in one does so in all."""

    id: str
    title: str
    x: PlotAxis
    y: PlotAxis
    series: tuple[PlotSeries, ...]
    alt: str  # what it shows, for people who cannot see it
    marks: tuple[PlotMark, ...] = ()
    note: str = ""  # definitions and origin, below the title
    group: str = ""
    height: int = 220
    legend: bool = True


@dataclass(frozen=True, slots=True)
class Extent:
    """The smallest and largest value that an axis has to show."""

    lo: float
    hi: float
    log: bool = field(default=False)

    def place(self, value: Floats | float) -> Floats:
        """Return where a value lies: 0 at the start of the axis, 1 at its end."""
        values = np.asarray(value, float)
        if self.log:
            values = np.log10(np.maximum(values, self.lo))
            lo, hi = np.log10(self.lo), np.log10(self.hi)
        else:
            lo, hi = self.lo, self.hi
        return np.asarray((values - lo) / (hi - lo if hi > lo else 1.0), float)


def extent(axis: PlotAxis, columns: list[Floats]) -> Extent:
    """Return what an axis has to show, from the values and the axis' own ends."""
    known = [column[np.isfinite(column) & ((column > 0) | (not axis.log))] for column in columns]
    known = [column for column in known if len(column)]
    lo = axis.lo if axis.lo is not None else min((float(column.min()) for column in known), default=0.0)
    hi = axis.hi if axis.hi is not None else max((float(column.max()) for column in known), default=1.0)
    if axis.log:
        lo = lo if lo > 0 else (hi / 1e3 if hi > 0 else 0.1)
        grow = (max(hi, lo * 1.01) / lo) ** LOG_PAD
        return Extent(lo / grow, max(hi, lo * 1.01) * grow, True)
    if hi <= lo:
        margin = abs(lo) * 0.1 or 1.0
        return Extent(min(lo, 0.0) if axis.lo is not None else lo - margin, lo + margin)
    pad = 0.06 * (hi - lo)
    if axis.first_hi is not None and axis.hi is None and lo < axis.first_hi < hi:
        return Extent(lo if axis.lo is not None else lo - pad, axis.first_hi)
    return Extent(lo if axis.lo is not None else lo - pad, hi if axis.hi is not None else hi + pad)


def x_extent(plot: Plot) -> Extent:
    """Return the extent of a picture's x axis; bars reach half a bar further."""
    columns = [column for one in plot.series for column in (one.x, one.x_low, one.x_high) if column is not None]
    found = extent(plot.x, columns)
    if (
        not plot.x.log
        and plot.x.lo is None
        and any(one.style is PlotStyle.LINE for one in plot.series)
        and not any(one.style is PlotStyle.POINTS for one in plot.series)
    ):
        lo, hi = (float(f(np.concatenate(columns))) for f in (np.nanmin, np.nanmax)) if columns else (0.0, 1.0)
        return Extent(lo, hi) if hi > lo else found
    return found


def y_extent(plot: Plot) -> Extent:
    """Return the extent of a picture's y axis, from the series that are drawn at first."""
    shown = [one for one in plot.series if not one.hidden]
    columns = [column for one in shown for column in (one.y, one.low, one.high) if column is not None]
    columns += [np.asarray([mark.at]) for mark in plot.marks if mark.axis == "y"]
    return extent(plot.y, columns)
