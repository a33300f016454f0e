"""Limits this Linux machine to a smaller one with kernel mechanisms: storage medium, RAM, cores, CPU share.

`limits_for` and `as_board` read limits and presets from an experiment, `resolve_limits` from settings;
`MachineLimits.applied` is a context manager that applies them. `measure_limits` proves them. `find_sessions`,
`take_down` and `remove_groups` find and remove what was set up. `media`, `presets` and `step` are the tables.

Names are loaded when first used: the slow disk's server is in this package and uses the standard library only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgetrain.lazy import load_on_use

if TYPE_CHECKING:
    from edgetrain.lab.cpu import share_for
    from edgetrain.lab.hold import Lab
    from edgetrain.lab.images import forget_images, kept_images
    from edgetrain.lab.limits import MachineLimits, as_board, limits_for, resolve_limits
    from edgetrain.lab.measure import TOLERANCE, measure_limits
    from edgetrain.lab.mechanisms import Mechanisms, find_mechanisms
    from edgetrain.lab.needs import training_bytes
    from edgetrain.lab.own_medium import measure_medium
    from edgetrain.lab.queueing import MediumModel
    from edgetrain.lab.sessions import LabSession, find_groups, find_sessions, remove_groups, take_down
    from edgetrain.lab.tables import IMAGE_BYTES, Preset, StepTime, add_medium, media, medium, preset, presets, step

_MODULES = {
    "cpu": ("share_for",),
    "hold": ("Lab",),
    "images": ("forget_images", "kept_images"),
    "limits": ("MachineLimits", "as_board", "limits_for", "resolve_limits"),
    "measure": ("TOLERANCE", "measure_limits"),
    "mechanisms": ("Mechanisms", "find_mechanisms"),
    "needs": ("training_bytes",),
    "own_medium": ("measure_medium",),
    "queueing": ("MediumModel",),
    "sessions": ("LabSession", "find_groups", "find_sessions", "remove_groups", "take_down"),
    "tables": ("IMAGE_BYTES", "Preset", "StepTime", "add_medium", "media", "medium", "preset", "presets", "step"),
}

__all__ = [
    "IMAGE_BYTES",
    "TOLERANCE",
    "Lab",
    "LabSession",
    "MachineLimits",
    "Mechanisms",
    "MediumModel",
    "Preset",
    "StepTime",
    "add_medium",
    "as_board",
    "find_groups",
    "find_mechanisms",
    "find_sessions",
    "forget_images",
    "kept_images",
    "limits_for",
    "measure_limits",
    "measure_medium",
    "media",
    "medium",
    "preset",
    "presets",
    "remove_groups",
    "resolve_limits",
    "share_for",
    "step",
    "take_down",
    "training_bytes",
]


if not TYPE_CHECKING:  # a type checker must see that other names do not exist
    __getattr__ = load_on_use(__name__, _MODULES)
