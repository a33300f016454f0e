"""The options that many commands share, and completion for them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

StoreOption = Annotated[
    Path | None,
    typer.Option(
        "--store",
        envvar="EDGETRAIN_STORE",
        help="Folder of the recorded runs; default: ~/.local/share/edgetrain.",
        show_default=False,
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the result as one JSON document on stdout.")]
DeviceOption = Annotated[str, typer.Option(help="Device to run on: auto, host, jetson, or sim:orin-agx (simulated).")]

AllowWritesOption = Annotated[
    bool, typer.Option("--allow-writes", help="Continue even if the script writes files in each trial.")
]
AllowWritesInOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--allow-writes-in",
        help="A folder in which trials may change files (~/.cache/huggingface); repeatable.",
        show_default=False,
    ),
]


def complete_run(incomplete: str) -> list[str]:
    """Offer the ids of recorded runs, newest first."""
    from edgetrain.api import runs

    found = ["last", *reversed([row.run for row in runs()])]
    return [run for run in found if run.startswith(incomplete)]


RunArgument = Annotated[
    str,
    typer.Argument(
        help="The run: its id, the start or end of the id, its folder, or `last`.", autocompletion=complete_run
    ),
]


def split_names(given: list[str] | None) -> tuple[str, ...]:
    """Return names that were given one by one or separated by commas."""
    return tuple(name for text in given or () for name in text.split(",") if name)
