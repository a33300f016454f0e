"""The protocol by which the reasoning half asks for a measurement without touching hardware.

What closes a loop (active planning, confirming a choice, guided search) takes a `Measure`; `cli` hands it the
runner on a board, a simulated board, or a table. It is narrower than a whole Run: these loops need a mode's
time and power, and a table has nothing else to give.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from edgetrain.schema.device import PowerMode
from edgetrain.schema.origin import Origin


@dataclass(frozen=True, slots=True)
class ModeMeasurement:
    """Time and power of one workload in one power mode, steady state."""

    mode: PowerMode
    time_s: float  # median minibatch
    power_w: float  # median of the total rail
    origin: Origin
    time_mean_s: float | None = None  # mean minibatch: what epochs follow
    peak_power_w: float | None = None  # largest 1 s mean
    temp_c: float | None = None
    cost_s: float = 0.0  # what taking this measurement took, settling included
    run: str | None = None


class Measure(Protocol):
    """Measures one power mode; raises DeviceError when the mode cannot be held."""

    def __call__(self, mode: PowerMode) -> ModeMeasurement: ...
