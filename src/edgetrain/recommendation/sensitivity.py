"""Sensitivity: by how many percent a quantity changes per percent of each clock and of cores.

An elasticity is d log y / d log x. Modes that differ in one factor only are compared pair by pair, which assumes
nothing about the others; where there are too few such pairs, a least-squares fit of log y on the logarithms of all
factors is used instead and marked as such.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from edgetrain.errors import UsageError
from edgetrain.prediction import FACTORS, Array, ModeTable, largest, student_quantile, varies
from edgetrain.schema import Origin

MIN_PAIRS = 3
_RESAMPLES = 400


@dataclass(frozen=True, slots=True)
class Elasticity:
    """How one quantity depends on one factor; None with the reason where the modes do not show it."""

    quantity: str
    factor: str
    value: float | None
    lo: float | None
    hi: float | None
    level: float
    method: str  # pairs | regression | none
    count: int  # pairs or modes that it is based on
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """The elasticities of all quantities, and the factor that dominates each."""

    from_: str  # where the modes are from
    modes: int
    origin: Origin
    level: float
    elasticities: tuple[Elasticity, ...]
    rules: Mapping[str, str | None]  # quantity → the factor with the largest effect
    notes: tuple[str, ...]


def sensitivity_of(
    name: str,
    modes: ModeTable,
    quantities: Mapping[str, Array],
    origin: Origin,
    level: float = 0.9,
    notes: tuple[str, ...] = (),
) -> Sensitivity:
    """Return elasticities of quantities (columns over the modes, NaN where not measured)."""
    found = elasticities(modes, quantities, level)
    rules = {quantity: dominant(found, quantity) for quantity in quantities}
    return Sensitivity(name, len(modes), origin, level, tuple(found), rules, notes)


def elasticities(
    modes: ModeTable, quantities: Mapping[str, Array], level: float = 0.9, seed: int = 0
) -> list[Elasticity]:
    """Return the elasticity of each quantity (a column, NaN where not measured) to each factor."""
    if len(modes) < 2:
        raise UsageError("sensitivity compares modes, and there is only one; give a table with several")
    found: list[Elasticity] = []
    for quantity, values in quantities.items():
        known = np.isfinite(values) & (values > 0)
        table, logs = modes.take(known), np.log(values[known])
        fitted = _regress(table, logs, level)
        for place, factor in enumerate(FACTORS):
            pairs = _pairs(table, factor)
            if len(pairs) >= MIN_PAIRS:
                found.append(_from_pairs(quantity, factor, table, logs, pairs, level, seed))
            elif fitted is not None and np.isfinite(fitted[0][place]):
                value, half = float(fitted[0][place]), float(fitted[1][place])
                found.append(
                    Elasticity(quantity, factor, value, value - half, value + half, level, "regression", len(table))
                )
            else:
                reason = _why_not(table, factor)
                found.append(Elasticity(quantity, factor, None, None, None, level, "none", len(pairs), reason))
    return found


def _why_not(table: ModeTable, factor: str) -> str:
    column = table.factor(factor)
    if len(column) and largest(column) is None:
        return f"{factor} is not known, or the board has no such clock"
    if not varies(column):
        return f"{factor} did not vary"
    return f"too few modes that differ only in {factor}, and too few in total for a fit"


def _pairs(table: ModeTable, factor: str) -> list[tuple[int, int]]:
    """Return neighbours along one factor, all others equal."""
    others = [table.factor(name) for name in FACTORS if name != factor]
    if table.batch_size is not None:
        others.append(table.batch_size)
    groups: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for row in range(len(table)):
        groups[tuple(f"{column[row]:.0f}" for column in others)].append(row)
    column = table.factor(factor)
    pairs = []
    for rows in groups.values():
        rows.sort(key=lambda row: float(column[row]))
        pairs += [(low, high) for low, high in itertools.pairwise(rows) if column[high] > column[low]]
    return pairs


def _from_pairs(
    quantity: str, factor: str, table: ModeTable, logs: Array, pairs: list[tuple[int, int]], level: float, seed: int
) -> Elasticity:
    """Weight pairs by the length of their step, as small steps are mostly noise; resample pairs for the interval."""
    low, high = (np.array(side) for side in zip(*pairs, strict=True))
    column = table.factor(factor)
    steps = np.log(column[high] / column[low])
    changes = logs[high] - logs[low]
    value = float(changes.sum() / steps.sum())
    drawn = np.random.default_rng(seed).integers(0, len(pairs), (_RESAMPLES, len(pairs)))
    resampled = changes[drawn].sum(axis=1) / steps[drawn].sum(axis=1)
    lo, hi = np.quantile(resampled, [(1 - level) / 2, (1 + level) / 2])
    return Elasticity(quantity, factor, value, float(lo), float(hi), level, "pairs", len(pairs))


def _regress(table: ModeTable, logs: Array, level: float) -> tuple[Array, Array] | None:
    """Return slopes and half-widths, NaN where a factor did not vary; None where the modes do not determine them."""
    columns = [np.log(table.factor(name)) for name in FACTORS]
    varied = [place for place, column in enumerate(columns) if varies(column)]
    design = np.stack([np.ones(len(logs)), *(columns[place] for place in varied)], axis=1) if len(logs) else None
    if design is None or len(logs) <= design.shape[1] or np.linalg.matrix_rank(design) < design.shape[1]:
        return None
    solution, _, _, _ = np.linalg.lstsq(design, logs, rcond=None)
    free = len(logs) - design.shape[1]
    variance = float(((logs - design @ solution) ** 2).sum()) / free
    covariance = variance * np.linalg.inv(design.T @ design)
    half = student_quantile(0.5 + level / 2, float(free)) * np.sqrt(np.diag(covariance))
    slopes, halves = np.full(len(FACTORS), np.nan), np.full(len(FACTORS), np.nan)
    slopes[varied], halves[varied] = solution[1:], half[1:]
    return slopes, halves


def dominant(found: list[Elasticity], quantity: str) -> str | None:
    """Return the factor with the largest effect on a quantity whose interval excludes zero."""
    sure = [
        e
        for e in found
        if e.quantity == quantity
        and e.value is not None
        and e.lo is not None
        and e.hi is not None
        and (e.lo > 0 or e.hi < 0)
    ]
    return max(sure, key=lambda e: abs(e.value or 0.0)).factor if sure else None
