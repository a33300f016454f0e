"""`edgetrain show`: one run, epoch by epoch."""

from __future__ import annotations

from typing import Annotated

import typer

from edgetrain.analysis import digest
from edgetrain.cli.options import JsonOption, StoreOption, complete_run
from edgetrain.report.document import emit
from edgetrain.report.text import console, show_run
from edgetrain.store import Store

PANEL = "measure"
ORDER = 50


def register(app: typer.Typer) -> None:
    app.command("show", rich_help_panel=PANEL)(show)


def show(
    run: Annotated[
        str, typer.Argument(help="A run's id, the start of one, its folder, or `last`.", autocompletion=complete_run)
    ] = "last",
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """Where the seconds and joules of one run went, epoch by epoch, and how far to trust that.

    Example: edgetrain show last
    """
    document = digest(Store(store).open(run)).document()
    if json:
        emit(document)
    else:
        console().print(show_run(document))
