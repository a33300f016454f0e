"""Reads probes on a schedule, in a separate process beside training, and measures its own cost. Standard library only.

`python -m edgetrain.sampling --run DIR --device auto --dataset PATH --watch-pid PID` is the process; `share(folder)` is
the part of a dataset that lies in the page cache; `examine` and `sampling_cost` are what `doctor` reports, imported
when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgetrain.lazy import load_on_use
from edgetrain.sampling.residency import Inventory, Residency, share
from edgetrain.sampling.sampler import Sampler, SamplerAccount
from edgetrain.sampling.schedule import encoding_of

if TYPE_CHECKING:
    from edgetrain.sampling.checkup import examine, sampling_cost

__all__ = ["Inventory", "Residency", "Sampler", "SamplerAccount", "encoding_of", "examine", "sampling_cost", "share"]

if not TYPE_CHECKING:  # a type checker must see that other names do not exist
    __getattr__ = load_on_use(__name__, {"checkup": ("examine", "sampling_cost")})
