"""`edgetrain round`: the plan of a federated round."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from edgetrain import api
from edgetrain.cli.options import JsonOption
from edgetrain.cli.output import print_note, print_result
from edgetrain.report import show_round


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("round")(round_)


def round_(
    file: Annotated[
        Path, typer.Argument(help="The round file: fleet, network, deadline, data and links of the devices.")
    ],
    rounds: Annotated[
        int | None,
        typer.Option(help="Number of rounds to simulate, 0 for none; default: as in the file.", min=0, max=10_000),
    ] = None,
    seed: Annotated[int, typer.Option(help="Random seed of the simulated rounds.", min=0)] = 0,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="Also write a page with the Gantt chart, round.html, or the chart alone, round.svg."
        ),
    ] = None,
    all_: Annotated[bool, typer.Option("--all", help="Show every device of a large fleet.")] = False,
    json: JsonOption = False,
) -> None:
    """Plan a federated round: choose each device's power mode so that all finish in time with the least energy.

    Nothing is set on any device. Example: edgetrain round round.yaml -o round.html
    """
    answer = api.plan_round(file, simulate=rounds, seed=seed)
    print_result(answer, lambda found: show_round(found, all_), json)
    if output is not None:
        print_note(f"wrote {api.write_round_page(answer, output)}")
