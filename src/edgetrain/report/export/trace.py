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
    found = find_loops(run)
    spoken = slowest(found)
    loops = [spoken, *(loop for loop in found if loop is not spoken)]  # the one that the run reports comes first
    each = max(1, max_slices // 4 // len(loops))
    left_out = sum(max(0, len(loop.parts) - 2 * each) for loop in loops)
    written = 0
    with path.open("w") as file:
        file.write('{"displayTimeUnit":"ms","traceEvents":[\n')
        file.write(json.dumps({"ph": "M", "pid": 1, "name": "process_name", "args": {"name": _name(run, loops, 0)}}))
        for event in _events(run, summary, loops, each):
            file.write(",\n" + json.dumps(event, separators=(",", ":")))
            written += 1
        note = {"schema": SCHEMA, "run": run.id, "minibatches_left_out": left_out}
        file.write("\n],\n" + f'"otherData":{json.dumps(note)}' + "}\n")
    return TraceWritten(written, left_out)


def _name(run: Run, loops: Sequence[TrainingLoop], place: int) -> str:
    """Return what a viewer calls a process: the run, and which process of it where there are several."""
    facts = loops[place].process.facts
    if len(loops) == 1:
        return run.id
    rank = "" if facts.rank is None else f"rank {facts.rank}, "
    return f"{run.id}, {rank}process {place + 1 if facts.pid is None else facts.pid}"


def _events(run: Run, summary: Summary, loops: Sequence[TrainingLoop], each: int) -> Iterator[dict[str, Any]]:
    yield {"ph": "M", "pid": 1, "tid": 1, "name": "thread_name", "args": {"name": "epochs"}}
    for epoch in summary.epochs:
        took, name = epoch.end_us - epoch.begin_us, f"epoch {epoch.epoch}"
        yield {"ph": "X", "pid": 1, "tid": 1, "name": name, "ts": epoch.begin_us, "dur": took}
    for place, loop in enumerate(loops):
        if place:
            about = {"name": _name(run, loops, place)}
            yield {"ph": "M", "pid": place + 1, "name": "process_name", "args": about}
        yield from _loop_slices(loop, place + 1, each)
    yield from _counters(traces(run))
    for event in run.events:
        if event.at_us is not None and event.kind != "cost":
            said = {"text": event.text}
            yield {"ph": "i", "s": "g", "pid": 1, "tid": 1, "name": event.kind, "ts": event.at_us, "args": said}


def _loop_slices(loop: TrainingLoop, process: int, each: int) -> Iterator[dict[str, Any]]:
    """Return the stalls and steps of one training process, and what its loader workers fetched."""
    parts = loop.parts
    yield {"ph": "M", "pid": process, "tid": 2, "name": "thread_name", "args": {"name": "training loop"}}
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
                took = stop - start
                yield {"ph": "X", "pid": process, "tid": 2, "name": name, "ts": start, "dur": took, "args": label}
    yield from _worker_slices(loop.process.workers, process, each)


def _ends_of(count: int, each: int) -> Iterator[int]:
    """Return the first and the last places of many, all where they are few."""
    yield from range(min(count, each))
    yield from range(max(each, count - each), count)


def _worker_slices(workers: Table, process: int, each: int) -> Iterator[dict[str, Any]]:
    """Return the first and the last fetches of the loader workers, as many as there are minibatches in the trace."""
    if not workers:
        return
    began, fetched, worker, batch = (workers[name] for name in ("began_us", "fetched_us", "worker", "batch"))
    known = np.flatnonzero((began >= 0) & (fetched > began))
    order = known[np.argsort(began[known], kind="stable")]
    named: set[int] = set()
    for place in _ends_of(len(order), each):
        row = order[place]
        start, stop, number = int(began[row]), int(fetched[row]), int(worker[row])
        thread = 10 + max(number, -1)
        if thread not in named:
            named.add(thread)
            about = {"name": f"loader worker {number}" if number >= 0 else "loading in the training process"}
            yield {"ph": "M", "pid": process, "tid": thread, "name": "thread_name", "args": about}
        label = {"batch": int(batch[row])}
        took = stop - start
        yield {"ph": "X", "pid": process, "tid": thread, "name": "fetch", "ts": start, "dur": took, "args": label}


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
