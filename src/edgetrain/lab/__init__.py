"""Makes this Linux machine stand in for a smaller one, with kernel mechanisms: storage medium, RAM, cores, CPU share.

The door is `Limits`, whose `applied` is a context manager over the machine held down; `limits_for` and `as_board` read
limits and presets off an experiment, `measure` proves them, `sessions` finds and removes what was set up.
"""

from edgetrain.lab.limits import Limits, as_board, limits_for, read_limits
from edgetrain.lab.queueing import Medium
from edgetrain.lab.tables import media, medium, preset, presets, step

__all__ = [
    "Limits",
    "Medium",
    "as_board",
    "limits_for",
    "media",
    "medium",
    "preset",
    "presets",
    "read_limits",
    "step",
]
