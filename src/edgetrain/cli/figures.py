"""edgetrain figures: vector figures for a paper, with the numbers in them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from edgetrain.api import figures as draw_figures
from edgetrain.cli.options import JsonOption, StoreOption, complete_run
from edgetrain.report import console, emit


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("figures")(figures)


def figures(
    names: Annotated[
        list[str],
        typer.Argument(
            help="A campaign, several runs, or a table of power modes (imported, or a CSV file).",
            autocompletion=complete_run,
            metavar="CAMPAIGN|RUN|TABLE...",
        ),
    ],
    out: Annotated[Path, typer.Option("--output", "--out", "-o", help="Folder to write into.")] = Path("figures"),
    formats: Annotated[
        list[str] | None,
        typer.Option(
            "--format", help="File format: pdf, svg or png; repeat the option for several. [default: pdf and svg]"
        ),
    ] = None,
    device: Annotated[
        str | None, typer.Option(help="With a table of modes: its board, to mark the stock modes.")
    ] = None,
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """Draw a campaign as figures for a paper: vector graphics, one column wide, each with a CSV of its data.

    Example: edgetrain figures my-campaign -o figures
    """
    written = draw_figures(names, out, store, formats or ("pdf", "svg"), device)
    if json:
        emit(written)
        return
    console(stderr=True).print(
        f"wrote {len(written.figures)} figures to {written.folder}: {', '.join(written.figures)}"
    )
