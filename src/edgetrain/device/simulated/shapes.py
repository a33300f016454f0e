"""How a board's sysfs looks: the layouts that differ between chips and releases, as data to build a tree from.

Clock tables and stock modes come from the catalogue; what is here is where things lie. Written from public
documentation (docs/boards.md); no vendor file is copied.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from edgetrain.device import catalog
from edgetrain.units import HZ_PER_KHZ


@dataclass(frozen=True, slots=True)
class Chip:
    """One power monitor: bus and address, driver, and its channels as (label, bus millivolts, share of the total)."""

    address: str
    driver: str  # ina3221 (hwmon) | ina3221x (iio, JetPack 4) | ina238
    channels: tuple[tuple[str, int, float], ...]
    hwmon: int = 3  # moves between boots
    shunt_uohm: int = 5000
    samples: int = 512
    update_ms: int = 430


@dataclass(frozen=True, slots=True)
class StockShape:
    """A stock mode as the file writes it: clocks in the file's units, None = left out, -1 and 0 as written."""

    id: int
    name: str
    on: tuple[int, ...]
    cpu_khz: int | None
    gpu_hz: int | None
    emc_hz: int | None
    mask: int | None = None


@dataclass(frozen=True, slots=True)
class Shape:
    """Everything that a tree of one board is built from."""

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
    gpu_node: str  # of_node/name
    gpu_load: str | None
    gpu_hz: tuple[int, ...]
    emc: str  # bpmp | t210 | devfreq | hidden
    emc_cap: str | None
    emc_hz: tuple[int, ...]
    chips: tuple[Chip, ...]
    zones: tuple[tuple[str, int], ...]  # type and milli-degrees
    stock: tuple[StockShape, ...] = ()
    default: int | None = None
    active: int | None = None
    kernel: str = "5.10.104-tegra"
    policy_links: bool = True  # cpuN/cpufreq is a link to cpufreq/policyM
    idle_states: int = 1
    railgate: bool = True
    mask_path: str | None = None
    header: str = "< {} >"  # how nvpmodel's file writes a section's header
    lists_core_0: bool = True
    serial: str = "1420921055981"
    programs: bool = True
    storage: tuple[str, ...] = ("mmcblk0", "nvme0n1")
    alarms: bool = True
    offline: tuple[int, ...] = field(default=())

    @property
    def cores(self) -> tuple[int, ...]:
        """Return every present core."""
        return tuple(sorted(core for cluster in self.clusters for core in cluster))

    def text(self) -> str:
        """Return the shape as JSON, so that the tree can say what it was built from."""
        return json.dumps(asdict(self))


def read_shape(text: str) -> Shape:
    """Read what `Shape.text` wrote."""
    facts: dict[str, Any] = {name: _tuples(value) for name, value in json.loads(text).items()}
    facts["chips"] = tuple(Chip(**{name: _tuples(value) for name, value in chip.items()}) for chip in facts["chips"])
    facts["stock"] = tuple(StockShape(**{name: _tuples(v) for name, v in mode.items()}) for mode in facts["stock"])
    return Shape(**facts)


def _tuples(value: Any) -> Any:
    return tuple(_tuples(item) for item in value) if isinstance(value, list) else value


_ORIN_CHIPS = (
    Chip(
        "1-0040", "ina3221",
        (("VDD_GPU_SOC", 19000, 0.52), ("VDD_CPU_CV", 19000, 0.18), ("VIN_SYS_5V0", 5000, 0.30)), 3, 2000,
    ),
    Chip("1-0041", "ina3221", (("NC", 0, 0.0), ("VDDQ_VDD2_1V8AO", 5000, 0.06), ("NC", 0, 0.0)), 4, 2000),
)  # fmt: skip
_THREE = (("VDD_IN", 5000, 1.0), ("VDD_CPU_GPU_CV", 5000, 0.52), ("VDD_SOC", 5000, 0.22))
_JP5_ZONES = (
    ("CPU-therm", 48000), ("GPU-therm", 46000), ("CV0-therm", -256000), ("SOC0-therm", 47500), ("tj-therm", 48500),
)  # fmt: skip
_JP4_ZONES = (
    ("AO-therm", 40000),
    ("CPU-therm", 42000),
    ("GPU-therm", 41500),
    ("PMIC-Die", 50000),
    ("thermal-fan-est", 41800),
)


def _stock(board: catalog.Board, unlimited_emc: int) -> tuple[StockShape, ...]:
    modes = []
    for mode in board.stock_modes:
        cpu = -1 if mode.cpu_hz is None else mode.cpu_hz // HZ_PER_KHZ
        gpu = -1 if mode.gpu_hz is None else mode.gpu_hz
        emc = unlimited_emc if mode.emc_hz is None else mode.emc_hz
        modes.append(StockShape(mode.id, mode.name, tuple(range(mode.cores)), cpu, gpu, emc, mode.mask))
    return tuple(modes)


def _base(key: str, **facts: object) -> Shape:
    board = catalog.load().get(key)
    assert board.cpu and board.gpu and board.emc
    size = board.cluster
    clusters = tuple(tuple(range(first, min(first + size, board.cores))) for first in range(0, board.cores, size))
    usable_bytes, _ = board.expected_usable_bytes()
    unlimited = 0 if board.chip in ("tegra210", "tegra186", "tegra194") else -1
    defaults: dict[str, object] = {
        "name": key,
        "ram_kb": usable_bytes // 1024,
        "clusters": clusters,
        "cpu_khz": tuple(hertz // HZ_PER_KHZ for hertz in board.cpu.values_hz),
        "gpu_hz": board.gpu.values_hz,
        "emc_hz": board.emc.values_hz,
        "stock": _stock(board, unlimited),
        "default": board.stock_default,
        "active": 0,
    }
    return Shape(**{**defaults, **facts})  # type: ignore[arg-type]


def orin_agx() -> Shape:
    """AGX Orin developer kit with early JetPack 5: the clocks of the published tables."""
    shape = _base(
        "orin-agx",
        model="NVIDIA Orin Jetson-Developer Kit",
        compatible=("nvidia,p3737-0000+p3701-0000", "nvidia,tegra234", "nvidia,tegra23x"),
        release="# R35 (release), REVISION: 1.0, GCID: 10000001, BOARD: t186ref, EABI: aarch64",
        cluster_names=("CPU_A78_0", "CPU_A78_1", "CPU_A78_2"),
        gpu_folder="/sys/devices/17000000.ga10b/devfreq/17000000.ga10b",
        gpu_class="17000000.ga10b",
        gpu_node="ga10b",
        gpu_load="/sys/devices/gpu.0/load",
        emc="bpmp",
        emc_cap="/sys/kernel/nvpmodel_emc_cap/emc_iso_cap",
        chips=_ORIN_CHIPS,
        zones=_JP5_ZONES,
        mask_path="/sys/devices/gpu.0/tpc_pg_mask",
        header="<{} >",  # NVIDIA's own Orin files leave the blank out
    )
    # Early JetPack 5 caps the GPU at clocks of its own table.
    early = {1: 420_750_000, 2: 624_750_000, 3: 828_750_000}
    stock = tuple(replace(mode, gpu_hz=early.get(mode.id, mode.gpu_hz), mask=mode.mask or 0) for mode in shape.stock)
    return replace(shape, stock=stock)


def orin_nano() -> Shape:
    """Orin Nano 8 GB, JetPack 5, before the super modes: the clocks of the published tables."""
    return _base(
        "orin-nano",
        model="NVIDIA Orin Nano Developer Kit",
        compatible=("nvidia,p3768-0000+p3767-0005", "nvidia,p3767-0005", "nvidia,tegra234"),
        release="# R35 (release), REVISION: 4.1, GCID: 10000001, BOARD: t186ref, EABI: aarch64",
        cluster_names=("CPU_A78_0", "CPU_A78_1"),
        gpu_folder="/sys/devices/platform/17000000.ga10b/devfreq/17000000.ga10b",
        gpu_class="17000000.ga10b",
        gpu_node="ga10b",
        gpu_load="/sys/devices/platform/gpu.0/load",
        emc="bpmp",
        emc_cap="/sys/kernel/nvpmodel_emc_cap/emc_iso_cap",
        chips=(Chip("1-0040", "ina3221", _THREE, 1),),
        zones=_JP5_ZONES,
        mask_path="/sys/devices/platform/gpu.0/tpc_pg_mask",
    )


def xavier_agx() -> Shape:
    """AGX Xavier with JetPack 4: iio power monitors, six parallel rails."""
    return _base(
        "xavier-agx",
        model="Jetson-AGX",
        compatible=("nvidia,p2972-0000", "nvidia,p2888-0004", "nvidia,tegra194"),
        release="# R32 (release), REVISION: 5.1, GCID: 10000001, BOARD: t186ref, EABI: aarch64",
        kernel="4.9.201-tegra",
        cluster_names=("CPU_C0", "CPU_C1", "CPU_C2", "CPU_C3"),
        gpu_folder="/sys/devices/17000000.gv11b/devfreq/17000000.gv11b",
        gpu_class="17000000.gv11b",
        gpu_node="gv11b",
        gpu_load="/sys/devices/gpu.0/load",
        emc="bpmp",
        emc_cap="/sys/kernel/nvpmodel_emc_cap/emc_iso_cap",
        chips=(
            Chip("1-0040", "ina3221x", (("GPU", 19000, 0.52), ("CPU", 19000, 0.12), ("SOC", 19000, 0.16))),
            Chip("1-0041", "ina3221x", (("CV", 19000, 0.02), ("VDDRQ", 19000, 0.06), ("SYS5V", 5000, 0.12))),
        ),
        zones=_JP4_ZONES,
        mask_path="/sys/devices/gpu.0/tpc_pg_mask",
    )


def xavier_nx() -> Shape:
    """Xavier NX with JetPack 5: hwmon power monitor."""
    return _base(
        "xavier-nx",
        model="NVIDIA Jetson Xavier NX Developer Kit",
        compatible=("nvidia,p3509-0000+p3668-0000", "nvidia,p3668-0000", "nvidia,tegra194"),
        release="# R35 (release), REVISION: 3.1, GCID: 10000001, BOARD: t186ref, EABI: aarch64",
        cluster_names=("CPU_C0", "CPU_C1", "CPU_C2"),
        gpu_folder="/sys/devices/platform/17000000.gv11b/devfreq/17000000.gv11b",
        gpu_class="17000000.gv11b",
        gpu_node="gv11b",
        gpu_load="/sys/devices/platform/gpu.0/load",
        emc="bpmp",
        emc_cap="/sys/kernel/nvpmodel_emc_cap/emc_iso_cap",
        chips=(Chip("7-0040", "ina3221", _THREE, 5),),
        zones=_JP5_ZONES,
        active=2,
    )


def nano() -> Shape:
    """Nano 4 GB with JetPack 4."""
    return _base(
        "nano",
        model="NVIDIA Jetson Nano Developer Kit",
        compatible=("nvidia,p3449-0000-b00+p3448-0000-b00", "nvidia,jetson-nano", "nvidia,tegra210"),
        release="# R32 (release), REVISION: 7.1, GCID: 10000001, BOARD: t210ref, EABI: aarch64",
        kernel="4.9.253-tegra",
        cluster_names=("CPU_A57",),
        gpu_folder="/sys/devices/gpu.0/devfreq/57000000.gpu",
        gpu_class="57000000.gpu",
        gpu_node="gpu",
        gpu_load="/sys/devices/gpu.0/load",
        emc="t210",
        emc_cap=None,
        chips=(
            Chip(
                "6-0040", "ina3221x", (("POM_5V_IN", 5000, 1.0), ("POM_5V_GPU", 5000, 0.36), ("POM_5V_CPU", 5000, 0.22))
            ),
        ),
        zones=_JP4_ZONES,
        policy_links=False,
        storage=("mmcblk0",),
    )


SIMULATED = {
    "orin-agx": orin_agx,
    "orin-nano": orin_nano,
    "xavier-agx": xavier_agx,
    "xavier-nx": xavier_nx,
    "nano": nano,
}
