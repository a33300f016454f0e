"""Published per-epoch figures of networks on boards, with their sources; read from `published.yaml`."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import resources
from typing import Any

import yaml

from edgetrain.schema import Origin
from edgetrain.units import J_PER_WH


@dataclass(frozen=True, slots=True)
class Figure:
    """What one warm epoch takes on one board, from a paper or from a run of one's own."""

    board: str
    network: str
    samples: int
    epoch_s: float
    source: str
    origin: Origin = Origin.PUBLISHED
    medium: str | None = None  # None: not said
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
class Published:
    """All of it."""

    figures: tuple[Figure, ...]
    speed_ups: tuple[SpeedUp, ...]
    trained: Mapping[str, Mapping[str, Any]]
    sources: Mapping[str, str] = field(default_factory=dict)

    def said_about(self, network: str, board: str) -> tuple[bool, str] | None:
        """Return whether the papers could train this network on this board, with the source; None: not said."""
        entry = self.trained.get(network)
        if entry is None:
            return None
        source = self.sources[entry["source"]]
        if board in entry.get("on", ()):
            return True, source
        return (False, source) if board in entry.get("not_on", ()) else None


@functools.lru_cache(maxsize=1)
def load() -> Published:
    """Return the published figures as shipped."""
    text = resources.files(__package__).joinpath("published.yaml").read_text(encoding="utf-8")
    document = yaml.safe_load(text)
    sources = document["sources"]
    figures = []
    for entry in document["figures"]:
        energy_j = None
        if entry.get("energy_wh") is not None:
            energy_j = entry["energy_wh"] * J_PER_WH
        elif entry.get("power_w") is not None:
            energy_j = entry["power_w"] * entry["epoch_s"]
        figures.append(
            Figure(
                entry["board"], entry["network"], entry["samples"], float(entry["epoch_s"]), sources[entry["source"]],
                Origin.PUBLISHED, entry.get("medium"), energy_j,
            )
        )  # fmt: skip
    speed_ups = tuple(
        SpeedUp(entry["board"], entry["over"], entry["from"], entry["to"], sources[entry["source"]])
        for entry in document["speed_ups"]
    )
    return Published(tuple(figures), speed_ups, document["trained"], sources)
