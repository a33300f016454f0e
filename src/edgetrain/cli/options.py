"""The options that many verbs share, and completion for them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from edgetrain.store import Store

StoreOption = Annotated[
    Path | None,
    typer.Option("--store", envvar="EDGETRAIN_STORE", help="Folder of the records.", show_default=False),
]
JsonOption = Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")]


def complete_run(incomplete: str) -> list[str]:
    """Offer the ids of recorded runs, newest first."""
    runs = ["last", *reversed([row["run"] for row in Store().list()])]
    return [run for run in runs if run.startswith(incomplete)]
