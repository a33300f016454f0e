"""`edgetrain import`: other people's logs become runs and campaigns."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from edgetrain.cli.options import JsonOption, StoreOption
from edgetrain.report.document import emit
from edgetrain.report.imports import show_imports
from edgetrain.report.text import console
from edgetrain.schema import SCHEMA
from edgetrain.store import Store
from edgetrain.store.importers import import_path

PANEL = "measure"
ORDER = 70


def register(app: typer.Typer) -> None:
    app.command("import", rich_help_panel=PANEL)(import_)


def import_(
    path: Annotated[Path, typer.Argument(help="A folder of logs, a tegrastats log file, or a CSV table of modes.")],
    store: StoreOption = None,
    window: Annotated[
        str | None,
        typer.Option(help="Which minibatches count as steady, as 5: or 5:45; else our own rule finds them."),
    ] = None,
    interval_s: Annotated[
        float | None,
        typer.Option("--interval-s", help="Seconds between the lines of a log without stamps.", min=0.001),
    ] = None,
    device: Annotated[str | None, typer.Option(help="Which board a table of modes is about.")] = None,
    network: Annotated[str | None, typer.Option(help="Which network a table of modes is about.")] = None,
    json: JsonOption = False,
) -> None:
    """Turn somebody's logs into runs that show, compare and report treat as our own.

    Reads edge-train-bench folders (or a tree of them), tegrastats logs of every JetPack, and CSV tables of power modes.
    What was wrong in them is listed, never dropped in silence.

    Example: edgetrain import logs/pm_6_1510400_624750000_2133000000 --window 5:
    """
    place = Store(store)
    found = list(import_path(path, place, window, interval_s, {"device": device, "network": network}))
    if json:
        emit({"schema": SCHEMA, "store": place.path, "imported": [each.document() for each in found]})
        return
    console().print(show_imports([each.document() for each in found]))
