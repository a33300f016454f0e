"""edgetrain quickstart: a small characterisation of this machine and a report, in minutes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from edgetrain.api import characterise
from edgetrain.cli.options import JsonOption, StoreOption
from edgetrain.cli.progress import ProgressLine
from edgetrain.report import console, emit, show_characterisation
from edgetrain.units import spell_seconds


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("quickstart")(quickstart)


def quickstart(
    output: Annotated[Path, typer.Option("--output", "-o", help="The page to write.")] = Path("edgetrain-report.html"),
    budget_s: Annotated[float, typer.Option(help="Approximate total duration of the runs, in s.")] = 140.0,
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """Characterise this machine: train two networks with 0, 1 and 2 loader workers, and write a report.

    Example: edgetrain quickstart -o my-machine.html
    """
    say = console(stderr=True).print

    result = characterise(output, budget_s, store, say, lambda label: ProgressLine(label).once())
    if json:
        emit(result)
    else:
        console().print(show_characterisation(result.runs))
    say(f"\n{len(result.runs)} runs in {spell_seconds(result.took_s)}; the report: {result.report}")
    say("next: edgetrain show last, edgetrain doctor, edgetrain run --help")
