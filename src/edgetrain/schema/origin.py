"""Where a value comes from, and which of two origins is the weaker."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum


class Origin(str, Enum):
    """Every value knows its origin. Strongest first."""

    MEASURED = "measured"  # read off this hardware, in this run
    REPLAYED = "replayed"  # from somebody's record
    EMULATED = "emulated"  # really run, under lab limits or with a paced accelerator
    PUBLISHED = "published"  # from a source we cite
    SIMULATED = "simulated"  # computed by a model of the hardware
    PREDICTED = "predicted"  # computed by a predictor

    def __str__(self) -> str:
        return self.value


_ORDER = {origin: rank for rank, origin in enumerate(Origin)}


def weakest(origins: Iterable[Origin]) -> Origin:
    """Return the origin that a value derived from all of these carries."""
    return max(origins, key=_ORDER.__getitem__)
