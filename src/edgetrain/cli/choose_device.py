"""`edgetrain choose-device`: which board, storage and RAM for a network, a dataset and a target."""

from __future__ import annotations

from typing import Annotated

import typer

from edgetrain import api
from edgetrain.cli.options import JsonOption, StoreOption
from edgetrain.cli.output import print_result
from edgetrain.report import show_options


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("choose-device")(choose_device)


def choose_device(
    network: Annotated[
        str, typer.Argument(help="The network to train: one of the catalogue, or one with published figures.")
    ],
    samples: Annotated[
        int | None, typer.Option(help="Number of samples in your dataset; default: as published for the network.")
    ] = None,
    file_size: Annotated[
        str | None,
        typer.Option(
            help="Mean size of a file of the dataset, such as 122kB; `one` if a single file holds all samples."
        ),
    ] = None,
    epochs: Annotated[int, typer.Option(help="Epochs of the training.", min=1)] = 1,
    deadline: Annotated[str | None, typer.Option(help="Limit on the time of the training: 2h, 90min.")] = None,
    max_energy: Annotated[str | None, typer.Option(help="Limit on the energy of the training: 50Wh.")] = None,
    max_price_usd: Annotated[float | None, typer.Option(help="Limit on the price of the board.")] = None,
    rank_by: Annotated[str, typer.Option(help="Rank by price, time or energy.")] = "price",
    batch_size: Annotated[
        int,
        typer.Option(
            "--batch-size",
            "--batch",
            help="Samples per minibatch, to check whether the training fits into memory.",
            min=1,
        ),
    ] = 16,
    device: Annotated[
        list[str] | None, typer.Option(help="Consider only this board; repeat the option for several.")
    ] = None,
    all_: Annotated[
        bool, typer.Option("--all", help="Also show boards that miss a limit or have no figures, with the reasons.")
    ] = False,
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """Rank the boards, storage media and RAM sizes that you could buy for a training.

    Example: edgetrain choose-device mobilenet_v3 --epochs 20 --deadline 2h --max-price-usd 1000
    """
    ranking = api.choose_device(
        network,
        samples=samples,
        file_size=file_size,
        epochs=epochs,
        deadline_s=deadline,
        max_energy_j=max_energy,
        max_price_usd=max_price_usd,
        rank_by=rank_by,
        batch_size=batch_size,
        boards=device or (),
        store=store,
    )
    print_result(ranking, lambda found: show_options(found, all_), json)
    if not any(option.verdict != "fails" for option in ranking.options):
        raise typer.Exit(1)
