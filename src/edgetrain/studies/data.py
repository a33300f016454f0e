"""The runs of one origin, arranged so that findings can compare settings that differ in one condition."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from edgetrain.schema import PowerMode, Scalar
from edgetrain.studies.conditions import Conditions, ConditionValue
from edgetrain.studies.observations import ObservedRun
from edgetrain.studies.repeated import COLD, LATER, RepeatedRuns, group_runs
from edgetrain.studies.uncertain import Uncertain, share_seen
from edgetrain.studies.units import on_shared_units
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
# Later epochs that read less than this of the dataset do not read it again; above that they do.
NOT_AGAIN_SHARE, AGAIN_SHARE = 0.02, 0.1
# What runs of a setting read scatters by this part of it, and by this much of the dataset (metadata, other programs).
READ_SPREAD, READ_FLOOR = 0.1, 0.005

CLOCKS = ("cores", "cpu_hz", "gpu_hz", "emc_hz")  # a power mode
FactoryDefault = Callable[[str], PowerMode | None]
Key = TypeVar("Key")


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
    inseparable: list[str] = field(default_factory=list, compare=False)  # groups that ran on no common unit, in words

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

    def afresh(self) -> CampaignData:
        """Return the same data for the next statement, with nothing noted as inseparable yet."""
        return replace(self, inseparable=[])

    def families(self, name: str) -> Iterator[Family]:
        """Yield the groups that differ in one condition only and ran on the same units, two values of it or more."""
        found: dict[Conditions, dict[Scalar, RepeatedRuns]] = {}
        for group in self.groups:
            value = group.conditions.by_name()[name]
            if value is not None and not isinstance(value, tuple):
                found.setdefault(group.conditions.without(name), {})[value] = group
        if name == "workers":
            _add_workerless(found)
        for conditions, members in found.items():
            for shared in self.on_shared_units(name, conditions, members):
                yield Family(name, self.label(conditions), conditions, shared)

    def on_shared_units(
        self, name: str, conditions: Conditions, members: Mapping[Key, RepeatedRuns]
    ) -> list[dict[Key, RepeatedRuns]]:
        """Return the groups that can be compared, set by set; those that ran on other units are noted."""
        found = on_shared_units(members)
        if len(members) > 1 and (len(found) != 1 or len(found[0]) < len(members)):
            self.note_inseparable(name, conditions)
        return found

    def note_inseparable(self, name: str, conditions: Conditions) -> None:
        """Note that what was compared ran on different units."""
        self.inseparable.append(
            f"unit and {name.replace('_', ' ')} cannot be separated in {self.label(conditions)}: run all of it on the "
            "same unit"
        )

    def sibling(self, group: RepeatedRuns, conditions: Conditions) -> RepeatedRuns | None:
        """Return the runs of other conditions on the units of a group; None where there are none."""
        other = next((one for one in self.groups if one.conditions == conditions), None)
        return other.on_units(group.units) if other is not None and other.units & group.units else None

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
                if name != "loading" or value:  # without workers there is nothing to differ in
                    of_board.setdefault(name, set()).add(value)
        return {board: {name for name, values in names.items() if len(values) > 1} for board, names in seen.items()}


@dataclass(frozen=True)
class Family:
    """Groups that differ in one condition."""

    name: str
    label: str
    conditions: Conditions  # with that one left open
    members: Mapping[Scalar, RepeatedRuns]

    def media(self) -> list[tuple[str, RepeatedRuns]]:
        """Return the members by medium, slowest first; media whose order is not known are left out."""
        known = [(str(medium), group) for medium, group in self.members.items() if medium in MEDIA]
        return sorted(known, key=lambda pair: MEDIA.index(pair[0]))

    def ordered(self) -> list[tuple[float, RepeatedRuns]]:
        """Return the members by a condition that is a number, lowest first."""
        known = [(float(value), group) for value, group in self.members.items() if isinstance(value, (int, float))]
        return sorted(known, key=lambda pair: pair[0])


def _add_workerless(found: dict[Conditions, dict[Scalar, RepeatedRuns]]) -> None:
    """Add the groups without workers to those with some: how workers load ahead does not concern them."""
    for conditions, members in found.items():
        alone = found.get(replace(conditions, loading=()), {}).get(0)
        if alone is not None:
            members.setdefault(0, alone)


def fits_in_ram(group: RepeatedRuns) -> bool | None:
    """Return whether the dataset fits into the RAM left for it; None where that cannot be known.

    By the sizes and by the share that was cached; where they disagree, something else limited the cache or filled it.
    Where epochs do not cover the dataset, it is never cached as a whole.
    """
    if not group.whole:
        return None
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
    if not group.whole:
        return None
    size, limit = group.runs[0].dataset_bytes, group.conditions.page_cache_bytes
    if size and limit is not None:
        return min(1.0, limit / size)
    return 1.0 if fits_in_ram(group) else group.mean(lambda epoch: epoch.cached_share)


def read_again(group: RepeatedRuns) -> Uncertain | None:
    """Return which share of the dataset a later epoch reads from the medium; None where that was not counted."""
    shares = [
        sum(known) / len(known)
        for epochs in group.epochs(LATER)
        if (known := [epoch.read_share for epoch in epochs if epoch.read_share is not None])
    ]
    return share_seen(shares, READ_SPREAD, READ_FLOOR, len(shares)) if shares else None


def read_phase(*groups: RepeatedRuns) -> str | None:
    """Return the epochs in which all of these groups read from their medium: later ones, else the cold one."""
    if all(group.get("e2e") is not None and _reads_later(group) for group in groups):
        return LATER
    return COLD if all(group.get("e2e", COLD) is not None for group in groups) else None


def _reads_later(group: RepeatedRuns) -> bool:
    share = read_again(group)
    return fits_in_ram(group) is False if share is None else share.lo >= AGAIN_SHARE


def reading_dominates(group: RepeatedRuns) -> bool | None:
    """Return whether reading, not pre-processing, makes a cold epoch wait; None where that cannot be known."""
    share = group.mean(lambda epoch: epoch.blocked_share, COLD)
    if share is not None:
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
    if isinstance(value, tuple):
        return ", ".join(f"{key} {_shortened(one)}" for key, one in value)
    if name == "dvfs":
        return "DVFS on" if value else "DVFS off"
    if name == "minibatches":
        return f"epochs of {value} minibatches"
    if name == "power_scope":
        return f"power of the {value}"
    names = {"batch_size": "batch", "cores": "cores", "dataset_scale": "dataset scale"}
    shown = f"{value:g}" if isinstance(value, float) else str(value)
    return f"{names[name]} {shown}" if name in names else shown


def _shortened(value: str) -> str:
    """Shorten a number of many digits; other values stay as they were chosen."""
    return f"{float(value):.3g}" if re.fullmatch(r"\d+\.\d{4,}", value) else value


PHASES = {COLD: "cold epoch", LATER: "later epochs"}
