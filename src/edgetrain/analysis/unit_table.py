"""Reads a CSV of repeated measurements on several units into the runs that `variability` studies.

Columns: `unit` and `time_ms` (or `time_s`) per minibatch; where known `energy_mj` (or `energy_j`), `software`, `hours`
since the first measurement, `run` (rows of one unit with the same value are epochs of one run), `board`. Every other
column is a setting: rows are compared only where all of them agree.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping
from pathlib import Path

from edgetrain.analysis.unit_runs import UnitEpoch, UnitRun
from edgetrain.errors import UsageError
from edgetrain.schema import Origin, Scalar

TIME, ENERGY = {"time_ms": 1e-3, "time_s": 1.0}, {"energy_mj": 1e-3, "energy_j": 1.0}
KNOWN = {"unit", "software", "hours", "run", "board", *TIME, *ENERGY}
S_PER_H = 3600.0
MAX_BYTES = 50_000_000


def read_unit_table(path: Path) -> list[UnitRun]:
    """Return the runs of a CSV; UsageError names the line that cannot be used."""
    try:
        if path.stat().st_size > MAX_BYTES:
            raise UsageError(f"{path} is larger than {MAX_BYTES // 1_000_000} MB; give one row per epoch or run")
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read {path}: {error}") from error
    rows = csv.DictReader(io.StringIO(text), restkey="")
    heads = [name.strip() for name in rows.fieldnames or ()]
    rows.fieldnames = heads
    if "unit" not in heads or not any(name in heads for name in TIME):
        raise UsageError(
            f"{path} needs the columns unit and time_ms (per minibatch); it has {', '.join(heads) or 'none'}"
        )
    runs: dict[tuple[str, str, str], UnitRun] = {}
    for number, row in enumerate(rows, 2):
        if "" in row or None in row.values():
            raise UsageError(f"{path}, line {number}: it has another number of cells than the {len(heads)} columns")
        one = _read_row(row, heads, f"{path}, line {number}", number)
        key = (one.unit or "", row.get("run", "") or f"line {number}", str(one.setting))
        before = runs.get(key)
        if before is not None:
            took_s = max(before.took_s, one.epochs[0].after_s)
            one = _joined(before, one, took_s)
        runs[key] = one
    if not runs:
        raise UsageError(f"{path} has no rows below its heading")
    return list(runs.values())


def _joined(before: UnitRun, one: UnitRun, took_s: float) -> UnitRun:
    return UnitRun(
        before.run, before.unit, before.board, before.software, before.setting, before.origin, before.started_s, took_s,
        (*before.epochs, *one.epochs), energy_reason=before.energy_reason,
    )  # fmt: skip


def _read_row(row: Mapping[str, str], heads: list[str], where: str, number: int) -> UnitRun:
    time_s = _number(row, TIME, where)
    if time_s is None:
        raise UsageError(f"{where}: the time is missing")
    hours = _number(row, {"hours": 1.0}, where, least=0.0) or 0.0
    energy_j = _number(row, ENERGY, where)
    setting: dict[str, Scalar] = {name: row[name].strip() for name in heads if name not in KNOWN and row[name].strip()}
    return UnitRun(
        run=row.get("run", "").strip() or f"line {number}",
        unit=row["unit"].strip() or None,
        board=row.get("board", "").strip() or "unknown",
        software=row.get("software", "").strip() or None,
        setting=setting,
        origin=Origin.REPLAYED,
        started_s=0.0,
        took_s=hours * S_PER_H,
        epochs=(UnitEpoch(time_s, energy_j, hours * S_PER_H),),
        energy_reason="the table has no energy column",
    )


def _number(
    row: Mapping[str, str], scales: Mapping[str, float], where: str, least: float | None = None
) -> float | None:
    """Return the first of some columns that is there, in base units; None where its cell is empty."""
    name = next((name for name in scales if name in row), None)
    if name is None or not row[name].strip():
        return None
    try:
        value = float(row[name])
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or (value <= 0 if least is None else value < least):
        raise UsageError(f"{where}: {name} must be a number above 0, not {row[name]!r}")
    return value * scales[name]
