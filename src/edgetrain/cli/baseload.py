"""`edgetrain baseload`: what the board draws with nothing to do."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any

import typer

from edgetrain.cli.options import JsonOption
from edgetrain.device import catalog, open_device
from edgetrain.errors import UsageError
from edgetrain.report.boards import show_baseload
from edgetrain.report.document import emit
from edgetrain.report.text import console
from edgetrain.runner.baseload import measure_baseload
from edgetrain.schema import SCHEMA, Origin

PANEL = "boards"
ORDER = 30
STATES = {
    "logging": "clocks held, logging on",
    "dvfs_off": "clocks held, logging off",
    "dvfs_on": "clocks free, logging off",
    "wake_on_lan": "Wake-on-LAN",
}


def register(app: typer.Typer) -> None:
    app.command("baseload", rich_help_panel=PANEL)(baseload)


def baseload(
    device: Annotated[str, typer.Option(help="`auto`, `host`, or a board such as `sim:orin-agx`.")] = "auto",
    seconds: Annotated[float, typer.Option(help="How long each state is measured.", min=1.0)] = 30.0,
    wake_on_lan_w: Annotated[
        float | None,
        typer.Option("--wake-on-lan-w", help="What your meter shows at the socket in Wake-on-LAN.", min=0.0),
    ] = None,
    keep_clocks: Annotated[bool, typer.Option("--keep-clocks", help="Measure as it is; change nothing.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be measured and changed, and stop.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """What the board draws idle: clocks held or free, our logging on or off. Leave it alone meanwhile.

    Example: sudo edgetrain baseload --seconds 60
    """
    board = open_device(device)
    source = board.total_power()
    if source is None:
        raise UsageError(f"{board.spec.name} has no power sensor that can be read; edgetrain doctor says why")
    said = console(stderr=True)
    if dry_run:
        said.print(
            f"would measure 4 idle states for {seconds:g} s each and hold, free and restore the clocks in between"
        )
        return
    rows = measure_baseload(board, seconds, not keep_clocks, lambda stage, done, total: said.print(stage))
    document: dict[str, Any] = {
        "schema": SCHEMA,
        "device": board.spec.name,
        "origin": Origin.SIMULATED if board.spec.kind == "simulated" else Origin.MEASURED,
        "scope": source.scope,
        "seconds": seconds,
        "rows": [dataclasses.asdict(row) for row in rows],
        "socket": _socket(board.spec.module or board.spec.name, board.spec.name, wake_on_lan_w),
    }
    if json:
        emit(document)
    else:
        console().print(show_baseload(document))


def _socket(module: str, name: str, wake_on_lan_w: float | None) -> list[dict[str, Any]]:
    """Return what is known at the socket: published figures, and the user's own for Wake-on-LAN."""
    known = catalog.load().find(module) or catalog.load().find(name)
    rows = [
        {"state": STATES[state], "power_w": watts, "origin": Origin.PUBLISHED}
        for state, watts in (known.idle_socket_w.items() if known else ())
        if state in STATES and not (state == "wake_on_lan" and wake_on_lan_w is not None)
    ]
    if wake_on_lan_w is not None:
        rows.append({"state": STATES["wake_on_lan"], "power_w": wake_on_lan_w, "origin": "given"})
    return rows
