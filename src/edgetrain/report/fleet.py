"""What a person reads of a fleet: its boards, what is wrong with them, and how far a campaign on them is."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.text import Text

from edgetrain.analysis import label
from edgetrain.report.terminal import plain_table
from edgetrain.schema import FleetCheck, FleetDoctor, FleetPreview, FleetProgress, FleetStatus
from edgetrain.units import spell_bytes, spell_seconds


def show_fleet(status: FleetStatus) -> RenderableType:
    """Return what runs of a fleet, for the terminal."""
    table = plain_table("board", "kind", "where", "device", "worker", "labels")
    for row in status.rows:
        process = "no answer" if row.running is None else ("not running" if not row.running else "starting")
        table.add_row(
            row.name,
            row.board or "",
            row.address or "here",
            row.device or "",
            f"process {row.pid}" if row.pid is not None else process,
            " ".join(row.labels),
        )
    state = "stays up until `fleet down`" if status.kept else "stops when the campaign ends"
    used = "; a campaign uses it" if status.used else ""
    problems = [Text(row.problem, style="yellow") for row in status.rows if row.problem is not None]
    return Group(Text(f"fleet {status.fleet}, scheduler at {status.address}; {state}{used}\n"), table, *problems)


def show_fleet_preview(preview: FleetPreview) -> RenderableType:
    """Return what `fleet up` would start or `fleet down` would stop, one process per paragraph."""
    return Text("\n\n".join(preview.commands) or f"nothing of the fleet {preview.fleet} runs", overflow="fold")


def show_fleet_doctor(found: FleetDoctor) -> RenderableType:
    """Return every board's versions, clock, space and permissions as one table, and what is wrong below it."""
    flower = any(row.versions.get("flwr") for row in found.checks)  # only where some board trains federated
    heads = ["board", "kind", "where", "user", "python", "edgetrain", "dask", *(["flower"] if flower else [])]
    table = plain_table(*heads, "clock", "free", "keys", "verdict")
    for row in found.checks:
        days = "not made yet" if row.certificate_days is None else f"{row.certificate_days:.0f} days"
        table.add_row(
            row.name,
            row.board,
            row.address or "here",
            row.user or "–",
            row.python or "–",
            row.versions.get("edgetrain") or "–",
            row.versions.get("distributed") or "–",
            *([row.versions.get("flwr") or "–"] if flower else []),
            _clock(row),
            spell_bytes(row.free_bytes),
            days if row.python else "–",  # a board that did not answer
            "ok" if not row.problems else f"{len(row.problems)} problem{'' if len(row.problems) == 1 else 's'}",
        )
    problems = [Text(text, style="yellow") for text in found.problems]
    problems += [
        Text(text if text.startswith(row.name) else f"{row.name}: {text}", style="yellow")
        for row in found.checks
        for text in row.problems
    ]
    here = ", ".join(f"{name} {version or 'not installed'}" for name, version in found.versions.items())
    return Group(Text(f"fleet {found.fleet}; here: {here}\n"), table, *problems)


def _clock(row: FleetCheck) -> str:
    if row.clock_ahead_s is None or row.clock_plus_minus_s is None:
        return "–"
    if row.address is None:
        return "this one"
    return f"{row.clock_ahead_s:+.1f} ± {row.clock_plus_minus_s:.1f} s"


def fleet_line(progress: FleetProgress) -> str:
    """Return in one line how far a campaign is."""
    if progress.note is not None:
        return progress.note
    left = "" if progress.left_s is None else f"; time left {spell_seconds(progress.left_s)}"
    failed = f", {len(progress.failed)} failed" if progress.failed else ""
    disconnected = [one.name for one in progress.boards if one.state == "disconnected"]
    lost = f"; disconnected: {', '.join(disconnected)}" if disconnected else ""
    return f"[{len(progress.done)}/{progress.planned}] done{failed}; {len(progress.now)} boards at work{lost}{left}"


def show_fleet_progress(progress: FleetProgress) -> RenderableType:
    """Return all boards of a campaign in one view."""
    table = plain_table("board", "kind", "state", "for", "setting", "done", "failed")
    for one in progress.boards:
        table.add_row(
            one.name,
            one.board,
            one.state,
            "" if one.for_s is None else spell_seconds(one.for_s),
            label(one.factors) if one.key is not None else "",
            str(one.done),
            str(one.failed),
        )
    problems = [Text(one.problem, style="yellow") for one in progress.boards if one.problem is not None]
    return Group(table, *problems, Text(fleet_line(progress)))
