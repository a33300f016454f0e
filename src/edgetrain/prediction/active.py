"""Profiles one mode at a time through a `Measure` and stops when the requested accuracy is expected."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from edgetrain.errors import DeviceError
from edgetrain.prediction.base import ModeTable, join
from edgetrain.prediction.intervals import expected_error
from edgetrain.prediction.modes.design import plan_modes
from edgetrain.prediction.modes.fit import Fitted, fit_modes
from edgetrain.prediction.modes.prior import Prior
from edgetrain.schema import Measure, ModeMeasurement, PowerMode

_FEWEST_MODES = 3  # before an expected error is a reason to stop


@dataclass(frozen=True, slots=True)
class ActiveStep:
    """One mode profiled, and the error to expect of the predictor after it."""

    measurement: ModeMeasurement | None  # None: the board refused this mode
    mode: PowerMode
    profiled: ModeTable
    fitted: Fitted | None  # None: still too few modes
    time_error: float | None  # expected mean |relative error| over all modes
    power_error: float | None
    reached: bool
    refusal: str | None = None


def profile_until(
    candidates: ModeTable,
    measure: Measure,
    prior: Prior,
    target: float,
    most: int,
    seed: int = 0,
    profiled: ModeTable | None = None,
) -> Iterator[ActiveStep]:
    """Yield a step per mode measured until time and power are expected within `target`, or `most` are profiled.

    A mode that the board refuses is skipped and not tried again. Each next mode is chosen with what the previous
    ones showed.
    """
    seen = profiled
    is_open = np.ones(len(candidates), dtype=bool)
    if seen is not None:
        is_open &= ~_is_among(candidates, seen)
    for _ in range(most):
        left = np.flatnonzero(is_open)
        if not len(left):
            return
        row = int(left[plan_modes(candidates.take(left), 1, seen, prior, seed, candidates).rows[0]])
        is_open[row] = False
        mode = candidates.mode(row)
        try:
            found = measure(mode)
        except DeviceError as error:
            none = candidates.take(slice(0, 0)) if seen is None else seen
            yield ActiveStep(None, mode, none, None, None, None, False, str(error))
            continue
        seen = _with(seen, candidates.take([row]), found)
        if len(seen) < 2:
            yield ActiveStep(found, mode, seen, None, None, None, False)
            continue
        fitted = fit_modes(seen, prior, seed, candidates)
        predictions = fitted.predict(candidates)
        time_error = expected_error(predictions.time_log_sd, predictions.dof)
        power_error = expected_error(predictions.power_log_sd, predictions.dof)
        reached = len(seen) >= _FEWEST_MODES and max(time_error, power_error) <= target
        yield ActiveStep(found, mode, seen, fitted, time_error, power_error, reached)
        if reached:
            return


def _is_among(candidates: ModeTable, seen: ModeTable) -> NDArray[np.bool_]:
    known = {seen.mode(row) for row in range(len(seen))}
    return np.array([candidates.mode(row) in known for row in range(len(candidates))])


def _with(seen: ModeTable | None, row: ModeTable, found: ModeMeasurement) -> ModeTable:
    """Return the profiled modes and one more."""
    one = replace(
        row,
        time_s=np.array([found.time_s]),
        power_w=np.array([found.power_w]),
        time_mean_s=None if found.time_mean_s is None else np.array([found.time_mean_s]),
    )
    return one if seen is None else join([seen, one])
