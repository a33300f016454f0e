"""Reads and writes tables of power modes, tells kHz, MHz and Hz apart, and names the line that is wrong."""

from __future__ import annotations

import csv
import io
import logging
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edgetrain.errors import BadTable
from edgetrain.predict.base import Array, ModeTable
from edgetrain.units import HZ_PER_KHZ, HZ_PER_MHZ

LOG = logging.getLogger(__name__)

_HZ_PER = {"hz": 1.0, "khz": float(HZ_PER_KHZ), "mhz": float(HZ_PER_MHZ)}
# Clocks of CPUs, GPUs and memories lie between these. The ratio is under 1000, so a value is plausible in one unit
# only.
_LEAST_HZ, _MOST_HZ = 10e6, 9.9e9
_CLOCKS = ("cpu", "gpu", "emc")
_RESULTS = {"time": {"ms": 1e-3, "s": 1.0}, "time_mean": {"ms": 1e-3, "s": 1.0}, "power": {"mw": 1e-3, "w": 1.0}}
# No board's modes differ by so much in time or power: a row this far from the middle is in another unit.
_UNIT_JUMP = 300.0
# Repeats of one mode closer than this are noise and are averaged; further apart they contradict each other.
_REPEAT_SPREAD = 0.3


def read_table(path: str | Path, need_results: bool) -> ModeTable:
    """Read a CSV of power modes; with `need_results`, time and power must be there and positive.

    Columns: cores, cpu_khz, gpu_hz, emc_hz (or any of hz, khz, mhz), optionally batch_size, and time_ms,
    time_mean_ms, power_mw (or s, w). A clock column whose values all fit another unit is converted with a warning.
    """
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise BadTable(f"cannot read {path}: {error}") from error
    return parse_table(text, str(path), need_results)


def parse_table(text: str, name: str, need_results: bool) -> ModeTable:
    """Read the same from text; `name` is what errors call it."""
    if "\0" in text:
        number = text[: text.index("\0")].count("\n") + 1
        raise BadTable(f"{name}:{number}: holds a NUL byte: the file was cut or garbled; write it again")
    lines = csv.reader(io.StringIO(text))
    header = [column.strip().lower() for column in next(lines, [])]
    if len(set(header)) != len(header):
        raise BadTable(f"{name}:1: a column is named twice: {', '.join(header)}")
    rows, numbers = [], []
    for row in lines:
        if not row or not any(cell.strip() for cell in row):
            continue
        if len(row) != len(header):
            raise BadTable(f"{name}:{lines.line_num}: {len(row)} values under {len(header)} columns")
        rows.append(row)
        numbers.append(lines.line_num)
    if not rows:
        raise BadTable(f"{name} holds no modes; the first line names the columns, then one line per mode")
    cells = {column: [row[i] for row in rows] for i, column in enumerate(header)}
    table: dict[str, Array | None] = {"cores": _column(cells, "cores", name, numbers)}
    bad = np.flatnonzero(table["cores"] != np.round(np.asarray(table["cores"])))
    if len(bad):
        raise BadTable(f"{name}:{numbers[bad[0]]}: {cells['cores'][bad[0]]} cores; cores are whole numbers")
    for clock in _CLOCKS:
        table[f"{clock}_hz"] = _clock(cells, clock, name, numbers)
    if "batch_size" in cells:
        table["batch_size"] = _column(cells, "batch_size", name, numbers)
    for quantity, units in _RESULTS.items():
        table[f"{quantity}_{'w' if quantity == 'power' else 's'}"] = _result(
            cells, quantity, units, name, numbers, need_results and quantity != "time_mean"
        )
    return _without_repeats(ModeTable(**table), name, numbers)  # type: ignore[arg-type]


def _column(cells: dict[str, list[str]], column: str, name: str, numbers: Sequence[int]) -> Array:
    if column not in cells:
        raise BadTable(f"{name}:1: no column {column}; found {', '.join(cells)}")
    values = np.empty(len(numbers))
    for i, cell in enumerate(cells[column]):
        try:
            values[i] = float(cell)
        except ValueError:
            raise BadTable(f"{name}:{numbers[i]}: {column} is {cell!r}, not a number") from None
        if not math.isfinite(values[i]) or values[i] <= 0:
            raise BadTable(f"{name}:{numbers[i]}: {column} is {cell.strip()}; it must be a number above 0")
    return values


def _clock(cells: dict[str, list[str]], clock: str, name: str, numbers: Sequence[int]) -> Array:
    named = [unit for unit in _HZ_PER if f"{clock}_{unit}" in cells]
    if len(named) != 1:
        found = "more than one" if named else "no"
        raise BadTable(f"{name}:1: {found} column for the {clock} clock; write {clock}_hz, {clock}_khz or {clock}_mhz")
    column = f"{clock}_{named[0]}"
    values = _column(cells, column, name, numbers)

    def fits(unit: str) -> NDArray[np.bool_]:
        hertz = values * _HZ_PER[unit]
        return np.asarray((hertz >= _LEAST_HZ) & (hertz < _MOST_HZ))

    if fits(named[0]).all():
        return values * _HZ_PER[named[0]]
    for unit in _HZ_PER:
        if fits(unit).all():
            LOG.warning("%s: column %s holds %s, not %s; converted", name, column, unit, named[0])
            return values * _HZ_PER[unit]
    odd = int(np.flatnonzero(~fits(named[0]))[0])
    if not fits(named[0]).any():
        raise BadTable(
            f"{name}:{numbers[odd]}: {column} is {values[odd]:g}; no unit makes this column clocks of 10 MHz to 9.9 GHz"
        )
    other = [unit for unit in _HZ_PER if fits(unit)[odd]]
    looks = f"looks like {other[0]} while other lines are in {named[0]}" if other else "is no clock in any unit"
    raise BadTable(f"{name}:{numbers[odd]}: {column} is {values[odd]:g}, which {looks}; write one unit throughout")


def _result(
    cells: dict[str, list[str]],
    quantity: str,
    units: dict[str, float],
    name: str,
    numbers: Sequence[int],
    needed: bool,
) -> Array | None:
    named = [unit for unit in units if f"{quantity}_{unit}" in cells]
    if len(named) > 1:
        raise BadTable(f"{name}:1: both {quantity}_{named[0]} and {quantity}_{named[1]}; keep one")
    if not named:
        if needed:
            spelled = " or ".join(f"{quantity}_{unit}" for unit in units)
            raise BadTable(f"{name}:1: no column {spelled}; profiled modes need their time and power")
        return None
    column = f"{quantity}_{named[0]}"
    if not needed and not all(cell.strip() for cell in cells[column]):
        return None
    values = _column(cells, column, name, numbers)
    away = np.abs(np.log(values / np.median(values)))
    worst = int(np.argmax(away))
    if away[worst] > math.log(_UNIT_JUMP):
        raise BadTable(
            f"{name}:{numbers[worst]}: {column} is {values[worst]:g} while the middle of the column is "
            f"{float(np.median(values)):g}; check the unit of this line"
        )
    return values * units[named[0]]


def _without_repeats(table: ModeTable, name: str, numbers: Sequence[int]) -> ModeTable:
    """Average rows that repeat a mode; refuse those that contradict each other."""
    columns = [table.cores, table.cpu_hz, table.gpu_hz, table.emc_hz]
    if table.batch_size is not None:
        columns.append(table.batch_size)
    _, first, group, count = np.unique(
        np.stack(columns, axis=1), axis=0, return_index=True, return_inverse=True, return_counts=True
    )
    if len(first) == len(table):
        return table
    group = group.reshape(-1)
    merged = {}
    for column in ("time_s", "time_mean_s", "power_w"):
        values = getattr(table, column)
        if values is None:
            continue
        mean = np.exp(np.bincount(group, np.log(values)) / count)
        away = np.abs(np.log(values / mean[group]))
        worst = int(np.argmax(away))
        if away[worst] > _REPEAT_SPREAD / 2:
            twin = int(np.flatnonzero((group == group[worst]) & (np.arange(len(group)) != worst))[0])
            raise BadTable(
                f"{name}:{numbers[max(worst, twin)]}: contradicts line {numbers[min(worst, twin)]}: the same mode with "
                f"{column} {values[worst]:g} and {values[twin]:g}; remove the wrong one"
            )
        merged[column] = mean
    LOG.warning("%s: %d lines repeat a mode and were averaged", name, len(table) - len(first))
    order = np.argsort(first)
    kept = table.take(first[order])
    changes = {column: mean[order] for column, mean in merged.items()}
    return ModeTable(**{slot: changes.get(slot, getattr(kept, slot)) for slot in ModeTable.__slots__})


def write_table(table: ModeTable, extra: dict[str, Array] | None = None) -> str:
    """Return the table as CSV in the columns that `read_table` reads, with extra ones after them."""
    columns: dict[str, Array] = {
        "cores": table.cores,
        "cpu_khz": table.cpu_hz / HZ_PER_KHZ,
        "gpu_hz": table.gpu_hz,
        "emc_hz": table.emc_hz,
    }
    for column, values, scale in (
        ("batch_size", table.batch_size, 1.0),
        ("time_ms", table.time_s, 1e3),
        ("time_mean_ms", table.time_mean_s, 1e3),
        ("power_mw", table.power_w, 1e3),
    ):
        if values is not None:
            columns[column] = values * scale
    columns.update(extra or {})
    whole = {"cores", "cpu_khz", "gpu_hz", "emc_hz", "batch_size", "extrapolated"}
    lines = [",".join(columns)]
    spelled = [
        [f"{v:.0f}" for v in values] if column in whole else [f"{v:.6g}" for v in values]
        for column, values in columns.items()
    ]
    lines.extend(",".join(row) for row in zip(*spelled, strict=True))
    return "\n".join(lines) + "\n"
