"""What the board is, its probes (sensors) and its controls (modes, clocks, idle states).

`detect()` gives the device we are on, `open_device("sim:orin-agx")` a named one; both are a `Device`. Whatever
a device reads, it reads with descriptors kept open, converts to our units at once, and leaves out what is not
there.
"""

from edgetrain.device.base import Device, Finding, Phased, PowerSource, Probe, Telling, detect, open_device

__all__ = ["Device", "Finding", "Phased", "PowerSource", "Probe", "Telling", "detect", "open_device"]
