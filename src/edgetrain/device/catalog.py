"""The catalogue of boards: reads `catalog.yaml` and finds a board by name, alias or module id.

MHz become hertz and GiB bytes. All of it is `published`: what a board's own files show always wins.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from importlib import resources
from typing import Any

from edgetrain.errors import UsageError
from edgetrain.schema import Board, ClockTable, PublishedMode
from edgetrain.units import HZ_PER_MHZ

__all__ = ["Board", "Catalogue", "ClockTable", "PublishedMode", "load", "load_catalogue", "parse"]

BYTES_PER_GIB = 2**30


@dataclass(frozen=True, slots=True)
class Catalogue:
    """All boards, in the order of the file, and the sources that their facts name."""

    boards: tuple[Board, ...]
    sources: Mapping[str, str]

    def __iter__(self) -> Iterator[Board]:
        return iter(self.boards)

    def get(self, name: str) -> Board:
        """Return a board by key, alias or module id (`p3701-0005`), or raise UsageError naming them."""
        board = self.find(name)
        if board is None:
            known = ", ".join(board.key for board in self.boards)
            raise UsageError(f"no device called {name!r} in the catalogue; known are {known}")
        return board

    def find(self, name: str) -> Board | None:
        """Return a board by key, alias or module id, or None."""
        wanted = name.strip().lower().replace("_", "-").removeprefix("sim:")
        for board in self.boards:
            names = (board.key, *board.aliases, *board.modules)
            if wanted in (known.lower().replace("_", "-") for known in names):
                return board
            if wanted in board.variants_ram_bytes:
                return replace(board, ram_bytes=board.variants_ram_bytes[wanted], usable_bytes=None)
        return None


@functools.lru_cache(maxsize=1)
def load_catalogue() -> Catalogue:
    """Read the catalogue that ships with this package."""
    # Imported here: what runs beside training must not pay for a YAML parser it does not need.
    import yaml

    text = resources.files(__package__).joinpath("catalog.yaml").read_text(encoding="utf-8")
    return parse(yaml.safe_load(text))


load = load_catalogue  # as in `catalog.load()`


def parse(document: Mapping[str, Any]) -> Catalogue:
    """Read a catalogue document; raise ValueError where it contradicts itself."""
    sources = document["sources"]
    boards = tuple(_board(key, entry, sources) for key, entry in document["devices"].items())
    return Catalogue(boards, sources)


def _hz(mhz: float | None) -> int | None:
    return None if mhz is None else round(mhz * HZ_PER_MHZ)


def _table(entry: Mapping[str, Any] | None, key: str, sources: Mapping[str, str]) -> ClockTable | None:
    if entry is None:
        return None
    values = list(entry.get("values", ()))
    if "first" in entry:
        values += [entry["first"] + entry["step"] * k for k in range(entry["count"])]
    values += entry.get("then", ())
    hertz = tuple(round(mhz * HZ_PER_MHZ) for mhz in values)
    if list(hertz) != sorted(set(hertz)):
        raise ValueError(f"the clocks of {key} are not ascending")
    if entry["source"] not in sources or entry["standing"] not in ("confirmed", "inferred", "unconfirmed"):
        raise ValueError(f"the clocks of {key} name no known source or standing")
    return ClockTable(hertz, entry["source"], entry["standing"], entry.get("note"))


def _board(key: str, entry: Mapping[str, Any], sources: Mapping[str, str]) -> Board:
    origin: dict[str, str] = {}

    def fact(name: str) -> Any:
        """Return the value of a [value, source] pair and remember the source."""
        pair = entry.get(name)
        if pair is None:
            return None
        value, source = pair
        if source not in sources:
            raise ValueError(f"{name} of {key} names the unknown source {source!r}")
        origin[name] = source
        return value

    clocks = {part: _table(entry["clocks"].get(part), f"{key} {part}", sources) for part in ("cpu", "gpu", "emc")}
    stock = entry.get("stock") or {}
    idle = dict(entry.get("idle_socket_w") or {})
    if idle:
        origin["idle_socket_w"] = idle.pop("source")
    if stock:
        origin["stock_modes"] = stock["source"]
    modes = tuple(
        PublishedMode(
            id=mode["id"],
            name=str(mode["name"]),
            cores=mode["cores"],
            cpu_hz=_hz(mode.get("cpu")),
            gpu_hz=_hz(mode.get("gpu")),
            emc_hz=_hz(mode.get("emc")),
            mask=mode.get("mask"),
        )
        for mode in stock.get("modes", ())
    )
    return Board(
        key=key,
        title=entry["title"],
        chip=entry["chip"],
        compute_capability=entry["compute_capability"],
        cores=fact("cores"),
        ram_bytes=int(fact("ram_gib") * BYTES_PER_GIB),
        aliases=tuple(entry.get("aliases", ())),
        modules=tuple(entry.get("modules", ())),
        variants_ram_bytes={
            module: int(gib * BYTES_PER_GIB) for module, gib in entry.get("variants_ram_gib", {}).items()
        },
        cluster=entry.get("cluster", 1),
        cpu_name=fact("cpu"),
        gpu_name=fact("gpu"),
        cuda_cores=fact("cuda_cores"),
        tensor_cores=fact("tensor_cores"),
        usable_bytes=fact("usable_bytes"),
        storage=tuple(fact("storage") or ()),
        price_usd=fact("price_usd"),
        peak_power_w=fact("peak_power_w"),
        cpu=clocks["cpu"],
        gpu=clocks["gpu"],
        emc=clocks["emc"],
        published_mode_count=fact("mode_count"),
        total_rails=tuple(entry.get("total_rails", ())),
        idle_socket_w=idle,
        stock_modes=modes,
        stock_default=stock.get("default"),
        note=entry.get("note"),
        sources=origin,
    )
