"""How wrong prediction is: on a table of measured modes, a few are fitted and all the others predicted.

Each seed restricts profiling to a random quarter of the table; the method sees the N modes chosen from it and nothing
else. Errors are over the modes that it did not see. All figures except durations are percentages.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgetrain.errors import UsageError
from edgetrain.prediction.base import Array, ModeTable, Predictions, Predictor, bare, results
from edgetrain.prediction.intervals import LEVEL, bounds, energy, interval_score
from edgetrain.prediction.modes.design import plan_modes
from edgetrain.prediction.modes.fit import fit_modes
from edgetrain.prediction.modes.prior import Prior

QUANTITIES = ("time", "power", "energy")
FitFunction = Callable[[ModeTable, ModeTable, int], Predictor]  # profiled modes, all modes without results, seed


@dataclass(frozen=True, slots=True)
class PredictionMethod:
    """A method to evaluate, and whether its intervals are meant to be calibrated."""

    name: str
    fit: FitFunction
    has_intervals: bool = True


@dataclass(frozen=True, slots=True)
class SeedFigure:
    """One figure, averaged over seeds, and its value for each seed."""

    mean: float
    per_seed: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class ErrorFigures:
    """|Relative error| of one quantity over the modes that were not profiled, in %."""

    mape: SeedFigure
    median: SeedFigure
    p95: SeedFigure


@dataclass(frozen=True, slots=True)
class PerSeedFigures:
    """One figure of each quantity for each seed."""

    time: tuple[float, ...]
    power: tuple[float, ...]
    energy: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class IntervalFigures:
    """One figure about intervals, for each quantity: coverage, width or score, in %."""

    time: float
    power: float
    energy: float
    per_seed: PerSeedFigures


@dataclass(frozen=True, slots=True)
class MethodErrors:
    """What one method achieved. Interval figures are None for a method without intervals."""

    time: ErrorFigures
    power: ErrorFigures
    energy: ErrorFigures
    coverage90: IntervalFigures | None
    width90: IntervalFigures | None
    score90: IntervalFigures | None
    fit_s: float
    fit_s_per_seed: tuple[float, ...]
    plan_s: float


@dataclass(frozen=True, slots=True)
class MethodComparison:
    """The errors of each method by its name; all methods saw the same modes."""

    methods: Mapping[str, MethodErrors]
    profiled_rows: tuple[tuple[int, ...], ...]  # per seed
    seeds: tuple[int, ...]


def physics(prior: Prior) -> PredictionMethod:
    """Return our own method under a prior."""
    return PredictionMethod("physics", lambda profiled, board, seed: fit_modes(profiled, prior, seed, board))


def compare_methods(
    table: ModeTable,
    profile: int,
    seeds: int | Sequence[int],
    prior: Prior,
    methods: Sequence[PredictionMethod] | None = None,
    random_modes: bool = False,
) -> MethodComparison:
    """Return errors, coverage and cost of each method."""
    results(table)
    quarter = max(profile, -(-len(table) // 4))
    if profile < 2 or profile >= len(table):
        raise UsageError(
            f"--profile must be from 2 to {len(table) - 1} for a table of {len(table)} modes, not {profile}"
        )
    listed = list(range(seeds)) if isinstance(seeds, int) else list(seeds)
    if not listed:
        raise UsageError("--seeds must be at least 1")
    board = bare(table)
    methods = [physics(prior)] if methods is None else methods
    gathered: dict[str, list[_SeedErrors]] = {method.name: [] for method in methods}
    chosen: list[tuple[int, ...]] = []
    plan_s: list[float] = []
    for seed in listed:
        rng = np.random.default_rng(seed)
        allowed = np.sort(rng.choice(len(table), quarter, replace=False))
        begun = time.perf_counter()
        if random_modes:
            rows = rng.choice(allowed, profile, replace=False)
        else:
            rows = allowed[plan_modes(board.take(allowed), profile, prior=prior, seed=seed, board=board).rows]
        plan_s.append(time.perf_counter() - begun)
        chosen.append(tuple(int(row) for row in rows))
        unseen = np.setdiff1d(np.arange(len(table)), rows)
        for method in methods:
            begun = time.perf_counter()
            predictions = method.fit(table.take(rows), board, seed).predict(board)
            seconds = time.perf_counter() - begun
            gathered[method.name].append(_SeedErrors(seconds, _errors(table, predictions, unseen, method)))
    mean_plan_s = float(np.mean(plan_s))
    found = {name: _summarize(errors, mean_plan_s) for name, errors in gathered.items()}
    return MethodComparison(found, tuple(chosen), tuple(listed))


@dataclass(frozen=True, slots=True)
class _QuantityErrors:
    """The errors of one quantity for one seed, in %."""

    mape: float
    median: float
    p95: float
    coverage90: float | None = None
    width90: float | None = None
    score90: float | None = None


@dataclass(frozen=True, slots=True)
class _SeedErrors:
    fit_s: float
    of: Mapping[str, _QuantityErrors]  # by quantity


def _errors(
    table: ModeTable, predictions: Predictions, unseen: NDArray[np.intp], method: PredictionMethod
) -> dict[str, _QuantityErrors]:
    time_s, power_w = results(table)
    # Energy per epoch follows the mean minibatch, where the table has it.
    mean_s = time_s if table.time_mean_s is None else table.time_mean_s
    joules, joules_sd = energy(predictions)
    pairs = {
        "time": (time_s, predictions.time_s, predictions.time_log_sd),
        "power": (power_w, predictions.power_w, predictions.power_log_sd),
        "energy": (mean_s * power_w, joules, joules_sd),
    }
    return {
        quantity: _quantity_errors(truth[unseen], value[unseen], log_sd[unseen], predictions.dof, method.has_intervals)
        for quantity, (truth, value, log_sd) in pairs.items()
    }


def _quantity_errors(truth: Array, value: Array, log_sd: Array, dof: float, has_intervals: bool) -> _QuantityErrors:
    error = 100.0 * np.abs(value / truth - 1.0)
    figures = float(error.mean()), float(np.median(error)), float(np.quantile(error, 0.95))
    if not has_intervals:
        return _QuantityErrors(*figures)
    lo, hi = bounds(value, log_sd, dof, LEVEL)
    return _QuantityErrors(
        *figures,
        coverage90=100.0 * float(((truth >= lo) & (truth <= hi)).mean()),
        width90=100.0 * float(((hi - lo) / truth).mean()),
        score90=100.0 * float(interval_score(truth, lo, hi).mean()),
    )


def _summarize(found: Sequence[_SeedErrors], plan_s: float) -> MethodErrors:
    """Return means over seeds beside the value of each seed."""

    def errors(quantity: str) -> ErrorFigures:
        per_seed = [seed.of[quantity] for seed in found]
        return ErrorFigures(
            _figure([each.mape for each in per_seed]),
            _figure([each.median for each in per_seed]),
            _figure([each.p95 for each in per_seed]),
        )

    def intervals(pick: Callable[[_QuantityErrors], float | None]) -> IntervalFigures | None:
        columns = {
            quantity: tuple(value for seed in found if (value := pick(seed.of[quantity])) is not None)
            for quantity in QUANTITIES
        }
        if not columns["time"]:
            return None
        time_pct, power_pct, energy_pct = (float(np.mean(columns[quantity])) for quantity in QUANTITIES)
        return IntervalFigures(time_pct, power_pct, energy_pct, PerSeedFigures(**columns))

    seconds = [seed.fit_s for seed in found]
    return MethodErrors(
        errors("time"),
        errors("power"),
        errors("energy"),
        intervals(lambda each: each.coverage90),
        intervals(lambda each: each.width90),
        intervals(lambda each: each.score90),
        float(np.mean(seconds)),
        tuple(seconds),
        plan_s,
    )


def _figure(values: Sequence[float]) -> SeedFigure:
    return SeedFigure(float(np.mean(values)), tuple(values))
