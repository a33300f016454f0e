"""`edgetrain ls`: which runs are recorded."""

from __future__ import annotations

from typing import Annotated

import typer

from edgetrain.cli.options import JsonOption, StoreOption
from edgetrain.report.document import emit
from edgetrain.report.text import BROAD, console, list_runs
from edgetrain.schema import SCHEMA
from edgetrain.store import Store

PANEL = "measure"
ORDER = 40


def register(app: typer.Typer) -> None:
    app.command("ls", rich_help_panel=PANEL)(ls)


def ls(
    store: StoreOption = None,
    network: Annotated[str | None, typer.Option(help="Only runs of this network.")] = None,
    campaign: Annotated[str | None, typer.Option(help="Only runs of this campaign.")] = None,
    newest: Annotated[int | None, typer.Option("--newest", "-n", help="Only this many, the newest.", min=1)] = None,
    json: JsonOption = False,
) -> None:
    """Which runs are recorded, oldest first.

    Example: edgetrain ls --network mobilenet_v3 -n 10
    """
    place = Store(store)
    rows = place.list()
    rows = [row for row in rows if network in (None, row["network"]) and campaign in (None, row["campaign"])]
    rows = rows[-newest:] if newest else rows
    if json:
        emit({"schema": SCHEMA, "store": place.path, "runs": rows})
        return
    if not rows:
        told = console(stderr=True)
        if network or campaign:
            wanted = f"network {network}" if network else f"campaign {campaign}"
            told.print(f"no runs of {wanted} in {place.path}; edgetrain ls shows all there are")
        else:
            told.print(f"no runs in {place.path}; make one with: edgetrain run lenet5")
        return
    out = console()
    if not out.is_terminal:
        out.width = BROAD  # a file or a pipe has no edge
    out.print(list_runs(rows))
