"""edgetrain whatif: the same training under another setting, predicted."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from edgetrain.api import whatif as predict_whatif
from edgetrain.cli.changes import only_one, parse_changes, parse_sweep, split_run
from edgetrain.cli.options import JsonOption, RunArgument, StoreOption
from edgetrain.report import console, emit, show_whatif, write_sweep

PANEL, ORDER = "explain", 20


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("whatif", rich_help_panel=PANEL)(whatif)


def whatif(
    run: RunArgument = "last",
    more: Annotated[list[str] | None, typer.Argument(help="Further changes, NAME=VALUE.", show_default=False)] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", help="A setting to change, NAME=VALUE: workers=2, storage=hdd, ram=4GiB, cache=cold, …"),
    ] = None,
    sweep: Annotated[
        list[str] | None,
        typer.Option(
            help="Values of one setting, answered one by one: workers=0..8, or storage=ssd,sd,hdd.", show_default=False
        ),
    ] = None,
    repeat: Annotated[
        list[str] | None,
        typer.Option(
            help="Another run of the same setting; their spread widens the intervals. Default: those in the store.",
            show_default=False,
        ),
    ] = None,
    profiled: Annotated[
        str | None,
        typer.Option(help="Measured power modes of this network, for power_mode=…: a CSV file or a campaign."),
    ] = None,
    media: Annotated[Path | None, typer.Option(help="YAML file that describes storage media of your own.")] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Draw the sweep into this SVG file.")] = None,
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """Predict how long a recorded training would take with other workers, storage, RAM or batch size.

    The first epoch begins with the page cache as the recorded run did, unless cache=cold or cache=warm asks otherwise.

    Example: edgetrain whatif last --set workers=2 storage=hdd ram=4GiB
    """
    run, further = split_run(run, more or ())
    changes = parse_changes([*(set_ or ()), *further])
    answer = predict_whatif(
        run,
        changes,
        sweep=parse_sweep(only_one(sweep)),
        repeats=repeat or None,
        media=media,
        profiled=profiled,
        store=store,
    )
    if output is not None:
        write_sweep(answer, output)
    if json:
        emit(answer)
    else:
        console().print(show_whatif(answer))
