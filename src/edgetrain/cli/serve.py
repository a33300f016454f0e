"""edgetrain serve: training as it happens, in a browser."""

from __future__ import annotations

from typing import Annotated

import typer

from edgetrain.api import Address
from edgetrain.api import serve as run_server
from edgetrain.cli.options import StoreOption
from edgetrain.report import console


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("serve")(serve)


def serve(
    host: Annotated[
        str, typer.Option(help="Address to listen on; anything but loopback needs the token that is printed.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on; 0: any that is free.", min=0, max=65535)] = 8137,
    control: Annotated[
        bool, typer.Option("--control", help="Let the page stop a training and restore the power mode, with the token.")
    ] = False,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(help="Another name by which browsers reach this machine; repeat for several.", show_default=False),
    ] = None,
    store: StoreOption = None,
) -> None:
    """Watch training in a browser: stalls, power and clocks as they happen, campaigns, every recorded run.

    Example: edgetrain serve --port 8137
    """
    run_server(host, port, store, control, allow_host or (), _announce)


def _announce(address: Address) -> None:
    out = console(stderr=True)
    out.print(f"the live page is at {address.url}", soft_wrap=True)
    if address.control:
        out.print(f"--control is on: pages may stop a training with the token {address.token}", soft_wrap=True)
    out.print("Ctrl-C ends it")
