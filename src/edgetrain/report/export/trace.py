"""A run as a trace for Perfetto or Chrome: stalls and steps as slices; power, clocks and cache as counters."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from edgetrain.analysis import Digest
from edgetrain.schema import Columns

MOST_SLICES = 200_000  # a viewer grows sluggish above this; the middle of a longer run is left out, and said
MOST_POINTS = 20_000  # of one counter
SLICES = (
    ("fetch stall", "stall_from_us", "stall_to_us"),
    ("copy and compute", "start_us", "done_us"),
)
COUNTERS = (
    ("rails", ("_w",)),
    ("gpu_power", ("power_w",)),
    ("gpu", ("power_w", "_hz", "_share", "temp_c")),
    ("rapl", ("_w",)),
    ("cpu", ("cpu_share", "_hz", "steal_share")),
    ("residency", ("cached_share",)),
    ("thermal", ("_c",)),
    ("memory", ("available_bytes", "cached_bytes")),
)


def write_trace(digest: Digest, path: Path) -> dict[str, Any]:
    """Write Chrome's JSON trace format; return what was written and what was left out."""
    parts = digest.parts
    each = MOST_SLICES // 4
    rows = np.arange(len(parts))
    left_out = 0
    if len(rows) > 2 * each:
        left_out = len(rows) - 2 * each
        rows = np.concatenate([rows[:each], rows[-each:]])
    written = 0
    with path.open("w") as file:
        file.write('{"displayTimeUnit":"ms","traceEvents":[\n')
        file.write(json.dumps({"ph": "M", "pid": 1, "name": "process_name", "args": {"name": digest.run.run}}))
        for event in _events(digest, rows):
            file.write(",\n" + json.dumps(event))
            written += 1
        note = {"schema": digest.document()["schema"], "run": digest.run.run, "minibatches_left_out": left_out}
        file.write("\n],\n" + f'"otherData":{json.dumps(note)}' + "}\n")
    return {"events": written, "minibatches_left_out": left_out}


def _events(digest: Digest, rows: Any) -> Iterator[dict[str, Any]]:
    parts = digest.parts
    for thread, name in ((1, "epochs"), (2, "training loop"), (3, "loader workers")):
        yield {"ph": "M", "pid": 1, "tid": thread, "name": "thread_name", "args": {"name": name}}
    for epoch in digest.epochs:
        took = epoch["end_us"] - epoch["begin_us"]
        name = f"epoch {epoch['epoch']}"
        yield {"ph": "X", "pid": 1, "tid": 1, "name": name, "ts": epoch["begin_us"], "dur": took}
    for name, begin, end in SLICES:
        starts, stops = getattr(parts, begin)[rows], getattr(parts, end)[rows]
        for row, start, stop in zip(rows.tolist(), starts.tolist(), stops.tolist(), strict=True):
            if stop > start:
                label = {"minibatch": row, "epoch": int(parts.epoch[row])}
                yield {"ph": "X", "pid": 1, "tid": 2, "name": name, "ts": start, "dur": stop - start, "args": label}
    yield from _worker_slices(digest.run.workers)
    for stream, endings in COUNTERS:
        yield from _counters(digest.run.samples.get(stream), stream, endings)
    for event in digest.run.events:
        at = event.get("at_us")
        if at is not None and event.get("kind") != "cost":
            label = {"text": str(event.get("text"))}
            yield {"ph": "i", "s": "g", "pid": 1, "tid": 1, "name": str(event.get("kind")), "ts": at, "args": label}


def _worker_slices(workers: Columns) -> Iterator[dict[str, Any]]:
    if not workers:
        return
    step = max(1, len(workers["began_us"]) // (MOST_SLICES // 2))
    columns = [workers[name][::step].tolist() for name in ("began_us", "fetched_us", "worker", "batch")]
    for began, fetched, worker, batch in zip(*columns, strict=True):
        if fetched > began >= 0:
            label = {"batch": batch}
            thread = 10 + max(worker, -1)
            yield {
                "ph": "X",
                "pid": 1,
                "tid": thread,
                "name": "fetch",
                "ts": began,
                "dur": fetched - began,
                "args": label,
            }


def _counters(samples: Columns | None, stream: str, endings: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    if samples is None:
        return
    at = samples["at_us"]
    step = max(1, len(at) // MOST_POINTS)
    for name, column in samples.items():
        if name != "at_us" and name.endswith(endings):
            for instant, value in zip(at[::step].tolist(), column[::step].tolist(), strict=True):
                if value == value:
                    yield {"ph": "C", "pid": 1, "name": f"{stream} {name}", "ts": instant, "args": {name: value}}
