"""Draws stacked horizontal bars as inline SVG."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass

LABEL = 210  # px left of the bars
WIDTH = 560  # px of the longest bar
ROW = 24
HEIGHT = 15
SIZE = 6.6  # px a character of the label takes


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar: its label, its parts as (CSS class, value), and what stands behind it."""

    label: str
    parts: Sequence[tuple[str, float]]
    end: str


def stacked_bars(bars: Sequence[Bar], unit: str) -> str:
    """Return the bars on one scale, with an axis."""
    longest = max((sum(value for _, value in bar.parts) for bar in bars), default=0.0) or 1.0
    step = _step(longest)
    height = len(bars) * ROW + 34
    label = max(LABEL, min(360, int(max(len(bar.label) for bar in bars) * SIZE) + 16))
    out = [
        f'<svg viewBox="0 0 {label + WIDTH + 90} {height}" role="img" aria-label="{html.escape(unit)}">',
    ]
    tick = 0.0
    while tick <= longest * 1.0001:
        x = label + tick / longest * WIDTH
        out.append(f'<line class="grid" x1="{x:.1f}" y1="0" x2="{x:.1f}" y2="{height - 30}"/>')
        out.append(f'<text class="tick" x="{x:.1f}" y="{height - 16}" text-anchor="middle">{tick:g}</text>')
        tick += step
    out.append(f'<text class="tick" x="{label + WIDTH}" y="{height - 2}" text-anchor="end">{html.escape(unit)}</text>')
    for row, bar in enumerate(bars):
        y = row * ROW + 4
        out.append(
            f'<text class="label" x="{label - 8}" y="{y + 12}" text-anchor="end">{html.escape(bar.label)}</text>'
        )
        x = float(label)
        for colour, value in bar.parts:
            width = value / longest * WIDTH
            if width > 0.05:
                tip = f"{colour}: {value:.3g} {unit}"
                out.append(
                    f'<rect class="{colour}" x="{x:.2f}" y="{y}" width="{width:.2f}" height="{HEIGHT}">'
                    f"<title>{html.escape(tip)}</title></rect>"
                )
            x += width
        out.append(f'<text class="tick" x="{x + 6:.1f}" y="{y + 12}">{html.escape(bar.end)}</text>')
    out.append("</svg>")
    return "".join(out)


def _step(longest: float) -> float:
    """Return a round distance between ticks that gives about five of them."""
    rough = longest / 5
    power = 10.0 ** math.floor(math.log10(rough))
    return next((power * factor for factor in (1, 2, 5) if rough <= power * factor), power * 10)
