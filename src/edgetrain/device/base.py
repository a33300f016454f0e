"""The door of `device`: what a probe, a power source and a device are, and how one is found.

    device = detect()                       the machine we are on
    device = open_device("sim:orin-agx")    or one that is named
    for probe in device.probes(): probe.read()

A device opens its sensors in `probes()` and never before, so that describing a board costs nothing.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from edgetrain.errors import UsageError
from edgetrain.schema import DeviceSpec

# Cheap readings (files of /proc and /sys that cost microseconds) at 10 Hz; DESIGN.md.
CHEAP_S = 0.1
# Readings that cost more, or that cannot change quickly: temperatures, memory.
SLOW_S = 1.0


@runtime_checkable
class Probe(Protocol):
    """Reads one instant of one part of the device.

    A probe never sleeps, averages or caches: when to read is the sampler's business, and what readings mean
    is analysis. It raises ProbeUnavailable when built, not when read, so that a run knows what it will have
    before it starts. A reading that fails later (EAGAIN, a core gone offline, nonsense) is NaN, and the rest of
    the row stands.
    """

    name: str  # the stream: `samples-<name>.ets`
    period_s: float  # how often it is worth reading; may change between reads
    columns: Sequence[str]  # units last: `gpu_rail_w`, `soc_temp_c`; fixed once built

    def read(self) -> Sequence[float]:
        """Return one value per column, NaN where nothing was read."""

    def close(self) -> None:
        """Give the descriptors back; safe to call twice."""


@runtime_checkable
class Phased(Protocol):
    """A probe that knows when its sensor refreshes, and so when the next reading is worth its cost."""

    def next_read_us(self, now_us: int) -> int:
        """Return the instant (monotonic, µs) of the next reading; called after each read."""


@runtime_checkable
class Telling(Protocol):
    """A probe that notices things worth an event: a throttle, an over-current alarm, clocks others changed."""

    def told(self) -> Iterable[tuple[str, str]]:
        """Return (kind, text) of what was noticed since the last call; called after each read."""


@dataclass(frozen=True, slots=True)
class PowerSource:
    """Which readings are the whole device's power, and how wrong each of them can be.

    `columns` are summed; they never contain one another, so nothing is counted twice. Where the device counts
    energy itself, `counter_column` names that reading in the same stream, and it is to be preferred.
    """

    stream: str  # the probe's name
    columns: tuple[str, ...]
    counter_column: str | None = None  # joules since some instant, never falling
    scope: str = "module"  # module | board | gpu | cpu package
    refresh_s: float | None = None  # how often the record can show a new value: sensor or sampler, the slower
    quantum_w: float | None = None  # smallest step of the sum

    def document(self) -> dict[str, Any]:
        """Return it as the manifest keeps it."""
        return {
            "stream": self.stream,
            "columns": list(self.columns),
            "counter_column": self.counter_column,
            "scope": self.scope,
            "refresh_s": self.refresh_s,
            "quantum_w": self.quantum_w,
        }


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that can or cannot be measured or set here; `edgetrain doctor` is a list of these."""

    area: str  # cpu | memory | storage | gpu | power | temperature | control | lab | training | record
    what: str
    works: bool | None  # None: not looked at, or of no matter here
    detail: str = ""  # what was found, or why not
    fix: str | None = None  # the exact command that would mend it

    def document(self) -> dict[str, Any]:
        """Return it as `doctor --json` shows it."""
        return {
            "area": self.area,
            "what": self.what,
            "works": self.works,
            "detail": self.detail,
            "fix": self.fix,
        }


@runtime_checkable
class Device(Protocol):
    """A board or machine that trains."""

    spec: DeviceSpec

    def probes(self) -> list[Probe]:
        """Open every sensor that answers. A missing one is left out and told by `findings`, never raised."""

    def total_power(self) -> PowerSource | None:
        """Return what counts as the device's power, or None where it has no such sensor."""

    def findings(self) -> list[Finding]:
        """Return what can and cannot be measured and set here, and what would mend it."""

    def modes(self) -> Any | None:
        """Return the board's space of power modes, or None where it has none."""

    def control(self) -> Any | None:
        """Return what sets and restores power modes, or None where nothing can be set."""


def is_jetson(root: Path) -> bool:
    """Return whether the tree under `root` is a Jetson's."""
    if (root / "etc/nv_tegra_release").exists():
        return True
    for name in ("proc/device-tree/compatible", "sys/firmware/devicetree/base/compatible"):
        try:
            # Containers on a board lack nv_tegra_release, but the device tree shows through.
            if b"nvidia,tegra" in (root / name).read_bytes():
                return True
        except OSError:
            continue
    return False


def detect(root: Path = Path("/")) -> Device:
    """Return the device whose /proc and /sys lie under `root`."""
    if is_jetson(root):
        return _open("edgetrain.device.jetson.board", "open_board", root)
    from edgetrain.device.host import HostDevice

    return HostDevice(root)


def open_device(spec: str = "auto") -> Device:
    """Return the device named `auto`, `host`, `jetson:/root/of/a/tree` or `sim:orin-agx`."""
    kind, _, rest = spec.partition(":")
    if kind == "auto" and not rest:
        return detect()
    if kind == "host":
        from edgetrain.device.host import HostDevice

        return HostDevice(Path(rest or "/"))
    if kind == "jetson":
        return _open("edgetrain.device.jetson.board", "open_board", Path(rest or "/"))
    if kind == "sim":
        return _open("edgetrain.device.simulated", "open_simulated", rest)
    raise UsageError(f"unknown device {spec!r}; write auto, host, jetson, jetson:/root/of/a/tree or sim:orin-agx")


def _open(module: str, function: str, argument: Path | str) -> Device:
    # Imported late: the catalogue of boards is no business of a run on a workstation.
    device: Device = getattr(importlib.import_module(module), function)(argument)
    return device
