"""What the board is, its probes (sensors) and its controls (modes, clocks, idle states, fan).

`detect()` gives the device we are on, `open_device("sim:orin-agx")` a named one; both are a `Device`. Whatever a device
reads, it reads with descriptors kept open, converts to our units at once, and leaves out what is not there.
`device.control()` sets power modes so that they always come back; the writes that need root are edgetrain-control's.
`load_catalogue()` gives what is published about each board.

Control, catalogue and simulated boards are imported when they are first used: the sampler beside training needs none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgetrain.device.base import (
    FAST_S,
    SLOW_S,
    Device,
    DeviceClock,
    EventSource,
    Probe,
    ProbeEvent,
    SystemClock,
)
from edgetrain.device.kept import KeptFile, text_of
from edgetrain.device.opening import detect, open_device
from edgetrain.device.proc import TICKS_PER_S
from edgetrain.device.storage import StorageMedium, medium_of, same_medium
from edgetrain.lazy import load_on_use

if TYPE_CHECKING:
    from edgetrain.device.catalog import Catalogue, load_catalogue
    from edgetrain.device.control import Control, ModeRequest
    from edgetrain.device.sessions import control_problem, install_control, may_elevate
    from edgetrain.device.simulated import (
        DATASETS,
        POWER_RESIDUAL,
        READ_S,
        TIME_RESIDUAL,
        AnnouncedLoad,
        BoardName,
        BoardSpread,
        Physics,
        SimulatedDevice,
        SimulatedTraining,
        TrainedEpoch,
        TrainingPlan,
        announce_load,
        clear_load,
        live_name,
        networks_of,
        open_simulated,
        simulated_boards,
        spread_of,
        stream_rows,
    )

__all__ = [
    "DATASETS",
    "FAST_S",
    "POWER_RESIDUAL",
    "READ_S",
    "SLOW_S",
    "TICKS_PER_S",
    "TIME_RESIDUAL",
    "AnnouncedLoad",
    "BoardName",
    "BoardSpread",
    "Catalogue",
    "Control",
    "Device",
    "DeviceClock",
    "EventSource",
    "KeptFile",
    "ModeRequest",
    "Physics",
    "Probe",
    "ProbeEvent",
    "SimulatedDevice",
    "SimulatedTraining",
    "StorageMedium",
    "SystemClock",
    "TrainedEpoch",
    "TrainingPlan",
    "announce_load",
    "clear_load",
    "control_problem",
    "detect",
    "install_control",
    "live_name",
    "load_catalogue",
    "may_elevate",
    "medium_of",
    "networks_of",
    "open_device",
    "open_simulated",
    "same_medium",
    "simulated_boards",
    "spread_of",
    "stream_rows",
    "text_of",
]

_MODULES = {
    "catalog": ("Catalogue", "load_catalogue"),
    "control": ("Control", "ModeRequest"),
    "sessions": ("control_problem", "install_control", "may_elevate"),
    "simulated": (
        "DATASETS", "POWER_RESIDUAL", "READ_S", "TIME_RESIDUAL", "AnnouncedLoad", "BoardName", "BoardSpread",
        "Physics", "SimulatedDevice", "SimulatedTraining", "TrainedEpoch", "TrainingPlan", "announce_load",
        "clear_load", "live_name", "networks_of", "open_simulated", "simulated_boards", "spread_of", "stream_rows",
    ),
}  # fmt: skip


if not TYPE_CHECKING:  # a type checker must see that other names do not exist
    __getattr__ = load_on_use(__name__, _MODULES)
