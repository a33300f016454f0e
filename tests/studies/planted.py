"""Planted campaigns: runs with known times per minibatch, powers and spread."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from edgetrain.analysis import ClockUse
from edgetrain.schema import Origin, PowerMode
from edgetrain.studies.conditions import Conditions
from edgetrain.studies.data import CampaignData
from edgetrain.studies.observations import ObservedEpoch, ObservedRun

COUNT = 100.0  # minibatches of an epoch
LIGHT = 60_000  # parameters
DEFAULT_MODE = PowerMode(4, 1_200_000_000, 670_000_000, 1_333_000_000)


@dataclass(frozen=True)
class Point:
    """One setting: [stall, compute] in ms per minibatch, cold and later; powers in W."""

    later: tuple[float, float] = (10.0, 200.0)
    cold: tuple[float, float] | None = None
    power_w: float | None = None
    baseload_w: float | None = None
    read: tuple[float, float] | None = None  # share of the dataset read, cold and later
    cached: float | None = 1.0
    network: str = "mobilenet_v3"
    board: str = "board"
    parameters: int | None = 5_000_000
    dataset_bytes: float = 2.8e9
    ram_bytes: int = 32 * 2**30
    unit: str = "u1"
    clocks: ClockUse | None = None
    epochs: int = 2  # later ones
    jitter: float = 0.0  # between the epochs of a run
    took_s: float | None = 7200.0
    started_s: float | None = None
    whole: bool = True
    conditions: dict[str, Any] = field(default_factory=dict)


def point(later: tuple[float, float] = (10.0, 200.0), **known: Any) -> Point:
    """Return a setting; what is not a field of Point is a condition."""
    own = {name: known.pop(name) for name in list(known) if name in Point.__dataclass_fields__}
    return Point(later, conditions=known, **own)


def plant(
    points: list[Point], repeats: int = 3, noise: float = 0.005, origin: Origin = Origin.MEASURED, paced: bool = False
) -> list[ObservedRun]:
    """Return runs of these settings, whose times and powers scatter by `noise` (of logarithms)."""
    draw = np.random.default_rng(7)
    numbers = itertools.count()
    return [_run(one, draw, noise, f"r{next(numbers)}", origin, paced) for one in points for _ in range(repeats)]


def planted(points: list[Point], repeats: int = 3, noise: float = 0.005) -> CampaignData:
    """Return the same as campaign data of a board that has a factory default."""
    return CampaignData.of_runs(plant(points, repeats, noise), lambda board: DEFAULT_MODE)


def _run(one: Point, draw: np.random.Generator, noise: float, name: str, origin: Origin, paced: bool) -> ObservedRun:
    by_stall, by_compute, by_power, by_idle = np.exp(noise * draw.standard_normal(4))

    def epoch(times: tuple[float, float], which: int, jitter: float = 1.0) -> ObservedEpoch:
        stall_s, compute_s = (
            ms / 1e3 * COUNT * jitter * by for ms, by in zip(times, (by_stall, by_compute), strict=True)
        )
        e2e_s = stall_s + compute_s
        return ObservedEpoch(
            COUNT,
            e2e_s,
            stall_s,
            compute_s,
            None if one.power_w is None else one.power_w * e2e_s * by_power,
            None if one.baseload_w is None else one.baseload_w * e2e_s * by_idle,
            None if one.read is None else one.read[which],
            one.cached if which else 0.0,
        )

    jitters = np.exp(one.jitter * draw.standard_normal(one.epochs))
    return ObservedRun(
        name,
        origin,
        Conditions(one.board, one.network, **one.conditions),
        None if one.cold is None else epoch(one.cold, 0),
        tuple(epoch(one.later, 1, float(jitter)) for jitter in jitters),
        one.unit,
        paced,
        one.dataset_bytes,
        one.ram_bytes,
        one.parameters,
        one.clocks,
        one.whole,
        one.started_s,
        one.took_s,
    )
