"""Times a loader worker: when each fetch began and ended, what the kernel counted, when the batch was sent.

torch finds `_worker_loop` by name when it starts a worker, so a picklable callable put in its place runs under
fork, spawn and forkserver alike. The queues are timed on the instance, never proxied, and the user's dataset is not
touched: `get_worker_info().dataset` stays what it was. Arguments go by position, because torch 2.14 renames the
second. Standard library only, Python 3.8; torch is there already when this runs.
"""

from __future__ import annotations

import collections
import os
import time
from typing import Any

from . import counters, stream

INDEX_QUEUE, DATA_QUEUE, WORKER = 2, 3, 10  # positions in torch's argument list, 1.13 to 2.15
# A worker that ends waits this long for a send in progress: the loop may have the batch before the feeder runs again.
LAST_SEND_S = 0.05


class WorkerLoop:
    """Replaces torch's worker loop and runs it, timed."""

    def __init__(self, original: Any, run: str, loader: Any, generation: int, main_pid: int) -> None:
        self.original = original
        self.run = run
        self.loader = loader
        self.generation = generation
        self.main_pid = main_pid

    def __getstate__(self) -> dict[str, Any]:
        # torch's own loop cannot be pickled while this object has its name; a spawned child finds it there again.
        state = dict(self.__dict__)
        if getattr(self.original, "__module__", None) == "torch.utils.data._utils.worker":
            state["original"] = None
        return state

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.original is None:
            from torch.utils.data._utils.worker import _worker_loop

            self.original = _worker_loop
        try:
            _WorkerTimer(self, args[INDEX_QUEUE], args[DATA_QUEUE], args[WORKER])
        except Exception as error:  # an error of the recorder must never lose a batch
            stream.append_event(
                os.path.join(self.run, "events-inside.jsonl"),
                "doubt",
                "a loader worker could not be timed: %r" % (error,),
                pid=os.getpid(),
            )
        return self.original(*args, **kwargs)


class _WorkerTimer:
    """Times one worker's queues and writes one row per batch."""

    def __init__(self, loop: Any, index_queue: Any, data_queue: Any, worker: int) -> None:
        from multiprocessing import util

        join_cgroups(loop.run, worker)
        self._loader = loop.loader
        self._generation = loop.generation
        self._worker = worker
        self._counters = counters.ThreadCounters()
        self._fetching: Any = None  # (batch, began, waking) of the fetch now in progress
        self._collated_ns = 0
        self._queue = data_queue
        self._get = index_queue.get
        self._put = data_queue.put
        self._sending: collections.deque[Any] = collections.deque()  # rows put and not yet sent, oldest first
        self._feeder_fd: int | None = None
        self._feeder_known = False
        self._feeder_cpu_ns = self._feeder_queued_ns = 0
        self._batches = self._sent = 0
        self._sends = 0  # since the feeder's run-queue wait was read
        self._pickled: int | None = None  # when the send in progress began
        self._costing = False  # this batch measures our cost
        self._cost_ns = self._feeder_cost_ns = 0  # CPU time of the recorder, in the fetching thread and in the feeder
        self._run = loop.run
        # One file per worker number: a loader that is iterated anew for each step starts new workers each time.
        name = "workers-%d-%d-%d.ets" % (loop.loader, worker, loop.main_pid)
        meta = {"main_pid": loop.main_pid, "loader": loop.loader, "worker": worker}
        self._writer = stream.StreamWriter(os.path.join(loop.run, name), "workers", stream.WORKERS, meta)
        self._writer.start()
        self._counters.exclude(self._writer._thread)
        self._sees_sending = hasattr(data_queue, "_send_bytes")
        if self._sees_sending:
            self._send = data_queue._send_bytes
            data_queue._send_bytes = self._timed_send
        index_queue.get = self._timed_get
        data_queue.put = self._timed_put
        self._time_collate()
        # The queue joins its feeder thread at priority -5: the last rows are complete only after that.
        util.Finalize(self, self._close, exitpriority=-100)

    def _timed_get(self, *args: Any, **kwargs: Any) -> Any:
        # A program that ends in mid-pass has its workers terminated, without a chance to write what they have.
        self._writer.flush_by_age()
        message = self._get(*args, **kwargs)
        if type(message) is tuple:
            self._collated_ns = 0
            self._batches += 1
            self._costing = self._batches % counters.COST_EVERY == 2
            entered = time.thread_time_ns() if self._costing else 0
            waking = self._counters.begin()
            self._fetching = (message[0], time.monotonic_ns() // 1000, waking)
            if entered:
                self._cost_ns += time.thread_time_ns() - entered
        elif message is not None:
            self._generation += 1  # a persistent worker starts the next pass
        return message

    def _timed_put(self, message: Any, *args: Any, **kwargs: Any) -> None:
        entered = time.thread_time_ns() if self._costing else 0
        if self._fetching is not None and message[0] == self._fetching[0]:
            batch, began, waking = self._fetching
            self._fetching = None
            if type(message[1]).__name__ != "_IterableDatasetStopIteration":
                fetched = time.monotonic_ns() // 1000
                counted = self._counters.end(fetched - began)
                self._sending.append(
                    (batch, began, fetched, waking, counted, self._collated_ns // 1000, self._generation)
                )
                if not self._sees_sending:
                    self._finish(None, None, None, None)
            else:
                self._sending.append(None)
        else:
            self._sending.append(None)
        if entered:
            self._cost_ns += time.thread_time_ns() - entered
        self._put(message, *args, **kwargs)
        if self._sees_sending and not self._feeder_known:
            thread = getattr(self._queue, "_thread", None)
            if thread is not None:
                self._counters.exclude(thread)
                self._feeder_known = True

    def _timed_send(self, data: Any) -> Any:
        """Runs in the queue's feeder thread, after pickling, holding the lock all workers share."""
        pickled = self._pickled = time.monotonic_ns() // 1000
        try:
            return self._send(data)
        finally:
            cpu = time.thread_time_ns()
            queued_us = self._feeder_queued_us()
            shipped = time.monotonic_ns() // 1000
            self._finish(pickled, shipped, (cpu - self._feeder_cpu_ns) // 1000, queued_us)
            self._pickled = None
            self._feeder_cpu_ns = cpu
            self._sent += 1
            if self._sent % counters.COST_EVERY == 2:
                self._feeder_cost_ns += time.thread_time_ns() - cpu

    def _feeder_queued_us(self) -> int | None:
        """Return the feeder's run-queue wait per batch since the last reading; None where the fetch was not read.


        Reading it releases the interpreter's lock: with the fetching thread at work that takes 26 µs of CPU time.
        """
        self._sends += 1
        row = self._sending[0] if self._sending else None
        if row is None or row[4][1] is None:
            return None
        if self._feeder_fd is None:
            self._feeder_fd = counters.open_schedstat()
        queued = counters.queued_ns(self._feeder_fd)
        waited, self._feeder_queued_ns = queued - self._feeder_queued_ns, queued
        sends, self._sends = self._sends, 0
        return waited // 1000 // sends

    def _finish(
        self, pickled: int | None, shipped: int | None, feeder_cpu: int | None, feeder_queued: int | None
    ) -> None:
        try:
            row = self._sending.popleft()
        except IndexError:  # the feeder and the end of the worker may both finish the last row
            return
        if row is None:
            return
        batch, began, fetched, waking, counted, collate, generation = row
        self._writer.add(
            (self._loader, generation, batch, self._worker, began, fetched, shipped)
            + counted[:9]
            + (collate, feeder_cpu, feeder_queued, pickled, waking, counted[9])
        )

    def _time_collate(self) -> None:
        from torch.utils.data import _DatasetKind

        create = _DatasetKind.create_fetcher

        def timed_create(*args: Any, **kwargs: Any) -> Any:
            fetcher = create(*args, **kwargs)
            time_collate(fetcher, self._collated)
            return fetcher

        _DatasetKind.create_fetcher = staticmethod(timed_create)

    def _collated(self, took_ns: int) -> None:
        self._collated_ns += took_ns

    def _close(self) -> None:
        until_s = time.monotonic() + LAST_SEND_S
        while self._pickled is not None and time.monotonic() < until_s:
            time.sleep(0.001)
        self._finish(self._pickled, None, None, None)
        while self._sending:  # put, but not sent any more
            self._finish(None, None, None, None)
        self._writer.close()
        if self._batches >= 2:
            costed = _costed(self._batches)
            fed = _costed(self._sent)
            each_us = (self._cost_ns / costed + (self._feeder_cost_ns / fed if fed else 0)) / 1e3
            stream.append_event(
                os.path.join(self._run, "events-inside.jsonl"),
                "cost",
                "recording a loader worker took %.0f us of CPU per batch" % each_us,
                pid=os.getpid(),
                batches=self._batches,
                per_batch_us=each_us,
                writer_cpu_s=self._writer.cpu_ns / 1e9,
            )


def _costed(batches: int) -> int:
    """Return how many of these batches measured our cost: the second, and each sixteenth after it."""
    return (batches + counters.COST_EVERY - 2) // counters.COST_EVERY


def time_collate(fetcher: Any, took: Any) -> None:
    """Have a fetcher report how long its collate function took, in ns."""
    collate = fetcher.collate_fn
    clock = time.monotonic_ns

    def timed_collate(samples: Any) -> Any:
        start = clock()
        batch = collate(samples)
        took(clock() - start)
        return batch

    fetcher.collate_fn = timed_collate


def join_cgroups(run: str, worker: int | str = "own") -> None:
    """Put this process into the cgroups in which the dataset is to be read, if any.

    A list of `cgroup.procs` files; `{worker}` in it is replaced by the worker's number, or by `own` where the training
    process fetches itself.
    """
    for path in os.environ.get("EDGETRAIN_WORKER_CGROUP", "").split(os.pathsep):
        if not path:
            continue
        try:
            with open(path.replace("{worker}", str(worker)), "w") as file:
                file.write(str(os.getpid()))
        except OSError as error:
            stream.append_event(
                os.path.join(run, "events-inside.jsonl"),
                "doubt",
                "a loader worker could not enter its cgroup: %s" % error,
                pid=os.getpid(),
            )
