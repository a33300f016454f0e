"""edgetrain compare: is a difference between settings real."""

from __future__ import annotations

from typing import Annotated

import typer

from edgetrain.api import compare
from edgetrain.cli.options import JsonOption, StoreOption, complete_run
from edgetrain.errors import UsageError
from edgetrain.report import console, emit, show_comparison

SEPARATOR = "vs"  # the command line turns `--` into this, because option parsers remove it


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("compare")(compare_runs)


def compare_runs(
    runs: Annotated[
        list[str],
        typer.Argument(help="Runs of A, then `--` (or `vs`), then runs of B.", autocompletion=complete_run),
    ],
    store: StoreOption = None,
    seed: Annotated[int, typer.Option(help="Random seed of the resampling.")] = 0,
    json: JsonOption = False,
) -> None:
    """Decide whether two settings really differ, from repeated runs of each.

    Two runs always differ a little by chance: give at least three per side. With fewer, it prints how many more are
    needed.

    Example: edgetrain compare RUN1 RUN2 RUN3 -- RUN4 RUN5 RUN6
    """
    if SEPARATOR in runs:
        cut = runs.index(SEPARATOR)
        sides = runs[:cut], runs[cut + 1 :]
    elif len(runs) == 2:
        sides = runs[:1], runs[1:]
    else:
        raise UsageError("put -- between the runs of A and those of B: edgetrain compare A1 A2 A3 -- B1 B2 B3")
    found = compare(sides[0], sides[1], store, seed)
    if json:
        emit(found)
    else:
        console().print(show_comparison(found))
