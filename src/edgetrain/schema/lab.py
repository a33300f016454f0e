"""What `edgetrain lab` reports: limits that are up, sessions, mechanisms, measured limits."""

from __future__ import annotations

from dataclasses import dataclass

from edgetrain.schema.limits import LimitsAsked, LimitsGot, StorageModel
from edgetrain.schema.origin import Origin


@dataclass(frozen=True, slots=True)
class LabUp:
    """Limits that stay until `lab down`, and how to start a program under them."""

    session: str
    origin: Origin
    asked: LimitsAsked
    got: LimitsGot
    doubts: tuple[str, ...]
    dataset: str | None  # where the dataset is on the emulated medium
    prefix: tuple[str, ...]
    environment: dict[str, str]


@dataclass(frozen=True, slots=True)
class LabPreview:
    """What `lab up` would limit, and what it lacks here."""

    would_hold: LimitsAsked
    missing: dict[str, str]  # what the slow disk needs and does not find, with the reason
    cgroups: int  # version; 0: none


@dataclass(frozen=True, slots=True)
class SessionFacts:
    """One use of the lab on this machine."""

    session: str
    leftover: bool  # its process was killed
    held: bool  # stays until `lab down`
    owner: int | None  # process
    mounts: tuple[str, ...]
    loops: tuple[str, ...]
    servers: tuple[int, ...]
    got: LimitsGot | None


@dataclass(frozen=True, slots=True)
class LabDown:
    """What `lab down` removed, or would remove."""

    removed: tuple[SessionFacts, ...]
    would_remove: tuple[SessionFacts, ...]
    groups: tuple[str, ...]
    stayed: tuple[str, ...]  # could not be removed, and why


@dataclass(frozen=True, slots=True)
class LabMechanisms:
    """Which kernel mechanisms this machine offers."""

    storage: str  # "slow disk", or what is missing for it
    cgroups: int  # version; 0: none
    memory: bool
    cpu: bool
    cpuset: bool
    blkio: bool


@dataclass(frozen=True, slots=True)
class LabStatus:
    """What the lab limits right now, and what it could."""

    sessions: tuple[SessionFacts, ...]
    mechanisms: LabMechanisms
    images: int  # disk images kept for next time
    images_bytes: int


@dataclass(frozen=True, slots=True)
class LimitProof:
    """One limit, asked against got, in one unit."""

    limit: str
    what: str
    unit: str
    asked: float
    got: float | None
    by: str
    judged: bool  # false where the mechanism promises no such thing
    off: float | None  # share by which got differs from asked
    holds: bool | None  # within the tolerance; None where not judged


@dataclass(frozen=True, slots=True)
class LabMeasured:
    """Every limit that this machine can apply, measured; or a storage medium of this machine."""

    origin: Origin
    tolerance: float
    limits: tuple[LimitProof, ...]
    media: tuple[StorageModel, ...] = ()
