"""How much epochs of one setting differ: within a unit over time, and between units."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Spread:
    """Coefficients of variation, as shares. None where there are too few to say."""

    setting: Mapping[str, Any]
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


def unit_of(document: Mapping[str, Any]) -> str:
    """Return which unit a run was made on: its serial, else its device's name."""
    device = document.get("device") or {}
    return str(device.get("serial") or device.get("name") or "unknown")


def variability(
    documents: Iterable[Mapping[str, Any]], measure: str = "e2e_s", skip_first: bool = True
) -> list[Spread]:
    """Return the spread of one number per epoch, setting by setting; the first (cold) epoch is left out."""
    settings: dict[str, list[Mapping[str, Any]]] = {}
    for document in documents:
        network = (document.get("workload") or {}).get("network")
        key = str([network, sorted((document.get("factors") or {}).items())])
        settings.setdefault(key, []).append(document)
    found = []
    for group in settings.values():
        by_unit: dict[str, list[float]] = {}
        for document in group:
            epochs = list(document.get("epochs") or ())
            epochs = epochs[1:] if skip_first and len(epochs) > 1 else epochs
            values = [float(epoch[measure]) for epoch in epochs if epoch.get(measure) is not None]
            by_unit.setdefault(unit_of(document), []).extend(values)
        by_unit = {unit: values for unit, values in by_unit.items() if values}
        if not by_unit:
            continue
        medians = [statistics.median(values) for values in by_unit.values()]
        inner = [one for one in map(coefficient, by_unit.values()) if one is not None]
        everything = [value for values in by_unit.values() for value in values]
        found.append(
            Spread(
                dict(group[0].get("factors") or {}),
                measure,
                len(by_unit),
                len(group),
                len(everything),
                statistics.fmean(everything),
                statistics.fmean(inner) if inner else None,
                coefficient(medians),
                (max(medians) - min(medians)) / min(medians) if len(medians) > 1 and min(medians) > 0 else None,
            )
        )
    return found
