"""`edgetrain data`: make a dataset of the right shape, or show what one holds."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from edgetrain.api import dataset_facts, dataset_preview, make_dataset
from edgetrain.cli.options import JsonOption, StoreOption
from edgetrain.cli.progress import ProgressLine
from edgetrain.cli.run import complete_network
from edgetrain.report import console, dataset_preview_text, dataset_table, emit
from edgetrain.workload import CATALOG


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("data")(data)


def data(
    network: Annotated[
        str,
        typer.Argument(
            help="Network that the dataset is for: " + ", ".join(CATALOG) + ".", autocompletion=complete_network
        ),
    ],
    folder: Annotated[
        Path | None, typer.Argument(help="Folder of your own dataset, to describe it instead of generating one.")
    ] = None,
    scale: Annotated[
        float, typer.Option("--dataset-scale", help="Size of the generated dataset; 1 is the published size.")
    ] = 1.0,
    seed: Annotated[int, typer.Option(min=0, help="Random seed of the generated dataset.")] = 0,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Folder to generate the dataset in; default: in the store.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be generated; write nothing.")] = False,
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """Generate a dataset of the published size and shape, for `run` and your own scripts.

    With FOLDER it shows what your own dataset holds instead, and whether the network can read it.

    Example: edgetrain data mobilenet_v3 --dataset-scale 0.25
    """
    if folder is None and dry_run:
        preview = dataset_preview(network, scale, seed, output, store)
        if json:
            emit(preview)
        else:
            console().print(dataset_preview_text(preview))
        return
    if folder is not None:
        facts = dataset_facts(network, folder)
    else:
        with ProgressLine() as shown:
            facts = make_dataset(network, scale, seed, output, store, lambda done, total: shown("dataset", done, total))
    if json:
        emit(facts)
        return
    console().print(dataset_table(facts))
    if facts.missing:
        names = ", ".join(facts.missing[:5])
        console(stderr=True).print(f"{len(facts.missing)} images are named by the index but not there: {names}")
