"""`edgetrain doctor`: what can be measured and set here, what not, why, and what would mend it."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated

import typer

from edgetrain import __version__
from edgetrain.cli.options import JsonOption, StoreOption
from edgetrain.device import open_device
from edgetrain.report.document import emit
from edgetrain.report.findings import show_findings
from edgetrain.report.text import console
from edgetrain.sampling.checkup import examine, overhead
from edgetrain.schema import SCHEMA
from edgetrain.store import Store

PANEL = "measure"
ORDER = 10


def register(app: typer.Typer) -> None:
    app.command("doctor", rich_help_panel=PANEL)(doctor)


def doctor(
    device: Annotated[str, typer.Option(help="`auto`, `host`, `jetson`, or a board such as `sim:orin-agx`.")] = "auto",
    dataset: Annotated[Path | None, typer.Option(help="Also look at where this dataset lies.")] = None,
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """What this machine is, what can be measured and set here, what is missing and how to get it.

    Example: edgetrain doctor --dataset ~/data/gld23k
    """
    found = open_device(device)
    power = found.total_power()
    spec = dataclasses.asdict(found.spec)
    spec["extra"] = dict(found.spec.extra)
    findings = [*found.findings(), *examine(Store(store).path, dataset)]
    document = {
        "schema": SCHEMA,
        "version": __version__,
        "device": spec,
        "power": power.document() if power else None,
        "findings": [finding.document() for finding in findings],
        "overhead": overhead(found),
    }
    if json:
        emit(document)
    else:
        console().print(show_findings(document))
