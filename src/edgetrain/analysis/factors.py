"""Stall, compute and end-to-end time per epoch by factor, cold and later epochs apart; what scaling and media say.

Input are summaries of runs; epoch 0 is the cold one where the run began cold. Numbers over repeats are medians. The
fill of the pipeline (first minibatch) is kept apart from the rest of the stall.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from edgetrain.analysis.summary import EpochSummary, Summary
from edgetrain.schema import Origin, Scalar
from edgetrain.units import spell_bytes

# A stall below this share of the compute is hidden: what is left is hand-over, not fetching.
HIDDEN_SHARE = 0.05
# Later epochs must be this much shorter for caching to pay.
PAYS_SHARE = 0.9


@dataclass(frozen=True, slots=True)
class EpochTimes:
    """Medians over runs of one kind of epoch, per epoch. None: not measured."""

    e2e_s: float
    stall_s: float | None  # fill included
    fill_s: float | None
    compute_s: float | None
    minibatches: float
    read_bytes: float | None
    cached_before: float | None

    @property
    def steady_stall_s(self) -> float | None:
        """Return the stall without the pipeline's fill."""
        return None if self.stall_s is None else max(0.0, self.stall_s - (self.fill_s or 0.0))

    @property
    def hidden(self) -> bool:
        """Return whether fetching is hidden behind compute."""
        stall_s = self.steady_stall_s
        return stall_s is not None and self.compute_s is not None and stall_s <= HIDDEN_SHARE * self.compute_s


@dataclass(frozen=True, slots=True)
class FactorRow:
    """One setting: its factor values and what its runs took."""

    factors: Mapping[str, Scalar]
    runs: tuple[str, ...]
    first_epoch: EpochTimes | None  # epoch 0
    later_epochs: EpochTimes | None  # epochs 1+
    median_epoch: EpochTimes  # median epoch of each run, as the papers report
    doubts: int
    origin: Origin | None
    page_cache_bytes: float | None = None  # what the lab left for it

    def get(self, name: str, default: Scalar = None) -> Scalar:
        """Return the value of one factor."""
        return self.factors.get(name, default)

    def number(self, name: str, default: float) -> float:
        """Return the value of a factor that is a number."""
        value = self.factors.get(name, default)
        return float(value) if isinstance(value, (int, float)) else default


# Where a dataset lies and how a core was slowed down follow from the other factors: left out of tables.
HIDDEN_FACTORS = ("dataset", "cpu_share")


def label(factors: Mapping[str, Scalar]) -> str:
    """Return a setting in words."""
    return ", ".join(f"{name} {value}" for name, value in factors.items() if name not in HIDDEN_FACTORS) or "as given"


def _median(values: Iterable[float | None]) -> float | None:
    seen = [value for value in values if value is not None]
    return statistics.median(seen) if seen else None


def _times(epochs: Sequence[EpochSummary]) -> EpochTimes | None:
    if not epochs:
        return None
    return EpochTimes(
        statistics.median(epoch.e2e_s for epoch in epochs),
        _median(epoch.fetch_stall_s for epoch in epochs),
        _median(epoch.fill_s for epoch in epochs),
        _median(epoch.compute_s for epoch in epochs),
        statistics.median(epoch.minibatches for epoch in epochs),
        _median(epoch.read_bytes for epoch in epochs),
        _median(epoch.cached_share_before for epoch in epochs),
    )


def tabulate(summaries: Iterable[Summary]) -> list[FactorRow]:
    """Group runs by their factor values; one row per setting."""
    groups: dict[str, list[Summary]] = {}
    for summary in summaries:
        if summary.epochs:
            groups.setdefault(str(sorted(summary.factors.items(), key=str)), []).append(summary)
    rows = []
    for group in groups.values():
        middle = [sorted(run.epochs, key=lambda epoch: epoch.e2e_s)[(len(run.epochs) - 1) // 2] for run in group]
        median = _times(middle)
        assert median is not None
        limits = group[0].limits
        rows.append(
            FactorRow(
                dict(group[0].factors),
                tuple(summary.run for summary in group),
                _times([run.epochs[0] for run in group]),
                _times([epoch for run in group for epoch in run.epochs[1:]]),
                median,
                sum(len(summary.doubts) for summary in group),
                group[0].origin,
                limits.asked.page_cache_bytes if limits else None,
            )
        )
    return sorted(rows, key=lambda row: [_place(value) for value in row.factors.values()])


def _place(value: Scalar) -> tuple[int, float, list[str | int]]:
    """Return what a factor's values are ordered by: numbers as numbers, also within names (16GB after 8GB)."""
    if isinstance(value, (int, float)):
        return 0, float(value), []
    return 1, 0.0, [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", str(value))]


def settings(rows: Sequence[FactorRow]) -> tuple[list[str], list[list[str]]]:
    """Return heads and cells that distinguish settings: the factors, and the page cache where it follows from them."""
    names = [name for name in dict.fromkeys(name for row in rows for name in row.factors) if name not in HIDDEN_FACTORS]
    cells = [[str(row.get(name, "")) for name in names] for row in rows]
    varies = len({row.page_cache_bytes for row in rows}) > 1
    if varies and not {"page_cache", "preset", "dataset_scale", "storage"} & set(names):
        return [*names, "page cache"], [
            [*own, spell_bytes(row.page_cache_bytes)] for own, row in zip(cells, rows, strict=True)
        ]
    return names, cells


def select(rows: Iterable[FactorRow], **wanted: Scalar) -> list[FactorRow]:
    """Return the rows whose factors have these values."""
    return [row for row in rows if all(row.get(name) == value for name, value in wanted.items())]


def one(rows: Iterable[FactorRow], **wanted: Scalar) -> FactorRow | None:
    """Return the row with these factor values, if there is exactly one."""
    found = select(rows, **wanted)
    return found[0] if len(found) == 1 else None


def hidden_media(rows: Sequence[FactorRow], order: Sequence[str], **wanted: Scalar) -> str | None:
    """Return the slowest medium whose fetching compute hides, of `order` (slowest first); None: none of them."""
    for medium in order:
        row = one(rows, storage=medium, **wanted)
        if row is not None and row.median_epoch.hidden:
            return medium
    return None


@dataclass(frozen=True, slots=True)
class Scaling:
    """How a time grows with the dataset."""

    scale: float
    ratio: float  # of the dataset, against the smallest
    e2e_ratio: float
    stall_per_minibatch_s: float


def scaling(rows: Sequence[FactorRow], **wanted: Scalar) -> list[Scaling]:
    """Return how end-to-end time and stall per minibatch follow the dataset's size, smallest first."""
    chosen = sorted(select(rows, **wanted), key=lambda row: row.number("dataset_scale", 1.0))
    found: list[Scaling] = []
    first: tuple[float, float] | None = None
    for row in chosen:
        times = row.later_epochs or row.first_epoch
        if times is None or times.stall_s is None or not times.minibatches:
            continue
        scale = row.number("dataset_scale", 1.0)
        first = first or (scale, times.e2e_s)
        found.append(Scaling(scale, scale / first[0], times.e2e_s / first[1], times.stall_s / times.minibatches))
    return found


def ram_that_pays(rows: Sequence[FactorRow], factor: str = "page_cache", **wanted: Scalar) -> Scalar:
    """Return the smallest RAM at which later epochs are clearly shorter than with the least RAM; None: at none."""
    from edgetrain.units import parse_bytes

    chosen = [row for row in select(rows, **wanted) if row.later_epochs is not None and row.get(factor) is not None]
    chosen.sort(key=lambda row: parse_bytes(str(row.get(factor))))
    if not chosen:
        return None
    least = chosen[0].later_epochs
    assert least is not None
    for row in chosen[1:]:
        if row.later_epochs is not None and row.later_epochs.e2e_s <= PAYS_SHARE * least.e2e_s:
            return row.get(factor)
    return None


SLOWEST_FIRST = ("hdd", "sd", "emmc", "ssd", "nvme")


def conclusions(rows: Sequence[FactorRow]) -> list[str]:
    """Say what the table says, where it says something: enough of a medium, RAM that pays, growth with the data."""
    found: list[str] = []
    media = [medium for medium in SLOWEST_FIRST if any(row.get("storage") == medium for row in rows)]
    if len(media) > 1:
        found += _of_media(rows, media)
    if len({str(row.get("page_cache")) for row in rows if row.get("page_cache") is not None}) > 1:
        for others in _others(rows, "page_cache"):
            pays = ram_that_pays(rows, "page_cache", **others)
            text = (
                "no page cache of these sizes shortens later epochs"
                if pays is None
                else f"a page cache of {pays} or more shortens later epochs"
            )
            found.append(f"{label(others)}: {text}")
    if len({row.get("dataset_scale") for row in rows}) > 1:
        for others in _others(rows, "dataset_scale"):
            grown = scaling(rows, **others)
            if len(grown) > 1:
                last = grown[-1]
                found.append(f"{label(others)}: {last.ratio:.3g}x the data takes {last.e2e_ratio:.3g}x the time")
    return found


def _of_media(rows: Sequence[FactorRow], media: Sequence[str]) -> list[str]:
    """Say for each other setting which medium is enough; in one sentence where it is the same for all."""
    said: dict[str, str] = {}
    for others in _others(rows, "storage"):
        enough = hidden_media(rows, media, **others)
        if enough is not None:
            said[label(others)] = f"{enough} is fast enough: compute hides its fetching"
        elif all(one(rows, storage=medium, **others) for medium in media):
            said[label(others)] = "no medium is fast enough for compute to hide its fetching"
    if len(said) > 1 and len(set(said.values())) == 1:
        return [f"at every setting of the other factors, {next(iter(said.values()))}"]
    return [f"{where}: {text}" for where, text in said.items()]


def _others(rows: Sequence[FactorRow], factor: str) -> list[dict[str, Scalar]]:
    """Return the combinations of all other factors, each once."""
    found: list[dict[str, Scalar]] = []
    for row in rows:
        # A dataset's place goes with its scale: not a factor of its own.
        others = {name: value for name, value in row.factors.items() if name not in (factor, *HIDDEN_FACTORS)}
        if factor in row.factors and others not in found:
            found.append(others)
    return found
