"""The limits of a search for loader arguments, and one trial of it."""

from __future__ import annotations

from dataclasses import dataclass

from edgetrain.schema import LoaderArguments, LoaderMeasurement


@dataclass(frozen=True, slots=True)
class SearchLimits:
    """What the search may use."""

    max_workers: int
    ram_bytes: int | None = None
    trials: int = 11
    minimize: str = "time"  # time | energy
    max_power_w: float | None = None
    change_workers: bool = True  # False: the dataset is a stream, of which each worker would deliver a copy


@dataclass(frozen=True, slots=True)
class SearchTrial:
    """One trial of a search: what was asked, why, and what came of it.

    States: `measured`; `doubtful`: measured, and measured again because of a doubt; without a measurement `failed`,
    `ignored`, `memory`, `refused`, `too_short`, `writes` (ended before the script changed a file).
    """

    arguments: LoaderArguments
    role: str  # start | candidate | repeat
    measured: LoaderMeasurement | None
    state: str
    reason: str | None = None
