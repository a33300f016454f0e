"""What is known of every setting against a goal: costs, spreads, and the probability that each limit holds.

The margin. Choosing the best *predicted* setting within a limit picks those whose power was under-predicted, so each
limit is held against an upper quantile of the estimate, not against its middle. How often that quantile is passed by
what is *chosen* is not how often it is passed by a setting drawn at random: being under-estimated makes a setting
more likely to be chosen, but the chosen one also keeps what the next faster setting was too dear by.
`SELECTION_FACTOR` scales the spread so that limits break as often as promised; it was found on published tables, one
network left out at a time (docs/results/recommend.md), and is one number for every confidence, board and limit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgetrain.errors import UsageError
from edgetrain.predict import student
from edgetrain.predict.base import Array, ModeTable, Predictions
from edgetrain.recommend.frontier import Spread
from edgetrain.recommend.goals import Goal
from edgetrain.schema import ModeMeasurement, Origin

SELECTION_FACTOR = 0.50


@dataclass(frozen=True, slots=True)
class Candidates:
    """The settings to choose from: modes, what is predicted for each, and what was measured (by row)."""

    modes: ModeTable
    predictions: Predictions
    seen: Mapping[int, ModeMeasurement]
    stock: Mapping[str, int]  # names of stock modes among them
    unusable: frozenset[int] = frozenset()  # the board refused to hold them
    peak_ratio: float | None = None  # largest 1 s peak over the steady mean among what was measured

    @classmethod
    def of(
        cls,
        modes: ModeTable,
        predictions: Predictions,
        seen: Mapping[int, ModeMeasurement] | None = None,
        stock: Mapping[str, int] | None = None,
    ) -> Candidates:
        """Check that modes and predictions match, and work out the peak ratio."""
        if len(modes) == 0:
            raise UsageError("there is no mode to choose from; give a table of modes or a board")
        if len(modes) != len(predictions.time_s):
            raise UsageError(
                f"the predictor answers for {len(predictions.time_s)} modes but the board has {len(modes)}; "
                "it was fitted for another "
                "board"
            )
        measured = dict(seen or {})
        return cls(modes, predictions, measured, dict(stock or {}), frozenset(), peak_ratio(measured.values()))


def peak_ratio(measurements: Iterable[ModeMeasurement]) -> float | None:
    """Return the largest observed ratio of the 1 s peak to the steady power; None where no peak was measured."""
    ratios = [m.peak_power_w / m.power_w for m in measurements if m.peak_power_w is not None and m.power_w > 0]
    return max(ratios) if ratios else None


@dataclass(frozen=True, slots=True)
class Outlook:
    """Per setting: time and energy of the work, power, log spreads (0 where measured), how sure each limit is."""

    time_s: Array
    power_w: Array
    energy_j: Array
    time_log_sd: Array
    power_log_sd: Array
    energy_log_sd: Array
    dof: float
    measured: NDArray[np.bool_]
    allowed: NDArray[np.bool_]  # by cores, stock, temperature and the board's refusals
    holds: Mapping[str, Array]  # limit name → probability, each in {0, 1} where measured
    feasible: NDArray[np.bool_]  # allowed, and every limit holds at the confidence asked
    notes: tuple[str, ...]

    def cost(self, axis: str) -> Array:
        """Return the column that a goal minimises."""
        return {"time": self.time_s, "energy": self.energy_j, "power": self.power_w}[axis]

    def cost_log_sd(self, axis: str) -> Array:
        """Return the spread of that column."""
        return {"time": self.time_log_sd, "energy": self.energy_log_sd, "power": self.power_log_sd}[axis]

    def surely(self, row: int) -> float:
        """Return the probability that all limits hold at a row, taken as the least of them (they err together)."""
        return min((float(column[row]) for column in self.holds.values()), default=1.0)

    def all_hold(self) -> Array:
        """Return that probability for every row; zero where the setting is not allowed."""
        least: Array = np.ones(len(self.time_s))
        for column in self.holds.values():
            least = np.minimum(least, column)
        return np.where(self.allowed, least, 0.0)

    def origin(self, row: int) -> Origin:
        """Return whether a row's numbers were predicted; a measured row's own origin is in its measurement."""
        return Origin.MEASURED if self.measured[row] else Origin.PREDICTED


def look(candidates: Candidates, goal: Goal, factor: float = SELECTION_FACTOR) -> Outlook:
    """Hold every setting against the goal."""
    p, limits, notes = candidates.predictions, goal.limits, []
    spread = Spread.of(p)
    mean = None if goal.work.median else p.time_mean_s
    if goal.work.epochs is not None and mean is None:
        notes.append("epoch times come from the median minibatch; the mean, which epochs follow, was never profiled")
    time_s = p.time_s.copy() if mean is None else mean.copy()
    power_w = p.power_w.copy()
    time_sd, power_sd, energy_sd = p.time_log_sd.copy(), p.power_log_sd.copy(), spread.energy_log_sd.copy()
    measured = np.zeros(len(time_s), dtype=bool)
    for row, measurement in candidates.seen.items():
        measured[row] = True
        time_s[row] = _seen_time_s(measurement, None if mean is None else float(mean[row] / p.time_s[row]))
        power_w[row] = measurement.power_w
        time_sd[row] = power_sd[row] = energy_sd[row] = 0.0
    time_s *= goal.work.minibatches
    energy_j = time_s * power_w
    if limits.peak:
        if candidates.peak_ratio is None:
            raise UsageError(
                "--peak needs a measured 1 s peak, and none of the profiled modes has one; profile with "
                "power samples kept"
            )
        notes.append(
            f"the power limit is held for 1 s peaks: the largest observed was {candidates.peak_ratio:.3f} "
            "times the steady mean"
        )
    ratio = candidates.peak_ratio if limits.peak and candidates.peak_ratio else 1.0
    holds: dict[str, Array] = {}
    for name, limit, value, sd in (
        ("power", limits.max_power_w, power_w * ratio, power_sd),
        ("time", limits.max_time_s, time_s, time_sd),
        ("energy", limits.max_energy_j, energy_j, energy_sd),
    ):
        if limit is not None:
            holds[name] = probability_below(value, sd * factor, limit, p.dof)
    allowed = _allowed(candidates, goal, notes)
    feasible = allowed.copy()
    for column in holds.values():
        feasible &= column >= goal.confidence
    return Outlook(
        time_s, power_w, energy_j, time_sd, power_sd, energy_sd, p.dof, measured, allowed, holds, feasible, tuple(notes)
    )  # fmt: skip


def _seen_time_s(measurement: ModeMeasurement, mean_over_median: float | None) -> float:
    """Return what was measured, as the mean where the others are means: loader-bound minibatches have two humps."""
    if mean_over_median is None:
        return measurement.time_s
    return measurement.time_s * mean_over_median if measurement.time_mean_s is None else measurement.time_mean_s


def probability_below(value: Array, log_sd: Array, limit: float, dof: float) -> Array:
    """Return the probability that the truth is at or below a limit: 0 or 1 where there is no spread."""
    gap = np.log(limit) - np.log(value)
    safe = np.where(log_sd > 0, log_sd, 1.0)
    return np.where(log_sd > 0, student.probability_below(gap / safe, dof), (value <= limit).astype(float))


def _allowed(candidates: Candidates, goal: Goal, notes: list[str]) -> NDArray[np.bool_]:
    limits, modes = goal.limits, candidates.modes
    allowed = np.ones(len(modes), dtype=bool)
    if limits.max_cores is not None:
        allowed &= modes.cores <= limits.max_cores
    if limits.stock_only:
        if not candidates.stock:
            raise UsageError(
                "only stock modes were asked for, but none of the modes is known as a stock mode; give "
                "--device or leave it out"
            )
        stock = np.zeros(len(modes), dtype=bool)
        stock[list(candidates.stock.values())] = True
        allowed &= stock
    if limits.max_temp_c is not None:
        known = {row: m.temp_c for row, m in candidates.seen.items() if m.temp_c is not None}
        hot = [row for row, temp in known.items() if temp > limits.max_temp_c]
        allowed[hot] = False
        notes.append(
            f"the temperature limit was held against the {len(known)} modes with a measured temperature "
            f"({len(hot)} too hot); nothing predicts "
            "the others"
        )
    if candidates.unusable:
        allowed[list(candidates.unusable)] = False
    return allowed
