"""`edgetrain export`: a run for other programs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from edgetrain.analysis import digest
from edgetrain.cli.options import StoreOption, complete_run
from edgetrain.errors import StoreError, UsageError
from edgetrain.report.export.tables import write_csv, write_parquet
from edgetrain.report.export.trace import write_trace
from edgetrain.report.text import console
from edgetrain.store import Store
from edgetrain.units import spell_bytes

PANEL = "measure"
ORDER = 70


def register(app: typer.Typer) -> None:
    app.command("export", rich_help_panel=PANEL)(export)


def export(
    run: Annotated[str, typer.Argument(help="A run's id, or `last`.", autocompletion=complete_run)] = "last",
    csv: Annotated[bool, typer.Option("--csv", help="One row a minibatch, as CSV.")] = False,
    parquet: Annotated[bool, typer.Option("--parquet", help="The same as Parquet.")] = False,
    trace: Annotated[bool, typer.Option("--trace", help="A timeline for Perfetto or chrome://tracing.")] = False,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File to write; default: the run's id in this folder.")
    ] = None,
    store: StoreOption = None,
) -> None:
    """Takes a run out of our format, for spreadsheets, notebooks and trace viewers.

    Example: edgetrain export last --trace -o run.json
    """
    if csv + parquet + trace != 1:
        raise UsageError("say which format: one of --csv, --parquet, --trace")
    found = digest(Store(store).open(run))
    if not len(found.parts):
        raise StoreError(f"run {found.run.run} holds no training minibatches to export; edgetrain show says why")
    ending = ".csv" if csv else ".parquet" if parquet else ".trace.json"
    path = output or Path(found.run.run + ending)
    try:
        if trace:
            facts: dict[str, Any] = write_trace(found, path)
            what = f"{facts['events']} events"
            if facts["minibatches_left_out"]:
                what += f"; {facts['minibatches_left_out']} minibatches in the middle left out to keep viewers quick"
        else:
            what = f"{(write_csv if csv else write_parquet)(found, path)} minibatches"
    except OSError as error:
        raise UsageError(f"cannot write {path} ({error.strerror}); choose another place with -o") from error
    console(stderr=True).print(f"wrote {path}: {what}, {spell_bytes(path.stat().st_size)}")
