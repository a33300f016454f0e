"""A run as tables for other programs: one row per minibatch with its parts, or per reading; as CSV or Parquet."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgetrain.analysis import Summary, TrainingLoop, find_loops, slowest
from edgetrain.errors import EdgetrainError, UsageError
from edgetrain.record import ArrayTable, Run, Table

PARTS = ("e2e_s", "stall_s", "hidden_s", "copy_s", "compute_s", "overhead_s")
CHUNK = 100_000  # rows turned into text at a time


def minibatch_table(run: Run, summary: Summary) -> Table:
    """Return one row per training minibatch of every process: the recorded columns, then the parts of its time.

    `steady` is known for the slowest process, whose figures the run reports.
    """
    loops = find_loops(run)
    spoken = slowest(loops)
    tables = [_loop_table(loop, summary if loop is spoken else None) for loop in loops if len(loop.parts)]
    if len(tables) < 2:
        return tables[0] if tables else _loop_table(spoken, summary)
    names = list(dict.fromkeys(name for table in tables for name in table.names))
    return ArrayTable({name: np.concatenate([_column(table, name, tables) for table in tables]) for name in names})


def _column(table: Table, name: str, tables: Sequence[Table]) -> NDArray[Any]:
    """Return a column; all missing where only another process recorded it."""
    found = table.get(name)
    if found is not None:
        return found
    kind = next(known.dtype for one in tables if (known := one.get(name)) is not None)
    return np.full(len(table), np.nan if kind.kind == "f" else -1, kind)


def _loop_table(loop: TrainingLoop, summary: Summary | None) -> Table:
    parts, facts = loop.parts, loop.process.facts
    table = {name: column[parts.rows] for name, column in loop.process.minibatches.items()}
    table["epoch"] = parts.epoch
    table["trained"] = np.ones(len(parts), np.int64) if parts.trained is None else parts.trained.astype(np.int64)
    table |= {("fetch_stall_s" if name == "stall_s" else name): getattr(parts, name) for name in PARTS}
    steady = np.full(len(parts), -1 if summary is None else 0, np.int64)
    if summary is not None:
        steady[summary.steady.first : summary.steady.last + 1] = 1
    table["steady"] = steady
    for name, number in (("process", facts.pid), ("rank", facts.rank)):
        table[name] = np.full(len(parts), -1 if number is None else number, np.int64)
    if not parts.copy_seen:
        table["copy_s"] = np.full(len(parts), np.nan)
    return ArrayTable(table)


def sample_table(run: Run) -> Table:
    """Return one row per reading of any sensor: instant, probe, name of the reading (unit last), value; no gaps."""
    at, probes, names, values = [], [], [], []
    for probe, samples in sorted(run.probes.items()):
        for name, column in samples.items():
            if name == "at_us":
                continue
            read = np.asarray(column, np.float64)
            known = np.isfinite(read)
            at.append(samples["at_us"][known])
            values.append(read[known])
            probes.append(np.full(int(known.sum()), probe))
            names.append(np.full(int(known.sum()), name))
    if not at:
        empty = np.zeros(0)
        return ArrayTable({"at_us": empty.astype(np.int64), "probe": empty.astype(str), "reading": empty.astype(str),
                           "value": empty})  # fmt: skip
    columns = {
        "at_us": np.concatenate(at),
        "probe": np.concatenate(probes),
        "reading": np.concatenate(names),
        "value": np.concatenate(values),
    }
    order = np.argsort(columns["at_us"], kind="stable")
    return ArrayTable({name: column[order] for name, column in columns.items()})


def write_csv(table: Table, path: Path) -> int:
    """Write a table as CSV, nulls empty; return the rows written."""
    names = table.names
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(names)
        for start in range(0, len(table), CHUNK):
            columns = [_texts(table[name][start : start + CHUNK], name) for name in names]
            writer.writerows(zip(*columns, strict=True))
    return len(table)


def _texts(column: NDArray[Any], name: str) -> list[str]:
    if column.dtype.kind == "U":
        return [str(value) for value in column.tolist()]
    if column.dtype.kind == "f":
        form = "{:.9g}" if name == "value" else "{:.6f}"
        return ["" if np.isnan(value) else form.format(value) for value in column.tolist()]
    return ["" if value == -1 else str(value) for value in column.tolist()]


def write_parquet(table: Table, path: Path) -> int:
    """Write a table as Parquet, nulls as nulls."""
    try:
        import duckdb
    except ImportError as error:
        raise EdgetrainError("Parquet needs duckdb: pip install 'edgetrain[export]'; --csv needs nothing") from error
    if "'" in str(path):
        raise UsageError(f"the path {path} holds a quote; choose another name")
    base = duckdb.connect()
    base.register("rows", {name: _objects(column) for name, column in table.items()})
    wanted = ", ".join(_selected(name, column.dtype.kind) for name, column in table.items())
    try:
        base.execute(f"copy (select {wanted} from rows) to '{path}' (format parquet)")
    except duckdb.Error as error:
        raise UsageError(f"cannot write {path} ({str(error).splitlines()[0]}); choose another path") from error
    finally:
        base.close()
    return len(table)


def _objects(column: NDArray[Any]) -> NDArray[Any]:
    return column.astype(object) if column.dtype.kind == "U" else column


def _selected(name: str, kind: str) -> str:
    if kind == "U":
        return f'cast("{name}" as varchar) as "{name}"'
    if kind == "i":
        return f'nullif("{name}", -1) as "{name}"'
    return f'case when isnan("{name}") then null else "{name}" end as "{name}"'
