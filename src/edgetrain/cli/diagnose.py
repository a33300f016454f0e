"""edgetrain diagnose: the bottleneck in words, with evidence and remedies."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from edgetrain.api import diagnose as find_diagnosis
from edgetrain.cli.options import JsonOption, RunArgument, StoreOption
from edgetrain.cli.progress import ProgressLine, record_kept
from edgetrain.report import console, emit, show_diagnosis

PANEL, ORDER = "explain", 10


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("diagnose", rich_help_panel=PANEL)(diagnose)


def diagnose(
    run: RunArgument = "last",
    verify: Annotated[
        bool,
        typer.Option("--verify", help="Run the training with the best remedy, and compare prediction and measurement."),
    ] = False,
    media: Annotated[Path | None, typer.Option(help="A file with storage media of your own.")] = None,
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """What limits this training, how is that known, and what would each remedy bring?

    Example: edgetrain diagnose last
    """
    with record_kept(), ProgressLine() as progress:
        found = find_diagnosis(run, verify=verify, media=media, store=store, progress=progress)
    if json:
        emit(found)
    else:
        console().print(show_diagnosis(found))
