"""Lab limits as they were applied: what was asked for, in base units, and what was got by which mechanism."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class StorageModel:
    """A storage medium as a queue: seconds per read, bytes per second, reads served at once."""

    name: str
    read_s: float
    bytes_per_s: float
    at_once: int = 1
    gain: tuple[tuple[int, float], ...] = ()  # queue depth, factor by which positioning gets faster
    source: str = ""

    def faster(self, speed: float) -> StorageModel:
        """Return the same medium with every time divided by `speed`."""
        return replace(self, read_s=self.read_s / speed, bytes_per_s=self.bytes_per_s * speed)


@dataclass(frozen=True, slots=True)
class LimitsAsked:
    """The smaller machine that this one is limited to. None: not limited."""

    storage: StorageModel | None = None
    ram_bytes: int | None = None
    taken_bytes: int | None = None  # of the RAM, what system and training hold; the rest is page cache
    page_cache_bytes: int | None = None
    cores: int | None = None
    cpu_share: float | None = None
    accelerator: str | None = None  # how a step is made to take its time, in words
    speed: float | None = None  # every time divided by this


@dataclass(frozen=True, slots=True)
class ReadsServed:
    """What the slow disk has served."""

    reads: int
    read_bytes: int
    late_s: float  # sum over reads of how late the answers were


@dataclass(frozen=True, slots=True)
class StorageGot:
    """By which mechanism storage was slowed down, and what it served."""

    medium: str
    by: str
    device: str | None = None
    floor_s: float | None = None  # what one image-sized read costs through the mechanism alone
    held_in_memory: bool | None = None
    bytes_per_s: float | None = None
    served: ReadsServed | None = None


@dataclass(frozen=True, slots=True)
class RamGot:
    """The page cache that was left, and the most that was in use."""

    page_cache_bytes: int | None = None
    by: str | None = None
    most_cache_bytes: int | None = None
    most_other_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class CoresGot:
    """The cores that were used."""

    cores: int
    which: tuple[int, ...]
    by: str


@dataclass(frozen=True, slots=True)
class CpuShareGot:
    """The speed each core had, as a share of its own."""

    share: float
    by: str
    quota_cores: float | None = None


@dataclass(frozen=True, slots=True)
class LimitsGot:
    """What was got of each limit; None where it was not asked for."""

    storage: StorageGot | None = None
    ram: RamGot | None = None
    cores: CoresGot | None = None
    cpu_share: CpuShareGot | None = None
