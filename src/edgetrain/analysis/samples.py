"""Statistics of telemetry columns that may hold NaN alone, as in a run that ended early."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from edgetrain.record import Run


def mean_of(run: Run, probe: str, column: str) -> float | None:
    """Return the mean of a column; None where nothing was read."""
    read = finite(run.samples(probe).get(column))
    return float(read.mean()) if len(read) else None


def mean_between(run: Run, probe: str, column: str, begin_us: int, end_us: int) -> float | None:
    """Return the mean of a column between two instants, or the next reading where none lies there."""
    table = run.samples(probe)
    values = table.get(column)
    if values is None or not len(values):
        return None
    at_us = table["at_us"]
    # A reading covers the time since the one before: the first one after the end belongs to the window too.
    inside = (at_us > begin_us) & (at_us <= at_us[min(int(np.searchsorted(at_us, end_us)), len(at_us) - 1)])
    read = finite(values[inside])
    return float(read.mean()) if len(read) else None


def finite(column: NDArray[np.float64] | None) -> NDArray[np.float64]:
    """Return the readings of a column that are numbers."""
    return np.empty(0) if column is None else column[np.isfinite(column)]


def highest_temp_c(run: Run) -> float | None:
    """Return the highest temperature read during the run."""
    read = [finite(column) for name, column in run.samples("thermal").items() if name.endswith("temp_c")]
    return max((float(column.max()) for column in read if len(column)), default=None)
