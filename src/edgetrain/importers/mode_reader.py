"""Reads CSV tables of power modes: the one reader of `import`, `predict`, `recommend` and `evaluate`.

    read_modes(path)                  every row that can be used, and the others with their line and reason
    read_modes(path, strict=True)     the same, but the first row that cannot be used is an error

Columns name their unit: `cores`, `cpu_khz`, `gpu_hz`, `emc_mhz`, `batch_size`, `time_ms`, `time_mean_ms`, `power_mw`,
in any of the usual units. Results are in hertz, seconds and watts. A column whose values are possible only in another
unit than it names is converted, with a note; a value that is possible in no unit makes its row unusable.
A board without a GPU or memory clock leaves that column out, or empty.
"""

from __future__ import annotations

import csv
import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from edgetrain.errors import BadTable
from edgetrain.importers.base import MAX_FILE_BYTES, number
from edgetrain.importers.mode_units import ANY_BOARD, Array, ColumnUnit, PowerRange, clock_without_unit

LOG = logging.getLogger(__name__)

# Whether a row must have time and power: always, where the table has such columns, or not at all.
ResultCells = Literal["required", "where given", "optional"]

_OPTIONAL_CLOCKS = ("gpu_hz", "emc_hz")
_MODE = ("cores", "cpu_hz", "gpu_hz", "emc_hz", "batch_size")
_RESULTS = ("time_s", "time_mean_s", "power_w")
_MOST_CORES = 1024
_UNIT_JUMP = 300.0  # no board's modes differ by this factor in time or power: such a row is in another unit
_REPEAT_SPREAD = 0.15  # rows of one mode further than this from their mean contradict each other


@dataclass(frozen=True, slots=True)
class UnusableRow:
    """A row that cannot be used: its line, the kind of fault, the value in question, and its cells."""

    line: int
    reason: str
    detail: str = ""
    cells: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.reason} ({self.detail})" if self.detail else self.reason


@dataclass(frozen=True, slots=True)
class ModeColumns:
    """A table of modes as it was read; NaN where a cell is empty. Columns that are not ours keep their name."""

    name: str
    lines: tuple[int, ...]
    columns: Mapping[str, Array]
    unusable: tuple[UnusableRow, ...] = ()
    notes: tuple[str, ...] = ()  # conversions, averaged repeats
    unknown: tuple[str, ...] = ()  # columns that are not ours

    def __len__(self) -> int:
        return len(self.lines)


def read_modes(
    path: str | Path, power: PowerRange = ANY_BOARD, results: ResultCells = "required", strict: bool = False
) -> ModeColumns:
    """Read a CSV file; `power` is the range of powers that is possible for its board."""
    try:
        with Path(path).open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise BadTable(f"cannot read {path}: {error.strerror or error}") from error
    if len(data) > MAX_FILE_BYTES:
        raise BadTable(f"{path} is larger than {MAX_FILE_BYTES >> 20} MiB: not a table of power modes")
    return parse_modes(data, str(path), power, results, strict)


def parse_modes(
    data: bytes | str, name: str, power: PowerRange = ANY_BOARD, results: ResultCells = "required", strict: bool = False
) -> ModeColumns:
    """Read the same from bytes or text; `name` is used in messages."""
    draft = _parse_rows(data.encode() if isinstance(data, str) else data, name)
    for column in draft.header:
        _convert(draft, column, power)
    _check_columns(draft, results)
    _check_rows(draft, results)
    _check_unit_jumps(draft)
    found = _merge_repeats(draft)
    if strict:
        if found.unusable:
            first = min(found.unusable, key=lambda row: row.line)
            raise BadTable(f"{name}:{first.line}: {first}", file=name, line=first.line)
        for note in found.notes:
            LOG.warning("%s: %s", name, note)
    if not len(found):
        said = "; ".join(f"line {row.line}: {row}" for row in found.unusable[:3])
        more = f": {said}" if said else "; the first line names the columns, then there is one line per mode"
        raise BadTable(f"{name} holds no mode that can be used{more}")
    return found


@dataclass(slots=True)
class _Draft:
    """A table being read: cells by row, then columns in our units; `faults` holds the first fault of a row."""

    name: str
    header: list[str]
    lines: list[int] = field(default_factory=list)
    cells: list[list[str]] = field(default_factory=list)
    unusable: list[UnusableRow] = field(default_factory=list)  # not even cells
    columns: dict[str, Array] = field(default_factory=dict)
    source: dict[str, str] = field(default_factory=dict)  # our column: the one in the file
    faults: dict[int, tuple[str, str]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)

    def refused(self, text: str) -> BadTable:
        return BadTable(f"{self.name}:1: {text}", file=self.name, line=1)

    def texts(self, column: str) -> list[str]:
        place = self.header.index(column)
        return [row[place].strip() for row in self.cells]

    def fault(self, rows: NDArray[np.bool_], reason: str, details: Sequence[str]) -> None:
        """Note a fault for each of the rows that has none yet."""
        for row in np.flatnonzero(rows).tolist():
            self.faults.setdefault(row, (reason, details[row]))


def _parse_rows(data: bytes, name: str) -> _Draft:
    """Split the file into cells. Each line is parsed alone, so that an open quote cannot swallow the lines after it."""
    draft: _Draft | None = None
    for line, raw in enumerate(data.removeprefix(b"\xef\xbb\xbf").splitlines(), start=1):
        if not raw.strip():
            continue
        row, fault = _cells(raw)
        if draft is None:
            if fault is not None:
                raise BadTable(f"{name}:{line}: {fault}; write the table as UTF-8 text", file=name, line=line)
            draft = _Draft(name, [cell.strip().lower() for cell in row])
            twice = next((column for column in draft.header if draft.header.count(column) > 1), None)
            if twice is not None:
                raise BadTable(f"{name}:{line}: the column {twice!r} occurs twice; keep one", file=name, line=line)
        elif fault is not None:
            draft.unusable.append(_fault_row(line, fault, row))
        elif len(row) != len(draft.header):
            draft.unusable.append(_fault_row(line, f"{len(row)} values under {len(draft.header)} columns", row))
        elif any(cell.strip() for cell in row):
            draft.lines.append(line)
            draft.cells.append(row)
    if draft is None:
        raise BadTable(f"{name} is empty; the first line names the columns, then there is one line per mode")
    return draft


def _fault_row(line: int, reason: str, cells: Sequence[str]) -> UnusableRow:
    """Return a row whose cells could not be taken apart."""
    return UnusableRow(line, reason, cells=tuple(cell[:200] for cell in cells[:100]))


def _cells(raw: bytes) -> tuple[list[str], str | None]:
    """Return the cells of a line, and why they cannot be used."""
    if b"\0" in raw:
        return [], f"holds a NUL byte at position {raw.index(0) + 1}: the file was cut or damaged"
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        return [], f"is not UTF-8 text: byte 0x{raw[error.start]:02x} at position {error.start + 1}"
    try:
        return next(csv.reader([text], strict=True)), None
    except csv.Error as error:
        limit = csv.field_size_limit()
        if len(text) > limit:
            return [], f"a cell is longer than {limit:,} characters"
        return [], f"is not CSV: {error}"
    except StopIteration:
        return [], "is not CSV"


def _convert(draft: _Draft, column: str, power: PowerRange) -> None:
    """Add one column in our unit; a column that is not ours is kept where its cells are numbers."""
    texts = draft.texts(column)
    values = np.array([number(text) for text in texts], dtype=float)
    named = ColumnUnit.of(column, power)
    if named is None:
        draft.columns[column], draft.source[column] = values, column
        if column not in ("cores", "batch_size"):
            draft.unknown.append(column)
        return
    if named.ours in draft.columns:
        raise draft.refused(f"both {draft.source[named.ours]} and {column} give {named.ours}; keep one")
    unit = named.found_in(values)
    if unit != named.unit:
        draft.notes.append(f"column {column} holds {unit}, not {named.unit}; converted")
    converted = values * named.units[unit]
    unusual = named.unusual(converted)
    if unusual is not None:
        draft.notes.append(unusual)
    if named.base == "hz":
        converted = np.round(converted)
    draft.columns[named.ours], draft.source[named.ours] = converted, column
    empty = np.array([not text for text in texts], dtype=bool)
    with np.errstate(invalid="ignore"):
        outside = (converted < named.least) | (converted > named.most)
        draft.fault(np.isnan(values) & ~empty, f"{column} is not a number", [repr(text[:40]) for text in texts])
        draft.fault(values <= 0, f"{column} is not above 0", [f"it is {text[:40]}" for text in texts])
    draft.fault(outside, named.impossible(power), [named.hint(value, unit) for value in values.tolist()])


def _check_columns(draft: _Draft, results: ResultCells) -> None:
    wanted = {"cores": "cores", "cpu_hz": "cpu_khz"}
    if results == "required":
        wanted |= {"time_s": "time_ms", "power_w": "power_mw"}
    missing = [example for column, example in wanted.items() if column not in draft.columns]
    if missing:
        found = ", ".join(draft.header)[:200]
        raise draft.refused(f"no column for {', '.join(missing)} (in any unit); found {found}")
    for column in _OPTIONAL_CLOCKS:
        if column in draft.columns:
            continue
        odd = clock_without_unit(column, draft.header)
        if odd is not None:
            raise draft.refused(
                f"the column {odd!r} does not name its unit; write {column}, {column[:3]}_khz or {column[:3]}_mhz"
            )
        draft.columns[column], draft.source[column] = np.full(len(draft.lines), np.nan), column


def _check_rows(draft: _Draft, results: ResultCells) -> None:
    """Find cells that are empty, and counts that are not whole numbers."""
    for column in ("cores", "batch_size"):
        if column in draft.columns:
            values, texts = draft.columns[column], draft.texts(column)
            most = _MOST_CORES if column == "cores" else math.inf
            with np.errstate(invalid="ignore"):
                whole = (values == np.round(values)) & (values >= 1) & (values <= most)
            reason = f"{column} is not a whole number" + (f" from 1 to {_MOST_CORES}" if column == "cores" else "")
            draft.fault(~whole, reason, [repr(text[:40]) for text in texts])
    for column in ("cpu_hz", *_OPTIONAL_CLOCKS, *_RESULTS):
        if column not in draft.columns:
            continue
        empty = np.isnan(draft.columns[column])
        is_result = column in ("time_s", "power_w")
        needed = column == "cpu_hz" or (results == "required" and is_result)
        wanted = column in _OPTIONAL_CLOCKS or (results == "where given" and is_result)
        if needed or (wanted and not empty.all()):
            reason = f"{draft.source[column]} is empty" + ("" if needed else " while other lines give it")
            draft.fault(empty, reason, [""] * len(empty))


def _usable(draft: _Draft) -> NDArray[np.bool_]:
    usable = np.ones(len(draft.lines), dtype=bool)
    usable[list(draft.faults)] = False
    return usable


def _check_unit_jumps(draft: _Draft) -> None:
    """Find rows whose time or power is so far from the middle of the column that it must be in another unit."""
    for column in _RESULTS:
        if column not in draft.columns:
            continue
        values = np.where(_usable(draft), draft.columns[column], np.nan)
        known = values[np.isfinite(values)]
        if not len(known):
            continue
        middle = float(np.median(known))
        with np.errstate(invalid="ignore"):
            far = (values > middle * _UNIT_JUMP) | (values < middle / _UNIT_JUMP)
        name = draft.source[column]
        details = [f"it is {text}, the middle of the column is {middle:g} {column.rpartition('_')[2]}"
                   for text in draft.texts(name)]  # fmt: skip
        draft.fault(far, f"{name} is far away from all others; check the unit of this line", details)


def _merge_repeats(draft: _Draft) -> ModeColumns:
    """Average rows that repeat a mode; those that contradict each other cannot be used."""
    keys = [draft.columns[name] for name in _MODE if name in draft.columns]
    groups: dict[tuple[str, ...], list[int]] = {}
    for row in np.flatnonzero(_usable(draft)).tolist():
        groups.setdefault(tuple(f"{column[row]:.0f}" for column in keys), []).append(row)
    columns = dict(draft.columns)
    averaged = 0
    kept: list[int] = []
    for rows in groups.values():
        if len(rows) > 1:
            if _contradict(draft, rows):
                continue
            for name in _RESULTS:
                if name in columns:
                    columns[name] = columns[name].copy() if columns[name] is draft.columns[name] else columns[name]
                    columns[name][rows[0]] = np.exp(np.mean(np.log(draft.columns[name][rows])))
            averaged += len(rows) - 1
        kept.append(rows[0])
    if averaged:
        draft.notes.append(f"{averaged} lines repeat a mode and were averaged")
    kept.sort()
    unusable = [
        UnusableRow(draft.lines[row], *fault, cells=tuple(draft.cells[row])) for row, fault in draft.faults.items()
    ]
    return ModeColumns(
        draft.name,
        tuple(draft.lines[row] for row in kept),
        {name: column[kept] for name, column in columns.items()},
        tuple(sorted([*draft.unusable, *unusable], key=lambda row: row.line)),
        tuple(draft.notes),
        tuple(draft.unknown),
    )


def _contradict(draft: _Draft, rows: list[int]) -> bool:
    """Note a fault for rows of one mode whose results are too far apart; return whether they are."""
    for name in _RESULTS:
        if name not in draft.columns:
            continue
        logs = np.log(draft.columns[name][rows])
        away = np.abs(logs - logs.mean())
        if not (away > _REPEAT_SPREAD).any():
            continue
        texts, mask = draft.texts(draft.source[name]), np.zeros(len(draft.lines), dtype=bool)
        details = [""] * len(mask)
        for row in rows:
            other = rows[0] if row != rows[0] else rows[1]
            details[row] = f"line {draft.lines[other]} has {texts[other]}, this one {texts[row]}; remove the wrong one"
        mask[rows] = True
        draft.fault(mask, f"{draft.source[name]} contradicts another line of the same mode", details)
        return True
    return False
