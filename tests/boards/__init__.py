"""Boards as folders: pairs of board and JetPack in the shape of the real ones, and what can be wrong with them.

    board = build("orin-agx-jp6", folder)        the tree alone
    device = open_fixture("thor-jp7", folder)    a device over it, with a kernel that takes writes as a board's does

The shapes follow public sources; labels, paths and layouts are the boards', the numbers are ours.
"""

from __future__ import annotations

import errno
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from edgetrain.device import load_catalogue
from edgetrain.device.jetson.board import JetsonDevice
from edgetrain.device.jetson.identity import identify
from edgetrain.device.simulated import boards as simulated
from edgetrain.device.simulated.build import build as build_tree
from edgetrain.device.simulated.device import KernelTree
from edgetrain.device.simulated.kernel import FAULTS
from edgetrain.device.simulated.shapes import CLK_CAP, ISO_CAP, Chip, Shape, StockShape

MHZ = 1_000_000
ORIN_COOLING = (
    "cpufreq-cpu0", "cpufreq-cpu4", "cpufreq-cpu8", "devfreq-17000000.gpu", "cpu-throttle-alert", "gpu-throttle-alert",
    "hot-surface-alert", "pwm-fan",
)  # fmt: skip
ORIN_JP6_ZONES = (
    ("cpu-thermal", 50_100), ("gpu-thermal", 46_000), ("cv0-thermal", None), ("cv1-thermal", None),
    ("cv2-thermal", None), ("soc0-thermal", 47_400), ("soc1-thermal", 47_000), ("soc2-thermal", 46_900),
    ("tj-thermal", 50_100),
)  # fmt: skip
ORIN_GPU = "/sys/devices/platform/bus@0/17000000.gpu"


def _tx2() -> Shape:
    board = load_catalogue().get("tx2")
    assert board.emc is not None
    return replace(
        simulated.nano(),
        name="tx2",
        model="quill",
        compatible=("nvidia,p2597-0000+p3310-1000", "nvidia,tegra186"),
        release="# R32 (release), REVISION: 6.1, GCID: 10000001, BOARD: t186ref, EABI: aarch64",
        ram_kb=8_044_000,
        clusters=((0, 3, 4, 5), (1, 2)),  # A57 around two Denver cores
        cluster_names=("CPU_A57", "CPU_DENVER"),
        cpu_khz=tuple(range(345_600, 2_035_201, 153_600)),
        gpu_folder="/sys/devices/17000000.gp10b/devfreq/17000000.gp10b",
        gpu_class="17000000.gp10b",
        gpu_node="gp10b",
        gpu_load="/sys/devices/17000000.gp10b/load",
        gpu_hz=tuple(114_750_000 + 102 * MHZ * step for step in range(12)),
        emc_hold="bpmp",
        emc_cap=ISO_CAP,
        emc_hz=board.emc.values_hz,
        chips=(
            Chip(
                "0-0040",
                "ina3221x",
                (("VDD_SYS_GPU", 19000, 0.3), ("VDD_SYS_SOC", 19000, 0.1), ("VDD_4V0_WIFI", 4000, 0.01)),
            ),
            Chip(
                "0-0041", "ina3221x", (("VDD_IN", 19000, 1.0), ("VDD_SYS_CPU", 19000, 0.2), ("VDD_SYS_DDR", 19000, 0.1))
            ),
        ),
        cooling=("bcpu-throttle-alert", "mcpu-throttle-alert", "gpu-throttle-alert", "pwm-fan"),
        stock=(
            StockShape(0, "MAXN", (0, 1, 2, 3, 4, 5), -1, -1, 0),
            StockShape(1, "MAXQ", (0, 3, 4, 5), 1_200_000, 850 * MHZ, 1_331_200_000),
            StockShape(2, "MAXP_CORE_ALL", (0, 1, 2, 3, 4, 5), 1_400_000, 1_120 * MHZ, 1_600 * MHZ),
            StockShape(4, "MAXP_CORE_DENVER", (0, 1), 2_000_000, 1_120 * MHZ, 1_600 * MHZ),  # 3 left out: ids have gaps
        ),
        default=3,
        active=0,
        lists_core_0=False,  # TX2's file never lists core 0
        railgate=0,  # NVIDIA's boot script turns railgating off
        golden=0,
    )


def _orin_agx_jp6() -> Shape:
    steps = (*(306 * MHZ + 102 * MHZ * step for step in range(10)), 1_300_500_000)
    early = simulated.orin_agx()
    caps = {1: 408 * MHZ, 2: 612 * MHZ, 3: 816 * MHZ}
    return replace(
        early,
        name="orin-agx-jp6",
        model="NVIDIA Jetson AGX Orin Developer Kit",
        compatible=("nvidia,p3737-0000+p3701-0005", "nvidia,p3701-0005", "nvidia,tegra234"),
        release="# R36 (release), REVISION: 4.4, GCID: 10000001, BOARD: generic, EABI: aarch64",
        kernel="5.15.148-tegra",
        gpu_folder=f"{ORIN_GPU}/devfreq/17000000.gpu",
        gpu_class="17000000.gpu",
        gpu_node="gpu",
        gpu_load=f"{ORIN_GPU}/load",
        gpu_hz=steps,
        emc_cap=CLK_CAP,
        stock=tuple(replace(mode, gpu_hz=caps.get(mode.id, -1), emc_hz=mode.emc_hz or -1) for mode in early.stock),
        masks=(("TPC_POWER_GATING", "TPC_PG_MASK", f"{ORIN_GPU}/tpc_pg_mask"),),
        zones=ORIN_JP6_ZONES,
        cooling=ORIN_COOLING,
        over_current=True,
    )


def _orin_nano_super() -> Shape:
    return replace(
        simulated.orin_nano(),
        name="orin-nano-super",
        compatible=("nvidia,p3768-0000+p3767-0005-super", "nvidia,p3767-0005", "nvidia,tegra234"),
        release="# R36 (release), REVISION: 4.3, GCID: 10000001, BOARD: generic, EABI: aarch64",
        kernel="5.15.148-tegra",
        gpu_folder=f"{ORIN_GPU}/devfreq/17000000.gpu",
        gpu_class="17000000.gpu",
        gpu_node="gpu",
        gpu_load=f"{ORIN_GPU}/load",
        gpu_hz=tuple(306 * MHZ + 102 * MHZ * step for step in range(8)),
        cpu_khz=tuple(115_200 + 76_800 * step for step in range(22)),
        emc_cap=CLK_CAP,
        emc_hz=(204 * MHZ, 665_600_000, 2_133 * MHZ, 3_199 * MHZ),
        masks=(("TPC_POWER_GATING", "TPC_PG_MASK", f"{ORIN_GPU}/tpc_pg_mask"),),
        stock=(
            StockShape(0, "15W", tuple(range(6)), 1_497_600, 612 * MHZ, 2_133 * MHZ, (240,)),
            StockShape(1, "25W", tuple(range(6)), 1_344_000, 918 * MHZ, 3_199 * MHZ, (240,)),
            StockShape(2, "MAXN_SUPER", tuple(range(6)), -1, -1, -1, (240,)),
            StockShape(3, "7W", tuple(range(4)), 960_000, 408 * MHZ, 2_133 * MHZ, (252,)),
        ),
        default=1,
        active=1,
        header="<{}>",
        zones=ORIN_JP6_ZONES,
        cooling=ORIN_COOLING,
        over_current=True,
    )


def _orin_nano_jp7() -> Shape:
    """R39.2: the memory cap is a devfreq device, and the clock of an offline cluster answers EBUSY."""
    return replace(
        _orin_nano_super(),
        name="orin-nano-jp7",
        release="# R39 (release), REVISION: 2.0, GCID: 10000001, BOARD: generic, EABI: aarch64",
        kernel="6.8.12-tegra",
        emc_cap="bwmgr",
        railgate_refuses_1=True,
        railgate=0,
    )


def _thor() -> Shape:
    return replace(
        _orin_agx_jp6(),
        name="thor",
        model="NVIDIA Jetson AGX Thor Developer Kit",
        compatible=("nvidia,p4071-0000+p3834-0008", "nvidia,p3834-0008", "nvidia,tegra264"),
        release="# R38 (release), REVISION: 4.0, GCID: 10000001, BOARD: generic, EABI: aarch64",
        kernel="6.8.12-tegra",
        ram_kb=128_790_000,
        clusters=tuple((core, core + 1) for core in range(0, 14, 2)),
        cluster_names=tuple(f"CPU_{core}" for core in range(7)),
        cpu_khz=(*(162_000 * step for step in range(1, 17)), 2_601_000),
        gpu_folder="/sys/devices/platform/bus@0/d0b0000000.pcie/gpu-gpc-0/devfreq/gpu-gpc-0",
        gpu_class="gpu-gpc-0",
        gpu_node="",  # no of_node/name there
        gpu_load=None,  # load comes from NVML there
        gpu_hz=tuple(315 * MHZ + 126 * MHZ * step for step in range(11)),
        emc_hold="bpmp",
        emc_cap=CLK_CAP,
        emc_hz=(665_600_000, 2_133 * MHZ, 4_266 * MHZ),
        chips=(
            Chip(
                "2-0040", "ina3221",
                (("VDD_GPU", 12000, 0.26), ("VDD_CPU_SOC_MSS", 12000, 0.24), ("VIN_SYS_5V0", 5000, 0.2)), 6, 2000,
            ),
            Chip("2-0044", "ina238", (("VIN", 20000, 1.0),), 7, 2000, 16),
        ),
        stock=(
            StockShape(0, "MAXN", tuple(range(14)), -1, -1, -1, (512,)),
            StockShape(1, "120W", tuple(range(14)), 2_592_000, 1_386 * MHZ, -1, (512,)),
            StockShape(2, "90W", tuple(range(14)), 1_944_000, 1_197 * MHZ, -1, (17353,)),
            StockShape(3, "70W", tuple(range(12)), 1_620_000, 945 * MHZ, -1, (17353,)),
        ),
        default=1,
        active=0,
        railgate=None,
        golden=None,
        masks=(("GPU_POWER_GATING", "GPU_PG_MASK", "/opt/nvidia/l4t-gpusetup/gpu_pg_mask"),),
        zones=(("cpu-thermal", 41_200), ("tj-thermal", 43_600), ("soc012-thermal", 41_500), ("gpu-thermal", None),
               ("soc345-thermal", 41_400)),
        cooling=("cpufreq-cpu0", "devfreq-gpu-gpc-0", "gpu-throttle-alert", "hot-surface-alert", "pwm-fan"),
        idle_states=("WFI", "cc7"),
    )  # fmt: skip


def _named(make: Callable[[], Shape], **changes: object) -> Callable[[], Shape]:
    return lambda: replace(make(), **changes)


PAIRS: Mapping[str, Callable[[], Shape]] = {
    "nano-jp4": simulated.nano,
    "tx2-jp4": _tx2,
    "xavier-agx-jp4": simulated.xavier_agx,
    "xavier-nx-jp5": simulated.xavier_nx,
    "orin-agx-jp5": simulated.orin_agx,
    "orin-agx-jp6": _orin_agx_jp6,
    "orin-nano-super-jp6": _orin_nano_super,
    "orin-nano-jp7": _orin_nano_jp7,
    "thor-jp7": _thor,
}

_TWICE = (
    Chip("1-0040", "ina3221", (("VDD_IN", 5000, 1.0), ("VDD_SOC", 5000, 0.2), ("NC", 0, 0.0)), 1),
    Chip("1-0041", "ina3221", (("VDD_IN", 5000, 0.4), ("VDD_SOC", 5000, 0.1), ("NC", 0, 0.0)), 2),
)
_TX2_CARRIER = (
    Chip(
        "0-0042",
        "ina3221x",
        (("VDD_MUX", 19000, 1.3), ("VDD_5V0_IO_SYS", 5000, 0.1), ("VDD_3V3_SYS", 3300, 0.1)),
    ),
    Chip(
        "0-0043",
        "ina3221x",
        (("VDD_3V3_IO_SLP", 3300, 0.02), ("VDD_1V8_IO", 1800, 0.02), ("VDD_3V3_SYS_M2", 3300, 0.02)),
    ),
)
VARIANTS: Mapping[str, Callable[[], Shape]] = {
    "nano without a power monitor": _named(
        simulated.nano, chips=(), compatible=("nvidia,p3542-0000+p3448-0003", "nvidia,tegra210"), programs=False
    ),
    "moved hwmon numbers": _named(
        simulated.orin_nano, chips=(replace(simulated.orin_nano().chips[0], hwmon=11),)
    ),
    "two monitors with the same labels": _named(simulated.orin_nano, chips=_TWICE),
    "offline cores": _named(simulated.orin_agx, offline=(6, 7, 8, 9, 10, 11)),
    "offline cluster on a new kernel": _named(_orin_nano_jp7, offline=(4, 5)),
    "unknown release": _named(simulated.orin_agx, release="# R97 (release), REVISION: 12.3, GCID: 1"),
    "unknown board": _named(
        simulated.orin_nano, model="Somebody's Carrier", compatible=("vendor,board", "nvidia,tegra299"), release="",
    ),
    "unwired carrier": _named(
        simulated.orin_nano,
        chips=(Chip("9-0040", "ina3221", (("RAIL_A", 12000, 0.7), ("RAIL_B", 5000, 0.3), ("NC", 0, 0.0)), 2),),
    ),
    "unlabelled carrier": _named(
        simulated.orin_nano,
        chips=(
            Chip("9-0040", "ina3221", (("", 12000, 0.7), ("", 5000, 0.3), ("", 5000, 0.0)), 2),
            Chip("9-0045", "ina238", (("", 20000, 1.0),), 5),
        ),
    ),
    "carrier with an input monitor": _named(
        simulated.orin_nano,
        chips=(*simulated.orin_nano().chips, Chip("9-0045", "ina238", (("VIN", 20000, 1.0),), 5)),
    ),
    "tx2 kit": _named(_tx2, chips=(*_tx2().chips, *_TX2_CARRIER)),
    "rails for root only": _named(simulated.orin_agx, rails_mode=0o400, programs=False),
    "no nvpmodel": _named(simulated.orin_agx, stock=(), active=None, programs=False),
}  # fmt: skip


def build(name: str, folder: Path) -> Path:
    """Build a board's tree; return its root."""
    return build_tree({**PAIRS, **VARIANTS}[name](), folder)


def open_fixture(name: str, folder: Path) -> JetsonDevice:
    """Return the board as a device; writes go through a kernel that behaves as that board's."""
    return open_tree(build(name, folder))


def open_tree(root: Path) -> JetsonDevice:
    """Return the board in a folder that was built before."""
    tree = KernelTree(root)
    identity = identify(tree)
    assert identity is not None
    return JetsonDevice(tree, identity)


def plant(root: Path, **faults: object) -> None:
    """Make things go wrong: `ignore`, `errors`, `read_errors`, `closed`, `nvpmodel`, `hot`."""
    (root / FAULTS).write_text(json.dumps(faults))


EAGAIN, EIO, EBUSY = errno.EAGAIN, errno.EIO, errno.EBUSY
