"""edgetrain run: train a network of the catalogue, or yours, and record everything."""

from __future__ import annotations

from typing import Annotated

import typer

from edgetrain.analysis import verdict_sentence
from edgetrain.api import execute, summarize
from edgetrain.cli.options import DeviceOption, JsonOption, StoreOption
from edgetrain.cli.progress import ProgressLine, record_kept
from edgetrain.cli.settings import Settings, all_options, with_settings
from edgetrain.report import console, emit, show_run
from edgetrain.workload import CATALOG


def complete_network(incomplete: str) -> list[str]:
    """Offer the networks of the catalogue."""
    return [name for name in CATALOG if name.startswith(incomplete)]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("run")(run)


@with_settings(all_options())
def run(
    network: Annotated[
        str,
        typer.Argument(
            help="What to train: " + ", ".join(CATALOG) + ", or your own as module:function.",
            autocompletion=complete_network,
        ),
    ],
    settings: Settings,
    device: DeviceOption = "auto",
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """Train a network and show where its time and energy went, epoch by epoch.

    Example: edgetrain run mobilenet_v3 --workers 1 --dataset-scale 0.25 --cache cold
    """
    with record_kept(), ProgressLine() as progress:
        recorded = execute(network, device=device, store=store, progress=progress, campaign=None, **settings)
    summary = summarize(recorded)
    if json:
        emit(summary)
    else:
        console().print(show_run(summary), "", verdict_sentence(summary, recorded), sep="\n")
