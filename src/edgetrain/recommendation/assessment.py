"""Assesses every mode against a goal: its costs, their spreads, and the probability that each limit holds.

The margin. Choosing the best *predicted* mode within a limit favours modes whose power was under-predicted, so each
limit is compared with an upper quantile of the estimate, not with its centre. How often a *chosen* mode exceeds that
quantile differs from how often a random mode does: under-estimated modes are chosen more often, but a chosen mode also
stays below the limit by the distance to the next faster mode, which was excluded. `SELECTION_FACTOR` scales the spread
so that limits are exceeded as often as promised. It was determined on published tables, leaving out one network at a
time (docs/results/recommend.md), and is one number for every confidence, board and limit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgetrain.errors import UsageError
from edgetrain.prediction import Array, ModeTable, Predictions, student_probability_below
from edgetrain.recommendation.goals import Goal
from edgetrain.recommendation.pareto import PredictionSpread
from edgetrain.schema import ModeMeasurement

SELECTION_FACTOR = 0.60


@dataclass(frozen=True, slots=True)
class Candidates:
    """The modes to choose from, what is predicted for each, and what was measured (by row)."""

    modes: ModeTable
    predictions: Predictions
    seen: Mapping[int, ModeMeasurement]
    stock: Mapping[str, int]  # names of stock modes among them
    unusable: frozenset[int] = frozenset()  # the board refused these
    peak_ratio: float | None = None  # largest ratio of a 1 s peak to the steady mean among the measurements

    @classmethod
    def of(
        cls,
        modes: ModeTable,
        predictions: Predictions,
        seen: Mapping[int, ModeMeasurement] | None = None,
        stock: Mapping[str, int] | None = None,
    ) -> Candidates:
        """Check that modes and predictions match, and derive the peak ratio."""
        if len(modes) == 0:
            raise UsageError("there is no mode to choose from; give a table of modes or a board")
        if len(modes) != len(predictions.time_s):
            raise UsageError(
                f"there are predictions for {len(predictions.time_s)} modes but the board has {len(modes)}; "
                "the predictor was fitted for another board"
            )
        measured = dict(seen or {})
        return cls(modes, predictions, measured, dict(stock or {}), frozenset(), peak_ratio(measured.values()))


def peak_ratio(measurements: Iterable[ModeMeasurement]) -> float | None:
    """Return the largest observed ratio of the 1 s peak to the steady power; None where no peak was measured."""
    ratios = [m.peak_power_w / m.power_w for m in measurements if m.peak_power_w is not None and m.power_w > 0]
    return max(ratios) if ratios else None


@dataclass(frozen=True, slots=True)
class Assessment:
    """Per mode: time and energy of the work, power, spreads of their logs (0 where measured), and the limits."""

    time_s: Array
    power_w: Array
    energy_j: Array
    time_log_sd: Array
    power_log_sd: Array
    energy_log_sd: Array
    dof: float
    measured: NDArray[np.bool_]
    allowed: NDArray[np.bool_]  # by cores, stock, temperature, and not refused by the board
    holds: Mapping[str, Array]  # limit → probability that it holds; 0 or 1 where measured
    feasible: NDArray[np.bool_]  # allowed, and every limit holds with the requested confidence
    notes: tuple[str, ...]

    def cost(self, axis: str) -> Array:
        """Return the column that a goal minimizes."""
        return {"time": self.time_s, "energy": self.energy_j, "power": self.power_w}[axis]

    def cost_log_sd(self, axis: str) -> Array:
        """Return the spread of that column."""
        return {"time": self.time_log_sd, "energy": self.energy_log_sd, "power": self.power_log_sd}[axis]

    def all_hold(self) -> Array:
        """Return the probability that all limits hold: the least of them, as their errors are correlated.

        It is zero where the mode is not allowed.
        """
        least: Array = np.ones(len(self.time_s))
        for column in self.holds.values():
            least = np.minimum(least, column)
        return np.where(self.allowed, least, 0.0)


def assess(candidates: Candidates, goal: Goal, factor: float = SELECTION_FACTOR) -> Assessment:
    """Compare every mode with the goal."""
    p, limits, notes = candidates.predictions, goal.limits, []
    spread = PredictionSpread.of(p)
    mean = None if goal.work.median else p.time_mean_s
    if goal.work.epochs is not None and mean is None:
        notes.append("epoch times come from the median minibatch; the mean, which epochs follow, was never profiled")
    time_s = p.time_s.copy() if mean is None else mean.copy()
    power_w = p.power_w.copy()
    time_sd, power_sd, energy_sd = p.time_log_sd.copy(), p.power_log_sd.copy(), spread.energy_log_sd.copy()
    measured = np.zeros(len(time_s), dtype=bool)
    for row, measurement in candidates.seen.items():
        measured[row] = True
        time_s[row] = _measured_time_s(measurement, None if mean is None else float(mean[row] / p.time_s[row]))
        power_w[row] = measurement.power_w
        time_sd[row] = power_sd[row] = energy_sd[row] = 0.0
    time_s *= goal.work.minibatches
    energy_j = time_s * power_w
    ratio = _applied_peak_ratio(candidates, goal, notes)
    estimates = {"power": (power_w * ratio, power_sd), "time": (time_s, time_sd), "energy": (energy_j, energy_sd)}
    holds: dict[str, Array] = {}
    for name, limit in limits.estimated().items():
        value, sd = estimates[name]
        holds[name] = probability_below(value, sd * factor, limit, p.dof)
    allowed = _allowed(candidates, goal, notes)
    feasible = allowed.copy()
    for column in holds.values():
        feasible &= column >= goal.confidence
    return Assessment(
        time_s, power_w, energy_j, time_sd, power_sd, energy_sd, p.dof, measured, allowed, holds, feasible, tuple(notes)
    )  # fmt: skip


def _applied_peak_ratio(candidates: Candidates, goal: Goal, notes: list[str]) -> float:
    """Return the factor from mean power to what the power limit applies to: 1, or the peak ratio."""
    if not goal.limits.peak:
        return 1.0
    if candidates.peak_ratio is None:
        raise UsageError(
            "--peak needs a measured 1 s peak, and none of the profiled modes has one; profile with power samples kept"
        )
    notes.append(
        f"the power limit applies to 1 s peaks: the largest measured peak was {candidates.peak_ratio:.3f} times the "
        "steady mean"
    )
    return candidates.peak_ratio


def _measured_time_s(measurement: ModeMeasurement, mean_over_median: float | None) -> float:
    """Return the measured time: the mean where predictions are means, because loader-bound minibatches are bimodal."""
    if mean_over_median is None:
        return measurement.time_s
    return measurement.time_s * mean_over_median if measurement.time_mean_s is None else measurement.time_mean_s


def probability_below(value: Array, log_sd: Array, limit: float, dof: float) -> Array:
    """Return the probability that the truth is at or below a limit: 0 or 1 where there is no spread."""
    gap = np.log(limit) - np.log(value)
    safe = np.where(log_sd > 0, log_sd, 1.0)
    return np.where(log_sd > 0, student_probability_below(gap / safe, dof), (value <= limit).astype(float))


def _allowed(candidates: Candidates, goal: Goal, notes: list[str]) -> NDArray[np.bool_]:
    limits, modes = goal.limits, candidates.modes
    allowed = np.ones(len(modes), dtype=bool)
    if limits.max_cores is not None:
        allowed &= modes.cores <= limits.max_cores
    if limits.stock_only:
        if not candidates.stock:
            raise UsageError(
                "--stock-only was given, but none of the modes is known as a stock mode; give --device, or leave "
                "--stock-only out"
            )
        stock = np.zeros(len(modes), dtype=bool)
        stock[list(candidates.stock.values())] = True
        allowed &= stock
    if limits.max_temp_c is not None:
        known = {row: m.temp_c for row, m in candidates.seen.items() if m.temp_c is not None}
        hot = [row for row, temp in known.items() if temp > limits.max_temp_c]
        allowed[hot] = False
        notes.append(
            f"the temperature limit was checked for the {len(known)} modes with a measured temperature "
            f"({len(hot)} too hot); temperatures of other modes are not predicted"
        )
    if candidates.unusable:
        allowed[list(candidates.unusable)] = False
    return allowed
