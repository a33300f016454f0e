"""The types of prediction: a table of power modes, predictions for many modes, the Predictor protocol."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from edgetrain.errors import PredictError, UsageError
from edgetrain.record import ArrayTable
from edgetrain.schema import ModeMeasurement, Origin, PowerMode

if TYPE_CHECKING:
    import pandas

Array = NDArray[np.float64]
Rows = NDArray[np.intp] | NDArray[np.bool_] | Sequence[int] | slice

CLOCKS = {"cpu_hz": "CPU clock", "gpu_hz": "GPU clock", "emc_hz": "memory clock"}
FACTORS = {"cores": "number of cores", **CLOCKS}


@dataclass(frozen=True, slots=True)
class ModeTable:
    """Power modes as columns, with time and power where they were profiled. Hertz, seconds, watts.

    A GPU or memory clock that the board does not have (or does not show) is NaN.
    """

    cores: Array
    cpu_hz: Array
    gpu_hz: Array
    emc_hz: Array
    batch_size: Array | None = None
    time_s: Array | None = None  # median minibatch
    time_mean_s: Array | None = None
    power_w: Array | None = None

    def __post_init__(self) -> None:
        lengths = {name: len(column) for name, column in self.columns().items()}
        if len(set(lengths.values())) > 1:
            said = ", ".join(f"{name} {length}" for name, length in lengths.items())
            raise UsageError(f"the columns of a table of modes must have the same length, not {said}")

    def __len__(self) -> int:
        return len(self.cores)

    def columns(self) -> dict[str, Array]:
        """Return the columns that the table has, by name."""
        columns = {
            "cores": self.cores,
            "cpu_hz": self.cpu_hz,
            "gpu_hz": self.gpu_hz,
            "emc_hz": self.emc_hz,
            "batch_size": self.batch_size,
            "time_s": self.time_s,
            "time_mean_s": self.time_mean_s,
            "power_w": self.power_w,
        }
        return {name: column for name, column in columns.items() if column is not None}

    def factor(self, name: str) -> Array:
        """Return cores or a clock by its name."""
        return {"cores": self.cores, "cpu_hz": self.cpu_hz, "gpu_hz": self.gpu_hz, "emc_hz": self.emc_hz}[name]

    def take(self, rows: Rows) -> ModeTable:
        """Return the rows given by indices, a mask or a slice."""

        def picked(column: Array | None) -> Array | None:
            return None if column is None else column[rows]

        return ModeTable(
            self.cores[rows],
            self.cpu_hz[rows],
            self.gpu_hz[rows],
            self.emc_hz[rows],
            picked(self.batch_size),
            picked(self.time_s),
            picked(self.time_mean_s),
            picked(self.power_w),
        )

    def mode(self, row: int) -> PowerMode:
        """Return one row as a power mode; a clock that is NaN here is None there."""

        def hertz(column: Array) -> int | None:
            return int(column[row]) if np.isfinite(column[row]) else None

        return PowerMode(int(self.cores[row]), int(self.cpu_hz[row]), hertz(self.gpu_hz), hertz(self.emc_hz))

    def measurements(self, origin: Origin = Origin.REPLAYED) -> list[ModeMeasurement]:
        """Return every row as a measurement; raise where time or power is missing."""
        return [self.measurement(row, origin) for row in range(len(self))]

    def measurement(self, row: int, origin: Origin = Origin.REPLAYED) -> ModeMeasurement:
        """Return one row as a measurement; raise where the table has no time or power."""
        time_s, power_w = results(self)
        mean = None if self.time_mean_s is None else float(self.time_mean_s[row])
        return ModeMeasurement(self.mode(row), float(time_s[row]), float(power_w[row]), origin, mean)

    def to_pandas(self) -> pandas.DataFrame:
        """Return the table as a pandas data frame; needs pandas."""
        return ArrayTable(self.columns()).to_pandas()

    @staticmethod
    def of_modes(modes: Sequence[PowerMode]) -> ModeTable:
        """Return power modes as columns."""

        def hertz(clocks: list[int | None]) -> Array:
            return np.array([np.nan if clock is None else clock for clock in clocks], dtype=float)

        return ModeTable(
            np.array([mode.cores for mode in modes], dtype=float),
            np.array([mode.cpu_hz for mode in modes], dtype=float),
            hertz([mode.gpu_hz for mode in modes]),
            hertz([mode.emc_hz for mode in modes]),
        )

    @staticmethod
    def of_measurements(measurements: Sequence[ModeMeasurement]) -> ModeTable:
        """Return measurements as columns; the mean time is left out unless every measurement has it."""
        modes = ModeTable.of_modes([found.mode for found in measurements])
        means = [found.time_mean_s for found in measurements if found.time_mean_s is not None]
        return ModeTable(
            modes.cores,
            modes.cpu_hz,
            modes.gpu_hz,
            modes.emc_hz,
            time_s=np.array([found.time_s for found in measurements], dtype=float),
            time_mean_s=np.array(means, dtype=float) if len(means) == len(measurements) else None,
            power_w=np.array([found.power_w for found in measurements], dtype=float),
        )


def results(table: ModeTable) -> tuple[Array, Array]:
    """Return the median time and the power of every mode; raise where the table was not profiled."""
    if table.time_s is None or table.power_w is None:
        raise PredictError("profiled modes need their time and power; this table has none")
    return table.time_s, table.power_w


def bare(table: ModeTable) -> ModeTable:
    """Return the modes without what was measured in them."""
    return ModeTable(table.cores, table.cpu_hz, table.gpu_hz, table.emc_hz, table.batch_size)


def join(tables: Sequence[ModeTable]) -> ModeTable:
    """Return tables one below the other; a column that one of them lacks is left out."""

    def joined(columns: list[Array | None]) -> Array | None:
        known = [column for column in columns if column is not None]
        return np.concatenate(known) if len(known) == len(columns) else None

    return ModeTable(
        np.concatenate([table.cores for table in tables]),
        np.concatenate([table.cpu_hz for table in tables]),
        np.concatenate([table.gpu_hz for table in tables]),
        np.concatenate([table.emc_hz for table in tables]),
        joined([table.batch_size for table in tables]),
        joined([table.time_s for table in tables]),
        joined([table.time_mean_s for table in tables]),
        joined([table.power_w for table in tables]),
    )


def largest(column: Array) -> float | None:
    """Return the largest value of a column; None where none is known."""
    known = column[np.isfinite(column)]
    return float(known.max()) if len(known) else None


def varies(column: Array) -> bool:
    """Return whether a column has more than one known value."""
    known = column[np.isfinite(column)]
    return bool(len(known)) and bool(known.max() > known.min())


def check_clocks(*tables: ModeTable) -> None:
    """Refuse modes of which some lack a clock that differs between the others: its value cannot be guessed.

    A clock that is the same wherever it is known, or known nowhere, has no effect on predictions and may be missing.
    """
    for name, words in CLOCKS.items():
        column = np.concatenate([table.factor(name) for table in tables])
        missing = int((~np.isfinite(column)).sum())
        if missing and varies(column):
            raise PredictError(
                f"the {words} is not known for {missing} of {len(column)} modes and differs between the others; "
                f"give {name} for every mode"
            )


@dataclass(frozen=True, slots=True)
class Predictions:
    """Time and power of many modes: centre and calibrated spread, both of the logarithm.

    The predictive distribution of log time and of log power is a scaled Student t with `dof` degrees of
    freedom; the spread includes the noise of one measurement. `correlation` is that between the two errors,
    which the spread of energy (their product) needs.
    """

    time_s: Array  # median minibatch
    time_mean_s: Array | None  # mean minibatch, which the duration of an epoch follows; None: never profiled
    power_w: Array
    time_log_sd: Array
    power_log_sd: Array
    correlation: float
    dof: float
    extrapolated: NDArray[np.bool_]  # outside the range of the profiled modes
    warnings: tuple[str, ...] = ()


def exact_predictions(table: ModeTable) -> Predictions:
    """Return a table in which every mode was measured as predictions with almost no spread."""
    time_s, power_w = results(table)
    tiny = np.full(len(table), 1e-9)
    return Predictions(time_s, table.time_mean_s, power_w, tiny, tiny, 0.0, 30.0, np.zeros(len(table), dtype=bool))


class Predictor(Protocol):
    """Predicts every mode of a board from a few profiled ones.

    A predictor is immutable after its fit: the same modes always give the same predictions, one per mode and in
    the order of the table.
    """

    def predict(self, modes: ModeTable) -> Predictions: ...
