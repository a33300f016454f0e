"""`edgetrain compare`: is a difference between settings real."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from edgetrain.analysis import digest
from edgetrain.analysis.compare import Comparison, compare
from edgetrain.cli.options import JsonOption, StoreOption, complete_run
from edgetrain.errors import UsageError
from edgetrain.report.document import emit
from edgetrain.report.text import console, plain_table
from edgetrain.schema import SCHEMA
from edgetrain.store import Store
from edgetrain.units import spell, spell_seconds

PANEL = "measure"
ORDER = 60
LABELS = {
    "e2e": "end to end",
    "fetch_stall": "fetch stall without fill",
    "compute": "copy and compute",
    "energy": "energy",
    "steady": "end to end, steady ones only",
    "steady_power": "power while they ran",
}
SEPARATOR = "vs"  # the command line turns `--` into this, because option parsers swallow it


def register(app: typer.Typer) -> None:
    app.command("compare", rich_help_panel=PANEL)(compare_runs)


def compare_runs(
    runs: Annotated[
        list[str],
        typer.Argument(help="Runs of A, then `--` (or `vs`), then runs of B.", autocompletion=complete_run),
    ],
    store: StoreOption = None,
    seed: Annotated[int, typer.Option(help="Seed of the resampling.")] = 0,
    json: JsonOption = False,
) -> None:
    """Whether two settings really differ, from repeated runs of each: runs are resampled, then their epochs.

    Two runs differ by luck alone: give at least three a side, and less is answered with how many more it takes.

    Example: edgetrain compare RUN1 RUN2 RUN3 -- RUN4 RUN5 RUN6
    """
    if SEPARATOR in runs:
        cut = runs.index(SEPARATOR)
        sides = runs[:cut], runs[cut + 1 :]
    elif len(runs) == 2:
        sides = runs[:1], runs[1:]
    else:
        raise UsageError("put -- between the runs of A and those of B: edgetrain compare A1 A2 A3 -- B1 B2 B3")
    place = Store(store)
    on_a, on_b = ({place.find(run).resolve() for run in side} for side in sides)
    if on_a & on_b:
        names = ", ".join(sorted(path.name for path in on_a & on_b))
        raise UsageError(f"{names} cannot stand on both sides: a run does not differ from itself")
    a, b = ([digest(place.open(run)) for run in side] for side in sides)
    found = compare(a, b, seed)
    if json:
        emit({"schema": SCHEMA, **asdict(found), "different": found.different})
        return
    _print(found)


def _print(found: Comparison) -> None:
    out = console()
    out.print(f"A: {', '.join(found.a)}\nB: {', '.join(found.b)}\n")
    for title, differences in (("epochs after the first", found.warm), ("the first epoch", found.cold)):
        if not differences:
            continue
        table = plain_table("per minibatch", "A", "B", title=title if found.cold else None)
        table.add_column("B against A", justify="left")
        for row in differences:
            table.add_row(LABELS[row.metric], _spelled(row.a, row.unit), _spelled(row.b, row.unit), row.words)
        out.print(table)
        out.print()


def _spelled(value: float, unit: str) -> str:
    """Spell a value whose unit begins with its symbol: `s per minibatch, end to end`."""
    symbol = unit.partition(" ")[0].rstrip(",")
    return spell_seconds(value) if symbol == "s" else spell(value, symbol)
