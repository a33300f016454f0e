"""edgetrain top: training as it happens, in the terminal."""

from __future__ import annotations

from typing import Annotated

import typer

from edgetrain.api import top as show_live
from edgetrain.cli.options import StoreOption
from edgetrain.report import console


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("top")(top)


def top(
    interval_s: Annotated[float, typer.Option("--interval", help="Seconds between two updates.", min=0.2)] = 2.0,
    once: Annotated[bool, typer.Option("--once", help="Print the view once and exit.")] = False,
    store: StoreOption = None,
) -> None:
    """Watch training in the terminal, for example over SSH: stalls, power, clocks and the campaign.

    Example: edgetrain top --interval 2
    """
    show_live(console(), store, interval_s, once)
