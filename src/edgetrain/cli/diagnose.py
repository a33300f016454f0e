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
        typer.Option(
            "--verify",
            help="Repeat the training with the best remedy, and compare the prediction with the measurement.",
        ),
    ] = False,
    media: Annotated[Path | None, typer.Option(help="YAML file that describes storage media of your own.")] = None,
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """Explain what limits a training, with the evidence and the predicted gain of each remedy.

    Example: edgetrain diagnose last
    """
    with record_kept(), ProgressLine() as progress:
        found = find_diagnosis(run, verify=verify, media=media, store=store, progress=progress)
    if json:
        emit(found)
    else:
        console().print(show_diagnosis(found))
