"""A run as tables for other programs: one row per minibatch with its parts, or per reading; as CSV or Parquet."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgetrain.analysis import Summary, find_loops, slowest
from edgetrain.errors import EdgetrainError, UsageError
from edgetrain.record import ArrayTable, Run, Table

PARTS = ("e2e_s", "stall_s", "hidden_s", "copy_s", "compute_s", "overhead_s")
CHUNK = 100_000  # rows turned into text at a time


def minibatch_table(run: Run, summary: Summary) -> Table:
    """Return one row per training minibatch: the recorded columns, then the parts of its time."""
    loop = slowest(find_loops(run))
    parts = loop.parts
    table = {name: column[parts.rows] for name, column in loop.process.minibatches.items()}
    table["epoch"] = parts.epoch
    table["trained"] = np.ones(len(parts), np.int64) if parts.trained is None else parts.trained.astype(np.int64)
    table |= {("fetch_stall_s" if name == "stall_s" else name): getattr(parts, name) for name in PARTS}
    steady = np.zeros(len(parts), np.int64)
    steady[summary.steady.first : summary.steady.last + 1] = 1
    table["steady"] = steady
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
    base.execute(f"copy (select {wanted} from rows) to '{path}' (format parquet)")
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
