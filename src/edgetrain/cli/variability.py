"""edgetrain variability: how much runs of one setting differ over time, between units and between software versions."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from edgetrain.api import draw_variability
from edgetrain.api import variability as study_variability
from edgetrain.cli.options import JsonOption, StoreOption, complete_run
from edgetrain.cli.output import print_note, print_result
from edgetrain.errors import UsageError
from edgetrain.report import show_variability


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("variability")(variability)


def variability(
    names: Annotated[
        list[str],
        typer.Argument(
            help="A campaign by name or id, several runs, or a CSV: unit, time_ms, energy_mj, software, hours.",
            autocompletion=complete_run,
            metavar="CAMPAIGN|RUN|TABLE...",
        ),
    ],
    detect: Annotated[
        str, typer.Option(help="Difference to detect, in per cent; shows how many runs or units that takes.")
    ] = "1",
    figures: Annotated[
        Path | None,
        typer.Option("--figures", help="Write figures into this folder (SVG and PNG, each with a CSV file)."),
    ] = None,
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """Show how much equal runs differ: over time, between units of a board, between software versions.

    Only runs of equal settings on the same kind of board are compared. Each coefficient of variation (standard
    deviation over mean) has its 90 % interval, which is wide if there are few units. Outliers among the units are
    named. `--detect 2` gives the number of runs, or of units, that it takes to show a difference of 2 %.

    To get such runs: a plan with `repeats: 3` and `place: {every_unit: true}`, carried out on a fleet (`edgetrain
    campaign plan.yaml --on fleet.yaml`), or unit by unit (`--fresh --device sim:xavier-nx?unit=1`, then unit=2, …).
    Units are identified by serial number, else by host name.

    Example: edgetrain variability my-campaign --detect 2
    """
    report = study_variability(names, _share(detect), store)
    if figures is not None:
        written = draw_variability(report, figures)
        print_note(f"wrote {len(written.figures)} figures to {written.folder}: {', '.join(written.figures)}")
    print_result(report, show_variability, json)


def _share(text: str) -> float:
    try:
        return float(text.strip().rstrip("%")) / 100.0
    except ValueError:
        raise UsageError(f"cannot read --detect {text!r}; write a difference in per cent, for example 2") from None
