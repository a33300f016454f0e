"""A fitted predictor together with the modes of a board: one mode with intervals, or a table of all of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from edgetrain.errors import UsageError
from edgetrain.prediction.base import Array, ModeTable, Predictions, bare
from edgetrain.prediction.costs import warn_never_varied
from edgetrain.prediction.intervals import LEVEL, bounds, energy, estimate, expected_error
from edgetrain.prediction.modes.fit import Fitted, fit_modes
from edgetrain.prediction.modes.prior import Prior
from edgetrain.prediction.modes.saved import dump_predictor
from edgetrain.prediction.modes.unit_correction import UNIT_DEVIATION, correction_warnings, unit_correction
from edgetrain.prediction.table import write_table
from edgetrain.record import ArrayTable
from edgetrain.schema import Estimate, Origin, PowerMode
from edgetrain.units import HZ_PER_KHZ, MS_PER_S, W_PER_MW

if TYPE_CHECKING:
    import pandas

NORMAL_DOF = 1000.0  # of a factor whose spread is known, not estimated from a few values


@dataclass(frozen=True, slots=True)
class ModePrediction:
    """What is predicted for one mode, per minibatch."""

    mode: PowerMode
    time_s: Estimate  # median minibatch
    time_mean_s: Estimate | None  # mean minibatch, which epochs follow; None: never profiled
    power_w: Estimate
    energy_j: Estimate  # of the mean minibatch, where it was profiled
    extrapolated: bool  # outside the range of the profiled modes


@dataclass(frozen=True, slots=True)
class PriorUsed:
    """The prior behind a prediction."""

    name: str
    without: tuple[str, ...]
    held: tuple[str, ...]  # `network on board (kind)`, once each


@dataclass(frozen=True, slots=True)
class ExpectedError:
    """Mean |relative error| to expect over all modes."""

    time: float
    power: float


@dataclass(frozen=True, slots=True)
class UnitFactors:
    """What a unit's own profile says of it, against its kind."""

    profile: str  # where its profiled modes are from
    modes: int
    time: Estimate  # factor
    power: Estimate


@dataclass(frozen=True, slots=True)
class PredictionColumns:
    """One value per mode; `_lo` and `_hi` are the ends of the interval. Per minibatch."""

    cores: Array
    cpu_khz: Array
    gpu_hz: Array  # NaN: the board has no such clock
    emc_hz: Array
    batch_size: Array | None
    time_ms: Array
    time_ms_lo: Array
    time_ms_hi: Array
    time_mean_ms: Array | None
    power_mw: Array
    power_mw_lo: Array
    power_mw_hi: Array
    energy_mj: Array
    energy_mj_lo: Array
    energy_mj_hi: Array
    extrapolated: NDArray[np.bool_]

    def known(self) -> dict[str, NDArray[Any]]:
        """Return the columns that are not None, by name."""
        pairs = ((item.name, getattr(self, item.name)) for item in fields(self))
        return {name: column for name, column in pairs if column is not None}


@dataclass(frozen=True, slots=True)
class PredictionTable:
    """The predictions for every mode of a board."""

    profiled: str  # where the profiled modes are from
    profiled_modes: int
    modes: int
    board: str
    origin: Origin
    level: float
    prior: PriorUsed
    expected_error: ExpectedError
    warnings: tuple[str, ...]
    columns: PredictionColumns
    unit: UnitFactors | None = None  # None: not corrected for one unit

    def to_pandas(self) -> pandas.DataFrame:
        """Return the columns as a pandas data frame; needs pandas."""
        return ArrayTable(self.columns.known()).to_pandas()


@dataclass(frozen=True, slots=True)
class ModePredictor:
    """Predicts the modes of one board for the network that was profiled.

    predictor.at(mode)    one mode: time, power and energy as Estimates
    predictor.table()     every mode of the board, as columns
    """

    profiled_name: str
    profiled: ModeTable
    board_name: str
    board: ModeTable
    prior: Prior
    prior_used: PriorUsed
    fitted: Fitted
    predictions: Predictions  # of every mode of the board
    seed: int = 0
    stock: Mapping[str, int] = field(default_factory=dict)  # name of a stock mode: its row of the board
    unit: UnitFactors | None = None

    @staticmethod
    def of(
        profiled: ModeTable,
        board: ModeTable,
        prior: Prior,
        prior_used: PriorUsed,
        profiled_name: str = "profiled modes",
        board_name: str = "board",
        seed: int = 0,
        stock: Mapping[str, int] | None = None,
    ) -> ModePredictor:
        """Fit the profiled modes and predict the board's."""
        _check_batch_sizes(profiled, board, profiled_name, board_name)
        fitted = fit_modes(profiled, prior, seed, board)
        predictions = fitted.predict(board)
        return ModePredictor(
            profiled_name, profiled, board_name, board, prior, prior_used, fitted, predictions, seed, dict(stock or {})
        )

    def for_unit(
        self, profiled: ModeTable, name: str = "a unit's profile", deviation: float = UNIT_DEVIATION
    ) -> ModePredictor:
        """Return the predictor of one unit of this kind, corrected by the modes that were profiled on that unit.

        One or two modes are enough, best some that were profiled for the kind too. `deviation` is how much units of the
        kind differ (standard deviation, as a share): `edgetrain variability` measures it.
        """
        if (profiled.batch_size is None) != (self.profiled.batch_size is None):
            raise UsageError(f"{name} and {self.profiled_name} must both have a batch_size column, or neither")
        kind = replace(self.fitted, unit=None)
        found = unit_correction(kind, self.profiled, profiled, deviation)
        warnings = (*kind.warnings, *correction_warnings(found))
        fitted = replace(kind, unit=found, warnings=warnings)
        factors = UnitFactors(
            name,
            found.modes,
            estimate(float(np.exp(found.time_log)), found.time_log_sd, NORMAL_DOF, "1"),
            estimate(float(np.exp(found.power_log)), found.power_log_sd, NORMAL_DOF, "1"),
        )
        return replace(self, fitted=fitted, predictions=fitted.predict(self.board), unit=factors)

    def at(self, mode: PowerMode | str, batch_size: float | None = None) -> ModePrediction:
        """Return the prediction for one mode, given as a PowerMode or as the name of a stock mode of the board."""
        if isinstance(mode, str):
            row = self.stock.get(mode)
            if row is None:
                known = ", ".join(self.stock) or "none is known"
                raise UsageError(f"{self.board_name} has no stock mode {mode!r}; stock modes: {known}")
            mode = self.board.mode(row)
        one = ModeTable.of_modes([mode])
        if self.board.batch_size is not None:
            if batch_size is None:
                raise UsageError("modes were profiled with several batch sizes; give batch_size too")
            one = ModeTable(one.cores, one.cpu_hz, one.gpu_hz, one.emc_hz, np.array([float(batch_size)]))
        found = self.fitted.predict(one)
        joules, joules_sd = energy(found)
        time_sd, power_sd = float(found.time_log_sd[0]), float(found.power_log_sd[0])
        mean = None if found.time_mean_s is None else estimate(float(found.time_mean_s[0]), time_sd, found.dof, "s")
        return ModePrediction(
            mode,
            estimate(float(found.time_s[0]), time_sd, found.dof, "s"),
            mean,
            estimate(float(found.power_w[0]), power_sd, found.dof, "W"),
            estimate(float(joules[0]), float(joules_sd[0]), found.dof, "J"),
            bool(found.extrapolated[0]),
        )

    def table(self) -> PredictionTable:
        """Return the predictions for every mode of the board."""
        found = self.predictions
        warnings = list(found.warnings)
        if found.time_mean_s is None:
            warnings.append(
                "no time_mean_ms was profiled: energy follows the median minibatch, and epochs may take longer"
            )
        warnings += warn_never_varied(self.profiled, self.board, self.prior, self.seed)
        return PredictionTable(
            self.profiled_name,
            len(self.profiled),
            len(self.board),
            self.board_name,
            Origin.PREDICTED,
            LEVEL,
            self.prior_used,
            ExpectedError(expected_error(found.time_log_sd, found.dof), expected_error(found.power_log_sd, found.dof)),
            tuple(warnings),
            _columns(self.board, found),
            self.unit,
        )

    def csv(self) -> str:
        """Return the table as CSV, in columns that `edgetrain predict` reads."""
        modes = ("cores", "cpu_khz", "gpu_hz", "emc_hz", "batch_size")
        columns = _columns(self.board, self.predictions).known()
        return write_table(bare(self.board), {name: column for name, column in columns.items() if name not in modes})

    def dump(self) -> str:
        """Return the fitted predictor as JSON, for `edgetrain recommend --predictor`."""
        return dump_predictor(self.fitted)


def _check_batch_sizes(profiled: ModeTable, board: ModeTable, profiled_name: str, board_name: str) -> None:
    if profiled.batch_size is None and board.batch_size is not None:
        raise UsageError(
            f"{board_name} has a batch_size column and {profiled_name} has none; add it to the profiled modes"
        )
    if profiled.batch_size is not None and board.batch_size is None:
        raise UsageError(
            f"{profiled_name} has a batch_size column; add one to the modes, so that it is clear which to predict"
        )


def _columns(modes: ModeTable, found: Predictions) -> PredictionColumns:
    joules, joules_sd = energy(found)
    time_ms, power_mw, energy_mj = MS_PER_S * found.time_s, found.power_w / W_PER_MW, 1e3 * joules
    return PredictionColumns(
        modes.cores,
        modes.cpu_hz / HZ_PER_KHZ,
        modes.gpu_hz,
        modes.emc_hz,
        modes.batch_size,
        time_ms,
        *bounds(time_ms, found.time_log_sd, found.dof),
        None if found.time_mean_s is None else MS_PER_S * found.time_mean_s,
        power_mw,
        *bounds(power_mw, found.power_log_sd, found.dof),
        energy_mj,
        *bounds(energy_mj, joules_sd, found.dof),
        found.extrapolated,
    )
