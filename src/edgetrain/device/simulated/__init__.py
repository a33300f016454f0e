"""Boards for those who have none: a folder that looks like a Jetson, with a kernel and sensors that behave like one's.

`open_simulated("orin-agx")` gives a device with the same interface as a real board; time is virtual unless asked
otherwise. Whatever comes from it is `simulated`.
"""

from edgetrain.device.simulated.announced import AnnouncedLoad, announce_load, clear_load
from edgetrain.device.simulated.device import SimulatedDevice
from edgetrain.device.simulated.opening import BoardName, live_name, open_root, open_simulated
from edgetrain.device.simulated.physics import (
    POWER_RESIDUAL,
    TIME_RESIDUAL,
    BoardSpread,
    Physics,
    networks_of,
    simulated_boards,
    spread_of,
)
from edgetrain.device.simulated.pipeline import (
    DATASETS,
    READ_S,
    SimulatedTraining,
    TrainedEpoch,
    TrainingPlan,
    stream_rows,
)

__all__ = [
    "DATASETS",
    "POWER_RESIDUAL",
    "READ_S",
    "TIME_RESIDUAL",
    "AnnouncedLoad",
    "BoardName",
    "BoardSpread",
    "Physics",
    "SimulatedDevice",
    "SimulatedTraining",
    "TrainedEpoch",
    "TrainingPlan",
    "announce_load",
    "clear_load",
    "live_name",
    "networks_of",
    "open_root",
    "open_simulated",
    "simulated_boards",
    "spread_of",
    "stream_rows",
]
