"""edgetrain show: one run, epoch by epoch."""

from __future__ import annotations

import typer

from edgetrain.api import open_run, summarize
from edgetrain.cli.memory import keep_freed_memory
from edgetrain.cli.options import JsonOption, RunArgument, StoreOption
from edgetrain.report import console, emit, show_run


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("show")(show)


def show(run: RunArgument = "last", store: StoreOption = None, json: JsonOption = False) -> None:
    """Show where the time and energy of a run went, epoch by epoch, and the reasons to doubt its numbers.

    Example: edgetrain show last
    """
    keep_freed_memory()
    summary = summarize(open_run(run, store))
    if json:
        emit(summary)
    else:
        console().print(show_run(summary))
