"""Decides whether two settings differ: resamples runs, then their epochs as blocks (see `resampling`).

With fewer than three runs per side the spread between runs is not known, and nothing is called different.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgetrain.analysis.resampling import LEVEL, MIN_RUNS, expansion, resampled_means
from edgetrain.analysis.summary import EpochSummary, Summary
from edgetrain.errors import UsageError

EpochValue = Callable[[EpochSummary], "float | None"]


def _stall_without_fill(epoch: EpochSummary) -> float | None:
    return None if epoch.fetch_stall_s is None else epoch.fetch_stall_s - (epoch.fill_s or 0.0)


METRICS: Mapping[str, tuple[str, EpochValue]] = {
    "e2e": ("s per minibatch, end to end", lambda epoch: epoch.e2e_s),
    "fetch_stall": (
        "s per minibatch, fetch stall without fill",
        _stall_without_fill,
    ),
    "compute": ("s per minibatch, copy and compute", lambda epoch: epoch.compute_s + (epoch.copy_s or 0.0)),
    "energy": ("J per minibatch", lambda epoch: epoch.energy_j),
}


@dataclass(frozen=True, slots=True)
class Difference:
    """How a metric of B stands to that of A. `different` is None where the runs cannot say."""

    metric: str
    unit: str
    a: float
    b: float
    change: float  # (b - a) / a
    lo: float | None
    hi: float | None
    different: bool | None
    words: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two groups of runs compared: the cold first epoch and the later ones apart."""

    a: tuple[str, ...]
    b: tuple[str, ...]
    warm: tuple[Difference, ...]  # epochs 1 and later, or all where there is one
    cold: tuple[Difference, ...]  # epoch 0

    different: bool | None = None  # whether end-to-end time differs, in the epochs after the first


def compare(a: Sequence[Summary], b: Sequence[Summary], seed: int = 0) -> Comparison:
    """Compare two groups of runs."""
    if not a or not b:
        raise UsageError("compare needs runs on both sides: edgetrain compare A1 A2 A3 -- B1 B2 B3")
    for each in (*a, *b):
        if not each.epochs and each.power_w.mean is None:
            raise UsageError(f"run {each.run} recorded nothing to compare; edgetrain show {each.run} says why")
    several = all(len(each.epochs) > 1 for each in (*a, *b))
    warm = (
        *_differences(a, b, (lambda number: number > 0) if several else (lambda number: True), seed),
        *_steady_differences(a, b, seed),
    )
    cold = tuple(_differences(a, b, lambda number: number == 0, seed)) if several else ()
    different = warm[0].different if warm else None
    return Comparison(tuple(each.run for each in a), tuple(each.run for each in b), warm, cold, different)


def _differences(
    a: Sequence[Summary], b: Sequence[Summary], wanted: Callable[[int], bool], seed: int
) -> list[Difference]:
    found = []
    for name, (unit, value) in METRICS.items():
        sides = [_values(side, value, wanted) for side in (a, b)]
        if all(sides):
            found.append(_difference(name, unit, sides[0], sides[1], seed))
    return found


def _steady_differences(a: Sequence[Summary], b: Sequence[Summary], seed: int) -> list[Difference]:
    """Compare steady minibatches alone, one value per run: short runs (a mode profiled, a log) are mostly warm-up."""
    found = []
    steady: tuple[tuple[str, str, Callable[[Summary], float | None], float], ...] = (
        ("steady", "s per minibatch, steady state only", lambda each: each.minibatch.mean_ms, 1e-3),
        ("steady_power", "W, steady state only", lambda each: each.power_w.median, 1.0),
    )
    for name, unit, value_of, scale in steady:
        known = [[value_of(each) for each in side] for side in (a, b)]
        sides = [[np.asarray([value * scale]) for value in side if value is not None] for side in known]
        if all(sides):
            found.append(_difference(name, unit, sides[0], sides[1], seed))
    return found


def _values(side: Sequence[Summary], value: EpochValue, wanted: Callable[[int], bool]) -> list[NDArray[np.float64]]:
    """Return, run by run, the metric of each epoch per minibatch; runs that lack it are left out."""
    runs = []
    for summary in side:
        epochs = [epoch for epoch in summary.epochs if wanted(epoch.epoch) and epoch.minibatches]
        per_epoch = [(value(epoch), epoch.minibatches) for epoch in epochs]
        known = [found / count for found, count in per_epoch if found is not None]
        if known:
            runs.append(np.asarray(known))
    return runs


def _difference(
    name: str, unit: str, a: list[NDArray[np.float64]], b: list[NDArray[np.float64]], seed: int
) -> Difference:
    mean_a, mean_b = (float(np.mean([run.mean() for run in side])) for side in (a, b))
    fewest = min(len(a), len(b))
    if mean_a <= 0 or mean_b <= 0:
        # No ratio can be formed, for example where the loop of one side never waited.
        same = mean_a == mean_b
        words = "none on either side" if same else f"{'A' if mean_a <= 0 else 'B'} has none"
        change = 0.0 if same else -1.0 if mean_b <= 0 else math.inf
        return Difference(name, unit, mean_a, mean_b, change, None, None, None, words)
    change = mean_b / mean_a - 1
    if fewest < MIN_RUNS:
        more = max(_runs_needed(a, b, change), MIN_RUNS) - fewest
        runs = "1 more run" if more == 1 else f"{more} more runs"
        words = f"these runs differ by {change:+.1%}; deciding whether the settings differ needs {runs} per side"
        return Difference(name, unit, mean_a, mean_b, change, None, None, None, words)
    draw = np.random.default_rng(seed)
    ratios = np.log(resampled_means(b, draw)) - np.log(resampled_means(a, draw))
    stretch = expansion(len(a) + len(b) - 2, fewest)
    centre = math.log(mean_b / mean_a)
    tail = (1 - LEVEL) / 2
    below, above = np.quantile(ratios, [tail, 1 - tail]) - centre
    lo, hi = math.exp(centre + below * stretch) - 1, math.exp(centre + above * stretch) - 1
    different = lo > 0 or hi < 0
    verdict = "they differ" if different else "no difference can be shown"
    words = f"{change:+.1%} ({LEVEL:.0%} interval {lo:+.1%} to {hi:+.1%}): {verdict}"
    return Difference(name, unit, mean_a, mean_b, change, lo, hi, different, words)


def _runs_needed(a: list[NDArray[np.float64]], b: list[NDArray[np.float64]], change: float) -> int:
    """Return how many runs per side would show a change of this size, from the spread seen so far."""
    values = [np.log(np.maximum(run, 1e-12)) for run in (*a, *b)]
    spreads = [float(run.std(ddof=1)) for run in values if len(run) > 1]
    if not spreads or change <= -1:
        return MIN_RUNS
    size = abs(math.log1p(change)) if math.isfinite(change) else 1.0
    spread = float(np.mean(spreads))
    # Two means of n runs differ visibly when their distance passes about 2.8 standard errors (95 %, power 80 %).
    return MIN_RUNS if size == 0 else min(100, math.ceil(2 * (2.8 * spread / size) ** 2))
