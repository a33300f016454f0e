"""The runs of one origin, arranged so that findings can compare settings that differ in one condition."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from edgetrain.schema import PowerMode, Scalar
from edgetrain.studies.observations import Conditions, ConditionValue, ObservedRun
from edgetrain.studies.repeated import COLD, LATER, RepeatedRuns, group_runs
from edgetrain.units import HZ_PER_MHZ, spell_bytes, spell_hz

MEDIA = ("hdd", "usb", "sd", "emmc", "ssd", "nvme", "ram")  # slowest first, by their cost per image
# A dataset below this is tiny, above that large, as the papers' 46 and 150 MB against 2.8 GB; between, nothing is said.
TINY_BYTES, LARGE_BYTES = 0.2e9, 1e9
# Blocked time of a cold stall: above, reading dominates; below, pre-processing does.
READING_SHARE, PREPROCESSING_SHARE = 0.5, 0.2
# A dataset below this share of the RAM fits, above that it does not.
FITS_RAM, MISFITS_RAM = 0.25, 0.8
# Share of the dataset cached before later epochs: above, it fits into RAM; below, it does not.
FITS_SHARE, MISFITS_SHARE = 0.95, 0.6

CLOCKS = ("cores", "cpu_hz", "gpu_hz", "emc_hz")  # a power mode
FactoryDefault = Callable[[str], PowerMode | None]


def no_default(board: str) -> PowerMode | None:
    """Know no board's factory-default mode."""
    return None


@dataclass(frozen=True, slots=True)
class PrintedSpread:
    """How much epochs and units differ, as a paper prints it, as shares."""

    board: str
    network: str
    over_time: float
    across_units: float
    energy: float


@dataclass(frozen=True, slots=True)
class PrintedChange:
    """A relative change that a paper prints without the two numbers."""

    board: str
    network: str
    change: float


@dataclass(frozen=True, slots=True)
class PrintedClocks:
    """Share of time in which a clock was below 90 % of its highest with DVFS on, as a paper prints it."""

    board: str
    network: str
    part: str
    below: float


@dataclass(frozen=True, slots=True)
class Printed:
    """What a paper prints as a result only; empty for recorded runs."""

    spreads: tuple[PrintedSpread, ...] = ()
    pipelining_energy: tuple[PrintedChange, ...] = ()
    clocks: tuple[PrintedClocks, ...] = ()


@dataclass(frozen=True)
class CampaignData:
    """Runs of one origin, grouped by conditions."""

    groups: tuple[RepeatedRuns, ...]
    factory_default: FactoryDefault = no_default
    printed: Printed = field(default_factory=Printed)

    @classmethod
    def of_runs(
        cls,
        runs: list[ObservedRun],
        factory_default: FactoryDefault = no_default,
        printed: Printed | None = None,
    ) -> CampaignData:
        """Group runs by their conditions."""
        return cls(group_runs(runs), factory_default, printed or Printed())

    def keep(self, wanted: Callable[[ObservedRun], bool]) -> CampaignData:
        """Return the data with only the runs that are wanted."""
        runs = [run for group in self.groups for run in group.runs if wanted(run)]
        return CampaignData.of_runs(runs, self.factory_default, self.printed)

    def families(self, name: str) -> Iterator[Family]:
        """Yield the groups that differ in one condition only, where it has two values or more."""
        found: dict[Conditions, dict[Scalar, RepeatedRuns]] = {}
        for group in self.groups:
            value = group.conditions.by_name()[name]
            if value is not None and not isinstance(value, tuple):
                found.setdefault(group.conditions.without(name), {})[value] = group
        for conditions, members in found.items():
            if len(members) > 1:
                yield Family(name, self.label(conditions), members)

    def label(self, conditions: Conditions) -> str:
        """Return conditions in words: board, network, and whatever else differs between runs of that board."""
        words, known = [conditions.board, conditions.network], conditions.by_name()
        cores, cpu, gpu, emc = conditions.cores, conditions.cpu_hz, conditions.gpu_hz, conditions.emc_hz
        if cores and cpu and gpu and emc and self._varied[conditions.board] & set(CLOCKS):
            words.append("/".join([str(cores), *(f"{hertz / HZ_PER_MHZ:g}" for hertz in (cpu, gpu, emc))]))
            known = {name: value for name, value in known.items() if name not in CLOCKS}
        for name, value in known.items():
            if name not in ("board", "network") and value not in (None, ()) and name in self._varied[conditions.board]:
                words.append(_spell(name, value))
        return ", ".join(words)

    @functools.cached_property
    def _varied(self) -> dict[str, set[str]]:
        """The conditions that differ between runs of a board, by board."""
        seen: dict[str, dict[str, set[ConditionValue]]] = {}
        for group in self.groups:
            of_board = seen.setdefault(group.conditions.board, {})
            for name, value in group.conditions.by_name().items():
                of_board.setdefault(name, set()).add(value)
        return {board: {name for name, values in names.items() if len(values) > 1} for board, names in seen.items()}


@dataclass(frozen=True)
class Family:
    """Groups that differ in one condition."""

    name: str
    label: str
    members: Mapping[Scalar, RepeatedRuns]

    def media(self) -> list[tuple[str, RepeatedRuns]]:
        """Return the members by medium, slowest first; media whose order is not known are left out."""
        known = [(str(medium), group) for medium, group in self.members.items() if medium in MEDIA]
        return sorted(known, key=lambda pair: MEDIA.index(pair[0]))

    def ordered(self) -> list[tuple[float, RepeatedRuns]]:
        """Return the members by a condition that is a number, lowest first."""
        known = [(float(value), group) for value, group in self.members.items() if isinstance(value, (int, float))]
        return sorted(known, key=lambda pair: pair[0])


def fits_in_ram(group: RepeatedRuns) -> bool | None:
    """Return whether the dataset fits into the RAM left for it; None where that cannot be known.

    By the sizes and by the share that was cached; where they disagree, something else limited the cache or filled it.
    """
    by_size, by_share = _fits_by_size(group), _fits_by_share(group)
    if by_size is not None and by_share is not None and by_size != by_share:
        return None
    return by_share if by_size is None else by_size


def _fits_by_share(group: RepeatedRuns) -> bool | None:
    cached = group.mean(lambda epoch: epoch.cached_share)
    if cached is None:
        return None
    return True if cached >= FITS_SHARE else False if cached <= MISFITS_SHARE else None


def _fits_by_size(group: RepeatedRuns) -> bool | None:
    first, limit = group.runs[0], group.conditions.page_cache_bytes
    if first.dataset_bytes is None:
        return None
    if limit is not None:
        return first.dataset_bytes <= limit
    if first.ram_bytes is None:
        return None
    share = first.dataset_bytes / first.ram_bytes
    return True if share <= FITS_RAM else False if share >= MISFITS_RAM else None


def cached_share(group: RepeatedRuns) -> float | None:
    """Return how much of the dataset the page cache can hold; None where that cannot be known."""
    size, limit = group.runs[0].dataset_bytes, group.conditions.page_cache_bytes
    if size and limit is not None:
        return min(1.0, limit / size)
    return 1.0 if fits_in_ram(group) else group.mean(lambda epoch: epoch.cached_share)


def common_phase(*groups: RepeatedRuns) -> str | None:
    """Return the epochs in which these groups can be compared: the later ones, else the cold one; None: neither."""
    return next(
        (phase for phase in (LATER, COLD) if all(group.get("e2e", phase) is not None for group in groups)), None
    )


def reading_dominates(group: RepeatedRuns) -> bool | None:
    """Return whether reading, not pre-processing, makes a cold epoch wait; None where that cannot be known."""
    blocked, stall = (group.mean(value, COLD) for value in (lambda epoch: epoch.blocked_s, lambda epoch: epoch.stall_s))
    if blocked is not None and stall:
        share = blocked / stall
        return True if share >= READING_SHARE else False if share <= PREPROCESSING_SHARE else None
    size = group.runs[0].dataset_bytes
    if size is None:
        return None
    return True if size >= LARGE_BYTES else False if size < TINY_BYTES else None


def _spell(name: str, value: ConditionValue) -> str:
    if name == "workers":
        return f"{value} worker" if value == 1 else f"{value} workers"
    if name.endswith("_hz") and isinstance(value, int):
        return f"{name.removesuffix('_hz').upper()} {spell_hz(value)}"
    if name == "page_cache_bytes" and isinstance(value, int):
        return f"page cache {spell_bytes(value)}"
    if name == "dataset_bytes" and isinstance(value, int):
        return f"dataset {spell_bytes(value)}"
    if name == "other" and isinstance(value, tuple):
        return ", ".join(f"{key} {one}" for key, one in value)
    if name == "dvfs":
        return "DVFS on" if value else "DVFS off"
    names = {"batch_size": "batch", "cores": "cores", "dataset_scale": "dataset scale"}
    shown = f"{value:g}" if isinstance(value, float) else str(value)
    return f"{names[name]} {shown}" if name in names else shown


PHASES = {COLD: "cold epoch", LATER: "later epochs"}
