"""edgetrain ls: which runs are recorded."""

from __future__ import annotations

from typing import Annotated

import typer

from edgetrain.api import runs
from edgetrain.cli.options import JsonOption, StoreOption
from edgetrain.report import BROAD, console, emit, list_runs


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("ls")(ls)


def ls(
    store: StoreOption = None,
    network: Annotated[str | None, typer.Option(help="Show only runs of this network.")] = None,
    campaign: Annotated[
        str | None, typer.Option(help="Show only runs of this campaign, by its id or the name in its plan.")
    ] = None,
    newest: Annotated[
        int | None, typer.Option("--newest", "-n", help="Show only this many runs, the newest.", min=1)
    ] = None,
    json: JsonOption = False,
) -> None:
    """List the recorded runs, oldest first.

    Example: edgetrain ls --network mobilenet_v3 -n 10
    """
    found = runs(store, network, campaign, newest)
    if json:
        emit(found)
        return
    if not len(found):
        say = console(stderr=True).print
        if network or campaign:
            wanted = f"network {network}" if network else f"campaign {campaign}"
            say(f"no runs of {wanted} in {found.store}; edgetrain ls lists all there are")
        else:
            say(f"no runs in {found.store}; make one with: edgetrain run lenet5")
        return
    out = console()
    if not out.is_terminal:
        out.width = BROAD  # a file or a pipe has no edge
    out.print(list_runs(found))
