"""Ranks boards, storage and RAM for a network, a dataset and a target, by what is measured or published."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from edgetrain.analysis import summarize
from edgetrain.api.records import StoreLike, open_store
from edgetrain.device import load_catalogue
from edgetrain.errors import EdgetrainError, UsageError
from edgetrain.lab import medium
from edgetrain.recommendation import (
    WORKERS,
    BoardOffer,
    DeviceRanking,
    EpochFigure,
    MediumCost,
    TrainingTarget,
    judge,
    load_published,
    parse_quantity,
    rank_devices,
)
from edgetrain.runner import count_memory, find_workload
from edgetrain.schema import DEFAULT_BATCH_SIZE, Board, MemoryNeed, Origin
from edgetrain.units import parse_bytes

# Interfaces of a board, and the storage media of the papers that go there.
MEDIA_OF = {"sd": ("sd",), "emmc": ("emmc",), "nvme": ("ssd",), "sata": ("ssd",), "usb": ("hdd",)}
MEDIA = ("ssd", "sd", "hdd", "emmc")
NOTES = (
    "prices are the boards' as published; storage media have none in the catalogue",
    "boards were measured in their highest power mode",
)


def choose_device(
    network: str,
    *,
    samples: int | None = None,
    file_size: str | int | None = None,
    epochs: int = 1,
    deadline_s: float | str | None = None,
    max_energy_j: float | str | None = None,
    max_price_usd: float | None = None,
    rank_by: str = "price",
    batch_size: int = 16,
    boards: Sequence[str] = (),
    store: StoreLike = None,
) -> DeviceRanking:
    """Return every board × storage × RAM for a training, best first.

    `samples` and `file_size` (bytes, `122kB`, or `one` where one file holds everything) are the dataset's; the papers'
    where they are left out. `boards` restricts the ranking to some boards of the catalogue.
    """
    workload = _workload(network)
    if samples is None and workload.samples is None:
        raise UsageError(f"{network!r} is not catalogued, so its dataset is not known; give --samples and --file-size")
    target = TrainingTarget(
        workload.network,
        samples if samples is not None else workload.samples or 1,
        _file_bytes(file_size, workload.file_bytes),
        epochs,
        parse_quantity(deadline_s, "time"),
        parse_quantity(max_energy_j, "energy"),
        max_price_usd,
        rank_by,
    )
    need, reason = _memory_need(workload.network, batch_size, target)
    known = [load_catalogue().get(board) for board in boards] if boards else list(load_catalogue())
    offers = [offer for board in known for offer in _offers(board, need)]
    media = {name: _medium_cost(name) for name in MEDIA}
    notes = NOTES if reason is None else (reason, *NOTES)
    return rank_devices(target, offers, media, _measured(workload.network, store), load_published(), notes)


@dataclass(frozen=True, slots=True)
class _Dataset:
    """A network, and the dataset that the papers trained it on."""

    network: str
    samples: int | None
    file_bytes: float | None


def _workload(network: str) -> _Dataset:
    try:
        known = find_workload(network)
    except UsageError:
        figures = [figure for figure in load_published().figures if figure.network == network]
        return _Dataset(network, figures[0].samples if figures else None, None)
    return _Dataset(known.name, known.samples, known.file_bytes)


def _file_bytes(given: str | int | None, known: float | None) -> float | None:
    if given is None:
        return known
    return None if given == "one" else float(parse_bytes(str(given)))


def _memory_need(network: str, batch_size: int, target: TrainingTarget) -> tuple[MemoryNeed | None, str | None]:
    """Return the memory that training needs, counted; None with the reason where it cannot be."""
    try:
        find_workload(network)
        need = count_memory(network, batch_size)
    except EdgetrainError as error:
        return None, f"how much memory {network} needs is not known: {error}"
    dataset = None if target.file_bytes is None else round(target.file_bytes * target.samples)
    return replace(need, dataset_bytes=dataset), None


def _offers(board: Board, need: MemoryNeed | None) -> list[BoardOffer]:
    """Return a board once per RAM size; the price of a variant is not the board's and stays unknown."""
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
            BoardOffer(board.key, variant.title, variant.ram_bytes, media, variant.price_usd, variant.peak_power_w, fit)
        )
    return offers


def _medium_cost(name: str) -> MediumCost:
    known = medium(name)
    return MediumCost(name, known.read_s, known.bytes_per_s, known.at_once, dict(known.gain), known.source)


def _measured(network: str, store: StoreLike) -> list[EpochFigure]:
    """Return warm epochs of this network in the finished runs of the store."""
    records = open_store(store)
    boards = load_catalogue()
    found = []
    for row in records.runs():
        if row.network != network or row.state != "finished":
            continue
        summary = summarize(records.open(row.run))
        board = boards.find(summary.device.name or "")
        warm = [epoch for epoch in summary.epochs if epoch.epoch > 0]
        if board is None or not warm or summary.origin not in (Origin.MEASURED, Origin.REPLAYED):
            continue
        joules = [epoch.energy_j for epoch in warm if epoch.energy_j is not None]
        found.append(
            EpochFigure(
                board.key,
                network,
                warm[0].minibatches * (summary.workload.batch_size or DEFAULT_BATCH_SIZE),
                sum(epoch.e2e_s for epoch in warm) / len(warm),
                f"run {row.run}",
                summary.origin,
                energy_j=sum(joules) / len(joules) if joules else None,
            )
        )
    return found
