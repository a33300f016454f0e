"""edgetrain import: other people's logs become runs and tables."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from edgetrain.api import import_logs
from edgetrain.cli.options import JsonOption, StoreOption
from edgetrain.report import console, emit, show_imports


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("import")(import_)


def import_(
    path: Annotated[Path, typer.Argument(help="A folder of logs, a tegrastats log file, or a CSV table of modes.")],
    store: StoreOption = None,
    window: Annotated[
        str | None,
        typer.Option(help="Minibatches of the steady state: 5: (number 5 and later) or 5:45; default: detected."),
    ] = None,
    interval_s: Annotated[
        float | None,
        typer.Option("--interval-s", help="Seconds between the lines of a log without time stamps.", min=0.001),
    ] = None,
    device: Annotated[
        str | None, typer.Option(help="The board of a table of modes, to check that its powers are possible there.")
    ] = None,
    network: Annotated[str | None, typer.Option(help="The network of a table of modes.")] = None,
    json: JsonOption = False,
) -> None:
    """Convert logs of other tools into runs, for show, compare and report.

    Reads edge-train-bench folders (or a tree of them), tegrastats logs of every JetPack, and CSV tables of power modes.
    Problems in them are listed; nothing is dropped silently.

    Example: edgetrain import logs/pm_6_1510400_624750000_2133000000 --window 5:
    """
    found = import_logs(path, store, window, interval_s, device, network)
    if json:
        emit(found)
    else:
        console().print(show_imports(found.imported))
