"""What a person reads of a what-if: one row per setting, and a drawing of a sweep."""

from __future__ import annotations

import html
from collections.abc import Sequence
from pathlib import Path

from rich.console import Group, RenderableType
from rich.text import Text

from edgetrain.errors import UsageError
from edgetrain.prediction import WhatIfAnswer, WhatIfRow
from edgetrain.report.text import FittingTable, plain_table
from edgetrain.schema import Estimate
from edgetrain.units import spell, spell_interval, spell_seconds

RECORDED = "as recorded"
START = (
    "first, cold: the page cache does not hold the dataset when the training begins; first, warm: it holds as much of "
    "it as fits (cache=cold, cache=warm)"
)
WIDTH, HEIGHT, MARGIN = 640, 360, 60  # px of a drawing
BAR, BLOCK, SHADED = 40, "█", "▒"  # characters of a bar


def show_whatif(answer: WhatIfAnswer) -> RenderableType:
    """Return the answer for the terminal."""
    lines: list[RenderableType] = [
        Text.from_markup(f"[bold]{answer.run}[/], predicted from its record"),
        Text(""),
        _table(answer),
    ]
    if answer.swept is not None:
        lines += [Text(""), _bars(answer)]
    level = answer.base.later.e2e_s.level
    epochs = len(answer.recorded)
    lines.append(
        Text(
            f"\n[lo, hi]: {level:.0%} interval, from how much runs of one setting differ and how uncertain each cost "
            f"is; gain is over {epochs} epoch{'' if epochs == 1 else 's'}, against the recorded setting"
        )
    )
    lines.append(Text(START))
    reproduced = "epoch" if epochs == 1 else "later epochs"
    lines.append(
        Text(
            f"every prediction is corrected by the model's error on the recorded {reproduced}: "
            f"{answer.model_error_pct:+.1f} %"
        )
    )
    if answer.between_runs_pct is not None:
        lines.append(
            Text(
                f"the intervals include the spread between {answer.repeats + 1} runs of the recorded setting: "
                f"{answer.between_runs_pct:.1f} % (standard deviation)"
            )
        )
    assumed = dict.fromkeys(text for row in answer.settings for text in row.assumed)
    lines += [Text(f"assumed: {text}", style="yellow") for text in assumed]
    lines += [Text(f"note: {text}", style="yellow") for text in answer.notes]
    lines += [Text(f"doubt about the run: {doubt.text}", style="yellow") for doubt in answer.doubts]
    return Group(*lines)


def _table(answer: WhatIfAnswer) -> RenderableType:
    """Return one table where it fits, else end-to-end times apart from their parts."""
    rows = (answer.base, *answer.settings)
    whole = ("gain", "end to end")
    parts = ("fetch stall", "compute", *(["energy"] if any(row.later.energy_j is not None for row in rows) else []))
    tables = [plain_table("setting", "epoch", *some) for some in ((*whole, *parts), whole, parts)]
    for table in tables:
        table.columns[0].overflow = "fold"  # a setting that is cut short cannot be distinguished from its neighbour
        table.columns[0].min_width = min(24, max(len(_name(row)) for row in rows))
    for row in rows:
        gain = "" if row is answer.base else f"{row.gain_pct:+.1f} %"
        for epoch, which in ((row.first, f"first, {row.first.cache}"), (row.later, "later")):
            name = _name(row) if epoch is row.first else ""
            total = ["" if epoch is row.first else gain, with_bounds(epoch.e2e_s)]
            rest = [with_bounds(each) for each in (epoch.stall_s, epoch.compute_s, epoch.energy_j)][: len(parts)]
            for table, cells in zip(tables, ([*total, *rest], total, rest), strict=True):
                table.add_row(name, which, *cells)
    return FittingTable(*tables)


def _bars(answer: WhatIfAnswer) -> Text:
    """Return a later epoch of each setting of a sweep as a bar, its stall first."""
    longest_s = max(row.later.e2e_s.value for row in answer.settings) or 1.0
    widest = max(len(str(row.changes.get(answer.swept or ""))) for row in answer.settings)
    text = Text(f"{answer.swept}, a later epoch: ")
    text.append(f"{BLOCK} fetch stall", style="red").append(f", {SHADED} the rest")
    for row in answer.settings:
        later = row.later
        length = max(1, round(BAR * later.e2e_s.value / longest_s))
        stalled = min(length, round(BAR * later.stall_s.value / longest_s))
        text.append(f"\n{row.changes.get(answer.swept or '')!s:>{widest}}  ").append(BLOCK * stalled, style="red")
        text.append(SHADED * (length - stalled)).append(f" {spell_seconds(later.e2e_s.value)}")
    return text


def _name(row: WhatIfRow) -> str:
    return ", ".join(f"{name}={value}" for name, value in row.changes.items()) or RECORDED


def with_bounds(estimate: Estimate | None) -> str:
    """Spell an estimate with its interval."""
    if estimate is None:
        return "–"
    if estimate.unit != "s":
        return f"{spell(estimate.value)} [{spell(estimate.lo)}, {spell(estimate.hi)}] {estimate.unit}"
    return spell_interval(estimate.value, estimate.lo, estimate.hi)


def write_sweep(answer: WhatIfAnswer, path: Path) -> None:
    """Draw a sweep into an SVG file: end-to-end time and stall of a later epoch, with their intervals."""
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
    rows, name = answer.settings, answer.swept or ""
    top = max(row.later.e2e_s.hi for row in rows) * 1.05 or 1.0
    xs = [MARGIN + (place + 0.5) * (WIDTH - 2 * MARGIN) / len(rows) for place in range(len(rows))]

    def y(seconds: float) -> float:
        return HEIGHT - MARGIN - seconds / top * (HEIGHT - 2 * MARGIN)

    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif"',
        ' font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        f'<text x="{WIDTH / 2}" y="20" text-anchor="middle">{html.escape(answer.run)}: a later epoch, predicted</text>',
    ]
    for part in range(6):
        seconds = top * part / 5
        out.append(
            f'<line x1="{MARGIN}" x2="{WIDTH - MARGIN}" y1="{y(seconds):.1f}" y2="{y(seconds):.1f}" stroke="#ddd"/>'
        )
        out.append(f'<text x="{MARGIN - 6}" y="{y(seconds) + 4:.1f}" text-anchor="end">{seconds:.3g}</text>')
    for x, row in zip(xs, rows, strict=True):
        label = html.escape(str(row.changes.get(name)))
        out.append(f'<text x="{x:.1f}" y="{HEIGHT - MARGIN + 18}" text-anchor="middle">{label}</text>')
    for colour, title, estimates in (
        ("#2563a8", "end to end", [row.later.e2e_s for row in rows]),
        ("#c03a2b", "fetch stall", [row.later.stall_s for row in rows]),
    ):
        out += _line(xs, estimates, y, colour)
        place = 0 if title == "end to end" else 1
        out.append(f'<text x="{WIDTH - MARGIN - 160 + 90 * place}" y="40" fill="{colour}">{title}, s</text>')
    out.append(f'<text x="{WIDTH / 2}" y="{HEIGHT - 12}" text-anchor="middle">{html.escape(name)}</text>')
    return "\n".join([*out, "</svg>", ""])


def _line(xs: Sequence[float], estimates: Sequence[Estimate], y: object, colour: str) -> list[str]:
    assert callable(y)
    points = " ".join(f"{x:.1f},{y(each.value):.1f}" for x, each in zip(xs, estimates, strict=True))
    out = [f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>']
    for x, each in zip(xs, estimates, strict=True):
        out.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{y(each.lo):.1f}" y2="{y(each.hi):.1f}" stroke="{colour}"/>')
        out.append(f'<circle cx="{x:.1f}" cy="{y(each.value):.1f}" r="3" fill="{colour}"/>')
    return out
