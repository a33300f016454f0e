"""By how much software versions change time or energy, on the same units where that was tried, else between units."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgetrain.analysis.variance import DRAWS, LEVEL, MeanSquare
from edgetrain.student import quantile

Array = NDArray[np.float64]
Cells = Mapping[tuple[str, str], Sequence[Array]]  # unit and software: its runs, each the logarithms of its epochs


@dataclass(frozen=True, slots=True)
class SoftwareDifference:
    """One software version against the one with the most runs."""

    software: str
    against: str
    units: int
    runs: int
    same_units: bool  # both versions ran on the same units: their differences do not count
    change: float  # as a share
    lo: float | None  # None: there are too few runs to say how uncertain it is
    hi: float | None


@dataclass(frozen=True, slots=True)
class SoftwareEffects:
    """The effects that are to be removed before units are compared."""

    offsets: Mapping[str, float]  # of the logarithm, by software; 0 for the one that others are compared with
    differences: tuple[SoftwareDifference, ...]
    lost: int  # degrees of freedom that their estimation takes from the units
    coefficient: tuple[float, float, float] | None  # standard deviation between versions and its interval


def cell_mean(runs: Sequence[Array]) -> float:
    """Return the mean over runs of their epochs' means."""
    return float(np.mean([run.mean() for run in runs]))


def software_effects(cells: Cells, within: MeanSquare | None) -> SoftwareEffects:
    """Estimate the effect of each software version; `within` is the mean square of runs of one unit and version."""
    counts: dict[str, int] = {}
    for (_, software), runs in cells.items():
        counts[software] = counts.get(software, 0) + len(runs)
    base = max(counts, key=lambda name: counts[name])
    offsets = {base: 0.0}
    differences, errors, lost = [], [], 0
    for software in counts:
        if software == base:
            continue
        offset, error, freedom, shared = _offset(cells, software, base, within)
        offsets[software] = offset
        lost += 0 if shared else 1
        errors.append((offset, error, freedom))
        reach = None if error is None else quantile(0.5 + LEVEL / 2, freedom) * error
        differences.append(
            SoftwareDifference(
                software,
                base,
                sum(1 for _, name in cells if name == software),
                counts[software],
                shared,
                math.expm1(offset),
                None if reach is None else math.expm1(offset - reach),
                None if reach is None else math.expm1(offset + reach),
            )
        )
    return SoftwareEffects(offsets, tuple(differences), lost, _coefficient(errors))


def _offset(
    cells: Cells, software: str, base: str, within: MeanSquare | None
) -> tuple[float, float | None, float, bool]:
    """Return the offset, its standard error and degrees of freedom, and whether it was seen on the same units."""
    ours = {unit: runs for (unit, name), runs in cells.items() if name == software}
    theirs = {unit: runs for (unit, name), runs in cells.items() if name == base}
    shared = [unit for unit in ours if unit in theirs]
    if shared:
        steps = np.asarray([cell_mean(ours[unit]) - cell_mean(theirs[unit]) for unit in shared])
        if len(steps) > 1:
            return float(steps.mean()), float(steps.std(ddof=1)) / math.sqrt(len(steps)), len(steps) - 1.0, True
        if within is None:
            return float(steps[0]), None, 1.0, True
        counts = 1 / len(ours[shared[0]]) + 1 / len(theirs[shared[0]])
        return float(steps[0]), math.sqrt(within.value * counts), within.freedom, True
    left, right = (np.asarray([cell_mean(runs) for runs in side.values()]) for side in (ours, theirs))
    offset = float(left.mean() - right.mean())
    if len(left) < 2 or len(right) < 2:
        return offset, None, 1.0, False
    freedom = len(left) + len(right) - 2.0
    pooled = float(((left - left.mean()) ** 2).sum() + ((right - right.mean()) ** 2).sum()) / freedom
    return offset, math.sqrt(pooled * (1 / len(left) + 1 / len(right))), freedom, False


def _coefficient(found: Sequence[tuple[float, float | None, float]]) -> tuple[float, float, float] | None:
    """Return the standard deviation between versions, which are taken as they are, not as a sample of others."""
    if not found or any(error is None for _, error, _ in found):
        return None
    value = float(np.std([0.0, *(offset for offset, _, _ in found)], ddof=1))
    if len(found) == 1:
        offset, error, freedom = found[0]
        reach = quantile(0.5 + LEVEL / 2, freedom) * (error or 0.0)
        most = (abs(offset) + reach) / math.sqrt(2)
        return value, max(0.0, abs(offset) - reach) / math.sqrt(2), most
    draw = np.random.default_rng(0)
    noise = np.stack([(error or 0.0) * draw.standard_t(freedom, DRAWS) for _, error, freedom in found])
    offsets = np.asarray([offset for offset, _, _ in found])[:, None]
    with_base = np.concatenate([np.zeros((1, DRAWS)), offsets + noise])
    # Noise adds to the spread of the draws; what it adds on average is taken off.
    extra = float(np.concatenate([np.zeros((1, DRAWS)), noise]).var(axis=0, ddof=1).mean())
    spread = np.sqrt(np.maximum(with_base.var(axis=0, ddof=1) - extra, 0.0))
    lo, hi = np.quantile(spread, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return value, min(value, float(lo)), max(value, float(hi))
