"""Reads probes on a clock, beside training, in a process of its own, at a cost it measures.

`python -m edgetrain.sampling --run DIR --device auto --dataset PATH --watch-pid PID` is the process;
`residency.share(folder)` says how much of a dataset lies in the page cache. Standard library only.
"""

from edgetrain.sampling.residency import Inventory, Residency, share
from edgetrain.sampling.sampler import Sampler

__all__ = ["Inventory", "Residency", "Sampler", "share"]
