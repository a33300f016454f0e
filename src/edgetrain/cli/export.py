"""edgetrain export: a run for other programs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from edgetrain.api import Exported, export_fleet_trace, export_run
from edgetrain.cli.options import JsonOption, RunArgument, StoreOption
from edgetrain.errors import UsageError
from edgetrain.report import console, emit
from edgetrain.units import spell_bytes


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("export")(export)


def export(
    run: RunArgument = "last",
    csv: Annotated[bool, typer.Option("--csv", help="One row per minibatch, as CSV.")] = False,
    parquet: Annotated[bool, typer.Option("--parquet", help="One row per minibatch, as Parquet.")] = False,
    trace: Annotated[bool, typer.Option("--trace", help="Timeline for Perfetto or chrome://tracing.")] = False,
    prometheus: Annotated[
        bool, typer.Option("--prometheus", help="Totals and latest readings, for Prometheus' textfile collector.")
    ] = False,
    fleet_trace: Annotated[
        bool,
        typer.Option(
            "--fleet-trace",
            help="Instead of a run: time, power and variability of each catalogued board and network, for simulators.",
        ),
    ] = False,
    samples: Annotated[
        bool,
        typer.Option("--samples", help="With --csv or --parquet: one row per sensor reading instead of per minibatch."),
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="File to write; default: named after the run, in the current folder."),
    ] = None,
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """Export a run for spreadsheets, notebooks, trace viewers and Prometheus.

    Example: edgetrain export last --trace -o run.json
    """
    if fleet_trace:
        if csv or parquet or trace or prometheus or samples or run != "last":
            raise UsageError("--fleet-trace exports the catalogue, not a run; give only -o FILE.csv beside it")
        _say(export_fleet_trace(output or Path("fleet-trace.csv")), "values", json)
        return
    forms = (("csv", csv), ("parquet", parquet), ("trace", trace), ("prometheus", prometheus))
    chosen = [name for name, wanted in forms if wanted]
    if len(chosen) != 1:
        raise UsageError("choose one format: --csv, --parquet, --trace, --prometheus or --fleet-trace")
    written = export_run(run, chosen[0], output, store, samples)
    _say(written, "events" if trace else "values" if prometheus else "readings" if samples else "minibatches", json)


def _say(written: Exported, kind: str, json: bool) -> None:
    if json:
        emit(written)
        return
    what = f"{written.rows} {kind}"
    if written.minibatches_left_out:
        what += f"; {written.minibatches_left_out} minibatches in the middle were left out to keep viewers quick"
    console(stderr=True).print(f"wrote {written.path}: {what}, {spell_bytes(written.size_bytes)}")
