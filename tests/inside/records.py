"""Reads back what the stopwatch wrote, for the tests of this folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from edgetrain.store.codec import JoinedColumns, read_stream


def columns(run: Path, kind: str) -> dict[str, Any]:
    """All rows of one kind of stream of a run."""
    parts = [read_stream(path).columns for path in sorted(run.glob(f"{kind}-*.ets"))]
    return dict(JoinedColumns(parts))


def facts(run: Path) -> dict[str, Any]:
    """inside.json of a run."""
    return dict(json.loads((run / "inside.json").read_text()))


def keys(rows: dict[str, Any]) -> list[tuple[int, int, int]]:
    """(loader, generation, batch) of each row."""
    return list(zip(rows["loader"].tolist(), rows["generation"].tolist(), rows["batch"].tolist(), strict=True))


def joined(run: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Minibatches and the worker rows that made them, in the same order; fails where one has no partner."""
    minibatches, workers = columns(run, "minibatches"), columns(run, "workers")
    place = {key: row for row, key in enumerate(keys(workers))}
    assert len(place) == len(workers["batch"]), "a batch was recorded twice"
    order = np.array([place[key] for key in keys(minibatches)])
    return minibatches, {name: values[order] for name, values in workers.items()}
