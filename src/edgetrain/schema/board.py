"""What is published about a board: cores, clock tables, RAM, GPU, price, power and stock modes, with sources."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from edgetrain.schema.device import PowerMode
from edgetrain.schema.origin import Origin

# Of the RAM on the module, what Linux shows as MemTotal: the rest is reserved for firmware and display. Two boards
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
class PublishedMode:
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
    stock_modes: tuple[PublishedMode, ...] = ()
    stock_default: int | None = None
    note: str | None = None
    sources: Mapping[str, str] = field(default_factory=dict)  # which fact is from where
    mode_count: int | None = None  # custom modes: as published, else core counts times clocks where all are known
    origin: Origin = Origin.PUBLISHED

    def __post_init__(self) -> None:
        count = self.published_mode_count
        if count is None and self.cpu is not None and self.gpu is not None and self.emc is not None:
            count = self.cores * len(self.cpu.values_hz) * len(self.gpu.values_hz) * len(self.emc.values_hz)
        object.__setattr__(self, "mode_count", count)

    def modes(self) -> Iterator[PowerMode]:
        """Yield every custom mode, cores slowest; nothing where a table is not known."""
        if self.cpu is None or self.gpu is None or self.emc is None:
            return
        cores = range(1, self.cores + 1)
        tables = (self.cpu.values_hz, self.gpu.values_hz, self.emc.values_hz)
        for count, cpu_hz, gpu_hz, emc_hz in itertools.product(cores, *tables):
            yield PowerMode(count, cpu_hz, gpu_hz, emc_hz)

    def expected_usable_bytes(self) -> tuple[int, str]:
        """Return what Linux will have of the RAM, and whether that was logged or is assumed."""
        if self.usable_bytes is not None:
            return self.usable_bytes, f"logged ({self.sources['usable_bytes']})"
        share = ASSUMED_USABLE_SHARE
        return int(self.ram_bytes * share), f"assumed: {share:.0%} of the RAM, the lower of two logged boards"


@dataclass(frozen=True, slots=True)
class BoardList:
    """What `edgetrain devices` lists: boards, and the sources that their facts name."""

    devices: tuple[Board, ...]
    sources: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class BoardDetails:
    """What `edgetrain devices show` shows: one board, and the sources that its facts name."""

    device: Board
    sources: Mapping[str, str]
