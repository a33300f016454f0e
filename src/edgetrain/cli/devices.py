"""`edgetrain devices`: what the boards are, and whether a network fits on them."""

from __future__ import annotations

from typing import Annotated

import typer

from edgetrain import api
from edgetrain.cli.options import JsonOption, StoreOption
from edgetrain.documents import to_document
from edgetrain.report import board_document, console, emit, show_board, show_catalogue, show_fits
from edgetrain.schema import SCHEMA
from edgetrain.units import parse_bytes


def register(app: typer.Typer) -> None:
    group = typer.Typer(invoke_without_command=True, no_args_is_help=False)
    group.callback()(devices)
    group.command("show")(show)
    app.add_typer(group, name="devices")


def devices(
    context: typer.Context,
    fits: Annotated[
        str | None,
        typer.Option(help="Check whether this network fits: its name, or a recorded run of it.", show_default=False),
    ] = None,
    batch: Annotated[int, typer.Option(help="Samples per minibatch, with --fits.", min=1)] = 16,
    workers: Annotated[int, typer.Option(help="Loader workers, with --fits.", min=0)] = 2,
    optimizer: Annotated[str, typer.Option(help="sgd, adam or adamw, with --fits.")] = "sgd",
    momentum: Annotated[float, typer.Option(help="SGD momentum, with --fits; 0 keeps no state.", min=0)] = 0.9,
    os: Annotated[
        str | None, typer.Option("--os", help="RAM of the operating system, with --fits: 1GiB.", show_default=False)
    ] = None,
    device: Annotated[str | None, typer.Option(help="Only this device.", show_default=False)] = None,
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """List the known boards, and check whether a network fits into their memory.

    Cores, clocks, RAM, GPU, price, power and modes of each.

    Example: edgetrain devices --fits mobilenet_v3 --batch 16
    """
    if context.invoked_subcommand is not None:
        return
    if fits is None:
        boards = [api.published_board(device)] if device else list(api.published_boards())
        if json:
            documents = [board_document(board) for board in boards]
            emit({"schema": SCHEMA, "devices": documents, "sources": api.published_sources()})
        else:
            console().print(show_catalogue(boards))
        return
    report = api.fits(
        fits,
        batch,
        workers=workers,
        optimizer=optimizer,
        momentum=momentum,
        os_bytes=parse_bytes(os) if os is not None else None,
        boards=[device] if device else [],
        store=store,
    )
    if json:
        emit({"schema": SCHEMA, **to_document(report)})
    else:
        console().print(show_fits(report.need, report.fits))


def show(
    name: Annotated[str, typer.Argument(help="A device, as orin-agx, or a module, as p3701-0005.")],
    json: JsonOption = False,
) -> None:
    """Show everything known about one board: clock tables, stock modes and sources.

    Example: edgetrain devices show orin-agx
    """
    board = api.published_board(name)
    if json:
        emit({"schema": SCHEMA, "device": board_document(board), "sources": api.published_sources()})
    else:
        console().print(show_board(board, api.published_sources()))
