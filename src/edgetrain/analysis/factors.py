"""Stall, compute and end-to-end time per epoch by factor, cold and later epochs apart; what scaling and media say.

Input are the documents of runs (`Digest.document()`); epoch 0 is the cold one where the run began cold. Numbers over
repeats are medians. The pipeline's fill (first minibatch) is kept apart from the rest of the stall.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from edgetrain.units import spell_bytes

# A stall below this share of the compute is hidden: what is left is hand-over, not fetching.
HIDDEN_SHARE = 0.05
# Later epochs must be this much shorter for caching to pay.
PAYS_SHARE = 0.9


@dataclass(frozen=True, slots=True)
class EpochTimes:
    """Medians over runs of one kind of epoch, per epoch. None: not measured."""

    e2e_s: float
    stall_s: float  # fill included
    fill_s: float
    compute_s: float
    minibatches: float
    read_bytes: float | None
    cached_before: float | None

    @property
    def steady_stall_s(self) -> float:
        """Return the stall without the pipeline's fill."""
        return max(0.0, self.stall_s - self.fill_s)

    @property
    def hidden(self) -> bool:
        """Return whether fetching is hidden behind compute."""
        return self.steady_stall_s <= HIDDEN_SHARE * self.compute_s


@dataclass(frozen=True, slots=True)
class Row:
    """One setting: its factor values and what its runs took."""

    factors: Mapping[str, Any]
    runs: tuple[str, ...]
    first: EpochTimes | None  # epoch 0
    later: EpochTimes | None  # epochs 1+
    median: EpochTimes  # median epoch of each run, as the papers report
    doubts: int
    origin: str | None
    page_cache_bytes: float | None = None  # what the lab left for it

    def get(self, name: str, default: Any = None) -> Any:
        """Return one factor's value."""
        return self.factors.get(name, default)


# Where a dataset lies and how a core was slowed follow from the other factors: not what people read a table for.
UNTOLD = ("dataset", "cpu_share")


def label(factors: Mapping[str, Any]) -> str:
    """Return a setting in words."""
    return ", ".join(f"{name} {value}" for name, value in factors.items() if name not in UNTOLD) or "as given"


def _median(values: Iterable[float | None]) -> float | None:
    seen = [value for value in values if value is not None]
    return statistics.median(seen) if seen else None


def _times(epochs: Sequence[Mapping[str, Any]]) -> EpochTimes | None:
    if not epochs:
        return None

    def of(name: str) -> float:
        return float(_median(epoch.get(name) for epoch in epochs) or 0.0)

    return EpochTimes(
        of("e2e_s"),
        of("fetch_stall_s"),
        of("fill_s"),
        of("compute_s"),
        of("minibatches"),
        _median(epoch.get("read_bytes") for epoch in epochs),
        _median(epoch.get("cached_share_before") for epoch in epochs),
    )


def tabulate(documents: Iterable[Mapping[str, Any]]) -> list[Row]:
    """Group runs by their factor values; one row a setting."""
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for document in documents:
        if document.get("epochs"):
            groups.setdefault(str(sorted((document.get("factors") or {}).items())), []).append(document)
    rows = []
    for group in groups.values():
        epochs = [list(document["epochs"]) for document in group]
        middle = [sorted(run, key=lambda epoch: float(epoch["e2e_s"]))[(len(run) - 1) // 2] for run in epochs]
        median = _times(middle)
        assert median is not None
        rows.append(
            Row(
                dict(group[0].get("factors") or {}),
                tuple(str(document["run"]) for document in group),
                _times([run[0] for run in epochs]),
                _times([epoch for run in epochs for epoch in run[1:]]),
                median,
                sum(len(document.get("doubts") or ()) for document in group),
                group[0].get("origin"),
                ((group[0].get("limits") or {}).get("asked") or {}).get("page_cache_bytes"),
            )
        )
    return sorted(rows, key=lambda row: [_place(value) for value in row.factors.values()])


def _place(value: Any) -> tuple[int, float, list[str | int]]:
    """Return what a factor's values are ordered by: numbers as numbers, also within names (16GB after 8GB)."""
    if isinstance(value, (int, float)):
        return 0, float(value), []
    return 1, 0.0, [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", str(value))]


def settings(rows: Sequence[Row]) -> tuple[list[str], list[list[str]]]:
    """Return heads and cells that tell settings apart: the factors, and the page cache where it follows from them."""
    names = [name for name in dict.fromkeys(name for row in rows for name in row.factors) if name not in UNTOLD]
    cells = [[str(row.get(name, "")) for name in names] for row in rows]
    varies = len({row.page_cache_bytes for row in rows}) > 1
    if varies and not {"page_cache", "preset", "dataset_scale", "storage"} & set(names):
        return [*names, "page cache"], [
            [*own, spell_bytes(row.page_cache_bytes)] for own, row in zip(cells, rows, strict=True)
        ]
    return names, cells


def select(rows: Iterable[Row], **wanted: Any) -> list[Row]:
    """Return the rows whose factors have these values."""
    return [row for row in rows if all(row.get(name) == value for name, value in wanted.items())]


def one(rows: Iterable[Row], **wanted: Any) -> Row | None:
    """Return the row with these factor values, if there is exactly one."""
    found = select(rows, **wanted)
    return found[0] if len(found) == 1 else None


def hidden_media(rows: Sequence[Row], order: Sequence[str], **wanted: Any) -> str | None:
    """Return the slowest medium whose fetching compute hides, of `order` (slowest first); None: none of them."""
    for medium in order:
        row = one(rows, storage=medium, **wanted)
        if row is not None and row.median.hidden:
            return medium
    return None


@dataclass(frozen=True, slots=True)
class Scaling:
    """How a time grows with the dataset."""

    scale: float
    ratio: float  # of the dataset, against the smallest
    e2e_ratio: float
    stall_per_minibatch_s: float


def scaling(rows: Sequence[Row], factor: str = "dataset_scale", later: bool = True, **wanted: Any) -> list[Scaling]:
    """Return how end-to-end time and stall per minibatch follow the dataset's size, smallest first."""
    chosen = sorted(select(rows, **wanted), key=lambda row: float(row.get(factor, 1.0)))
    found: list[Scaling] = []
    first: tuple[float, float] | None = None
    for row in chosen:
        times = row.later if later and row.later else row.first
        if times is None or not times.minibatches:
            continue
        scale = float(row.get(factor, 1.0))
        first = first or (scale, times.e2e_s)
        found.append(Scaling(scale, scale / first[0], times.e2e_s / first[1], times.stall_s / times.minibatches))
    return found


def ram_that_pays(rows: Sequence[Row], factor: str = "page_cache", **wanted: Any) -> Any | None:
    """Return the smallest RAM at which later epochs are clearly shorter than with the least RAM; None: at none."""
    from edgetrain.units import parse_bytes

    chosen = [row for row in select(rows, **wanted) if row.later is not None and row.get(factor) is not None]
    chosen.sort(key=lambda row: parse_bytes(str(row.get(factor))))
    if not chosen:
        return None
    least = chosen[0].later
    assert least is not None
    for row in chosen[1:]:
        if row.later is not None and row.later.e2e_s <= PAYS_SHARE * least.e2e_s:
            return row.get(factor)
    return None


SLOWEST_FIRST = ("hdd", "sd", "emmc", "ssd", "nvme")


def conclusions(rows: Sequence[Row]) -> list[str]:
    """Say what the table says, where it says something: enough of a medium, RAM that pays, growth with the data."""
    found = []
    media = [medium for medium in SLOWEST_FIRST if any(row.get("storage") == medium for row in rows)]
    if len(media) > 1:
        for others in _others(rows, "storage"):
            enough = hidden_media(rows, media, **others)
            where = label(others)
            if enough is not None:
                found.append(f"{where}: {enough} is enough, compute hides its fetching")
            elif all(one(rows, storage=medium, **others) for medium in media):
                found.append(f"{where}: no medium is fast enough to be hidden by compute")
    if len({str(row.get("page_cache")) for row in rows if row.get("page_cache") is not None}) > 1:
        for others in _others(rows, "page_cache"):
            pays = ram_that_pays(rows, "page_cache", **others)
            text = (
                "caching pays at none of the sizes"
                if pays is None
                else f"caching begins to pay at a page cache of {pays}"
            )
            found.append(f"{label(others)}: {text}")
    if len({row.get("dataset_scale") for row in rows}) > 1:
        for others in _others(rows, "dataset_scale"):
            grown = scaling(rows, **others)
            if len(grown) > 1:
                last = grown[-1]
                found.append(f"{label(others)}: {last.ratio:.3g}x the data takes {last.e2e_ratio:.3g}x the time")
    return found


def _others(rows: Sequence[Row], factor: str) -> list[dict[str, Any]]:
    """Return the combinations of all other factors, each once."""
    found: list[dict[str, Any]] = []
    for row in rows:
        # A dataset's place goes with its scale: not a factor of its own.
        others = {name: value for name, value in row.factors.items() if name not in (factor, *UNTOLD)}
        if factor in row.factors and others not in found:
            found.append(others)
    return found
