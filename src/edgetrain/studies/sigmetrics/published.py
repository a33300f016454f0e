"""The paper's own numbers as runs of origin `published`, so that its take-aways are judged like anybody's runs."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml

from edgetrain.documents import from_document
from edgetrain.schema import Origin, PowerMode
from edgetrain.studies.conditions import Conditions
from edgetrain.studies.data import CampaignData, Printed
from edgetrain.studies.observations import ObservedEpoch, ObservedRun
from edgetrain.units import HZ_PER_MHZ, J_PER_WH

WH_PER_MWH = 1e-3
BYTES_PER_GIB = 2**30
TOP_MODE = "g"
SCOPE = "module"  # of the paper's power sensor
Times = tuple[float, float, float]  # stall, compute, end to end


@dataclass(frozen=True, slots=True)
class PublishedNetwork:
    """A network and its dataset."""

    samples: int
    parameters: int
    dataset_mb: float


@dataclass(frozen=True, slots=True)
class PublishedBoard:
    """A board of the paper."""

    ram_gib: float


@dataclass(frozen=True, slots=True)
class PublishedEpoch:
    """One bar of a figure: an epoch in one setting."""

    figure: int | str
    network: str
    workers: int
    board: str = "xavier-agx"
    medium: str = "ssd"
    batch_size: int = 16
    mode: str = TOP_MODE
    dvfs: bool = False
    first: Times | None = None
    first_stall_s: float | None = None
    later: Times | None = None
    energy_mwh: float | None = None
    baseload_mwh: float | None = None
    cached_share: float | None = None


@dataclass(frozen=True, slots=True)
class SigmetricsFigures:
    """The paper's numbers."""

    boards: Mapping[str, PublishedBoard]
    networks: Mapping[str, PublishedNetwork]
    modes: Mapping[str, tuple[int, int, int, int]]
    factory_default: Mapping[str, str]
    epochs: tuple[PublishedEpoch, ...]
    printed: Printed


@functools.lru_cache(maxsize=1)
def figures() -> SigmetricsFigures:
    """Return the paper's numbers."""
    return from_document(SigmetricsFigures, yaml.safe_load((Path(__file__).parent / "published.yaml").read_text()))


def published_data() -> CampaignData:
    """Return the paper's numbers as runs."""
    known = figures()
    return CampaignData.of_runs([_run(epoch, known) for epoch in known.epochs], _factory_default, known.printed)


def _factory_default(board: str) -> PowerMode | None:
    name = figures().factory_default.get(board)
    return None if name is None else _mode(figures().modes[name])


def _mode(clocks: tuple[int, int, int, int]) -> PowerMode:
    cores, cpu, gpu, emc = clocks
    return PowerMode(cores, cpu * HZ_PER_MHZ, gpu * HZ_PER_MHZ, emc * HZ_PER_MHZ)


def _run(bar: PublishedEpoch, known: SigmetricsFigures) -> ObservedRun:
    network = known.networks[bar.network]
    count = network.samples / bar.batch_size
    mode = _mode(known.modes[bar.mode]) if bar.board == "xavier-agx" else None
    cold = None
    if bar.first is not None:
        cold = _epoch(count, bar.first)
    elif bar.first_stall_s is not None:
        cold = ObservedEpoch(count, None, bar.first_stall_s, None)
    return ObservedRun(
        run=f"figure {bar.figure}" if isinstance(bar.figure, int) else bar.figure,
        origin=Origin.PUBLISHED,
        conditions=Conditions(
            bar.board,
            bar.network,
            bar.batch_size,
            bar.medium,
            bar.workers,
            cores=mode.cores if mode else None,
            cpu_hz=mode.cpu_hz if mode else None,
            gpu_hz=mode.gpu_hz if mode else None,
            emc_hz=mode.emc_hz if mode else None,
            dvfs=bar.dvfs,
            power_scope=SCOPE,
        ),
        cold=cold,
        later=() if bar.later is None else (_epoch(count, bar.later, bar),),
        unit=bar.board,
        dataset_bytes=network.dataset_mb * 1e6,
        ram_bytes=int(known.boards[bar.board].ram_gib * BYTES_PER_GIB),
        parameters=network.parameters,
    )


def _epoch(count: float, times: Times, bar: PublishedEpoch | None = None) -> ObservedEpoch:
    stall_s, compute_s, e2e_s = times
    return ObservedEpoch(
        count,
        e2e_s,
        stall_s,
        compute_s,
        energy_j=_joules(bar.energy_mwh) if bar else None,
        baseload_j=_joules(bar.baseload_mwh) if bar else None,
        cached_share=bar.cached_share if bar else None,
    )


def _joules(mwh: float | None) -> float | None:
    return None if mwh is None else mwh * WH_PER_MWH * J_PER_WH
