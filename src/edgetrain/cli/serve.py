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
        str, typer.Option(help="Address to listen on; on any but loopback, pages need the printed token.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on; 0: any free port.", min=0, max=65535)] = 8137,
    control: Annotated[
        bool,
        typer.Option(
            "--control", help="Let the page stop a training and restore the power mode; this needs the printed token."
        ),
    ] = False,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(
            help="Another host name of this machine that browsers may use; repeat the option for several.",
            show_default=False,
        ),
    ] = None,
    store: StoreOption = None,
) -> None:
    """Watch training in a browser: live stalls, power and clocks, campaigns, and every recorded run.

    Example: edgetrain serve --port 8137
    """
    run_server(host, port, store, control, allow_host or (), _announce)


def _announce(address: Address) -> None:
    out = console(stderr=True)
    out.print(f"the live page is at {address.url}", soft_wrap=True)
    if address.control:
        out.print(f"--control is on: pages may stop a training with the token {address.token}", soft_wrap=True)
    out.print("stop it with Ctrl-C")
