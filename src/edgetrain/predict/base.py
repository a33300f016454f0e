"""The nouns of prediction: a table of modes, predictions for many modes, one estimate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from edgetrain.schema import Origin, PowerMode

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value with its interval: at `level` of the cases the truth lies in [lo, hi]."""

    value: float
    lo: float
    hi: float
    level: float = 0.9
    origin: Origin = Origin.PREDICTED


@dataclass(frozen=True, slots=True)
class ModeTable:
    """Power modes as columns, with time and power where they were profiled. Hertz, seconds, watts."""

    cores: Array
    cpu_hz: Array
    gpu_hz: Array
    emc_hz: Array
    batch_size: Array | None = None
    time_s: Array | None = None  # median minibatch
    time_mean_s: Array | None = None
    power_w: Array | None = None

    def __len__(self) -> int:
        return len(self.cores)

    def take(self, rows: Any) -> ModeTable:
        """Return the rows given by an index array or a mask."""
        columns: dict[str, Any] = {name: getattr(self, name) for name in self.__slots__}
        picked: dict[str, Any] = {name: None if c is None else c[rows] for name, c in columns.items()}
        return ModeTable(**picked)

    def mode(self, row: int) -> PowerMode:
        """Return one row as a power mode."""
        return PowerMode(int(self.cores[row]), int(self.cpu_hz[row]), int(self.gpu_hz[row]), int(self.emc_hz[row]))


def bare(table: ModeTable) -> ModeTable:
    """Return the modes without what was measured in them."""
    return ModeTable(table.cores, table.cpu_hz, table.gpu_hz, table.emc_hz, table.batch_size)


def join(tables: Sequence[ModeTable]) -> ModeTable:
    """Return tables one below the other; a column that one of them lacks is lost."""
    columns: dict[str, Any] = {}
    for slot in ModeTable.__slots__:
        parts = [getattr(table, slot) for table in tables]
        columns[slot] = None if any(part is None for part in parts) else np.concatenate(parts)
    return ModeTable(**columns)


@dataclass(frozen=True, slots=True)
class Predictions:
    """Time and power of many modes: centre and calibrated spread, both of the logarithm.

    The predictive distribution of log time and of log power is a scaled Student t with `dof` degrees of
    freedom; the spread already holds the noise of one measurement. `correlation` is that between
    the two errors (energy is their product).
    """

    time_s: Array  # median minibatch
    time_mean_s: Array | None  # mean minibatch: what epochs follow; None: never profiled
    power_w: Array
    time_log_sd: Array
    power_log_sd: Array
    correlation: float
    dof: float
    extrapolated: NDArray[np.bool_]  # outside what the profiled modes span
    warnings: tuple[str, ...] = ()


class Predictor(Protocol):
    """Predicts every mode of a board from a few profiled ones."""

    def predict(self, modes: ModeTable) -> Predictions: ...
