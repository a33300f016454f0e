"""Boards for those who have none: a folder that looks like a Jetson, a kernel and sensors that behave like one's.

`open_simulated("orin-agx")` gives a device with the same door as a real board; time is virtual unless asked
otherwise. Whatever comes from it is `simulated`.
"""

from edgetrain.device.simulated.device import SimulatedDevice, open_root, open_simulated

__all__ = ["SimulatedDevice", "open_root", "open_simulated"]
