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
            help="A campaign, some runs, or a table of power modes (imported, or a CSV).",
            autocompletion=complete_run,
            metavar="CAMPAIGN|RUN|TABLE...",
        ),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder to write into.")] = Path("figures"),
    formats: Annotated[
        list[str] | None, typer.Option("--format", help="pdf, svg or png; repeat for several. [default: pdf and svg]")
    ] = None,
    device: Annotated[str | None, typer.Option(help="Board of a table of modes, for its stock modes.")] = None,
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """Draw a campaign for a paper: vector figures one column wide, each with a CSV of what it shows.

    Example: edgetrain figures my-campaign --out figures
    """
    written = draw_figures(names, out, store, formats or ("pdf", "svg"), device)
    if json:
        emit(written)
        return
    console(stderr=True).print(
        f"wrote {len(written.figures)} figures to {written.folder}: {', '.join(written.figures)}"
    )
