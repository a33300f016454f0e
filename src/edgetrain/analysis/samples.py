"""What a stream of samples tells on the whole, where it tells anything: a run that ended early may hold NaN alone."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from edgetrain.schema import Run


def mean_of(run: Run, stream: str, column: str) -> float | None:
    """Return the mean of a column; None where nothing was read."""
    told = told_by((run.samples.get(stream) or {}).get(column))
    return float(told.mean()) if len(told) else None


def told_by(column: NDArray[np.float64] | None) -> NDArray[np.float64]:
    """Return the readings of a column that are numbers."""
    return np.empty(0) if column is None else column[np.isfinite(column)]
