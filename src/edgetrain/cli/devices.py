"""`edgetrain devices`: what the boards are, and whether a network fits on them."""

from __future__ import annotations

from typing import Annotated

import typer

from edgetrain import api
from edgetrain.cli.options import JsonOption, StoreOption
from edgetrain.report import console, emit, show_board, show_catalogue, show_fits
from edgetrain.schema import BoardDetails, BoardList
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
    batch_size: Annotated[
        int, typer.Option("--batch-size", "--batch", help="Samples per minibatch, with --fits.", min=1)
    ] = 16,
    workers: Annotated[int, typer.Option(help="Loader workers, with --fits.", min=0)] = 2,
    optimizer: Annotated[str, typer.Option(help="Optimizer, with --fits: sgd, adam or adamw.")] = "sgd",
    momentum: Annotated[
        float, typer.Option(help="SGD momentum, with --fits; 0 needs no optimizer memory.", min=0)
    ] = 0.9,
    os: Annotated[
        str | None,
        typer.Option("--os", help="RAM that the operating system uses, with --fits: 1GiB.", show_default=False),
    ] = None,
    device: Annotated[str | None, typer.Option(help="Show only this board.", show_default=False)] = None,
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """List the known boards, and check whether a network fits into their memory.

    Shows cores, clocks, RAM, GPU, price, power and modes of each board.

    Example: edgetrain devices --fits mobilenet_v3 --batch-size 16
    """
    if context.invoked_subcommand is not None:
        return
    if fits is None:
        boards = [api.published_board(device)] if device else list(api.published_boards())
        if json:
            emit(BoardList(tuple(boards), api.published_sources()))
        else:
            console().print(show_catalogue(boards))
        return
    report = api.fits(
        fits,
        batch_size,
        workers=workers,
        optimizer=optimizer,
        momentum=momentum,
        os_bytes=parse_bytes(os) if os is not None else None,
        boards=[device] if device else [],
        store=store,
    )
    if json:
        emit(report)
    else:
        console().print(show_fits(report.need, report.fits))


def show(
    name: Annotated[str, typer.Argument(help="A board, such as orin-agx, or a module, such as p3701-0005.")],
    json: JsonOption = False,
) -> None:
    """Show everything known about one board: clock tables, stock modes and sources.

    Example: edgetrain devices show orin-agx
    """
    board = api.published_board(name)
    if json:
        emit(BoardDetails(board, api.published_sources()))
    else:
        console().print(show_board(board, api.published_sources()))
