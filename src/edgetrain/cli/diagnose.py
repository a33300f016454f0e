"""edgetrain diagnose: the bottleneck in words, with evidence and remedies."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from edgetrain.api import diagnose as find_diagnosis
from edgetrain.cli.options import AllowWritesInOption, AllowWritesOption, JsonOption, RunArgument, StoreOption
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
            help="Train with the best remedy (your own command in short trials) and compare with the prediction.",
        ),
    ] = False,
    trial_args: Annotated[
        str, typer.Option(help='Arguments added to your command in trials only: "--epochs 1 --no-save".')
    ] = "",
    allow_writes: AllowWritesOption = False,
    allow_writes_in: AllowWritesInOption = None,
    media: Annotated[Path | None, typer.Option(help="YAML file that describes storage media of your own.")] = None,
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """Explain what limits a training, with the evidence and the predicted gain of each remedy.

    Example: edgetrain diagnose last
    """
    with record_kept(), ProgressLine() as progress:
        found = find_diagnosis(
            run,
            verify=verify,
            trial_args=trial_args,
            allow_writes=allow_writes,
            allow_writes_in=allow_writes_in or (),
            media=media,
            store=store,
            progress=progress,
        )
    if json:
        emit(found)
    else:
        console().print(show_diagnosis(found))
