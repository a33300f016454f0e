"""A run as tables for other programs: one row a minibatch, with its parts, as CSV or Parquet."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgetrain.analysis import Digest
from edgetrain.errors import EdgetrainError, UsageError

PARTS = ("e2e_s", "stall_s", "hidden_s", "copy_s", "compute_s", "overhead_s")
CHUNK = 100_000  # rows turned into text at a time


def minibatch_table(digest: Digest) -> dict[str, NDArray[Any]]:
    """Return one row per training minibatch: the record's columns, then the parts of its time; null is -1 or NaN."""
    parts, run = digest.parts, digest.run
    table = {name: column[parts.rows] for name, column in run.minibatches.items()}
    table |= {("fetch_stall_s" if name == "stall_s" else name): getattr(parts, name) for name in PARTS}
    steady = np.zeros(len(parts), np.int64)
    steady[digest.steady.first : digest.steady.last + 1] = 1
    table["steady"] = steady
    if not parts.copy_seen:
        table["copy_s"] = np.full(len(parts), np.nan)
    return table


def write_csv(digest: Digest, path: Path) -> int:
    """Write the minibatch table as CSV, nulls empty; return the rows written."""
    table = minibatch_table(digest)
    names = list(table)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(names)
        for start in range(0, len(digest.parts), CHUNK):
            columns = [_texts(table[name][start : start + CHUNK], name) for name in names]
            writer.writerows(zip(*columns, strict=True))
    return len(digest.parts)


def _texts(column: NDArray[Any], name: str) -> list[str]:
    if column.dtype.kind == "f":
        return ["" if np.isnan(value) else f"{value:.6f}" for value in column.tolist()]
    return ["" if value == -1 else str(value) for value in column.tolist()]


def write_parquet(digest: Digest, path: Path) -> int:
    """Write the minibatch table as Parquet, nulls as nulls."""
    try:
        import duckdb
    except ImportError as error:
        raise EdgetrainError("Parquet needs duckdb: pip install 'edgetrain[export]'; --csv needs nothing") from error
    if "'" in str(path):
        raise UsageError(f"the path {path} holds a quote; choose another name")
    table = minibatch_table(digest)
    base = duckdb.connect()
    base.register("minibatches", table)
    wanted = ", ".join(
        f'nullif("{name}", -1) as "{name}"'
        if column.dtype.kind == "i"
        else f'case when isnan("{name}") then null else "{name}" end as "{name}"'
        for name, column in table.items()
    )
    base.execute(f"copy (select {wanted} from minibatches) to '{path}' (format parquet)")
    base.close()
    return len(digest.parts)
