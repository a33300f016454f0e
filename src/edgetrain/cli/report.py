"""edgetrain report: runs as one page for people."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from edgetrain.api import ModeLimits, write_report
from edgetrain.cli.options import JsonOption, StoreOption, complete_run
from edgetrain.report import console, emit
from edgetrain.units import spell_bytes


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("report")(report)


def report(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            help="A run, several runs, a campaign, or a table of power modes (imported, or a CSV file); "
            "default: the newest run.",
            autocompletion=complete_run,
            show_default=False,
            metavar="RUN|CAMPAIGN|TABLE...",
        ),
    ] = None,
    campaign: Annotated[str | None, typer.Option(help="Report on all runs of this campaign.")] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="The page to write.")] = Path("edgetrain-report.html"),
    title: Annotated[str | None, typer.Option(help="Heading of the page.", show_default=False)] = None,
    device: Annotated[
        str | None, typer.Option(help="With a table of modes: its board; modes missing from the table are predicted.")
    ] = None,
    max_power_w: Annotated[
        str | None, typer.Option(help="With a table of modes: power limit to mark, 20 or 20W.")
    ] = None,
    max_time_s: Annotated[
        str | None, typer.Option(help="With a table of modes: limit on the time per minibatch to mark, 0.1 or 100ms.")
    ] = None,
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """Write one self-contained HTML page about a run, several runs, a campaign or power modes.

    Example: edgetrain report last -o report.html
    """
    limits = ModeLimits(device, max_power_w, max_time_s)
    written = write_report(names or ["last"], output, campaign, title, store, limits)
    if json:
        emit(written)
        return
    what = "mode" if written.kind == "modes" else "run"
    count = f"1 {what}" if written.runs == 1 else f"{written.runs} {what}s"
    console(stderr=True).print(f"wrote {written.path}: {count}, {spell_bytes(written.size_bytes)}")
