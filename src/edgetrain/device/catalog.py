"""The catalogue of boards: cores, clock tables, RAM, GPU, storage, price, power, stock modes, with sources.

The facts are in `catalog.yaml`; this module reads it once, converts MHz to hertz and GiB to bytes, and answers
by name, alias or module id. All of it is `published`: what a board says about itself always wins.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from importlib import resources
from typing import Any

from edgetrain.errors import UsageError
from edgetrain.schema import Origin, PowerMode
from edgetrain.units import HZ_PER_MHZ

BYTES_PER_GIB = 2**30
# Of the RAM on the module, what Linux calls MemTotal: the rest is carved out for firmware and display. Two boards
# are logged (Orin Nano 0.896, Orin AGX 0.935 of the nominal size); the lower one is assumed where none is.
ASSUMED_USABLE_SHARE = 0.89


@dataclass(frozen=True, slots=True)
class ClockTable:
    """The clocks one part of a board can be held at, ascending."""

    values_hz: tuple[int, ...]
    source: str
    standing: str  # confirmed | inferred | unconfirmed
    note: str | None = None

    @property
    def lowest_hz(self) -> int:
        """The slowest clock."""
        return self.values_hz[0]

    @property
    def highest_hz(self) -> int:
        """The fastest clock."""
        return self.values_hz[-1]


@dataclass(frozen=True, slots=True)
class StockMode:
    """A mode the board ships with: caps, not power budgets. None where it does not cap."""

    id: int
    name: str
    cores: int
    cpu_hz: int | None = None
    gpu_hz: int | None = None
    emc_hz: int | None = None
    mask: int | None = None  # power gating of the GPU; a change needs a reboot

    def held_on(self, board: Board) -> PowerMode | None:
        """Return the mode with uncapped clocks at the board's highest; None where no table is known."""
        if board.cpu is None:
            return None
        return PowerMode(
            cores=self.cores,
            cpu_hz=self.cpu_hz or board.cpu.highest_hz,
            gpu_hz=self.gpu_hz or (board.gpu.highest_hz if board.gpu else None),
            emc_hz=self.emc_hz or (board.emc.highest_hz if board.emc else None),
            name=self.name,
        )


@dataclass(frozen=True, slots=True)
class Board:
    """What is published about one board; None where no source was found."""

    key: str  # orin-agx
    title: str
    chip: str
    compute_capability: str
    cores: int
    ram_bytes: int
    aliases: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    variants_ram_bytes: Mapping[str, int] = field(default_factory=dict)  # modules that differ in RAM only
    cluster: int = 1  # cores that share a clock
    cpu_name: str | None = None
    gpu_name: str | None = None
    cuda_cores: int | None = None
    tensor_cores: int | None = None
    usable_bytes: int | None = None  # MemTotal as logged on such a board
    storage: tuple[str, ...] = ()
    price_usd: float | None = None
    peak_power_w: float | None = None
    cpu: ClockTable | None = None
    gpu: ClockTable | None = None
    emc: ClockTable | None = None
    published_mode_count: int | None = None
    total_rails: tuple[str, ...] = ()  # their sum is the board's input; empty: no power monitor
    idle_socket_w: Mapping[str, float] = field(default_factory=dict)
    stock_modes: tuple[StockMode, ...] = ()
    stock_default: int | None = None
    note: str | None = None
    sources: Mapping[str, str] = field(default_factory=dict)  # which fact is from where

    @property
    def mode_count(self) -> int | None:
        """How many custom modes the board has: core counts times clocks; None where a table is not known."""
        if self.published_mode_count is not None:
            return self.published_mode_count
        if self.cpu is None or self.gpu is None or self.emc is None:
            return None
        return self.cores * len(self.cpu.values_hz) * len(self.gpu.values_hz) * len(self.emc.values_hz)

    def modes(self) -> Iterator[PowerMode]:
        """Yield every custom mode, cores slowest; nothing where a table is not known."""
        if self.cpu is None or self.gpu is None or self.emc is None:
            return
        cores = range(1, self.cores + 1)
        tables = (self.cpu.values_hz, self.gpu.values_hz, self.emc.values_hz)
        for count, cpu_hz, gpu_hz, emc_hz in itertools.product(cores, *tables):
            yield PowerMode(count, cpu_hz, gpu_hz, emc_hz)

    def document(self) -> dict[str, Any]:
        """Return everything published about the board, as JSON shows it; None where no source was found."""
        document = asdict(self)
        document["mode_count"] = self.mode_count
        document["origin"] = Origin.PUBLISHED.value
        return document

    def expected_usable_bytes(self) -> tuple[int, str]:
        """Return what Linux will have of the RAM, and whether that was logged or is assumed."""
        if self.usable_bytes is not None:
            return self.usable_bytes, f"logged ({self.sources['usable_bytes']})"
        share = ASSUMED_USABLE_SHARE
        return int(self.ram_bytes * share), f"assumed: {share:.0%} of the RAM, the lower of two logged boards"


@dataclass(frozen=True, slots=True)
class Catalogue:
    """All boards, in the order of the file, and what the source names stand for."""

    boards: tuple[Board, ...]
    sources: Mapping[str, str]

    def __iter__(self) -> Iterator[Board]:
        return iter(self.boards)

    def get(self, name: str) -> Board:
        """Return a board by key, alias or module id (`p3701-0005`), or raise UsageError naming them."""
        board = self.find(name)
        if board is None:
            known = ", ".join(board.key for board in self.boards)
            raise UsageError(f"no device called {name!r} in the catalogue; known are {known}", asked=name)
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
def load() -> Catalogue:
    """Read the catalogue that ships with this package."""
    # Imported here: what runs beside training must not pay for a YAML parser it does not need.
    import yaml

    text = resources.files(__package__).joinpath("catalog.yaml").read_text(encoding="utf-8")
    return parse(yaml.safe_load(text))


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
        StockMode(
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
