"""`edgetrain choose-device`: which board, storage and RAM for a network, a dataset and a target."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from edgetrain.analysis import digest
from edgetrain.cli.devices import count
from edgetrain.cli.options import JsonOption, StoreOption
from edgetrain.device import catalog
from edgetrain.errors import EdgetrainError, UsageError
from edgetrain.lab import tables
from edgetrain.recommend import published
from edgetrain.recommend.documents import option_document, with_schema
from edgetrain.recommend.fits import judge
from edgetrain.recommend.goals import parse_quantity
from edgetrain.recommend.hardware import WORKERS, Medium, Offer, Target, choose_device
from edgetrain.recommend.published import Figure
from edgetrain.report.devices_ranked import show_options
from edgetrain.report.document import emit
from edgetrain.report.text import console
from edgetrain.schema import SCHEMA, Origin
from edgetrain.schema.memory import MemoryNeed
from edgetrain.store import Store
from edgetrain.units import parse_bytes
from edgetrain.workload.catalog import entry

PANEL, ORDER = "decide", 30
# Interfaces of a board, and the storage media of the papers that go there.
MEDIA_OF = {"sd": ("sd",), "emmc": ("emmc",), "nvme": ("ssd",), "sata": ("ssd",), "usb": ("hdd",)}


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("choose-device", rich_help_panel=PANEL)(choose)


def choose(
    network: Annotated[
        str, typer.Argument(help="What will be trained: a catalogued network, or one with published figures.")
    ],
    samples: Annotated[int | None, typer.Option(help="Samples of your dataset; the papers' where left out.")] = None,
    file_size: Annotated[
        str | None, typer.Option(help="Mean size of one file, as 122kB; `one` where one file holds all.")
    ] = None,
    epochs: Annotated[int, typer.Option(help="Epochs of the training.", min=1)] = 1,
    deadline: Annotated[str | None, typer.Option(help="The training must be done in: 2h, 90min.")] = None,
    max_energy: Annotated[str | None, typer.Option(help="Energy of the training: 50Wh.")] = None,
    max_price_usd: Annotated[float | None, typer.Option(help="Price of the board.")] = None,
    rank_by: Annotated[str, typer.Option(help="price, time or energy.")] = "price",
    batch: Annotated[int, typer.Option(help="Samples a minibatch, for the memory.", min=1)] = 16,
    device: Annotated[list[str] | None, typer.Option(help="Only these boards.")] = None,
    all_: Annotated[bool, typer.Option("--all", help="Show what fails and what is not known, too.")] = False,
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """Which board should I buy for this training, with which storage and how much RAM? By what is known.

    Example: edgetrain choose-device mobilenet_v3 --epochs 20 --deadline 2h --max-price-usd 1000
    """
    name, known_samples, known_bytes = _workload(network)
    if samples is None and known_samples is None:
        raise UsageError(f"{network!r} is not catalogued, so its dataset is not known; give --samples and --file-size")
    target = Target(
        name, samples or known_samples or 1, _file_bytes(file_size, known_bytes), epochs,
        parse_quantity(deadline, "time"), parse_quantity(max_energy, "energy"), max_price_usd, rank_by,
    )  # fmt: skip
    need, why_not = _need(name, batch, target)
    boards = [catalog.load().get(each) for each in device] if device else list(catalog.load())
    offers = [offer for board in boards for offer in _offers(board, need)]
    media = {name: _medium(name) for name in ("ssd", "sd", "hdd", "emmc")}
    options = choose_device(target, offers, media, _measured(name, store), published.load())
    document = with_schema(
        SCHEMA,
        {
            "network": name, "samples": target.samples, "file_bytes": target.file_bytes, "epochs": epochs,
            "deadline_s": target.deadline_s, "max_energy_j": target.max_energy_j, "max_price_usd": max_price_usd,
            "rank_by": rank_by, "workers": WORKERS,
            "notes": [
                *([] if why_not is None else [why_not]),
                "prices are the boards' as published; storage media have none in the catalogue",
                "boards were measured in their highest power mode",
            ],
            "options": [option_document(each) for each in options],
        },
    )  # fmt: skip
    if json:
        emit(document)
    else:
        console().print(show_options(document, all_))
    if not any(each.verdict != "fails" for each in options):
        raise typer.Exit(1)


def _workload(network: str) -> tuple[str, int | None, float | None]:
    """Return the network's name, and the samples and file size of the dataset the papers trained it on."""
    try:
        known = entry(network)
    except UsageError:
        figures = [figure for figure in published.load().figures if figure.network == network]
        if figures:
            return network, figures[0].samples, None
        return network, None, None
    return known.name, known.samples, known.file_bytes


def _file_bytes(asked: str | None, known: float | None) -> float | None:
    if asked is None:
        return known
    return None if asked == "one" else float(parse_bytes(asked))


def _need(network: str, batch: int, target: Target) -> tuple[MemoryNeed | None, str | None]:
    """Return the memory that training needs, counted; None with the reason where it cannot be."""
    try:
        entry(network)
        need = count(network, batch)
    except EdgetrainError as error:
        return None, f"what {network} needs of the memory is not known: {error}"
    dataset = None if target.file_bytes is None else round(target.file_bytes * target.samples)
    return replace(need, dataset_bytes=dataset), None


def _offers(board: catalog.Board, need: MemoryNeed | None) -> list[Offer]:
    """Return a board once per RAM size; a variant's price is not the board's and stays unknown."""
    variants = [board] + [
        replace(
            board, ram_bytes=ram, usable_bytes=None, price_usd=None, title=f"{board.title.rsplit(' ', 2)[0]} ({module})"
        )
        for module, ram in sorted(board.variants_ram_bytes.items())
    ]
    media = tuple(dict.fromkeys(name for port in board.storage for name in MEDIA_OF.get(port, ())))
    offers = []
    for variant in variants:
        usable, basis = variant.expected_usable_bytes()
        fit = None if need is None else judge(board.key, variant.ram_bytes, usable, basis, need, WORKERS)
        offers.append(
            Offer(board.key, variant.title, variant.ram_bytes, media, variant.price_usd, variant.peak_power_w, fit)
        )
    return offers


def _medium(name: str) -> Medium:
    known = tables.medium(name)
    return Medium(name, known.read_s, known.bytes_per_s, known.at_once, dict(known.gain), known.source)


def _measured(network: str, store: Path | None) -> list[Figure]:
    """Return warm epochs of this network in the store's finished runs, as figures."""
    records = Store(store)
    boards = catalog.load()
    found = []
    for row in records.list():
        if row.get("network") != network or row.get("state") != "finished":
            continue
        document = digest(records.open(row["run"])).document()
        board = boards.find(str((document.get("device") or {}).get("name") or ""))
        warm = [each for each in document["epochs"] if each["epoch"] > 0]
        origin = Origin(document.get("origin") or "measured")
        if board is None or not warm or origin not in (Origin.MEASURED, Origin.REPLAYED):
            continue
        batch = (document.get("workload") or {}).get("batch_size") or 16
        seconds = sum(each["e2e_s"] for each in warm) / len(warm)
        joules = [each["energy_j"] for each in warm if each.get("energy_j") is not None]
        found.append(
            Figure(
                board.key, network, warm[0]["minibatches"] * batch, seconds, f"run {row['run']}", origin, None,
                sum(joules) / len(joules) if joules else None,
            )
        )  # fmt: skip
    return found
