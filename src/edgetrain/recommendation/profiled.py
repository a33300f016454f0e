"""Profiled modes: a table to fit, the same as measurements, and what recorded runs show in addition."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from edgetrain.analysis import Summary
from edgetrain.errors import UsageError
from edgetrain.prediction import ModeTable, results
from edgetrain.recommendation.records import StallTimes, left_out_text, measurements_from, stall_times
from edgetrain.schema import ModeMeasurement, Origin


@dataclass(frozen=True, slots=True)
class ProfiledModes:
    """Modes that were measured."""

    name: str
    table: ModeTable
    measurements: tuple[ModeMeasurement, ...]
    stalls: StallTimes | None = None  # from recorded runs
    baseload_w: float | None = None  # the least that runs measured at rest
    left_out: str | None = None  # runs that lack a mode, a time or a power, in words

    @staticmethod
    def of_table(name: str, table: ModeTable, origin: Origin = Origin.REPLAYED) -> ProfiledModes:
        """Return the modes of a table, each of which has time and power."""
        results(table)
        return ProfiledModes(name, table, tuple(table.measurements(origin)))

    @staticmethod
    def of_measurements(name: str, measurements: Sequence[ModeMeasurement]) -> ProfiledModes:
        """Return measured modes."""
        if not measurements:
            raise UsageError(f"{name} holds no measured mode; profile at least 2")
        return ProfiledModes(name, ModeTable.of_measurements(measurements), tuple(measurements))

    @staticmethod
    def of_runs(name: str, runs: Sequence[Summary]) -> ProfiledModes:
        """Return the modes of recorded runs; repeats of a mode are averaged."""
        found, left_out = measurements_from(runs), left_out_text(runs)
        if left_out and len(found) < 2:
            raise UsageError(f"{name} has {len(found)} usable power modes, and at least 2 are needed: {left_out}")
        idle = [run.baseload_w for run in runs if run.baseload_w is not None]
        table = ModeTable.of_measurements(found)
        return ProfiledModes(name, table, tuple(found), stall_times(runs), min(idle, default=None), left_out)
