"""Campaigns for people: findings as text and Markdown, and two figures as one self-contained page."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from edgetrain.analysis.cache_curves import CacheCurve
from edgetrain.analysis.factors import Row, label, settings
from edgetrain.analysis.findings import CANNOT_SAY, HOLDS, Finding
from edgetrain.report.page.drawing import Bar, stacked_bars
from edgetrain.units import spell_bytes, spell_seconds

_COLOURS = {HOLDS: "green", CANNOT_SAY: "yellow"}


def findings_text(findings: Sequence[Finding]) -> RenderableType:
    """Return each finding with its verdict and the numbers beside the paper's."""
    parts: list[RenderableType] = []
    for finding in findings:
        head = Text(f"\nIII-{finding.letter}  {finding.claim}: ", style="bold")
        head.append(finding.verdict, style=f"bold {_COLOURS.get(finding.verdict, 'red')}")
        if finding.reason:
            head.append(f" ({finding.reason})")
        parts.append(head)
        for one in finding.evidence:
            mark = "yes" if one.speaks_for else "NO "
            parts.append(Text(f"  {mark}  {one.what}: {one.ours}   [paper: {one.paper}]"))
    if findings:
        parts.append(Text("per minibatch, at the board's pace; ours emulated, the paper's published", style="dim"))
    return Group(*parts)


def findings_markdown(findings: Sequence[Finding], rows: Mapping[str, Sequence[Row]], facts: Mapping[str, Any]) -> str:
    """Return the report as Markdown."""
    speeds = ", ".join(f"{name} {speed:g}" for name, speed in facts["speeds"].items())
    shrunk = ", ".join(f"{name} by {shrink:.3g}" for name, shrink in facts["shrinks"].items() if shrink != 1)
    lines = [
        "# HiPC-SRS 2021 in the lab",
        "",
        f"`{facts['command']}` on {facts['machine']}; the runs took {facts['took']}.",
        "Our numbers are emulated: really run, with storage, page cache, cores and CPU share held by the kernel and a",
        "paced accelerator. Times in the tables of runs are as run; in the findings they are per minibatch at the",
        f"board's pace, that is multiplied by the speed ({speeds}), and stalls are without the pipeline's fill."
        + (f" Dataset and page cache were shrunk together: {shrunk}." if shrunk else ""),
        "",
        "| finding | verdict |",
        "|---|---|",
    ]
    if not findings:
        lines[-2:] = ["These sections are not judged."]
    lines += [f"| III-{one.letter} {one.claim} | **{one.verdict}**{_reason(one)} |" for one in findings]
    for finding in findings:
        lines += [
            "",
            f"## III-{finding.letter}: {finding.verdict}",
            "",
            "| | ours (emulated) | paper (published) | speaks for it |",
        ]
        lines += ["|---|---|---|---|"]
        lines += [
            f"| {one.what} | {one.ours} | {one.paper} | {'yes' if one.speaks_for else '**no**'} |"
            for one in finding.evidence
        ]
    for name, found in rows.items():
        lines += ["", f"## Runs: {name}", "", *_rows_markdown(found)]
    return "\n".join(lines) + "\n"


def _reason(finding: Finding) -> str:
    return f" ({finding.reason})" if finding.reason else ""


def factor_cells(rows: Sequence[Row]) -> tuple[list[str], list[list[str]]]:
    """Return heads and cells of stall, compute and end-to-end time by factor."""
    names, settings_told = settings(rows)
    heads = [*names, "runs", "cold end to end", "stall", "of it fill", "later end to end", "stall", "compute"]
    table = []
    for row, told in zip(rows, settings_told, strict=True):
        first, later = row.first, row.later
        cells = [*told, str(len(row.runs))]
        cells += [spell_seconds(getattr(first, name, None)) for name in ("e2e_s", "stall_s", "fill_s")]
        cells += [spell_seconds(getattr(later, name, None)) for name in ("e2e_s", "stall_s")]
        cells += [spell_seconds(row.median.compute_s), spell_bytes(later.read_bytes if later else None)]
        table.append(cells)
    return [*heads, "read again"], table


def _rows_markdown(rows: Sequence[Row]) -> list[str]:
    heads, table = factor_cells(rows)
    return [f"| {' | '.join(heads)} |", "|" + "---|" * len(heads), *(f"| {' | '.join(cells)} |" for cells in table)]


def write_figures(path: Path, rows: Mapping[str, Sequence[Row]], curves: Sequence[tuple[str, CacheCurve]]) -> None:
    """Write two kinds of figure: stall and compute by factor, cache and reads over time."""
    parts = []
    for name, found in rows.items():
        parts.append(f"<h2>{html.escape(name)}: where an epoch goes</h2>{_bars(found)}")
    if curves:
        parts.append("<h2>Page cache and reads from the medium over time</h2>")
        parts += [f"<h3>{html.escape(title)}</h3>{_curve(curve)}" for title, curve in curves]
    style = (
        "body{font:14px system-ui,sans-serif;max-width:60em;margin:2em auto}svg{max-width:100%;font-size:11px}"
        ".stall{fill:#c0392b}.compute{fill:#2e7d32}.overhead{fill:#999}.grid{stroke:#ddd}"
    )
    path.write_text(
        f"<!doctype html><meta charset=utf-8><title>edgetrain: campaign</title><style>{style}</style>"
        f"<h1>Campaign (emulated)</h1>{''.join(parts)}"
    )


def _bars(rows: Sequence[Row]) -> str:
    bars = []
    for row in rows:
        for kind, times in (("cold", row.first), ("later", row.later)):
            if times is not None:
                bars.append(_bar(f"{label(row.factors)}, {kind}", times.stall_s, times.compute_s, times.e2e_s))
    return stacked_bars(bars, "s")


def _bar(title: str, stall_s: float, compute_s: float, e2e_s: float) -> Bar:
    rest_s = max(0.0, e2e_s - stall_s - compute_s)
    return Bar(title, (("stall", stall_s), ("compute", compute_s), ("overhead", rest_s)), spell_seconds(e2e_s))


def _curve(curve: CacheCurve, width: int = 760, height: int = 180) -> str:
    """Draw cached share (line) and read rate (bars), with the epochs' boundaries."""
    end_s = max(curve.boundaries_s[-1], 1e-9)
    most = max((float(value) for value in curve.read_bytes_per_s), default=0.0) or 1.0
    left, bottom, inner_w, inner_h = 45, height - 25, width - 90, height - 40

    def x(seconds: float) -> float:
        return left + seconds / end_s * inner_w

    parts = [f'<svg viewBox="0 0 {width} {height}" role="img" font-size="11">']
    step = inner_w / max(1, len(curve.reads_at_s))
    for at, rate in zip(curve.reads_at_s, curve.read_bytes_per_s, strict=True):
        tall = float(rate) / most * inner_h
        box = f'x="{x(float(at)) - step / 2:.1f}" y="{bottom - tall:.1f}" width="{step:.1f}" height="{tall:.1f}"'
        parts.append(f'<rect {box} fill="#9ab8d8"/>')
    points = " ".join(
        f"{x(float(at)):.1f},{bottom - float(share) * inner_h:.1f}"
        for at, share in zip(curve.share_at_s, curve.cached_share, strict=True)
    )
    parts.append(f'<polyline points="{points}" fill="none" stroke="#1f4e79" stroke-width="2"/>')
    for at in curve.boundaries_s:
        parts.append(
            f'<line x1="{x(at):.1f}" x2="{x(at):.1f}" y1="{bottom - inner_h}" y2="{bottom}" stroke="#c0392b"/>'
        )
    parts.append(f'<text x="2" y="{bottom - inner_h + 4}">100 %</text><text x="2" y="{bottom}">0 %</text>')
    parts.append(f'<text x="{left + inner_w + 4}" y="{bottom - inner_h + 4}">{spell_bytes(most)}/s</text>')
    parts.append(f'<text x="{left}" y="{height - 6}">0 s</text>')
    parts.append(f'<text x="{left + inner_w - 40}" y="{height - 6}">{end_s:.0f} s</text></svg>')
    return "".join(parts)
