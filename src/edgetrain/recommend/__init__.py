"""Decides: the best setting within limits, with how sure each limit is, and the right hardware.

`choose` answers a `Goal` from what is measured and predicted; `confirm` does so with a few measurements, never
returning a mode seen over a limit; `search` needs neither table nor prior; `frontier` is what nothing beats.
"""

from __future__ import annotations

from edgetrain.recommend.choose import Choice, Pick, choose
from edgetrain.recommend.confirm import Confirmed, confirm
from edgetrain.recommend.frontier import frontier, frontier_with_intervals, knee, losses
from edgetrain.recommend.goals import Goal, Limits, Work
from edgetrain.recommend.outlook import Candidates
from edgetrain.recommend.search import search

__all__ = [
    "Candidates",
    "Choice",
    "Confirmed",
    "Goal",
    "Limits",
    "Pick",
    "Work",
    "choose",
    "confirm",
    "frontier",
    "frontier_with_intervals",
    "knee",
    "losses",
    "search",
]
