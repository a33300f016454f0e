"""How a board's files look: the layouts that differ between chips and releases, as data to build a folder from.

Clock tables and stock modes come from the catalogue; here is where things lie and how that kernel behaves. Written
from public sources (docs/boards.md); no vendor file is copied.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any

from edgetrain.schema import Board
from edgetrain.units import HZ_PER_KHZ

CPU = "sys/devices/system/cpu"
ISO_CAP = "/sys/kernel/nvpmodel_emc_cap/emc_iso_cap"
CLK_CAP = "/sys/kernel/nvpmodel_clk_cap/emc"
CONVERSION_US = 140  # what NVIDIA's boot script makes of 430 ms and 512 samples


@dataclass(frozen=True, slots=True)
class Chip:
    """One power monitor: bus and address, driver, and its channels as (label, bus millivolts, share of the total)."""

    address: str
    driver: str  # ina3221 (hwmon) | ina3221x (iio, JetPack 4) | ina238
    channels: tuple[tuple[str, int, float], ...]
    hwmon: int = 3  # moves between boots
    shunt_uohm: int = 5000
    samples: int = 512

    @property
    def round_ms(self) -> float:
        """Time of one round over the channels: bus and shunt conversion of each."""
        return len(self.channels) * 2 * CONVERSION_US / 1000


@dataclass(frozen=True, slots=True)
class StockShape:
    """A stock mode as the file writes it: clocks in the file's units, None = left out, -1 and 0 as written."""

    id: int
    name: str
    on: tuple[int, ...]
    cpu_khz: int | None
    gpu_hz: int | None
    emc_hz: int | None
    masks: tuple[int, ...] = ()  # in the order of Shape.masks


@dataclass(frozen=True, slots=True)
class Shape:
    """Everything that the folder of one board is built from."""

    name: str
    model: str
    compatible: tuple[str, ...]
    release: str  # first line of /etc/nv_tegra_release; empty: none
    ram_kb: int
    clusters: tuple[tuple[int, ...], ...]
    cluster_names: tuple[str, ...]  # as nvpmodel names them
    cpu_khz: tuple[int, ...]
    gpu_folder: str  # the devfreq device
    gpu_class: str  # its name under /sys/class/devfreq
    gpu_node: str  # of_node/name; empty: none
    gpu_load: str | None
    gpu_hz: tuple[int, ...]
    emc_hold: str | None  # bpmp | t210 | None: nothing that holds the rate
    emc_cap: str | None  # the cap's file, or `bwmgr` for a devfreq device
    emc_hz: tuple[int, ...]
    chips: tuple[Chip, ...]
    zones: tuple[tuple[str, int | None], ...]  # type and milli-degrees; None: answers EAGAIN
    cooling: tuple[str, ...] = ("cpu-throttle-alert", "gpu-throttle-alert", "pwm-fan")
    stock: tuple[StockShape, ...] = ()
    default: int | None = None
    active: int | None = None
    kernel: str = "5.10.104-tegra"
    cpu_floor_khz: int = 0  # MIN_FREQ of every stock mode
    idle_states: tuple[str, ...] = ("WFI", "c7")
    railgate: int | None = 1  # None: no such file
    railgate_refuses_1: bool = False  # joint rails: EINVAL
    masks: tuple[tuple[str, str, str], ...] = ()  # section, argument and path of each gating mask
    golden: int | None = 0  # 1: a GPU context exists; None: no such file
    header: str = "< {} >"  # how nvpmodel's file writes a section's header
    fan_config: bool = False  # JetPack 4 ends the file with a section of the fan's profile
    lists_core_0: bool = True
    serial: str = "1420921055981"
    programs: bool = True
    storage: tuple[str, ...] = ("mmcblk0", "nvme0n1")
    alarms: bool = True
    over_current: bool = False  # counters of tegra234-oc-event
    fan: str | None = "hwmon"  # hwmon | jp4
    rails_mode: int = 0o644
    offline: tuple[int, ...] = field(default=())

    @property
    def cores(self) -> tuple[int, ...]:
        """Every present core."""
        return tuple(sorted(core for cluster in self.clusters for core in cluster))

    def at_least(self, major: int, minor: int) -> bool:
        """Return whether the kernel is this one or a later one."""
        numbers = self.kernel.split("-")[0].split(".")
        return (int(numbers[0]), int(numbers[1])) >= (major, minor)

    def interval_ms(self, chip: Chip, samples: int) -> int:
        """Return what `update_interval` shows: kernels from 5.15 on leave the samples out."""
        return round(chip.round_ms * (1 if self.at_least(5, 15) else samples))

    def text(self) -> str:
        """Return the shape as JSON, so that the folder records what it was built from."""
        return json.dumps(asdict(self))


def read_shape(text: str) -> Shape:
    """Read what `Shape.text` wrote."""
    facts: dict[str, Any] = {name: _tuples(value) for name, value in json.loads(text).items()}
    facts["chips"] = tuple(Chip(**{name: _tuples(value) for name, value in chip.items()}) for chip in facts["chips"])
    facts["stock"] = tuple(StockShape(**{name: _tuples(v) for name, v in mode.items()}) for mode in facts["stock"])
    return Shape(**facts)


def _tuples(value: Any) -> Any:
    return tuple(_tuples(item) for item in value) if isinstance(value, list) else value


def stock_shapes(board: Board, unlimited_emc: int, masks: int) -> tuple[StockShape, ...]:
    """Return a board's published stock modes as its file writes them."""
    modes = []
    for mode in board.stock_modes:
        cpu = -1 if mode.cpu_hz is None else mode.cpu_hz // HZ_PER_KHZ
        gpu = -1 if mode.gpu_hz is None else mode.gpu_hz
        emc = unlimited_emc if mode.emc_hz is None else mode.emc_hz
        modes.append(StockShape(mode.id, mode.name, tuple(range(mode.cores)), cpu, gpu, emc, (mode.mask or 0,) * masks))
    return tuple(modes)


def base_shape(board: Board, **facts: object) -> Shape:
    """Return the shape of a catalogued board; `facts` are what the catalogue does not say."""
    assert board.cpu and board.gpu and board.emc
    size = board.cluster
    clusters = tuple(tuple(range(first, min(first + size, board.cores))) for first in range(0, board.cores, size))
    usable_bytes, _ = board.expected_usable_bytes()
    unlimited = 0 if facts.get("emc_cap") == ISO_CAP else -1
    masks = facts.get("masks", ())
    defaults: dict[str, object] = {
        "name": board.key,
        "ram_kb": usable_bytes // 1024,
        "clusters": clusters,
        "cpu_khz": tuple(hertz // HZ_PER_KHZ for hertz in board.cpu.values_hz),
        "gpu_hz": board.gpu.values_hz,
        "emc_hz": board.emc.values_hz,
        "stock": stock_shapes(board, unlimited, len(masks) if isinstance(masks, tuple) else 0),
        "default": board.stock_default,
        "active": 0,
    }
    return Shape(**{**defaults, **facts})  # type: ignore[arg-type]
