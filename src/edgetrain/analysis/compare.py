"""Tells whether two settings differ: resamples runs, then their epochs as blocks, never single minibatches.

Minibatches of one run share its luck (clocks, cache, neighbours), so a thousand of them are not a thousand
observations: the run is what repeats. With fewer than three runs a side the spread between runs is not known,
and nothing is called different.

Few runs make a plain bootstrap interval too narrow: it is stretched by sqrt(n / (n - 1)) and by Student's quantile over
the normal one (Hesterberg's expanded percentile interval).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgetrain.analysis.digest import Digest
from edgetrain.errors import UsageError

FEWEST_RUNS = 3
RESAMPLES = 4000
LEVEL = 0.95
# Two-sided 95 % quantiles of Student's t for 1..30 degrees of freedom.
STUDENT = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip
NORMAL = 1.960

METRICS: Mapping[str, tuple[str, Callable[[Mapping[str, Any]], float | None]]] = {
    "e2e": ("s per minibatch, end to end", lambda epoch: epoch["e2e_s"]),
    "fetch_stall": (
        "s per minibatch, fetch stall without fill",
        lambda epoch: epoch["fetch_stall_s"] - epoch["fill_s"],
    ),
    "compute": ("s per minibatch, copy and compute", lambda epoch: epoch["compute_s"] + (epoch["copy_s"] or 0.0)),
    "energy": ("J per minibatch", lambda epoch: epoch["energy_j"]),
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

    @property
    def different(self) -> bool | None:
        """The verdict: end-to-end time of the epochs people pay for."""
        return self.warm[0].different if self.warm else None


def compare(a: Sequence[Digest], b: Sequence[Digest], seed: int = 0) -> Comparison:
    """Compare two groups of runs."""
    if not a or not b:
        raise UsageError("compare needs runs on both sides: edgetrain compare A1 A2 A3 -- B1 B2 B3")
    for each in (*a, *b):
        if not each.epochs and each.summary["power_w"]["mean"] is None:
            raise UsageError(f"run {each.run.run} recorded nothing to compare; edgetrain show {each.run.run} says why")
    several = all(len(digest.epochs) > 1 for digest in (*a, *b))
    return Comparison(
        tuple(digest.run.run for digest in a),
        tuple(digest.run.run for digest in b),
        (
            *_differences(a, b, (lambda number: number > 0) if several else (lambda number: True), seed),
            *_steady_differences(a, b, seed),
        ),
        tuple(_differences(a, b, lambda number: number == 0, seed)) if several else (),
    )


def _differences(
    a: Sequence[Digest], b: Sequence[Digest], wanted: Callable[[int], bool], seed: int
) -> list[Difference]:
    found = []
    for name, (unit, value) in METRICS.items():
        sides = [_values(side, value, wanted) for side in (a, b)]
        if all(sides):
            found.append(_difference(name, unit, sides[0], sides[1], seed))
    return found


def _steady_differences(a: Sequence[Digest], b: Sequence[Digest], seed: int) -> list[Difference]:
    """Compare steady minibatches alone, one value a run: short runs (a mode profiled, a log) are mostly warm-up."""
    found = []
    for name, unit, (group, key), scale in (
        ("steady", "s per minibatch, steady ones only", ("minibatch", "mean_ms"), 1e-3),
        ("steady_power", "W, while they ran", ("power_w", "median"), 1.0),
    ):
        known = [[(each.summary.get(group) or {}).get(key) for each in side] for side in (a, b)]
        sides = [[np.asarray([value * scale]) for value in side if value is not None] for side in known]
        if all(sides):
            found.append(_difference(name, unit, sides[0], sides[1], seed))
    return found


def _values(
    side: Sequence[Digest], value: Callable[[Mapping[str, Any]], float | None], wanted: Callable[[int], bool]
) -> list[NDArray[np.float64]]:
    """Return, run by run, the metric of each epoch per minibatch; runs that lack it are left out."""
    runs = []
    for digest in side:
        epochs = [epoch for epoch in digest.epochs if wanted(epoch["epoch"]) and epoch["minibatches"]]
        per_epoch = [(value(epoch), epoch["minibatches"]) for epoch in epochs]
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
        # Nothing to take a ratio of: the loop of one side never waited, say.
        same = mean_a == mean_b
        words = "none on either side" if same else f"{'A' if mean_a <= 0 else 'B'} has none"
        change = 0.0 if same else -1.0 if mean_b <= 0 else math.inf
        return Difference(name, unit, mean_a, mean_b, change, None, None, None, words)
    change = mean_b / mean_a - 1
    if fewest < FEWEST_RUNS:
        more = max(_runs_needed(a, b, change), FEWEST_RUNS) - fewest
        runs = "1 more run" if more == 1 else f"{more} more runs"
        words = f"these runs differ by {change:+.1%}; whether the setting does needs {runs} a side"
        return Difference(name, unit, mean_a, mean_b, change, None, None, None, words)
    draw = np.random.default_rng(seed)
    ratios = np.log(_resample(b, draw)) - np.log(_resample(a, draw))
    freedom = len(a) + len(b) - 2
    student = STUDENT[freedom - 1] if freedom <= len(STUDENT) else NORMAL
    stretch = student / NORMAL * math.sqrt(fewest / (fewest - 1))
    centre = math.log(mean_b / mean_a)
    tail = (1 - LEVEL) / 2
    below, above = np.quantile(ratios, [tail, 1 - tail]) - centre
    lo, hi = math.exp(centre + below * stretch) - 1, math.exp(centre + above * stretch) - 1
    different = lo > 0 or hi < 0
    verdict = "they differ" if different else "no difference can be told"
    words = f"{change:+.1%} ({LEVEL:.0%} interval {lo:+.1%} to {hi:+.1%}): {verdict}"
    return Difference(name, unit, mean_a, mean_b, change, lo, hi, different, words)


def _resample(runs: list[NDArray[np.float64]], draw: np.random.Generator) -> NDArray[np.float64]:
    """Return means of resampled runs, each with its epochs resampled."""
    count = len(runs)
    means = np.empty((count, RESAMPLES))
    for row, epochs in enumerate(runs):
        picked = draw.integers(0, len(epochs), (RESAMPLES, len(epochs)))
        means[row] = epochs[picked].mean(axis=1)
    chosen = draw.integers(0, count, (RESAMPLES, count))
    mixed: NDArray[np.float64] = means[chosen, np.arange(RESAMPLES)[:, None]].mean(axis=1)
    return mixed


def _runs_needed(a: list[NDArray[np.float64]], b: list[NDArray[np.float64]], change: float) -> int:
    """Return how many runs a side would show a change of this size, from the spread seen so far."""
    values = [np.log(np.maximum(run, 1e-12)) for run in (*a, *b)]
    spreads = [float(run.std(ddof=1)) for run in values if len(run) > 1]
    if not spreads or change <= -1:
        return FEWEST_RUNS
    size = abs(math.log1p(change)) if math.isfinite(change) else 1.0
    spread = float(np.mean(spreads))
    # Two means of n runs differ visibly when their distance passes about 2.8 standard errors (95 %, power 80 %).
    return FEWEST_RUNS if size == 0 else min(100, math.ceil(2 * (2.8 * spread / size) ** 2))
