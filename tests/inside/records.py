"""Reads back what the stopwatch wrote, for the tests of this folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from edgetrain.analysis import TrainingLoop, find_loops
from edgetrain.record import Table, read_run
from edgetrain.record.decoder import JoinedTable, read_stream


def columns(run: Path, kind: str) -> Table:
    """All rows of one kind of stream of a run."""
    parts = [read_stream(path).table for path in sorted(run.glob(f"{kind}-*.ets"))]
    return JoinedTable(parts)


def batches(run: Path) -> Table:
    """The rows of a run in which a batch was delivered: not the ends of passes, nor steps without a fetch."""
    rows = columns(run, "minibatches")
    return rows.take(rows["batch"] >= 0) if len(rows) else rows


def loop(run: Path, place: int = 0) -> TrainingLoop:
    """The minibatches of one training process of a run."""
    return find_loops(read_run(run))[place]


def facts(run: Path) -> dict[str, Any]:
    """inside.json of a run."""
    return dict(json.loads((run / "inside.json").read_text()))


def keys(rows: Table) -> list[tuple[int, int, int]]:
    """(loader, generation, batch) of each row."""
    return list(zip(rows["loader"].tolist(), rows["generation"].tolist(), rows["batch"].tolist(), strict=True))


def joined(run: Path) -> tuple[Table, Table]:
    """Minibatches and the worker rows that made them, in the same order; fails where one has no partner."""
    minibatches, workers = batches(run), columns(run, "workers")
    place = {key: row for row, key in enumerate(keys(workers))}
    assert len(place) == len(workers["batch"]), "a batch was recorded twice"
    order = np.array([place[key] for key in keys(minibatches)])
    return minibatches, workers.take(order)
