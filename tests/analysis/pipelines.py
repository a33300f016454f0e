"""A loader pipeline on paper: plants service times by cause, and writes the columns a recording would hold.

Written apart from the replay it tests: worker by worker, with torch's discipline (each delivery sends one index, to the
workers in turn), and the loop's own clock.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from edgetrain.record import ArrayTable, Table


@dataclass(frozen=True)
class BatchCost:
    """What one batch costs, in µs."""

    blocked: int = 0
    cpu: int = 0
    queued: int = 0
    pickling: int = 0
    receiving: int = 100

    def without(self, cause: str) -> BatchCost:
        """The same batch with a cause removed."""
        kept = {
            name: getattr(self, name) for name in ("blocked", "cpu", "queued", "pickling", "receiving") if name != cause
        }
        return BatchCost(**kept)


def record(
    cost: Callable[[int], BatchCost], minibatches: int, workers: int, step_us: int, prefetch: int = 2, gpu_us: int = 0
) -> tuple[Table, Table]:
    """Run the pipeline; return its minibatches and workers columns.

    With `gpu_us` the loop runs ahead of an accelerator that takes that long for a step.
    """
    depth = prefetch * workers
    sent = [0] * minibatches
    free = [0] * max(workers, 1)
    rows: list[list[int]] = []
    made: list[list[int]] = []
    now = done = 1_000_000
    sent[:depth] = [now] * min(depth, minibatches)
    for batch in range(minibatches):
        one = cost(batch)
        wall = one.blocked + one.cpu + one.queued
        asked = now
        if workers:
            worker = batch % workers
            began = max(sent[batch], free[worker])
            fetched = began + wall
            free[worker] = fetched
            pickled = fetched + one.pickling
            ready = max(asked, pickled) + one.receiving
            if batch + depth < minibatches:
                sent[batch + depth] = ready
            made.append([0, 0, batch, worker, began, fetched, pickled + 1, one.cpu, one.queued, one.pickling, pickled])
            rows.append([0, 0, 0, batch, 1, asked, ready, sent[batch], worker])
        else:
            ready = asked + wall
            made.append([0, 0, batch, -1, asked, ready, -1, one.cpu, one.queued, -1, -1])
            rows.append([0, 0, 0, batch, 1, asked, ready, -1, -1])
        launched = ready + step_us
        done = max(ready, done) + gpu_us if gpu_us else launched
        rows[-1] += [launched, max(done, launched), 0, one.receiving]
        now = launched
    names = ("loader", "generation", "epoch", "batch", "phase", "asked_us", "ready_us", "sent_us", "worker",
             "launched_us", "done_us", "queued_us", "cpu_us")  # fmt: skip
    worker_names = ("loader", "generation", "batch", "worker", "began_us", "fetched_us", "shipped_us", "cpu_us",
                    "queued_us", "feeder_cpu_us", "pickled_us")  # fmt: skip
    minibatch_columns = dict(zip(names, np.array(rows, np.int64).T, strict=True))
    worker_columns = dict(zip(worker_names, np.array(made, np.int64).T, strict=True))
    zeros = np.zeros(minibatches, np.int64)
    for name in ("helpers_us", "system_us", "stolen_us", "read_bytes", "faults", "switches", "collate_us",
                 "feeder_queued_us", "waking_us"):  # fmt: skip
        worker_columns[name] = zeros
    worker_columns["helpers_queued_us"] = zeros - 1
    return ArrayTable(minibatch_columns), ArrayTable(worker_columns)
