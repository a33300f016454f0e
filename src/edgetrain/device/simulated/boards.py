"""The simulated boards: five that papers measured, each with the release of its published clock tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from edgetrain.device.catalog import load_catalogue
from edgetrain.device.simulated.shapes import ISO_CAP, Chip, Shape, base_shape

_ORIN_CHIPS = (
    Chip(
        "1-0040", "ina3221",
        (("VDD_GPU_SOC", 19000, 0.52), ("VDD_CPU_CV", 19000, 0.18), ("VIN_SYS_5V0", 5000, 0.30)), 3, 2000,
    ),
    Chip("1-0041", "ina3221", (("NC", 0, 0.0), ("VDDQ_VDD2_1V8AO", 5000, 0.06), ("NC", 0, 0.0)), 4, 2000),
)  # fmt: skip
_THREE = (("VDD_IN", 5000, 1.0), ("VDD_CPU_GPU_CV", 5000, 0.52), ("VDD_SOC", 5000, 0.22))
_JP5_ZONES: tuple[tuple[str, int | None], ...] = (
    ("CPU-therm", 48000), ("GPU-therm", 46000), ("CV0-therm", -256000), ("SOC0-therm", 47500), ("tj-therm", 48500),
)  # fmt: skip
_JP4_ZONES: tuple[tuple[str, int | None], ...] = (
    ("AO-therm", 40000),
    ("CPU-therm", 42000),
    ("GPU-therm", 41500),
    ("PMIC-Die", 50000),
    ("thermal-fan-est", 41800),
)
_CARMEL_IDLE = ("C1", "c6")


def orin_agx() -> Shape:
    """AGX Orin developer kit with early JetPack 5: the clocks of the published tables."""
    shape = base_shape(
        load_catalogue().get("orin-agx"),
        model="NVIDIA Orin Jetson-Developer Kit",
        compatible=("nvidia,p3737-0000+p3701-0000", "nvidia,tegra234", "nvidia,tegra23x"),
        release="# R35 (release), REVISION: 1.0, GCID: 10000001, BOARD: t186ref, EABI: aarch64",
        cluster_names=("CPU_A78_0", "CPU_A78_1", "CPU_A78_2"),
        gpu_folder="/sys/devices/platform/17000000.ga10b/devfreq/17000000.ga10b",
        gpu_class="17000000.ga10b",
        gpu_node="ga10b",
        gpu_load="/sys/devices/platform/17000000.ga10b/load",
        emc_hold="bpmp",
        emc_cap=ISO_CAP,
        chips=_ORIN_CHIPS,
        zones=_JP5_ZONES,
        cpu_floor_khz=729_600,
        masks=(("TPC_POWER_GATING", "TPC_PG_MASK", "/sys/devices/platform/17000000.ga10b/tpc_pg_mask"),),
        golden=1,
        header="<{} >",  # NVIDIA's own Orin files leave the blank out
    )
    # Early JetPack 5 caps the GPU at clocks of its own table.
    early = {1: 420_750_000, 2: 624_750_000, 3: 828_750_000}
    return replace(shape, stock=tuple(replace(mode, gpu_hz=early.get(mode.id, mode.gpu_hz)) for mode in shape.stock))


def orin_nano() -> Shape:
    """Orin Nano 8 GB, JetPack 5, before the super modes: the clocks of the published tables."""
    return base_shape(
        load_catalogue().get("orin-nano"),
        model="NVIDIA Orin Nano Developer Kit",
        compatible=("nvidia,p3768-0000+p3767-0005", "nvidia,p3767-0005", "nvidia,tegra234"),
        release="# R35 (release), REVISION: 4.1, GCID: 10000001, BOARD: t186ref, EABI: aarch64",
        cluster_names=("CPU_A78_0", "CPU_A78_1"),
        gpu_folder="/sys/devices/platform/17000000.ga10b/devfreq/17000000.ga10b",
        gpu_class="17000000.ga10b",
        gpu_node="ga10b",
        gpu_load="/sys/devices/platform/17000000.ga10b/load",
        emc_hold="bpmp",
        emc_cap=ISO_CAP,
        chips=(Chip("1-0040", "ina3221", _THREE, 1),),
        zones=_JP5_ZONES,
        cpu_floor_khz=729_600,
        masks=(("TPC_POWER_GATING", "TPC_PG_MASK", "/sys/devices/platform/17000000.ga10b/tpc_pg_mask"),),
    )


def xavier_agx() -> Shape:
    """AGX Xavier with JetPack 4: iio power monitors, six parallel rails."""
    return base_shape(
        load_catalogue().get("xavier-agx"),
        model="Jetson-AGX",
        compatible=("nvidia,p2972-0000", "nvidia,p2888-0004", "nvidia,tegra194"),
        release="# R32 (release), REVISION: 5.1, GCID: 10000001, BOARD: t186ref, EABI: aarch64",
        kernel="4.9.201-tegra",
        cluster_names=("CPU_DENVER_0", "CPU_DENVER_1", "CPU_DENVER_2", "CPU_DENVER_3"),
        gpu_folder="/sys/devices/17000000.gv11b/devfreq/17000000.gv11b",
        gpu_class="17000000.gv11b",
        gpu_node="gv11b",
        gpu_load="/sys/devices/17000000.gv11b/load",
        emc_hold="bpmp",
        emc_cap=ISO_CAP,
        chips=(
            Chip("1-0040", "ina3221x", (("GPU", 19000, 0.52), ("CPU", 19000, 0.12), ("SOC", 19000, 0.16))),
            Chip("1-0041", "ina3221x", (("CV", 19000, 0.02), ("VDDRQ", 19000, 0.06), ("SYS5V", 5000, 0.12))),
        ),
        zones=_JP4_ZONES,
        cpu_floor_khz=1_200_000,
        idle_states=_CARMEL_IDLE,
        masks=(("TPC_POWER_GATING", "TPC_PG_MASK", "/sys/devices/17000000.gv11b/tpc_pg_mask"),),
        fan="jp4",
        fan_config=True,
    )


def xavier_nx() -> Shape:
    """Xavier NX with JetPack 5: hwmon power monitor."""
    return base_shape(
        load_catalogue().get("xavier-nx"),
        model="NVIDIA Jetson Xavier NX Developer Kit",
        compatible=("nvidia,p3509-0000+p3668-0000", "nvidia,p3668-0000", "nvidia,tegra194"),
        release="# R35 (release), REVISION: 3.1, GCID: 10000001, BOARD: t186ref, EABI: aarch64",
        cluster_names=("CPU_DENVER_0", "CPU_DENVER_1", "CPU_DENVER_2"),
        gpu_folder="/sys/devices/platform/17000000.gv11b/devfreq/17000000.gv11b",
        gpu_class="17000000.gv11b",
        gpu_node="gv11b",
        gpu_load="/sys/devices/platform/17000000.gv11b/load",
        emc_hold="bpmp",
        emc_cap=ISO_CAP,
        chips=(Chip("7-0040", "ina3221", _THREE, 5),),
        zones=_JP5_ZONES,
        cpu_floor_khz=1_190_400,
        idle_states=_CARMEL_IDLE,
        masks=(("TPC_POWER_GATING", "TPC_PG_MASK", "/sys/devices/platform/17000000.gv11b/tpc_pg_mask"),),
        active=2,
    )


def nano() -> Shape:
    """Nano 4 GB with JetPack 4."""
    return base_shape(
        load_catalogue().get("nano"),
        model="NVIDIA Jetson Nano Developer Kit",
        compatible=("nvidia,p3449-0000-b00+p3448-0000-b00", "nvidia,jetson-nano", "nvidia,tegra210"),
        release="# R32 (release), REVISION: 7.1, GCID: 10000001, BOARD: t210ref, EABI: aarch64",
        kernel="4.9.253-tegra",
        cluster_names=("CPU_A57",),
        gpu_folder="/sys/devices/57000000.gpu/devfreq/57000000.gpu",
        gpu_class="57000000.gpu",
        gpu_node="gpu",
        gpu_load="/sys/devices/57000000.gpu/load",
        emc_hold="t210",
        emc_cap=ISO_CAP,
        chips=(
            Chip(
                "6-0040", "ina3221x", (("POM_5V_IN", 5000, 1.0), ("POM_5V_GPU", 5000, 0.36), ("POM_5V_CPU", 5000, 0.22))
            ),
        ),
        zones=_JP4_ZONES,
        golden=None,
        storage=("mmcblk0",),
        fan="jp4",
    )


SIMULATED: Mapping[str, Callable[[], Shape]] = {
    "orin-agx": orin_agx,
    "orin-nano": orin_nano,
    "xavier-agx": xavier_agx,
    "xavier-nx": xavier_nx,
    "nano": nano,
}
