"""A run as a trace for Perfetto or Chrome: stalls and steps as slices, every sampled series as a counter."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from edgetrain.analysis import Summary, Trace, TrainingLoop, find_loops, slowest, traces
from edgetrain.record import Run, Table
from edgetrain.schema import SCHEMA

MAX_SLICES = 200_000  # viewers get slow above this; the middle of a longer run is left out, and reported
MAX_POINTS = 20_000  # of one counter
MAX_COUNTER_POINTS = 400_000  # of all counters together


@dataclass(frozen=True, slots=True)
class TraceWritten:
    """What a trace holds, and what was left out to keep viewers quick."""

    events: int
    minibatches_left_out: int


def write_trace(run: Run, summary: Summary, path: Path, max_slices: int = MAX_SLICES) -> TraceWritten:
    """Write Chrome's JSON trace format; return what was written and what was left out."""
    loop = slowest(find_loops(run))
    each = max_slices // 4
    left_out = max(0, len(loop.parts) - 2 * each)
    written = 0
    with path.open("w") as file:
        file.write('{"displayTimeUnit":"ms","traceEvents":[\n')
        file.write(json.dumps({"ph": "M", "pid": 1, "name": "process_name", "args": {"name": run.id}}))
        for event in _events(run, summary, loop, each):
            file.write(",\n" + json.dumps(event))
            written += 1
        note = {"schema": SCHEMA, "run": run.id, "minibatches_left_out": left_out}
        file.write("\n],\n" + f'"otherData":{json.dumps(note)}' + "}\n")
    return TraceWritten(written, left_out)


def _events(run: Run, summary: Summary, loop: TrainingLoop, each: int) -> Iterator[dict[str, Any]]:
    parts = loop.parts
    for thread, name in ((1, "epochs"), (2, "training loop"), (3, "loader workers")):
        yield {"ph": "M", "pid": 1, "tid": thread, "name": "thread_name", "args": {"name": name}}
    for epoch in summary.epochs:
        took, name = epoch.end_us - epoch.begin_us, f"epoch {epoch.epoch}"
        yield {"ph": "X", "pid": 1, "tid": 1, "name": name, "ts": epoch.begin_us, "dur": took}
    every = np.arange(len(parts))
    slices = (
        ("fetch stall", parts.stall_from_us, parts.stall_to_us, every if parts.wait_turn is None else parts.wait_turn),
        ("copy and compute", parts.start_us, parts.done_us, every),
    )
    for name, starts, stops, minibatch in slices:
        for row in _ends_of(len(starts), each):
            start, stop, number = int(starts[row]), int(stops[row]), int(minibatch[row])
            if stop > start:
                label = {"minibatch": number, "epoch": int(parts.epoch[number])}
                yield {"ph": "X", "pid": 1, "tid": 2, "name": name, "ts": start, "dur": stop - start, "args": label}
    yield from _worker_slices(loop.process.workers)
    yield from _counters(traces(run))
    for event in run.events:
        if event.at_us is not None and event.kind != "cost":
            said = {"text": event.text}
            yield {"ph": "i", "s": "g", "pid": 1, "tid": 1, "name": event.kind, "ts": event.at_us, "args": said}


def _ends_of(count: int, each: int) -> Iterator[int]:
    """Return the first and the last places of many, all where they are few."""
    yield from range(min(count, each))
    yield from range(max(each, count - each), count)


def _worker_slices(workers: Table) -> Iterator[dict[str, Any]]:
    if not workers:
        return
    step = max(1, len(workers["began_us"]) // (MAX_SLICES // 2))
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


def _counters(known: Sequence[Trace]) -> Iterator[dict[str, Any]]:
    """Return every series; a long one by the smallest and the largest of each bin, so that no extreme is lost."""
    most = min(MAX_POINTS, MAX_COUNTER_POINTS // max(1, len(known)))
    for trace in known:
        name = f"{trace.kind.value}: {trace.name}" + (f" [{trace.kind.unit}]" if trace.kind.unit != "1" else "")
        for at_us, value in _points(trace, most):
            yield {"ph": "C", "pid": 1, "name": name, "ts": at_us, "args": {"value": value}}


def _points(trace: Trace, most: int) -> list[tuple[int, float]]:
    read = np.isfinite(trace.values)
    at, values = trace.at_us[read], trace.values[read]
    if len(at) > most:
        kept = set()
        for part in np.array_split(np.arange(len(at)), max(1, most // 2)):
            kept |= {int(part[np.argmin(values[part])]), int(part[np.argmax(values[part])])}
        rows = np.asarray(sorted(kept))
        at, values = at[rows], values[rows]
    return [(int(instant), float(value)) for instant, value in zip(at.tolist(), values.tolist(), strict=True)]
