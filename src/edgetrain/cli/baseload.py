"""`edgetrain baseload`: what the board draws with nothing to do."""

from __future__ import annotations

from typing import Annotated

import typer

from edgetrain import api
from edgetrain.cli.options import JsonOption
from edgetrain.cli.output import print_result
from edgetrain.report import console, show_baseload, show_baseload_preview


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("baseload")(baseload)


def baseload(
    device: Annotated[str, typer.Option(help="`auto`, `host`, or a board such as `sim:orin-agx`.")] = "auto",
    seconds: Annotated[float, typer.Option(help="Duration of each of the measurements, in s.", min=1.0)] = 30.0,
    wake_on_lan_w: Annotated[
        float | None,
        typer.Option(
            "--wake-on-lan-w",
            help="Power in the Wake-on-LAN state, in W, as read from a meter at the wall socket.",
            min=0.0,
        ),
    ] = None,
    keep_clocks: Annotated[bool, typer.Option("--keep-clocks", help="Measure without changing the clocks.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be measured and changed; do nothing.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Measure the power of an idle board.

    It is measured with clocks held and free, and with edgetrain's logging on and off. Run nothing else meanwhile.

    Example: sudo edgetrain baseload --seconds 60
    """
    stderr = console(stderr=True)
    if dry_run:
        print_result(api.baseload_preview(device, seconds, keep_clocks), show_baseload_preview, json)
        return
    table = api.baseload(device, seconds, wake_on_lan_w, keep_clocks, lambda stage, done, total: stderr.print(stage))
    print_result(table, show_baseload, json)
