"""A sweep of a what-if as a drawing (SVG) and as bars of text."""

from __future__ import annotations

import html
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.text import Text

from edgetrain.errors import UsageError
from edgetrain.prediction import WhatIfAnswer, WhatIfRow, total_of
from edgetrain.report.page.axes import seconds_ticks
from edgetrain.report.page.plot import Extent
from edgetrain.schema import Estimate, Scalar
from edgetrain.units import spell_seconds

WIDTH, HEIGHT, MARGIN, TOP = 720, 400, 70, 64  # px of a drawing
CHARACTER, LINE = 6.8, 16  # px, of text as large as it is drawn here
SHIFT = 4.0  # px, by which each of the two series is moved sideways
BAR, BLOCK, SHADED = 40, "█", "▒"  # characters of a bar
SAME = 0.01  # relative: durations that differ by less are the same
END_TO_END, STALL = "#2563a8", "#c03a2b"


@dataclass(frozen=True, slots=True)
class SweptTimes:
    """What a sweep shows: end-to-end time and fetch stall of the same epochs, for each setting."""

    epochs: str  # which these are
    e2e_s: tuple[Estimate, ...]
    stall_s: tuple[Estimate, ...]


def swept_times(answer: WhatIfAnswer) -> SweptTimes:
    """Return the times that a sweep shows: of all epochs, or of the first where later ones do not differ."""
    rows, epochs = answer.settings, len(answer.recorded)
    later = [row.later.e2e_s.value for row in rows]
    if epochs > 1 and max(later) - min(later) > SAME * max(later):
        stall_s = tuple(total_of(row.first.stall_s, row.later.stall_s, epochs) for row in rows)
        return SweptTimes(f"all {epochs} epochs", tuple(row.total_s for row in rows), stall_s)
    first = tuple(row.first for row in rows)
    which = "the first epoch" if epochs == 1 else "the first epoch (later ones do not differ)"
    return SweptTimes(which, tuple(each.e2e_s for each in first), tuple(each.stall_s for each in first))


def spell_setting(value: Scalar) -> str:
    """Spell the value of a setting as it is written: `4`, not `4.0`."""
    return f"{value:g}" if isinstance(value, float) else str(value)


def _labels(answer: WhatIfAnswer) -> list[str]:
    return [spell_setting(row.changes.get(answer.swept or "")) for row in answer.settings]


def sweep_bars(answer: WhatIfAnswer) -> Text:
    """Return each setting of a sweep as a bar, its stall first."""
    times, labels = swept_times(answer), _labels(answer)
    longest_s = max(each.value for each in times.e2e_s) or 1.0
    widest = max(map(len, labels))
    text = Text(f"{answer.swept}, time of {times.epochs}: ")
    text.append(f"{BLOCK} fetch stall", style="red").append(f", {SHADED} the rest")
    for label, e2e_s, stall_s in zip(labels, times.e2e_s, times.stall_s, strict=True):
        length = max(1, round(BAR * e2e_s.value / longest_s))
        stalled = min(length, round(BAR * stall_s.value / longest_s))
        text.append(f"\n{label:>{widest}}  ").append(BLOCK * stalled, style="red")
        text.append(SHADED * (length - stalled)).append(f" {spell_seconds(e2e_s.value)}")
    return text


def write_sweep(answer: WhatIfAnswer, path: Path) -> None:
    """Draw a sweep into an SVG file: end-to-end time and stall, with their intervals."""
    if answer.swept is None:
        raise UsageError("there is nothing to draw: -o needs --sweep, for example --sweep workers=0..8")
    if path.suffix.lower() != ".svg":
        raise UsageError(f"a sweep is drawn as SVG: write -o {path.with_suffix('.svg')} instead of {path}")
    try:
        path.write_text(draw_sweep(answer), encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot write {path} ({error.strerror}); choose another path with -o") from error


def draw_sweep(answer: WhatIfAnswer) -> str:
    """Return the drawing of a sweep as SVG."""
    times, labels, name = swept_times(answer), _labels(answer), answer.swept or ""
    numbers = all(_is_number(row, name) for row in answer.settings)
    spacing = (WIDTH - 2 * MARGIN) / len(labels)
    xs = [MARGIN + (place + 0.5) * spacing for place in range(len(labels))]
    widest = CHARACTER * max(map(len, labels))
    sloped = not numbers and widest > spacing - CHARACTER  # names are all shown, of numbers some
    bottom = HEIGHT - MARGIN
    height = HEIGHT + (round(0.75 * widest) if sloped else 0)
    top_s = max(each.hi for each in times.e2e_s) * 1.05 or 1.0

    def y(seconds: float) -> float:
        return bottom - seconds / top_s * (bottom - TOP)

    level, middle = times.e2e_s[0].level, WIDTH / 2
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif"',
        ' font-size="12">',
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
        _text(middle, 20, f"{answer.run}, predicted: time of {times.epochs}"),
        f'<text x="{middle}" y="42" text-anchor="middle"><tspan fill="{END_TO_END}">● end to end</tspan>'
        f'<tspan dx="16" fill="{STALL}">● fetch stall</tspan>'
        f'<tspan dx="16">vertical bars: {level:.0%} intervals</tspan></text>',
    ]
    for seconds in seconds_ticks(Extent(0.0, top_s), 6):
        at = f"{y(seconds):.1f}"
        out.append(f'<line x1="{MARGIN}" x2="{WIDTH - MARGIN}" y1="{at}" y2="{at}" stroke="#ddd"/>')
        label = spell_seconds(seconds) if seconds else "0"
        out.append(_text(MARGIN - 6, y(seconds) + 4, label, anchor="end"))
    every = max(1, -int(-(widest + CHARACTER) // spacing)) if numbers else 1
    for place, (x, label) in enumerate(zip(xs, labels, strict=True)):
        if sloped:
            out.append(_text(x, bottom + LINE, label, anchor="end", slope=-50))
        elif place % every == 0:
            out.append(_text(x, bottom + LINE, label))
    shift = min(SHIFT, spacing / 4)
    for colour, estimates, aside in ((END_TO_END, times.e2e_s, -shift), (STALL, times.stall_s, shift)):
        out += _series([x + aside for x in xs], estimates, y, colour, connected=numbers)
    out.append(_text(middle, height - 12, name))
    return "\n".join([*out, "</svg>", ""])


def _is_number(row: WhatIfRow, name: str) -> bool:
    value = row.changes.get(name)
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _text(x: float, y: float, text: str, anchor: str = "middle", slope: int = 0) -> str:
    turned = f' transform="rotate({slope} {x:.1f} {y:.1f})"' if slope else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{turned}>{html.escape(text)}</text>'


def _series(
    xs: Sequence[float], estimates: Sequence[Estimate], y: Callable[[float], float], colour: str, connected: bool
) -> list[str]:
    """Return one series; between names there is nothing that a line could show."""
    out = []
    if connected:
        points = " ".join(f"{x:.1f},{y(each.value):.1f}" for x, each in zip(xs, estimates, strict=True))
        out.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>')
    for x, each in zip(xs, estimates, strict=True):
        out.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{y(each.lo):.1f}" y2="{y(each.hi):.1f}" stroke="{colour}"/>')
        out.append(f'<circle cx="{x:.1f}" cy="{y(each.value):.1f}" r="3" fill="{colour}"/>')
    return out
