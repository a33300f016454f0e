"""This Linux machine as a device: what it is, what can be measured on it, and what is missing."""

from __future__ import annotations

import functools
import platform
from collections.abc import Callable, Sequence
from pathlib import Path

from edgetrain.device.base import SLOW_S, DeviceClock, Probe, SystemClock
from edgetrain.device.kept import text_of
from edgetrain.device.nvml import LIBRARY, POWER, STATE, NvmlProbe, gpu_names
from edgetrain.device.proc import CpuProbe, DiskProbe, MemoryProbe, meminfo, online_cores
from edgetrain.device.rapl import PERMISSION_FIX, RaplProbe, domains
from edgetrain.device.rapl import power_source as rapl_source
from edgetrain.device.thermal import ThermalProbe
from edgetrain.errors import ProbeUnavailable
from edgetrain.schema import DeviceSpec, Finding, PowerSource


class HostDevice:
    """A workstation, server or virtual machine; edgetrain sets no clocks on it."""

    def __init__(self, root: Path = Path("/"), nvml: str = LIBRARY, clock: DeviceClock | None = None) -> None:
        self._root, self._nvml = root, nvml
        self._clock = clock or SystemClock()

    @property
    def clock(self) -> DeviceClock:
        """The machine's time."""
        return self._clock

    def probes(self) -> list[Probe]:
        """Open every sensor that answers."""
        opened: list[Probe] = []
        builders = self._builders()
        if "gpu" in builders:
            builders["gpu"] = lambda: NvmlProbe(self._nvml, STATE, period_s=SLOW_S)
            builders["gpu power"] = self._gpu_power
        for build in builders.values():
            try:
                opened.append(build())
            except ProbeUnavailable:
                continue
        return opened

    def total_power(self) -> PowerSource | None:
        """Return the GPU's power, else the processor packages', else None; measured once, then remembered."""
        return self._power

    def findings(self) -> list[Finding]:
        """Return what each probe gives here, or why it does not."""
        found: list[Finding] = []
        for area, build in self._builders().items():
            try:
                probe = build()
            except ProbeUnavailable as error:
                found.append(Finding(area, _WHAT[area], False, str(error), self._fix(area, error)))
                continue
            found.append(Finding(area, _WHAT[area], True, _spell(probe.columns)))
            found += _missing(area, probe)
            probe.close()
        return found

    def modes(self) -> None:
        """Return None: a host has no power modes that edgetrain sets."""

    def control(self) -> None:
        """Return None: nothing is set on a host."""

    def _builders(self) -> dict[str, Callable[[], Probe]]:
        root = self._root
        builders: dict[str, Callable[[], Probe]] = {
            "cpu": lambda: CpuProbe(root),
            "memory": lambda: MemoryProbe(root),
            "storage": lambda: DiskProbe(root),
            "temperature": lambda: ThermalProbe(root),
            "power": lambda: RaplProbe(root),
        }
        # A folder that serves as another machine must not show this machine's GPU.
        if root == Path("/") or self._nvml != LIBRARY:
            builders["gpu"] = lambda: NvmlProbe(self._nvml)
        return builders

    def _gpu_power(self) -> NvmlProbe:
        return NvmlProbe(self._nvml, POWER, name="gpu_power")

    @functools.cached_property
    def _power(self) -> PowerSource | None:
        builders = self._builders()
        if "gpu" in builders:
            try:
                gpu = self._gpu_power()
            except ProbeUnavailable:
                pass
            else:
                source = gpu.power_source()
                gpu.close()
                if source is not None:
                    return source
        try:
            builders["power"]().close()
        except ProbeUnavailable:
            return None
        return rapl_source()

    def _fix(self, area: str, error: ProbeUnavailable) -> str | None:
        if area == "power" and domains(self._root):
            return PERMISSION_FIX
        if area == "gpu" and any(Path("/dev").glob("nvidia[0-9]*")):
            return "install the driver's user library (Debian and Ubuntu: sudo apt-get install libnvidia-compute-…)"
        return None

    @functools.cached_property
    def spec(self) -> DeviceSpec:
        """What the machine is."""
        root = self._root
        memory = meminfo((text_of(root / "proc/meminfo") or "").encode())
        gpu = gpu_names(self._nvml) if "gpu" in self._builders() else []
        dmi = root / "sys/class/dmi/id"
        maker, product = text_of(dmi / "sys_vendor"), text_of(dmi / "product_name")
        tree = text_of(root / "proc/device-tree/model")
        here = root == Path("/")
        ram = memory.get("MemTotal")
        return DeviceSpec(
            name="host",
            host=(platform.node() if here else text_of(root / "proc/sys/kernel/hostname")) or None,
            kind="nvml" if gpu else "host",
            model=" ".join(part for part in (maker, product) if part) or tree or _processor(root),
            cores=online_cores(root),
            ram_bytes=int(ram) if ram else None,
            gpu=", ".join(gpu) or None,
            kernel=platform.release() if here else text_of(root / "proc/sys/kernel/osrelease"),
            architecture=platform.machine() if here else None,
            extra=(("processor", _processor(root)), ("governor", _governor(root)), ("host", platform.node())),
        )


_WHAT = {
    "cpu": "load of each core, run queue, pressure",
    "memory": "memory, page cache, swap",
    "storage": "reads, bytes and latency per block device",
    "temperature": "temperatures",
    "power": "energy of the processor packages (RAPL)",
    "gpu": "GPU utilisation, clock, memory, power, energy (NVML)",
}


def _spell(columns: Sequence[str]) -> str:
    names = list(columns)
    shown = ", ".join(names[:8])
    return f"{shown} and {len(names) - 8} more" if len(names) > 8 else shown


def _missing(area: str, probe: Probe) -> list[Finding]:
    """Return the parts of a probe that this machine lacks though the probe works."""
    columns = set(probe.columns)
    found = []
    if area == "cpu" and "cpu0_hz" not in columns:
        detail = "the kernel shows no cpufreq here (usual in a virtual machine): clocks are not recorded"
        found.append(Finding("cpu", "clock of each core", False, detail))
    if area == "cpu" and "pressure_cpu_share" not in columns:
        detail = "the kernel has no pressure stall information (CONFIG_PSI is off, or not enabled at boot)"
        found.append(Finding("cpu", "pressure", False, detail, "add psi=1 to the kernel's command line and reboot"))
    if area == "gpu":
        for column in ("gpu_power_w", "gpu_energy_j", "gpu_share"):
            if column not in columns:
                found.append(Finding("gpu", column, False, "NVML reports that this GPU does not support it"))
    return found


def _processor(root: Path) -> str | None:
    for line in (text_of(root / "proc/cpuinfo") or "").splitlines():
        name, _, value = line.partition(":")
        if name.strip() in ("model name", "Hardware"):
            return value.strip()
    return None


def _governor(root: Path) -> str | None:
    return text_of(root / "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
