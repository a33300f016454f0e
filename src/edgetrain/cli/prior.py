"""`edgetrain prior`: the priors that predictions start from, and adding a network to one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from edgetrain import api
from edgetrain.cli.options import JsonOption, StoreOption
from edgetrain.cli.output import print_note, print_result
from edgetrain.report import show_priors

ABOUT = "List and extend the priors: coefficients fitted to other networks and boards, from which predictions start."


def register(app: typer.Typer) -> None:
    """Add the commands."""
    prior = typer.Typer(help=ABOUT, no_args_is_help=True, rich_markup_mode="markdown")
    prior.command("list")(list_)
    prior.command("add")(add)
    app.add_typer(prior, name="prior")


def list_(
    files: Annotated[list[Path] | None, typer.Argument(help="Further prior files, besides the shipped ones.")] = None,
    json: JsonOption = False,
) -> None:
    """List the networks and boards of the priors, and how far their modes scatter around the fit.

    Example: edgetrain prior list mine.json
    """
    found = api.list_priors(files or ())
    print_result(found, show_priors, json)


def add(
    campaign: Annotated[str, typer.Argument(help="Measured modes: a CSV file, or a campaign by name or id.")],
    network: Annotated[str, typer.Option(help="Name of the network that was trained, as used by --without.")],
    board: Annotated[str, typer.Option(help="The board it was measured on, such as orin-agx.")],
    kind: Annotated[str, typer.Option(help="What was measured: train or infer.")] = "train",
    to: Annotated[Path, typer.Option("--to", help="The prior file to write.")] = Path("prior.json"),
    start: Annotated[str, typer.Option("--from", help="The prior to start from: orin, none, or a file.")] = "orin",
    source: Annotated[str, typer.Option(help="Source of the measurements, as free text.")] = "",
    store: StoreOption = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Fit and show the result; write nothing.")] = False,
    json: JsonOption = False,
) -> None:
    """Add a network to a prior: fit its measured modes and store the coefficients, not the measurements.

    Example: edgetrain prior add bert.csv --network bert --board orin-agx --to mine.json
    """
    found = api.add_to_prior(
        campaign, network, board, to=to, start=start, kind=kind, source=source, dry_run=dry_run, store=store
    )
    print_result(found, show_priors, json)
    if found.written is not None and not json:
        print_note(f"wrote {to}; use it with: edgetrain predict table --prior {to} ...")
