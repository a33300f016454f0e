"""`edgetrain prior`: what other networks taught, and teaching it more."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from edgetrain.cli.decide import read_profiled
from edgetrain.cli.options import JsonOption, StoreOption
from edgetrain.errors import UsageError
from edgetrain.predict.modes.learn import learn_entry
from edgetrain.predict.modes.prior import Prior, dump_prior, load_prior, shipped
from edgetrain.report.document import emit
from edgetrain.report.prediction import show_priors
from edgetrain.report.text import console
from edgetrain.schema import SCHEMA

PANEL, ORDER = "predict", 30
ABOUT = "What other networks taught the predictor, network by network, and adding yours."


def register(app: typer.Typer) -> None:
    """Add the verb."""
    prior = typer.Typer(help=ABOUT, no_args_is_help=True, rich_markup_mode="markdown")
    prior.command("list")(list_)
    prior.command("add")(add)
    app.add_typer(prior, name="prior", rich_help_panel=PANEL)


def list_(
    files: Annotated[list[Path] | None, typer.Argument(help="Prior files beside the shipped ones.")] = None,
    json: JsonOption = False,
) -> None:
    """Which networks and boards do the priors hold, and how far did their modes scatter?

    Example: edgetrain prior list mine.json
    """
    names = [*shipped(), *(str(file) for file in files or ())]
    document = {"schema": SCHEMA, "priors": [_document(load_prior(name), name) for name in names]}
    if json:
        emit(document)
    else:
        console().print(show_priors(document))


def add(
    campaign: Annotated[str, typer.Argument(help="Measured modes: a CSV, or a campaign of the store.")],
    network: Annotated[str, typer.Option(help="What was trained: the name that --without will know.")],
    board: Annotated[str, typer.Option(help="The board it was measured on, such as orin-agx.")],
    kind: Annotated[str, typer.Option(help="train or infer.")] = "train",
    to: Annotated[Path, typer.Option("--to", help="The prior file to write.")] = Path("prior.json"),
    start: Annotated[str, typer.Option("--from", help="The prior to start from: orin, none, or a file.")] = "orin",
    source: Annotated[str, typer.Option(help="Where the measurements come from.")] = "",
    store: StoreOption = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Fit and show; write nothing.")] = False,
    json: JsonOption = False,
) -> None:
    """Teach the predictor a network: fit its measured modes, keep the coefficients, never the values.

    Example: edgetrain prior add bert.csv --network bert --board orin-agx --to mine.json
    """
    if kind not in ("train", "infer"):
        raise UsageError(f"--kind is train or infer, not {kind!r}")
    profiled = read_profiled(campaign, store)
    entry = learn_entry(profiled.table, network, board, kind, source=source or profiled.name)
    known = load_prior(str(to)) if to.exists() else load_prior(start)
    same = [e for e in known.entries if (e.network, e.board, e.kind, e.batch_size) == _key(entry)]
    entries = (*(e for e in known.entries if e not in same), entry)
    grown = Prior(to.stem, entries, known.provenance)
    if not dry_run:
        try:
            to.write_text(dump_prior(grown), encoding="utf-8")
        except OSError as error:
            raise UsageError(f"cannot write {to}: {error}") from error
    document = {
        "schema": SCHEMA,
        "written": None if dry_run else str(to),
        "replaced": len(same),
        "priors": [_document(grown, str(to))],
    }
    if json:
        emit(document)
        return
    console().print(show_priors(document))
    if not dry_run:
        console(stderr=True).print(f"wrote {to}; use it with: edgetrain predict table --prior {to} ...")


def _key(entry: Any) -> tuple[str, str, str, float | None]:
    return entry.network, entry.board, entry.kind, entry.batch_size


def _document(prior: Prior, name: str) -> dict[str, Any]:
    return {"name": name, "provenance": prior.provenance, "entries": [asdict(entry) for entry in prior.entries]}
