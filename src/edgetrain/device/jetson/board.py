"""A Jetson as a device: what it is, its probes, its power modes and their control."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path

from edgetrain.device.base import DeviceClock, Probe
from edgetrain.device.host import HostDevice
from edgetrain.device.jetson.clocks import find_clocks
from edgetrain.device.jetson.controls import JetsonControls
from edgetrain.device.jetson.doctor import control_findings, read_fix, root_fix
from edgetrain.device.jetson.identity import Identity, describe, identify
from edgetrain.device.jetson.probes import EmcProbe, FanProbe, JetsonGpuProbe, JetsonThermalProbe, RailsProbe
from edgetrain.device.jetson.tegrastats_live import TegrastatsProbe
from edgetrain.device.jetson.throttling import ThrottleProbe
from edgetrain.device.proc import CpuProbe, DiskProbe, MemoryProbe
from edgetrain.device.tree import Tree
from edgetrain.errors import ProbeUnavailable
from edgetrain.schema import DeviceSpec, Finding, PowerSource

_WHAT = {
    "power": "power per rail",
    "gpu": "GPU load and clock",
    "memory clock": "memory clock and load",
    "temperature": "temperatures",
    "fan": "fan speed",
    "alarms": "throttling and over-current alarms",
    "cpu": "load and clock of each core, run queue, pressure",
    "memory": "memory, page cache, swap",
    "gpu load": "GPU load through NVML",
    "storage": "reads, bytes and latency per block device",
}
_AREAS = {"alarms": "gpu", "gpu load": "gpu", "fan": "temperature"}


class JetsonDevice(JetsonControls):
    """One Jetson, real or a folder that serves as one."""

    def __init__(self, tree: Tree, identity: Identity, kind: str = "jetson") -> None:
        super().__init__(tree, identity)
        self._kind = kind

    @functools.cached_property
    def spec(self) -> DeviceSpec:
        """What the board is."""
        return describe(self.tree, self.identity, self._kind)

    @property
    def clock(self) -> DeviceClock:
        """The board's time."""
        return self.tree.clock

    def builders(self) -> dict[str, Callable[[], Probe]]:
        """Return how each probe is opened, by area."""
        clocks = functools.cache(lambda: find_clocks(self.tree))
        root = self.tree.root
        found: dict[str, Callable[[], Probe]] = {
            "power": self._power_probe,
            "gpu": lambda: JetsonGpuProbe(self.tree, clocks()),
            "memory clock": lambda: EmcProbe(self.tree, clocks()),
            "temperature": lambda: JetsonThermalProbe(self.tree),
            "fan": lambda: FanProbe(self.tree),
            "alarms": lambda: ThrottleProbe(self.tree, self.rails),
            "cpu": lambda: CpuProbe(root, self.clock.now_ns),
            "memory": lambda: MemoryProbe(root),
            "storage": lambda: DiskProbe(root),
        }
        if root == Path("/") and clocks().gpu_load is None:
            # Thor shows its GPU's load through NVML alone; older boards have no NVML, or one that answers nothing.
            found["gpu load"] = self._nvml_probe
        return found

    @staticmethod
    def _nvml_probe() -> Probe:
        from edgetrain.device.nvml import NvmlProbe

        return NvmlProbe(name="nvml")

    def _power_probe(self) -> Probe:
        try:
            return RailsProbe(self.tree, self.rails)
        except ProbeUnavailable as reason:
            # sysfs first: tegrastats averages, costs a process, and spells its fields differently in every release.
            program = self.tree.program("tegrastats")
            if program is None:
                raise
            try:
                return TegrastatsProbe(program, chip=self.identity.chip)
            except ProbeUnavailable as second:
                raise ProbeUnavailable(f"{reason}; and {second}", reason.root_only) from second

    def probes(self) -> list[Probe]:
        """Open every sensor that answers."""
        opened: list[Probe] = []
        for build in self.builders().values():
            try:
                opened.append(build())
            except ProbeUnavailable:
                continue
        return opened

    def total_power(self) -> PowerSource | None:
        """Return which rails add up to the board's power, or None where that is not known."""
        source = self.rails.source(self.tree)
        if source is None and not self.rails.rails and self.tree.program("tegrastats"):
            return _tegrastats_source(self._power_probe)
        return source

    def findings(self) -> list[Finding]:
        """Return what can and cannot be measured and set here."""
        found = []
        for area, build in self.builders().items():
            name = _AREAS.get(area, area)
            try:
                probe = build()
            except ProbeUnavailable as reason:
                found.append(Finding(name, _WHAT[area], False, str(reason), root_fix(area, reason)))
                continue
            columns = list(probe.columns)
            found.append(Finding(name, _WHAT[area], True, ", ".join(columns[:8])))
            probe.close()
        return [*found, *self._power_findings(), *self._board_findings(), *control_findings(self)]

    def _power_findings(self) -> list[Finding]:
        found = [Finding("power", "rails", None, problem) for problem in self.rails.problems]
        if self.rails.rails and self.rails.root_only:
            detail = f"only root may read {', '.join(self.rails.root_only[:3])}: what they measure is not recorded"
            found.append(Finding("power", "rails", False, detail, read_fix(self.rails.root_only)))
        if self.rails.rails and not self.rails.total:
            labels = ", ".join(rail.label for rail in self.rails.rails)
            detail = f"which of {labels} is the total is not known for this carrier"
            example = f"total: [{self.rails.rails[0].label}]"
            fix = f"name the rails of the total in /etc/edgetrain/rails.yaml, for example: {example}"
            found.append(Finding("power", "total power", False, detail, fix))
        return found

    def _board_findings(self) -> list[Finding]:
        if self.identity.known:
            return []
        unknown = f"{self.spec.model or self.spec.module} (L4T {self.spec.l4t})"
        return [
            Finding(
                "record", "board", None, f"{unknown} is not a known board; only what Linux itself offers is measured"
            )
        ]


def _tegrastats_source(build: Callable[[], Probe]) -> PowerSource | None:
    try:
        probe = build()
    except ProbeUnavailable:
        return None
    source = probe.power_source() if isinstance(probe, TegrastatsProbe) else None
    probe.close()
    return source


def open_board(root: Path = Path("/")) -> JetsonDevice | HostDevice:
    """Return the board under `root`; a tree that is no Jetson's is measured as plain Linux."""
    tree = Tree(root)
    identity = identify(tree)
    return HostDevice(root) if identity is None else JetsonDevice(tree, identity)
