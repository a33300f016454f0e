"""Published per-epoch figures of networks on boards, with their sources; read from `published.yaml`."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import resources

import yaml

from edgetrain.documents import from_document
from edgetrain.schema import Origin
from edgetrain.units import J_PER_WH


@dataclass(frozen=True, slots=True)
class EpochFigure:
    """What one warm epoch takes on one board, from a paper or from a recorded run."""

    board: str
    network: str
    samples: int
    epoch_s: float
    source: str
    origin: Origin = Origin.PUBLISHED
    medium: str | None = None  # None: not stated
    energy_j: float | None = None


@dataclass(frozen=True, slots=True)
class SpeedUp:
    """How much faster one board is than another, as a range over networks."""

    board: str
    over: str
    least: float
    most: float
    source: str


@dataclass(frozen=True, slots=True)
class Trainable:
    """On which boards the papers could train a network, and on which they could not."""

    on: tuple[str, ...]
    source: str
    not_on: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Published:
    """All published figures."""

    figures: tuple[EpochFigure, ...]
    speed_ups: tuple[SpeedUp, ...]
    trained: Mapping[str, Trainable]  # by network
    sources: Mapping[str, str] = field(default_factory=dict)

    def trainable(self, network: str, board: str) -> tuple[bool, str] | None:
        """Return whether the papers could train this network on this board, with the source; None: not stated."""
        entry = self.trained.get(network)
        if entry is None:
            return None
        source = self.sources[entry.source]
        if board in entry.on:
            return True, source
        return (False, source) if board in entry.not_on else None


@dataclass(frozen=True, slots=True)
class _FigureEntry:
    board: str
    network: str
    samples: int
    epoch_s: float
    source: str
    medium: str | None = None
    energy_wh: float | None = None
    power_w: float | None = None

    def figure(self, sources: Mapping[str, str]) -> EpochFigure:
        energy_j = None
        if self.energy_wh is not None:
            energy_j = self.energy_wh * J_PER_WH
        elif self.power_w is not None:
            energy_j = self.power_w * self.epoch_s
        source = sources[self.source]
        return EpochFigure(
            self.board, self.network, self.samples, self.epoch_s, source, Origin.PUBLISHED, self.medium, energy_j
        )


@dataclass(frozen=True, slots=True)
class _SpeedUpEntry:
    board: str
    over: str
    from_: float
    to: float
    source: str


@dataclass(frozen=True, slots=True)
class _PublishedFile:
    sources: dict[str, str]
    figures: tuple[_FigureEntry, ...]
    speed_ups: tuple[_SpeedUpEntry, ...]
    trained: dict[str, Trainable]


@functools.lru_cache(maxsize=1)
def load_published() -> Published:
    """Return the published figures that ship with this package."""
    text = resources.files(__package__).joinpath("published.yaml").read_text(encoding="utf-8")
    file = from_document(_PublishedFile, yaml.safe_load(text))
    return Published(
        tuple(entry.figure(file.sources) for entry in file.figures),
        tuple(
            SpeedUp(entry.board, entry.over, entry.from_, entry.to, file.sources[entry.source])
            for entry in file.speed_ups
        ),
        file.trained,
        file.sources,
    )
