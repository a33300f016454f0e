"""What a power mode means as values of the board's settings."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from edgetrain.device.jetson.clocks import Clocks
from edgetrain.schema import PowerMode
from edgetrain.units import HZ_PER_KHZ


@dataclass(frozen=True, slots=True)
class TargetMode:
    """A mode as the board's parts see it: each core that is on with its clock, and the floors that governors keep."""

    core_hz: Mapping[int, int]  # cores that are on
    gpu_hz: int | None
    emc_hz: int | None
    cpu_floor_hz: Mapping[int, int] = field(default_factory=dict)  # by a core of the cluster
    gpu_floor_hz: int | None = None

    @classmethod
    def of(cls, mode: PowerMode, clocks: Clocks) -> TargetMode:
        """Return a custom mode: the lowest cores stay on, as nvpmodel does it; core 0 cannot go offline."""
        return cls(dict.fromkeys(clocks.present[: mode.cores], mode.cpu_hz), mode.gpu_hz, mode.emc_hz)


def desired(
    clocks: Clocks, names: Collection[str], target: TargetMode, dvfs: bool, idle_states: bool, found: Mapping[str, int]
) -> dict[str, int]:
    """Return what the board's settings are in a mode.

    `dvfs` off holds every clock at the mode's value (minimum = maximum, memory locked, no railgating), as
    `jetson_clocks` does; on, the mode's values are ceilings and the governors move between them and the mode's floors.
    `names`: the settings this board has; `found`: their values before the first change.
    """
    wanted: dict[str, int] = {}
    on = target.core_hz
    for core in clocks.present:
        wanted[f"cpu{core}.online"] = int(core in on)
    for cluster in clocks.clusters:
        running = [on[core] for core in cluster.cores if core in on]
        if running:
            top = running[0]
            floors = [hertz for core, hertz in target.cpu_floor_hz.items() if core in cluster.cores]
            floor = max(floors, default=min(cluster.table_hz, default=top))
            wanted[f"{cluster.name}.max_khz"] = top // HZ_PER_KHZ
            wanted[f"{cluster.name}.min_khz"] = (min(floor, top) if dvfs else top) // HZ_PER_KHZ
    if target.gpu_hz is not None:
        floor = target.gpu_floor_hz or min(clocks.gpu_table_hz, default=target.gpu_hz)
        wanted["gpu.max_hz"] = target.gpu_hz
        wanted["gpu.min_hz"] = min(floor, target.gpu_hz) if dvfs else target.gpu_hz
        # Railgating is never turned on where it was off: some boards refuse that, and TX2 is meant to keep it off.
        wanted["gpu.railgate"] = found.get("gpu.railgate", 0) if dvfs else 0
    if target.emc_hz is not None:
        wanted.update(_memory(clocks, target.emc_hz, dvfs, found))
    for name in names:
        if ".idle" in name and int(name[3 : name.index(".")]) in on:
            wanted[name] = int(not idle_states)
    return {name: value for name, value in wanted.items() if name in names}


def _memory(clocks: Clocks, emc_hz: int, dvfs: bool, found: Mapping[str, int]) -> dict[str, int]:
    highest = max(clocks.emc_table_hz, default=0)
    values = {
        "emc.iso_cap_hz": 0 if emc_hz == highest else emc_hz,  # JetPack 4 and 5: 0 is no cap
        "emc.clk_cap_hz": emc_hz,  # JetPack 6: 0 would be the lowest rate
        "emc.max_hz": emc_hz,
        "emc.min_hz": min(clocks.emc_table_hz, default=emc_hz) if dvfs else emc_hz,
        "emc.lock": int(not dvfs),
        # The bandwidth manager may move a locked rate on JetPack 6 and later: field scripts halt it meanwhile.
        "emc.state": found.get("emc.state", 1) if dvfs else 1,
        "emc.halt": found.get("emc.halt", 0) if dvfs else 1,
    }
    if not dvfs:
        values["emc.rate_hz"] = emc_hz
    return values


def freed(clocks: Clocks, now: Mapping[str, int]) -> dict[str, int]:
    """Return the values with nothing held from below: nvpmodel cannot set a maximum under a minimum we hold."""
    wanted = {}
    for cluster in clocks.clusters:
        name = f"{cluster.name}.min_khz"
        if name in now and cluster.table_hz:
            wanted[name] = cluster.table_hz[0] // HZ_PER_KHZ
    if "gpu.min_hz" in now and clocks.gpu_table_hz:
        wanted["gpu.min_hz"] = clocks.gpu_table_hz[0]
    if "emc.min_hz" in now and clocks.emc_table_hz:
        wanted["emc.min_hz"] = clocks.emc_table_hz[0]
    if "emc.lock" in now:
        wanted["emc.lock"] = 0
    return wanted
