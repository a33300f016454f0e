"""What a device and a probe are, and the clock that both follow.

A device opens its sensors in `probes()` and never before, so that describing a board costs nothing.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from edgetrain.schema import DeviceSpec, Finding, ModeSpace, PowerSource

if TYPE_CHECKING:
    from edgetrain.device.control import Control

# Sampling intervals: readings that cost microseconds (files of /proc and /sys), and readings that cost more or that
# cannot change quickly (temperatures, memory).
FAST_S = 0.1
SLOW_S = 1.0


class DeviceClock(Protocol):
    """The time of a device: the machine's own, or a virtual one on a simulated board."""

    def now_ns(self) -> int:
        """Return the monotonic time."""

    def sleep(self, seconds: float) -> None:
        """Let time pass."""


class SystemClock:
    """The machine's own monotonic clock."""

    def now_ns(self) -> int:
        """Return the monotonic time."""
        return time.monotonic_ns()

    def sleep(self, seconds: float) -> None:
        """Sleep."""
        time.sleep(seconds)


@runtime_checkable
class Probe(Protocol):
    """Reads one instant of one part of the device.

    A probe never sleeps, averages or caches: the sampler decides when to read, and analysis decides what readings
    mean. It raises ProbeUnavailable when built, not when read, so that a run knows what it will have before it starts.
    A reading that fails later (EAGAIN, a core that went offline, nonsense) is NaN, and the rest of the row is kept.
    """

    name: str  # the stream: `samples-<name>.ets`
    period_s: float  # sampling interval; may change between reads
    columns: Sequence[str]  # units last: `gpu_rail_w`, `soc_temp_c`; fixed once built
    blocking: bool  # a read may wait for the sensor or take long: it gets a thread of its own

    def read(self) -> Sequence[float]:
        """Return one value per column, NaN where nothing was read."""

    def close(self) -> None:
        """Close the descriptors; safe to call twice."""


@dataclass(frozen=True, slots=True)
class ProbeEvent:
    """Something a probe noticed that belongs in the run's events."""

    kind: str  # throttle | over_current | other_load | doubt
    text: str


@runtime_checkable
class EventSource(Protocol):
    """A probe that notices events: a throttle, an over-current alarm, clocks that another tool changed."""

    def pop_events(self) -> Iterable[ProbeEvent]:
        """Return what was noticed since the last call; called after each read."""


@runtime_checkable
class Device(Protocol):
    """A board or machine that trains."""

    @property
    def spec(self) -> DeviceSpec:
        """What the device is."""

    @property
    def clock(self) -> DeviceClock:
        """The device's time."""

    def probes(self) -> list[Probe]:
        """Open every sensor that answers. A missing one is left out and named by `findings`, never raised."""

    def total_power(self) -> PowerSource | None:
        """Return what counts as the device's power, or None where it has no such sensor."""

    def findings(self) -> list[Finding]:
        """Return what can and cannot be measured and set here, and how to fix what cannot."""

    def modes(self) -> ModeSpace | None:
        """Return the board's space of power modes, or None where it has none."""

    def control(self) -> Control | None:
        """Return what sets and restores power modes, or None where nothing can be set."""
