"""Stacked horizontal bars on one scale, as rows that keep their text readable at any width."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass

from edgetrain.report.page.axes import axis_ticks, spell_value
from edgetrain.report.page.plot import Extent

HEIGHT = 18


@dataclass(frozen=True, slots=True)
class BarPart:
    """One part of a bar: the class of its colour, what it is, and its size."""

    colour: str
    name: str
    value: float


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar: its label, its parts, the text behind it, and the range of what it sums up (or its ±)."""

    label: str
    parts: Sequence[BarPart]
    end: str
    low: float | None = None
    high: float | None = None


def stacked_bars(bars: Sequence[Bar], unit: str, alt: str) -> str:
    """Return the bars on one scale that begins at 0, with an axis below."""
    longest = max((max(sum(part.value for part in bar.parts), bar.high or 0.0) for bar in bars), default=0.0) or 1.0
    out = [f'<div class="barchart" role="img" aria-label="{html.escape(alt)}">']
    for bar in bars:
        out.append(
            f'<div class="barrow"><span class="barlabel">{html.escape(bar.label)}</span>'
            f'<svg class="bar" width="100%" height="{HEIGHT}">{_parts(bar, longest, unit)}</svg>'
            f'<span class="barend">{html.escape(bar.end)}</span></div>'
        )
    out.append('<div class="barrow baraxis"><span class="barlabel"></span><svg class="bar" width="100%" height="18">')
    for tick in axis_ticks(Extent(0.0, longest), unit, 4):
        x = 100 * tick / longest
        anchor = "start" if x < 2 else "end" if x > 97 else "middle"
        out.append(
            f'<line class="grid" x1="{x:.2f}%" x2="{x:.2f}%" y1="0" y2="4"/><text class="tick" x="{x:.2f}%" y="15" '
            f'text-anchor="{anchor}">{html.escape(spell_value(tick, unit))}</text>'
        )
    out.append('</svg><span class="barend"></span></div></div>')
    return "".join(out)


def _parts(bar: Bar, longest: float, unit: str) -> str:
    out, at = [], 0.0
    for part in bar.parts:
        wide = 100 * part.value / longest
        if wide > 0.01:
            tip = html.escape(f"{bar.label}: {part.name} {spell_value(part.value, unit)}")
            out.append(
                f'<rect class="s-{part.colour}" x="{at:.3f}%" y="1" width="{wide:.3f}%" height="{HEIGHT - 2}">'
                f"<title>{tip}</title></rect>"
            )
        at += wide
    if bar.low is not None and bar.high is not None and bar.high > bar.low:
        low, high, middle = 100 * bar.low / longest, 100 * bar.high / longest, HEIGHT / 2
        tip = html.escape(f"{bar.label}: {spell_value(bar.low, unit)} to {spell_value(bar.high, unit)}")
        out.append(
            f'<g class="range"><title>{tip}</title>'
            f'<line x1="{low:.3f}%" x2="{high:.3f}%" y1="{middle}" y2="{middle}"/>'
            f'<line x1="{low:.3f}%" x2="{low:.3f}%" y1="{middle - 4}" y2="{middle + 4}"/>'
            f'<line x1="{high:.3f}%" x2="{high:.3f}%" y1="{middle - 4}" y2="{middle + 4}"/></g>'
        )
    return "".join(out)


def legend(names: Sequence[tuple[str, str]]) -> str:
    """Return the colours and what they mean."""
    items = "".join(f'<li><i class="s-{colour}"></i>{html.escape(name)}</li>' for colour, name in names)
    return f'<ul class="legend">{items}</ul>'
