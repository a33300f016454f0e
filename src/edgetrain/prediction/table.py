"""Reads tables of power modes into a ModeTable and writes them as CSV."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from edgetrain.importers import ANY_BOARD, ModeColumns, PowerRange, ResultCells, parse_modes, read_modes
from edgetrain.prediction.base import Array, ModeTable
from edgetrain.units import HZ_PER_KHZ, MS_PER_S, W_PER_MW

_WHOLE = frozenset({"cores", "cpu_khz", "gpu_hz", "emc_hz", "batch_size", "extrapolated"})


def read_table(path: str | Path, need_results: bool, power: PowerRange = ANY_BOARD) -> ModeTable:
    """Read a CSV of power modes; with `need_results`, every mode must have its time and power.

    `power` is the range of total powers that is possible for the board. Anything that cannot be used is an error that
    names the line; a column in another unit than its name says is converted with a warning.
    """
    return mode_table(read_modes(path, power, _cells(need_results), strict=True))


def parse_table(text: bytes | str, name: str, need_results: bool, power: PowerRange = ANY_BOARD) -> ModeTable:
    """Read the same from text; `name` is used in errors."""
    return mode_table(parse_modes(text, name, power, _cells(need_results), strict=True))


def _cells(need_results: bool) -> ResultCells:
    return "required" if need_results else "optional"


def mode_table(read: ModeColumns) -> ModeTable:
    """Return what was read as a table; a column of results with an empty cell is left out."""

    def whole(name: str) -> Array | None:
        column = read.columns.get(name)
        return column if column is not None and bool(np.isfinite(column).all()) else None

    columns = read.columns
    return ModeTable(
        columns["cores"],
        columns["cpu_hz"],
        columns["gpu_hz"],
        columns["emc_hz"],
        whole("batch_size"),
        whole("time_s"),
        whole("time_mean_s"),
        whole("power_w"),
    )


def write_table(table: ModeTable, extra: Mapping[str, Array] | None = None) -> str:
    """Return the table as CSV in the columns that `read_table` reads, with extra ones after them.

    A clock that no mode has is left out; one that a single mode lacks is an empty cell.
    """
    columns: dict[str, Array] = {"cores": table.cores, "cpu_khz": table.cpu_hz / HZ_PER_KHZ}
    for name, clock in (("gpu_hz", table.gpu_hz), ("emc_hz", table.emc_hz)):
        if np.isfinite(clock).any():
            columns[name] = clock
    for name, values, scale in (
        ("batch_size", table.batch_size, 1.0),
        ("time_ms", table.time_s, MS_PER_S),
        ("time_mean_ms", table.time_mean_s, MS_PER_S),
        ("power_mw", table.power_w, 1 / W_PER_MW),
    ):
        if values is not None:
            columns[name] = values * scale
    columns.update(extra or {})
    spelled = [[_cell(value, name in _WHOLE) for value in values] for name, values in columns.items()]
    lines = [",".join(columns), *(",".join(row) for row in zip(*spelled, strict=True))]
    return "\n".join(lines) + "\n"


def _cell(value: float, whole: bool) -> str:
    if not np.isfinite(value):
        return ""
    return f"{value:.0f}" if whole else f"{value:.6g}"
