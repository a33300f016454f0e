"""edgetrain profile: the record of an unmodified training script."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from edgetrain.analysis import digest
from edgetrain.cli.options import JsonOption, StoreOption
from edgetrain.report.document import emit
from edgetrain.report.text import console, show_run
from edgetrain.store import Store

PANEL, ORDER = "measure", 30


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("profile", rich_help_panel=PANEL, context_settings={"ignore_unknown_options": True})(profile)


def profile(
    command: Annotated[list[str], typer.Argument(help="Your command, after --, as you would type it.")],
    dataset: Annotated[
        Path | None, typer.Option(help="Its dataset's folder: then its share in the page cache is recorded too.")
    ] = None,
    timing: Annotated[str, typer.Option(help="async, or sync: wait for every step, as the papers did.")] = "async",
    device: Annotated[str, typer.Option(help="auto, host or jetson.")] = "auto",
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """Tells where the time of your own training script goes; nothing in it needs to change.

    Its output and exit status stay as they are; ours goes to stderr. With --json its stdout goes to stderr too.

    Example: edgetrain profile -- python train.py --epochs 2
    """
    from edgetrain.runner.profile import profile as carry_out

    records = Store(store)
    sys.stdout.flush()
    done = carry_out(
        command,
        records,
        device,
        None if dataset is None else str(dataset),
        timing,
        stdout=sys.stderr.fileno() if json else None,
    )
    document = digest(records.open(done.run)).document()
    if json:
        emit(document)
    else:
        console(stderr=True).print(show_run(document))
    raise typer.Exit(done.status)
