"""How time or energy drifts over hours on one unit, and on all units together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgetrain.analysis.unit_runs import UnitRun
from edgetrain.student import quantile

S_PER_H = 3600.0
MIN_RUNS_OVER_TIME = 4  # from which drift is seen between runs; with fewer it is seen within runs
MIN_EPOCHS_OVER_TIME = 5
MIN_SPAN_H = 1 / 6  # a shorter span is not extrapolated to an hour
MAX_CORRELATION = 0.9  # of neighbouring epochs, as far as it is allowed for
MIN_UNITS = 3  # from which the units' own slopes show how uncertain their mean is

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Slope:
    """Change of the logarithm per hour."""

    value: float
    deviation: float  # standard error
    freedom: float

    def bounds(self, level: float) -> tuple[float, float]:
        """Return the ends of the interval."""
        reach = quantile(0.5 + level / 2, self.freedom) * self.deviation
        return self.value - reach, self.value + reach


@dataclass(frozen=True, slots=True)
class TimedRun:
    """A run on the time axis of its unit: hours since that unit's first run, and the logarithm, epoch by epoch."""

    hours: Array
    logs: Array


def on_one_axis(runs: Sequence[tuple[UnitRun, Array, Array]]) -> list[TimedRun]:
    """Place the runs of one unit (with seconds after their start and logarithms) on one axis, oldest first.

    A board makes one run at a time: where a run seems to begin before the last one ended, as on the virtual clock of a
    simulated board, it is placed right after it.
    """
    found: list[TimedRun] = []
    end_s = first_s = -math.inf
    for run, after_s, logs in sorted(runs, key=lambda each: each[0].started_s or 0.0):
        begin_s = max(end_s, run.started_s or 0.0)
        first_s = begin_s if not found else first_s
        found.append(TimedRun((begin_s - first_s + after_s) / S_PER_H, logs))
        end_s = begin_s + run.took_s
    return found


def span_h(runs: Sequence[TimedRun]) -> float:
    """Return the hours from the first epoch to the last."""
    hours = np.concatenate([run.hours for run in runs])
    return float(hours.max() - hours.min()) if len(hours) else 0.0


def unit_slope(runs: Sequence[TimedRun]) -> Slope | None:
    """Return the drift of one unit; None where it was observed too briefly."""
    if not runs or span_h(runs) < MIN_SPAN_H:
        return None
    if len(runs) >= MIN_RUNS_OVER_TIME:
        hours = np.asarray([run.hours.mean() for run in runs])
        logs = np.asarray([run.logs.mean() for run in runs])
        return _slope(hours - hours.mean(), logs - logs.mean(), 2)
    epochs = sum(len(run.logs) for run in runs)
    if epochs < MIN_EPOCHS_OVER_TIME + len(runs):
        return None
    hours = np.concatenate([run.hours - run.hours.mean() for run in runs])
    logs = np.concatenate([run.logs - run.logs.mean() for run in runs])
    return _slope(hours, logs, 1 + len(runs))


def _slope(hours: Array, logs: Array, lost: int) -> Slope | None:
    squares, freedom = float((hours**2).sum()), len(hours) - lost
    if squares <= 0 or freedom < 1:
        return None
    value = float((hours * logs).sum()) / squares
    rest = logs - value * hours
    variance = float((rest**2).sum()) / freedom
    # Neighbouring epochs that resemble each other count for less than as many independent ones.
    likeness = float((rest[1:] * rest[:-1]).sum() / max(float((rest**2).sum()), 1e-300))
    likeness = min(MAX_CORRELATION, max(0.0, likeness))
    return Slope(value, math.sqrt(variance / squares * (1 + likeness) / (1 - likeness)), float(freedom))


def common_slope(slopes: Sequence[Slope]) -> Slope | None:
    """Return the mean drift of units; from three units on, they themselves show how uncertain it is."""
    if not slopes:
        return None
    values = np.asarray([slope.value for slope in slopes])
    mean, count = float(values.mean()), len(slopes)
    if count >= MIN_UNITS:
        return Slope(mean, float(values.std(ddof=1)) / math.sqrt(count), count - 1.0)
    deviation = math.sqrt(sum(slope.deviation**2 for slope in slopes)) / count
    return Slope(mean, deviation, sum(slope.freedom for slope in slopes))
