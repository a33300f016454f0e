"""edgetrain data: make a dataset of the right shape, or look at one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from edgetrain.cli.options import JsonOption, StoreOption
from edgetrain.cli.progress import Shown
from edgetrain.cli.run import complete_network
from edgetrain.report.document import emit
from edgetrain.report.text import console, plain_table
from edgetrain.schema import SCHEMA
from edgetrain.store import Store
from edgetrain.units import spell_bytes
from edgetrain.workload.catalog import CATALOG, entry
from edgetrain.workload.datasets import survey
from edgetrain.workload.datasets.layout import file_sizes, size_quantiles
from edgetrain.workload.generate import expected_bytes, generate, is_ready, recipe

PANEL, ORDER = "measure", 25


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("data", rich_help_panel=PANEL)(data)


def data(
    network: Annotated[
        str,
        typer.Argument(help="Whose dataset: " + ", ".join(CATALOG) + ".", autocompletion=complete_network),
    ],
    folder: Annotated[
        Path | None, typer.Argument(help="A dataset you have, to look at; left out, one is generated.")
    ] = None,
    scale: Annotated[float, typer.Option(help="Size of the generated dataset; 1 is the papers'.")] = 1.0,
    seed: Annotated[int, typer.Option(min=0, help="Another seed draws another dataset of the same shape.")] = 0,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Where to generate it; the store where left out.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be written, write nothing.")] = False,
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """What a dataset holds; generates one of the papers' shape (files, sizes, resolution) where you have none.

    Example: edgetrain data mobilenet_v3 --scale 0.25
    """
    known = entry(network)
    if folder is None:
        what = recipe(known, scale, seed)
        folder = output or Store(store).data / what.folder
        if dry_run:
            size, ready = expected_bytes(what), is_ready(folder, what)
            if json:
                emit({"schema": SCHEMA, "dataset": folder, "samples": what.samples, "bytes": size, "ready": ready})
            elif ready:
                console().print(f"nothing to do: {what.samples} samples lie in {folder}")
            else:
                console().print(f"would generate {what.samples} samples, about {spell_bytes(size)}, in {folder}")
            return
        with Shown() as shown:
            generate(folder, what, lambda done, total: shown("dataset", done, total))
    found = survey(folder, known)
    sizes = file_sizes(found.files)
    quantiles = size_quantiles(sizes)
    if json:
        emit(
            {
                "schema": SCHEMA,
                "dataset": str(folder),
                "kind": found.kind,
                "samples": found.samples,
                "classes": found.classes,
                "files": len(sizes),
                "bytes": sum(sizes),
                "size_quantiles": quantiles,
                "missing": list(found.missing),
            }
        )
        return
    table = plain_table("dataset", "kind", "samples", "classes", "files", "size", "median file", "5 % to 95 %")
    spread = f"{spell_bytes(quantiles.get('0.05'))} to {spell_bytes(quantiles.get('0.95'))}"
    table.add_row(
        str(folder),
        found.kind,
        str(found.samples),
        str(found.classes),
        str(len(sizes)),
        spell_bytes(sum(sizes)),
        spell_bytes(quantiles.get("0.5")),
        spread,
    )
    console().print(table)
    if found.missing:
        names = ", ".join(found.missing[:5])
        console(stderr=True).print(f"{len(found.missing)} images are named but not there: {names}")
