"""Which readings of a device are its power, and how wrong each of them can be."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PowerSource:
    """Which readings are the whole device's power.

    `columns` are summed; they never contain one another, so nothing is counted twice. Where the device counts energy
    itself, `counter_column` names that reading in the same stream, and it is preferred.
    """

    stream: str  # the probe's name
    columns: tuple[str, ...]
    counter_column: str | None = None  # joules since some instant, never falling
    scope: str = "module"  # module | board | gpu | cpu package
    # Time after which the record shows a change: the sensor's averaging window or the sampling interval, the longer.
    refresh_s: float | None = None
    quantum_w: float | None = None  # smallest step of the sum
