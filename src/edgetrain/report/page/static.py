"""Draws a picture as SVG, for readers without JavaScript and for print. Colours and fonts come from the style sheet."""

from __future__ import annotations

import html

import numpy as np

from edgetrain.report.page.axes import axis_ticks, spell_value
from edgetrain.report.page.plot import Extent, Floats, Plot, PlotSeries, PlotStyle, x_extent, y_extent

WIDTH = 760
LEFT, RIGHT, TOP, BOTTOM = 64, 16, 26, 34
MAX_POINTS = 400  # of a line; longer ones are thinned by keeping the extremes
MAX_MARKS = 40
LABEL_WIDTH = 28  # pixels


def draw(plot: Plot) -> str:
    """Return the picture as one SVG element."""
    box = _Box(x_extent(plot), y_extent(plot), plot.height)
    out = [
        f'<svg class="chart" viewBox="0 0 {WIDTH} {plot.height}" role="img" aria-label="{html.escape(plot.alt)}">',
        *_grid(plot, box),
        *_marks(plot, box),
        f'<g clip-path="inset(0)" transform="translate({LEFT},{TOP})">',
    ]
    for series in plot.series:
        if not series.hidden:
            out += _series(series, box)
    out.append("</g></svg>")
    return "".join(out)


class _Box:
    """The inner rectangle of a picture: where a value lies in it, in pixels."""

    def __init__(self, x: Extent, y: Extent, height: int) -> None:
        self.x, self.y = x, y
        self.width, self.height = WIDTH - LEFT - RIGHT, height - TOP - BOTTOM

    def across(self, values: Floats | float) -> Floats:
        """Return pixels from the left."""
        return self.x.place(values) * self.width

    def down(self, values: Floats | float) -> Floats:
        """Return pixels from the top."""
        return (1.0 - self.y.place(values)) * self.height


def _grid(plot: Plot, box: _Box) -> list[str]:
    out = []
    for value in axis_ticks(box.y, plot.y.unit, 5, plot.y.whole):
        y = TOP + float(box.down(value))
        out.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        out.append(
            f'<text class="tick" x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">'
            f"{html.escape(spell_value(value, plot.y.unit))}</text>"
        )
    base = plot.height - BOTTOM
    for value in axis_ticks(box.x, plot.x.unit, 8, plot.x.whole):
        x = LEFT + float(box.across(value))
        out.append(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{base}" y2="{base + 4}"/>')
        out.append(
            f'<text class="tick" x="{x:.1f}" y="{base + 15}" text-anchor="middle">'
            f"{html.escape(spell_value(value, plot.x.unit))}</text>"
        )
    out.append(
        f'<text class="axis" x="{WIDTH - RIGHT}" y="{plot.height - 4}" text-anchor="end">'
        f"{html.escape(plot.x.label)}</text>"
    )
    out.append(f'<text class="axis" x="2" y="11">{html.escape(plot.y.label)}</text>')
    return out


def _marks(plot: Plot, box: _Box) -> list[str]:
    out = []
    along = [mark for mark in plot.marks if mark.axis == "x"]
    step = max(1, -(-len(along) // MAX_MARKS))
    written, level = -1e9, 0
    for mark in [*along[::step], *(mark for mark in plot.marks if mark.axis == "y")]:
        title = f"<title>{html.escape(mark.text)}</title>"
        if mark.axis == "x":
            x = LEFT + float(box.across(mark.at))
            if LEFT - 1 <= x <= WIDTH - RIGHT + 1:
                line = f'x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{plot.height - BOTTOM}"'
                out.append(f'<line class="mark {mark.kind}" {line}>{title}</line>')
                if mark.kind in ("quantile", "limit"):
                    # A label that would lie on the one before goes below it.
                    level = level + 1 if x - written < LABEL_WIDTH else 0
                    written = x
                    side = f'x="{x - 3:.1f}" text-anchor="end"' if x > WIDTH - 60 else f'x="{x + 3:.1f}"'
                    out.append(f'<text class="tick" {side} y="{TOP + 9 + 12 * level}">{html.escape(mark.text)}</text>')
        else:
            y = TOP + float(box.down(mark.at))
            line = f'x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"'
            at = f'x="{WIDTH - RIGHT}" y="{y - 4:.1f}" text-anchor="end"'
            out.append(f'<line class="mark {mark.kind}" {line}>{title}</line>')
            out.append(f'<text class="tick" {at}>{html.escape(mark.text)}</text>')
    return out


def _series(series: PlotSeries, box: _Box) -> list[str]:
    colour = f"s-{series.colour}"
    if series.style is PlotStyle.BARS:
        return _bars(series, box, colour)
    if series.style is PlotStyle.POINTS:
        return _points(series, box, colour)
    if series.style is PlotStyle.MARKED:
        lines = [_path(box.across(series.x[rows]), box.down(series.y[rows])) for rows in _stretches(series.y)]
        dashed = " dashed" if series.dashed else ""
        return [f'<path class="line {colour}{dashed}" d="{"".join(lines)}"/>', *_points(series, box, colour)]
    out = []
    for rows in _stretches(series.y):
        rows = _thinned(series.y, rows)
        x, y = box.across(series.x[rows]), box.down(series.y[rows])
        if series.low is not None and series.high is not None:
            high, low = box.down(series.high[rows]), box.down(series.low[rows])
            outline = np.concatenate([x, x[::-1]]), np.concatenate([high, low[::-1]])
            out.append(f'<path class="band {colour}" d="{_path(*outline)}Z"/>')
        look = (" strong" if series.strong else "") + (" dashed" if series.dashed else "")
        out.append(f'<path class="line {colour}{look}" d="{_path(x, y)}"/>')
    return out


def _bars(series: PlotSeries, box: _Box, colour: str) -> list[str]:
    x, y, base = box.across(series.x), box.down(series.y), float(box.down(max(box.y.lo, 0.0)))
    wide = float(np.min(np.diff(x))) if len(x) > 1 else 20.0
    moves = [
        f"M{left:.1f} {base:.1f}V{top:.1f}h{0.9 * wide:.1f}V{base:.1f}Z"
        for left, top in zip((x - wide / 2).tolist(), y.tolist(), strict=True)
        if top == top and top < base
    ]
    return [f'<path class="bars {colour}" d="{"".join(moves)}"/>']


def _points(series: PlotSeries, box: _Box, colour: str) -> list[str]:
    x, y = box.across(series.x), box.down(series.y)
    known = np.isfinite(x) & np.isfinite(y)
    dots = "".join(f"M{a:.0f} {b:.0f}h0" for a, b in zip(x[known].tolist(), y[known].tolist(), strict=True))
    strong = " strong" if series.strong else ""
    out = []
    if series.low is not None and series.high is not None:
        ends = zip(x.tolist(), box.down(series.low).tolist(), box.down(series.high).tolist(), strict=True)
        ranges = "".join(f"M{a:.1f} {low:.1f}V{high:.1f}" for a, low, high in ends if low == low and high == high)
        out.append(f'<path class="whisker {colour}" d="{ranges}"/>')
    if series.x_low is not None and series.x_high is not None:
        sides = zip(y.tolist(), box.across(series.x_low).tolist(), box.across(series.x_high).tolist(), strict=True)
        ranges = "".join(f"M{low:.1f} {b:.1f}H{high:.1f}" for b, low, high in sides if low == low and high == high)
        out.append(f'<path class="whisker {colour}" d="{ranges}"/>')
    out.append(f'<path class="dots {colour}{strong}" d="{dots}"/>')
    for place, text in enumerate(series.labels):
        if known[place]:
            at = f'x="{float(x[place]) + 6:.1f}" y="{float(y[place]) - 5:.1f}"'
            out.append(f'<text class="tick" {at}>{html.escape(text)}</text>')
    return out


def _stretches(values: Floats) -> list[np.ndarray[tuple[int], np.dtype[np.intp]]]:
    """Return the rows of each stretch without a gap."""
    known = np.flatnonzero(np.isfinite(values))
    if not len(known):
        return []
    return np.split(known, np.flatnonzero(np.diff(known) > 1) + 1)


def _thinned(
    values: Floats, rows: np.ndarray[tuple[int], np.dtype[np.intp]]
) -> np.ndarray[tuple[int], np.dtype[np.intp]]:
    """Return at most about MAX_POINTS rows, with the smallest and the largest value of each part."""
    if len(rows) <= MAX_POINTS:
        return rows
    kept = set()
    for part in np.array_split(rows, MAX_POINTS // 2):
        kept |= {int(part[np.argmin(values[part])]), int(part[np.argmax(values[part])])}
    return np.asarray(sorted(kept))


def _path(x: Floats, y: Floats) -> str:
    """Return a path of relative moves in tenths of a pixel, which takes a third of the characters."""
    across, down = np.rint(x * 10).astype(int), np.rint(y * 10).astype(int)
    if not len(across):
        return ""
    first = f"M{across[0] / 10:g} {down[0] / 10:g}"
    if len(across) == 1:
        return first + "h.1"
    steps = zip(np.diff(across).tolist(), np.diff(down).tolist(), strict=True)
    return first + "l" + " ".join(f"{a / 10:g} {b / 10:g}" for a, b in steps)
