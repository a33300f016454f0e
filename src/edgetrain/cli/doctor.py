"""`edgetrain doctor`: what can be measured and set here, what not, why, and how to fix it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from edgetrain import api
from edgetrain.cli.options import JsonOption, StoreOption
from edgetrain.cli.output import print_result
from edgetrain.report import show_doctor


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("doctor")(doctor)


def doctor(
    device: Annotated[str, typer.Option(help="`auto`, `host`, `jetson`, or a board such as `sim:orin-agx`.")] = "auto",
    dataset: Annotated[
        Path | None, typer.Option(help="Folder of a dataset: also check its storage medium and page cache.")
    ] = None,
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """Show what can be measured and set on this machine, what is missing, and how to get it.

    Example: edgetrain doctor --dataset ~/data/gld23k
    """
    report = api.doctor(device, dataset, store)
    print_result(report, show_doctor, json)
