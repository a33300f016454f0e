"""How far a campaign on a fleet is, what runs of a fleet, and what is wrong with its boards."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from edgetrain.schema.setting import Scalar


@dataclass(frozen=True, slots=True)
class FleetBoardProgress:
    """What one board of a campaign does now."""

    name: str
    board: str  # its kind
    state: str  # working | idle | disconnected
    for_s: float | None  # how long the experiment has run, or the board has been disconnected
    key: str | None  # of the planned run
    factors: Mapping[str, Scalar]  # of the planned run
    done: int
    failed: int
    problem: str | None  # why it could not be started


@dataclass(frozen=True, slots=True)
class FleetProgress:
    """How far a campaign on a fleet is."""

    campaign: str
    planned: int
    done: Mapping[str, str]  # planned run: id of its record
    failed: Mapping[str, str]  # planned run: last reason
    now: Mapping[str, str]  # board: planned run
    boards: tuple[FleetBoardProgress, ...] = ()
    not_restored: Mapping[str, str] = field(default_factory=dict)  # board: why its power mode was not put back
    left_s: float | None = None  # None: not known before the first run
    note: str | None = None  # what it waits for

    @property
    def complete(self) -> bool:
        """Whether every planned run has its record."""
        return len(self.done) == self.planned


@dataclass(frozen=True, slots=True)
class FleetRow:
    """One board of a fleet, or its scheduler."""

    name: str
    board: str | None
    device: str | None
    address: str | None  # None: on this machine
    labels: tuple[str, ...]
    running: bool | None  # None: its machine does not answer
    pid: int | None
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class FleetStatus:
    """What runs of a fleet."""

    fleet: str
    address: str
    kept: bool  # stays up until `fleet down`
    used: bool  # by a campaign
    rows: tuple[FleetRow, ...]


@dataclass(frozen=True, slots=True)
class FleetPreview:
    """What `fleet up` would start or `fleet down` would stop, and where: one entry per process."""

    fleet: str
    commands: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FleetCheck:
    """What was found on one board's machine; None where it was not found out."""

    name: str
    board: str
    address: str | None
    user: str | None
    device: str | None  # what the device calls itself
    python: str | None
    versions: Mapping[str, str | None]  # None: not installed
    clock_ahead_s: float | None  # of this machine's
    clock_plus_minus_s: float | None
    free_bytes: int | None
    certificate_days: float | None  # None: not made yet
    running: bool | None
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FleetDoctor:
    """What was found on all boards."""

    fleet: str
    versions: Mapping[str, str | None]  # here
    checks: tuple[FleetCheck, ...]
    problems: tuple[str, ...] = ()  # of this machine, or between boards

    @property
    def healthy(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems and not any(check.problems for check in self.checks)
