"""`edgetrain devices`: what the boards are, and whether a network fits on them."""

from __future__ import annotations

import json as jsonlib
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any

import typer

from edgetrain.cli.options import JsonOption, StoreOption
from edgetrain.device import catalog
from edgetrain.errors import EdgetrainError, StoreError, UsageError
from edgetrain.recommend.fits import judge
from edgetrain.report.devices import show_board, show_catalogue, show_fits
from edgetrain.report.document import emit
from edgetrain.report.text import console
from edgetrain.schema import SCHEMA
from edgetrain.schema.memory import MemoryNeed
from edgetrain.schema.origin import Origin
from edgetrain.store import Store
from edgetrain.units import parse_bytes
from edgetrain.workload.catalog import CATALOG, entry

PANEL = "boards"
ORDER = 10


def register(app: typer.Typer) -> None:
    group = typer.Typer(invoke_without_command=True, no_args_is_help=False)
    group.callback()(devices)
    group.command("show")(show)
    app.add_typer(group, name="devices", rich_help_panel=PANEL)


def devices(
    context: typer.Context,
    fits: Annotated[
        str | None,
        typer.Option(help="Does this network fit, by name (or as measured by a recorded run)?", show_default=False),
    ] = None,
    batch: Annotated[int, typer.Option(help="Samples in a minibatch, with --fits.", min=1)] = 16,
    workers: Annotated[int, typer.Option(help="Loader workers, with --fits.", min=0)] = 2,
    optimizer: Annotated[str, typer.Option(help="sgd, adam or adamw, with --fits.")] = "sgd",
    momentum: Annotated[float, typer.Option(help="Of sgd, with --fits; 0 keeps no state.", min=0)] = 0.9,
    os: Annotated[
        str | None, typer.Option("--os", help="What the system itself takes, as 1GiB, with --fits.", show_default=False)
    ] = None,
    device: Annotated[str | None, typer.Option(help="Only this device.", show_default=False)] = None,
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """What the boards are: cores, clocks, RAM, GPU, price, power, modes; and does a network fit on them?

    Example: edgetrain devices --fits mobilenet_v3 --batch 16
    """
    if context.invoked_subcommand is not None:
        return
    boards = [catalog.load().get(device)] if device else list(catalog.load())
    if fits is None:
        documents = [board.document() for board in boards]
        if json:
            emit({"schema": SCHEMA, "devices": documents, "sources": catalog.load().sources})
        else:
            console().print(show_catalogue(documents))
        return
    os_bytes = parse_bytes(os) if os is not None else None
    need = _need(fits, batch, optimizer, momentum, store)
    verdicts = []
    for board in boards:
        usable_bytes, basis = board.expected_usable_bytes()
        verdict = judge(board.key, board.ram_bytes, usable_bytes, basis, need, workers, os_bytes)
        verdicts.append(verdict.document())
    if json:
        emit({"schema": SCHEMA, "need": need.document(), "fits": verdicts})
    else:
        console().print(show_fits(need.document(), verdicts))


def show(
    name: Annotated[str, typer.Argument(help="A device, as orin-agx, or a module, as p3701-0005.")],
    json: JsonOption = False,
) -> None:
    """Everything known about one board, with its clock tables, stock modes and sources.

    Example: edgetrain devices show orin-agx
    """
    known = catalog.load()
    board = known.get(name)
    if json:
        emit({"schema": SCHEMA, "device": board.document(), "sources": known.sources})
    else:
        console().print(show_board(board.document(), known.sources))


def _need(name: str, batch: int, optimizer: str, momentum: float, store: Path | None) -> MemoryNeed:
    """Return what training needs: counted for a catalogued network, measured for a recorded run."""
    try:
        known = entry(name)
    except UsageError:
        return _measured(name, store)
    return count(known.name, batch, optimizer, momentum)


def count(network: str, batch: int, optimizer: str = "sgd", momentum: float = 0.9) -> MemoryNeed:
    """Count a network in a process of its own: torch stays out of this one."""
    command = [sys.executable, "-m", "edgetrain.workload.memory", network, "--batch", str(batch)]
    command += ["--optimizer", optimizer, "--momentum", str(momentum)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        reason = done.stderr.strip().rpartition("\n")[2].removeprefix("edgetrain: ")
        if "No module named 'torch'" in reason:
            raise EdgetrainError(
                f"counting a network needs torch in {sys.executable}; edgetrain doctor says how to get it"
            )
        raise UsageError(reason or f"counting {network} failed with status {done.returncode}")
    document: dict[str, Any] = jsonlib.loads(done.stdout)
    document["origin"] = Origin(document["origin"])
    return MemoryNeed(**{item.name: document[item.name] for item in fields(MemoryNeed)})


def _measured(name: str, store: Path | None) -> MemoryNeed:
    known = f"there are {', '.join(CATALOG)}, and recorded runs (edgetrain ls)"
    try:
        manifest = Store(store).open(name, light=True).manifest
    except StoreError:
        raise UsageError(f"{name!r} is neither a network nor a recorded run; {known}") from None
    inside = manifest.get("inside") or {}
    workload = manifest.get("workload") or {}
    peak = inside.get("peak_gpu_bytes")
    if not peak:
        raise UsageError(
            f"the run {name} did not record the memory of a GPU, so what it needs there is not known; "
            f"ask with the network's name instead ({workload.get('network') or 'see edgetrain ls'})"
        )
    return MemoryNeed(
        network=str(workload.get("network")),
        batch_size=int(workload.get("batch_size") or 0),
        origin=Origin(str(manifest.get("origin") or "measured")),
        parameters=inside.get("parameters"),
        tensors_bytes=int(peak),
        process_bytes=inside.get("peak_rss_bytes"),
    )
