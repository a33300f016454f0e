"""How much epochs of each setting of a campaign differ, as a short overview; `variability` has the intervals."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from edgetrain.analysis.summary import EpochSummary, Summary
from edgetrain.schema import Scalar


@dataclass(frozen=True, slots=True)
class Spread:
    """Coefficients of variation, as shares. None where there are too few to say."""

    setting: Mapping[str, Scalar]
    measure: str
    units: int
    runs: int
    epochs: int
    mean: float
    within: float | None  # over the epochs of one unit, mean over units
    between: float | None  # of the units' medians
    spread: float | None  # (largest - smallest) / smallest of the units' medians, as the papers give it


def coefficient(values: Sequence[float]) -> float | None:
    """Return standard deviation over mean; None for fewer than two values or a mean of 0."""
    if len(values) < 2:
        return None
    mean = statistics.fmean(values)
    return statistics.stdev(values) / mean if mean else None


def unit_of(summary: Summary) -> str:
    """Return which unit a run was made on: its serial, else its host name, else the name of its device."""
    device = summary.device
    return device.serial or device.host or device.name or "unknown"


def spreads(summaries: Iterable[Summary], measure: str = "e2e_s", skip_first: bool = True) -> list[Spread]:
    """Return the spread of one number per epoch, setting by setting; the first (cold) epoch is left out."""
    settings: dict[str, list[Summary]] = {}
    for summary in summaries:
        key = str([summary.workload.network, sorted(summary.factors.items(), key=str)])
        settings.setdefault(key, []).append(summary)
    found = []
    for group in settings.values():
        by_unit: dict[str, list[float]] = {}
        for summary in group:
            epochs: Sequence[EpochSummary] = summary.epochs
            epochs = epochs[1:] if skip_first and len(epochs) > 1 else epochs
            values = [getattr(epoch, measure) for epoch in epochs]
            by_unit.setdefault(unit_of(summary), []).extend(float(value) for value in values if value is not None)
        by_unit = {unit: values for unit, values in by_unit.items() if values}
        if by_unit:
            found.append(_spread(group, measure, by_unit))
    return found


def _spread(group: Sequence[Summary], measure: str, by_unit: Mapping[str, Sequence[float]]) -> Spread:
    medians = [statistics.median(values) for values in by_unit.values()]
    within = [one for one in map(coefficient, by_unit.values()) if one is not None]
    everything = [value for values in by_unit.values() for value in values]
    return Spread(
        dict(group[0].factors),
        measure,
        len(by_unit),
        len(group),
        len(everything),
        statistics.fmean(everything),
        statistics.fmean(within) if within else None,
        coefficient(medians),
        (max(medians) - min(medians)) / min(medians) if len(medians) > 1 and min(medians) > 0 else None,
    )
