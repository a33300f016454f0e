"""Profiles one mode at a time through a `Measure` and stops when the asked accuracy is reached."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from edgetrain.errors import DeviceError
from edgetrain.predict.base import ModeTable, join
from edgetrain.predict.intervals import expected_error
from edgetrain.predict.modes.design import plan_modes
from edgetrain.predict.modes.fit import Fitted, fit_modes
from edgetrain.predict.modes.prior import Prior
from edgetrain.schema import Measure, ModeMeasurement, PowerMode

_FEWEST = 3  # modes before an expected error is worth stopping at


@dataclass(frozen=True, slots=True)
class Step:
    """One mode profiled, and what is expected of the predictor after it."""

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
    tell: Callable[[str], None] = lambda text: None,
) -> Iterator[Step]:
    """Yield a step for each mode measured until time and power are expected within `target`, or `most` are profiled.

    A mode that the board does not hold is skipped and not asked again. The next mode is chosen from what the last one
    taught.
    """
    seen = profiled
    open_rows = np.ones(len(candidates), dtype=bool)
    if seen is not None:
        open_rows &= ~_among(candidates, seen)
    for _ in range(most):
        left = np.flatnonzero(open_rows)
        if not len(left):
            tell("every candidate has been profiled")
            return
        row = int(left[plan_modes(candidates.take(left), 1, seen, prior, seed, candidates).rows[0]])
        open_rows[row] = False
        mode = candidates.mode(row)
        try:
            found = measure(mode)
        except DeviceError as error:
            none = candidates.take(slice(0, 0)) if seen is None else seen
            yield Step(None, mode, none, None, None, None, False, str(error))
            continue
        seen = _with(seen, candidates.take([row]), found)
        if len(seen) < 2:
            yield Step(found, mode, seen, None, None, None, False)
            continue
        fitted = fit_modes(seen, prior, seed, candidates)
        predictions = fitted.predict(candidates)
        time_error = expected_error(predictions.time_log_sd, predictions.dof)
        power_error = expected_error(predictions.power_log_sd, predictions.dof)
        reached = len(seen) >= _FEWEST and max(time_error, power_error) <= target
        yield Step(found, mode, seen, fitted, time_error, power_error, reached)
        if reached:
            return


def _among(candidates: ModeTable, seen: ModeTable) -> NDArray[np.bool_]:
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
