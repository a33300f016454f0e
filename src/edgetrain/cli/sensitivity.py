"""`edgetrain sensitivity`: how much time, power and energy depend on each clock."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from edgetrain import api
from edgetrain.cli.options import JsonOption, StoreOption, split_names
from edgetrain.cli.output import print_result
from edgetrain.report import show_sensitivity


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("sensitivity")(sensitivity)


def sensitivity(
    profiled: Annotated[str, typer.Argument(help="Measured modes: a CSV file, or a campaign by name or id.")],
    predict: Annotated[
        bool, typer.Option("--predict", help="First predict all modes of --modes or --device, then use those.")
    ] = False,
    modes: Annotated[Path | None, typer.Option(help="With --predict: CSV file of the modes to predict.")] = None,
    device: Annotated[str | None, typer.Option(help="With --predict: predict the modes of this board.")] = None,
    prior: Annotated[
        str, typer.Option(help="With --predict: prior knowledge from other networks: orin, none, or a file.")
    ] = "orin",
    without: Annotated[list[str] | None, typer.Option(help="Leave a network out of the prior.")] = None,
    level: Annotated[float, typer.Option(help="Probability with which an interval contains the true value.")] = 0.9,
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """Show how strongly time, power and energy depend on each clock and on the number of cores.

    Each value is the change in % when that clock is raised by 1 %.

    Example: edgetrain sensitivity mine.csv
    """
    found = api.sensitivity(
        profiled,
        device,
        modes=modes,
        predicted=predict,
        prior=prior,
        without=split_names(without),
        level=level,
        store=store,
    )
    print_result(found, show_sensitivity, json)
