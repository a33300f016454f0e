"""`edgetrain report`: runs as one page for people."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from edgetrain.analysis import digest
from edgetrain.cli.options import StoreOption, complete_run
from edgetrain.errors import UsageError
from edgetrain.report.page import write_page
from edgetrain.report.text import console
from edgetrain.store import Store
from edgetrain.units import spell_bytes

PANEL = "show"
ORDER = 10


def register(app: typer.Typer) -> None:
    app.command("report", rich_help_panel=PANEL)(report)


def report(
    runs: Annotated[
        list[str] | None,
        typer.Argument(help="Runs to show; default: the newest.", autocompletion=complete_run, show_default=False),
    ] = None,
    campaign: Annotated[str | None, typer.Option(help="All runs of this campaign.")] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="The page to write.")] = Path("edgetrain-report.html"),
    title: Annotated[str, typer.Option(help="Its heading.")] = "Where training time went",
    store: StoreOption = None,
) -> None:
    """One self-contained page about one run or many: pictures and tables, nothing fetched from anywhere.

    Example: edgetrain report last -o report.html
    """
    place = Store(store)
    chosen = list(runs or [])
    if campaign:
        chosen += [row["run"] for row in place.list() if row["campaign"] == campaign]
        if not chosen:
            raise UsageError(f"no run of campaign {campaign!r} is in {place.path}; edgetrain ls shows what there is")
    documents = [digest(place.open(run)).document() for run in chosen or ["last"]]
    try:
        write_page(documents, output, title)
    except OSError as error:
        raise UsageError(f"cannot write {output} ({error.strerror}); choose another place with -o") from error
    runs_told = "1 run" if len(documents) == 1 else f"{len(documents)} runs"
    console(stderr=True).print(f"wrote {output}: {runs_told}, {spell_bytes(output.stat().st_size)}")
