"""Times torch's loader in the training process: when a batch was asked for, ready, sent, and which worker made it.

Methods of torch's iterators are wrapped: `__init__` and `_reset` (a pass begins), `__next__`, `_try_put_index` (an
index is sent to a worker) and `_shutdown_workers`. Everything else is read off the iterator's own counters, whose names
are the same from torch 1.13 to 2.15: the delivered index is `_rcvd_idx - 1`.
"""

from __future__ import annotations

import functools
import os
import sys
import weakref
from threading import get_ident
from time import monotonic_ns, thread_time_ns
from typing import Any

from . import counters, worker
from .process import current
from .rows import IDLE, UNKNOWN

UNSIZED = (0, 0, 0)  # full minibatches per pass, their samples, samples of the one after: not known beforehand


class Totals:
    """What was done with the batches of one loader so far."""

    def __init__(self) -> None:
        self.delivered = self.trained = 0
        self.sized = self.size_bytes = 0  # minibatches whose bytes were counted, and their bytes

    def minibatch_bytes(self) -> float | None:
        """Return the mean bytes of a minibatch; None where none had any that can be counted."""
        return self.size_bytes / self.sized if self.size_bytes else None


class Pass:
    """One pass over one loader; `source` knows what is particular about where its batches come from."""

    def __init__(self, session: Any, loader: int, source: Any, sizes: Any = UNSIZED) -> None:
        self.session = session
        self.loader = loader  # its number
        self.source = source
        self.generation = session.pass_begins(loader)
        session.passes[loader] = self
        self.totals: Totals = session.totals_of(loader)
        self.batches = 0
        self.round: int | None = None  # which time a loader is iterated that keeps one iterator for good
        self.timeline: Any = session.timeline()
        self._full, self._size, self._remainder = sizes

    def next(self, iterator: Any, original: Any) -> Any:
        """Time one `next`; it ends the interval under way and begins one."""
        session, timeline = self.session, self.timeline
        if timeline.ident != get_ident():
            timeline = self.timeline = session.timeline()
        if timeline.fetching or session.ended:
            return original(iterator)  # a loader inside another's fetch is part of that fetch
        costing = timeline.costing
        entered = thread_time_ns() if costing else 0
        frame = sys._getframe(1)
        began_us = None
        if self.batches == 0:
            began_us = timeline.pass_asked(self, monotonic_ns() // 1000, frame)
        elif timeline.row is not None:
            timeline.close()
        prepared = None if session.cuda is None else timeline.mark_idle()
        site = session.sites.number(frame)
        source = self.source
        source.before(timeline)
        if costing:
            timeline.costing = False
            session.spent(entered)
        timeline.fetching = True
        asked_us = monotonic_ns() // 1000
        try:
            data = original(iterator)
        except BaseException:
            timeline.fetching = False
            session.pass_ends(self)
            timeline.fetch_ended(self, asked_us if began_us is None else began_us, site, frame)
            raise
        ready_us = monotonic_ns() // 1000
        timeline.fetching = False
        if costing:
            entered = thread_time_ns()
        index, sent_us, made_by, queued_us, cpu_us = source.after(self, iterator, asked_us, ready_us)
        row = [
            self.loader, self.generation, None, index, UNKNOWN, asked_us if began_us is None else began_us,
            ready_us, None, None, None, None, sent_us, made_by,
            self._size if index < self._full else self._samples(index, data), queued_us, cpu_us,
            timeline.number, site, None, None, 0, 0, 0, None, None, None,
        ]  # fmt: skip
        if prepared is not None:
            prepared[:IDLE] = row[:IDLE]
            row = prepared
        timeline.open(row, self)
        if not self.batches & (self.batches + 1):  # the first, second, fourth, ... of a pass
            self._count_bytes(data)
        self.batches += 1
        self.totals.delivered += 1
        timeline.count += 1
        if timeline.count >= timeline.housekeeping_at:
            session.do_housekeeping(timeline)
        if costing:
            session.spent(entered)
            session.costed += 1
        return data

    def _count_bytes(self, data: Any) -> None:
        with self.session.guard("the size of a minibatch could not be counted"):
            self.totals.size_bytes += bytes_of(data)
            self.totals.sized += 1

    def _samples(self, index: int, data: Any) -> int | None:
        """Return how many samples a minibatch has that is not one of the full ones."""
        return self._remainder if index == self._full and self._remainder else count(data)


class WorkerSource:
    """Batches that worker processes make."""

    def __init__(self, iterator: Any) -> None:
        self.sent: dict[int, tuple[int, int]] = {}  # batch: (instant, worker)
        self._schedule = counters.ReadSchedule()
        self._read = False
        self._queued_ns = self._cpu_ns = 0
        self._last_index: int | None = None  # of the batch that arrived last, where order is not kept
        if not getattr(iterator, "_in_order", True):
            # Weak on both sides: torch ends the workers when the iterator's last reference goes.
            get, reference, self_reference = type(iterator)._get_data, weakref.ref(iterator), weakref.ref(self)

            def get_data() -> Any:
                message = get(reference())
                source = self_reference()
                if source is not None and type(message[0]) is int:
                    source._last_index = message[0]
                return message

            iterator._get_data = get_data

    def before(self, timeline: Any) -> None:
        """A `next` begins: read the loop's own counters, if it is time to."""
        self._read = self._schedule.due
        if self._read:
            self._schedstat = timeline.schedstat
            self._queued_ns, self._cpu_ns = counters.queued_ns(self._schedstat), thread_time_ns()

    def after(self, track: Pass, iterator: Any, asked_us: int, ready_us: int) -> Any:
        """A `next` delivered: return index, instant sent, worker, and the loop's run-queue wait and CPU time."""
        index = iterator._rcvd_idx - 1 if self._last_index is None else self._last_index
        sent_us, made_by = self.sent.pop(index, (None, None))
        queued_us = cpu_us = None
        if self._read:
            queued_us = (counters.queued_ns(self._schedstat) - self._queued_ns) // 1000
            cpu_us = (thread_time_ns() - self._cpu_ns) // 1000
        self._schedule.fetched(ready_us - asked_us, self._read)
        return index, sent_us, made_by, queued_us, cpu_us


class OwnSource:
    """Batches that the loop makes itself, in `next` (no workers)."""

    def __init__(self, session: Any, iterator: Any) -> None:
        worker.join_cgroups(session.run)  # the loop reads the dataset itself
        self._write = session.own_fetches().add
        self._counters: Any = None
        self._collated_ns = 0
        fetcher = getattr(iterator, "_dataset_fetcher", None)
        if fetcher is not None:
            reference = weakref.ref(self)

            def took(took_ns: int) -> None:
                source = reference()
                if source is not None:
                    source._collated_ns += took_ns

            worker.time_collate(fetcher, took)

    def before(self, timeline: Any) -> None:
        """The fetch begins."""
        self._collated_ns = 0
        self._counters = timeline.own_counters()
        self._counters.begin()

    def after(self, track: Pass, iterator: Any, asked_us: int, ready_us: int) -> Any:
        """The fetch ended: write it as a worker would, and return what the loop's own row needs."""
        counted = self._counters.end(ready_us - asked_us)
        index = track.batches
        self._write(
            (track.loader, track.generation, index, None, asked_us, ready_us, None)
            + counted[:9]
            + (self._collated_ns // 1000, None, None, None, None, counted[9])
        )
        return index, None, None, counted[3], counted[0]


class OuterSource:
    """Batches of something that is not torch's loader: only the wait is seen."""

    def before(self, timeline: Any) -> None:
        """Nothing to read."""

    def after(self, track: Pass, iterator: Any, asked_us: int, ready_us: int) -> Any:
        """Return the index, and that nothing else is known."""
        return track.batches, None, None, None, None


def sizes_of(loader: Any) -> tuple[int, int, int]:
    """Return how many minibatches of a pass are full, their samples, and those of the one that may come after.

    torch's own samplers know it beforehand. To count a minibatch that has just arrived takes microseconds: what
    describes a tensor is not in the caches then.
    """
    try:
        batches = loader.batch_sampler
        plain = type(batches).__module__ == "torch.utils.data.sampler" and type(batches).__name__ == "BatchSampler"
        if plain and type(batches.sampler).__module__.startswith("torch.utils.data."):
            full, remainder = divmod(len(batches.sampler), batches.batch_size)
            return full, batches.batch_size, remainder
    except Exception:
        pass
    return UNSIZED


def count(data: Any) -> int | None:
    """Return how many samples a minibatch holds, None where it cannot be known."""
    try:
        kind = type(data)
        if kind is list or kind is tuple:
            data = data[0]
        shape = getattr(data, "shape", None)  # read once: each time makes an object
        if shape is None and kind is not list and kind is not tuple and hasattr(data, "values"):
            data = next(iter(data.values()))
            shape = getattr(data, "shape", None)
        if shape is not None:
            return int(shape[0]) if len(shape) else 1
        return len(data)
    except Exception:
        return None


def bytes_of(data: Any, depth: int = 4) -> int:
    """Return the bytes of the tensors and arrays in a minibatch."""
    size = getattr(data, "nbytes", None)
    if type(size) is int:
        return size
    if hasattr(data, "element_size"):  # a tensor, before torch gave it `nbytes`
        return int(data.numel() * data.element_size())
    if depth and isinstance(data, dict):
        return sum(bytes_of(each, depth - 1) for each in data.values())
    if depth and isinstance(data, (list, tuple)):
        return sum(bytes_of(each, depth - 1) for each in data[:4096])
    return 0


def install(dataloader: Any, session_of: Any) -> None:
    """Wrap torch's iterators, once per process; `session_of()` returns the session of this process or None."""
    base = dataloader._BaseDataLoaderIter
    if hasattr(base, "_edgetrain"):
        return
    base._edgetrain = None
    original_next = base.__next__

    def __next__(self: Any) -> Any:
        track = self._edgetrain
        if track is None:
            return original_next(self)
        return track.next(self, original_next)

    base.__next__ = __next__
    _watch_iteration(dataloader.DataLoader)
    _wrap_own(dataloader._SingleProcessDataLoaderIter, session_of)
    _wrap_workers(dataloader._MultiProcessingDataLoaderIter, dataloader._utils.worker, session_of)


def _watch_iteration(kind: Any) -> None:
    """See loaders being iterated whose class has an `__iter__` of its own: one may keep the same iterator for good."""

    def __init_subclass__(cls: Any, **arguments: Any) -> None:
        super(kind, cls).__init_subclass__(**arguments)
        _tell_iteration(cls)

    waiting = list(kind.__subclasses__())
    while waiting:
        each = waiting.pop()
        waiting += each.__subclasses__()
        _tell_iteration(each)
    hook: Any = __init_subclass__
    kind.__init_subclass__ = classmethod(hook)


def _tell_iteration(kind: Any) -> None:
    original = kind.__dict__.get("__iter__")
    if not callable(original):
        return

    @functools.wraps(original)
    def __iter__(self: Any) -> Any:
        session = current()
        if session is not None:
            session.iterated(self)
        return original(self)

    kind.__iter__ = __iter__


def _wrap_own(own: Any, session_of: Any) -> None:
    original_init = own.__init__

    def __init__(self: Any, loader: Any, *args: Any, **kwargs: Any) -> None:
        began_ns = monotonic_ns()
        original_init(self, loader, *args, **kwargs)
        session = session_of()
        if session is not None:
            with session.guard("a loader could not be timed"):
                source = OwnSource(session, self)
                self._edgetrain = Pass(session, session.number_of(loader), source, sizes_of(loader))
                session.timeline().iterator_made(began_ns)

    own.__init__ = __init__


def _wrap_workers(several: Any, workers: Any, session_of: Any) -> None:
    original_init, original_reset = several.__init__, several._reset
    original_put, original_shutdown = several._try_put_index, several._shutdown_workers

    def __init__(self: Any, loader: Any, *args: Any, **kwargs: Any) -> Any:
        began_ns = monotonic_ns()
        session = session_of()
        if session is None:
            return original_init(self, loader, *args, **kwargs)
        number = session.number_of(loader)
        loop = workers._worker_loop
        workers._worker_loop = worker.WorkerLoop(loop, session.run, number, session.generation_of(number), os.getpid())
        try:
            return original_init(self, loader, *args, **kwargs)
        finally:
            workers._worker_loop = loop
            session.timeline().iterator_made(began_ns)

    def _reset(self: Any, loader: Any, *args: Any, **kwargs: Any) -> Any:
        began_ns = monotonic_ns()
        session = session_of()
        self._edgetrain = None
        if session is None:
            return original_reset(self, loader, *args, **kwargs)
        with session.guard("a loader could not be timed"):
            self._edgetrain = Pass(session, session.number_of(loader), WorkerSource(self), sizes_of(loader))
        result = original_reset(self, loader, *args, **kwargs)
        session.timeline().iterator_made(began_ns)
        return result

    def _try_put_index(self: Any) -> None:
        track = self._edgetrain
        before, at_ns = self._send_idx, monotonic_ns()
        original_put(self)
        if track is not None and self._send_idx != before:
            track.source.sent[before] = (at_ns // 1000, self._task_info[before][0])

    def _shutdown_workers(self: Any) -> Any:
        track = self._edgetrain
        if track is None or getattr(self, "_shutdown", True) or track.session.ended:
            return original_shutdown(self)
        began_ns = monotonic_ns()
        try:
            return original_shutdown(self)
        finally:
            with track.session.guard("the stop of a loader's workers could not be timed"):
                timeline = track.session.timeline()
                if not timeline.fetching:  # else it is the end of a pass, timed by `next`
                    ended_us = monotonic_ns() // 1000
                    timeline.workers_stopped(track, began_ns // 1000, ended_us, sys._getframe(1))

    several.__init__ = __init__
    several._reset = _reset
    several._try_put_index = _try_put_index
    several._shutdown_workers = _shutdown_workers
