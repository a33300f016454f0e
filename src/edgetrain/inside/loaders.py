"""The stopwatch around torch's loader in the training process: asked, ready, which worker, when it was sent.

Four methods of torch's iterators are wrapped: `__init__`, `__next__`, `_reset` (a persistent loader's next pass) and
`_try_put_index` (an index is sent to a worker). Everything else is read off the iterator's own counters, whose names
are the same from torch 1.13 to 2.15: the delivered index is `_rcvd_idx - 1`.
"""

from __future__ import annotations

import os
import weakref
from time import monotonic_ns, thread_time_ns
from typing import Any

from . import counters, stream, worker

# Places in a row of MINIBATCHES.
(LOADER, GENERATION, EPOCH, BATCH, PHASE, ASKED, READY, COPIED, LAUNCHED, DONE, COPYING, SENT, WORKER, SAMPLES,
 QUEUED, CPU) = range(len(stream.MINIBATCHES))  # fmt: skip
UNKNOWN, TRAINING, EVALUATION = 0, 1, 2
UNSIZED = (0, 0, 0)  # whole minibatches, samples of each, samples of the one after: only counting tells
LOOK_WORTH_NS = counters.LOOK_WORTH_US * 1000  # a look at the run queue is owed for so much time waited


class Pass:
    """One pass over one loader, as the training process sees it.

    Each kind times its own `next` from end to end, and has at hand what it needs for it: where the caches are cold a
    call more is a microsecond more, and each object looked at a good part of one.
    """

    def __init__(
        self, session: Any, loader: Any, workers: Any, iterator: Any = None, sizes: tuple[int, int, int] = UNSIZED
    ) -> None:
        self.whole, self.size, self.remainder = sizes
        self._iterator = None if iterator is None else weakref.ref(iterator)
        self.session = session
        self.loader = loader  # its number
        self.workers = workers
        self.epoch: int | None = None
        self.generation = 0
        self.began_us = monotonic_ns() // 1000
        self.ended_us: int | None = None
        self.row: Any = None  # the minibatch now in the loop's hands
        self.batches = 0
        self.trained = 0
        self.evaluating = False  # gradients were off when the minibatch in hand was delivered
        self.attend_at = 0  # the number of the minibatch at which the session is called; 0 calls it at the next
        self.costing = False  # the minibatch in hand tells what we cost
        self.out = session.out
        self._schedstat = session.schedstat
        self._close_row = session.close_row
        session.pass_begins(self)

    def samples(self, index: int, data: Any) -> int | None:
        """Return how many samples a minibatch has that is not one of the whole ones."""
        return self.remainder if index == self.whole and self.remainder else count(data)

    def left(self) -> bool:
        """Return whether nobody can ask for the next minibatch any more: the loop was left by a break."""
        return self._iterator is not None and self._iterator() is None

    def ended(self) -> None:
        """The pass is over: exhausted, broken off or failed.

        Its last minibatch stays in hand until the next one comes: a loop that looks one ahead (accelerate does) or
        steps once more after its last minibatch still trains on it.
        """
        self.session.pass_ends(self)


class WorkerPass(Pass):
    """A pass whose minibatches come from worker processes."""

    def __init__(self, session: Any, loader: Any, iterator: Any, sizes: tuple[int, int, int] = UNSIZED) -> None:
        Pass.__init__(self, session, loader, iterator._num_workers, iterator, sizes)
        self.sent: dict[int, tuple[int, int]] = {}  # batch: (instant, worker)
        self._owed_ns = 0  # waited since the last look
        self._coin = counters.Coin()
        self._last_index = None  # of the batch that arrived last, where order is not kept
        if not getattr(iterator, "_in_order", True):
            # Weak on both sides: torch ends the workers when the iterator's last reference goes.
            get, reference, self_reference = type(iterator)._get_data, weakref.ref(iterator), weakref.ref(self)

            def get_data() -> Any:
                message = get(reference())
                track = self_reference()
                if track is not None and type(message[0]) is int:
                    track._last_index = message[0]
                return message

            iterator._get_data = get_data

    def next(self, iterator: Any, original: Any) -> Any:
        """Time one `__next__`."""
        costing = self.costing
        entered = thread_time_ns() if costing else 0
        row = self.row
        if row is not None:
            if row[PHASE] == TRAINING and self.epoch is not None:  # what close_row does, without the call
                self.row = None
                self.evaluating = False
                self.trained += 1
                row[EPOCH] = self.epoch
                self.out(row)
            else:
                self._close_row(self)
        looks = self._owed_ns > LOOK_WORTH_NS
        if looks:
            waited, worked = counters.queued_ns(self._schedstat), thread_time_ns()
        if costing:
            self.costing = False
            self.session.spent(entered)
        asked = monotonic_ns()
        try:
            data = original(iterator)
        except BaseException:
            self.ended()
            raise
        ready = monotonic_ns()
        if costing:
            entered = thread_time_ns()
        ready_us = ready // 1000
        index = iterator._rcvd_idx - 1 if self._last_index is None else self._last_index
        sent_us, made_by = self.sent.pop(index, (None, None))
        queued_us = cpu_us = None
        if looks:
            queued_us = (counters.queued_ns(self._schedstat) - waited) // 1000
            cpu_us = (thread_time_ns() - worked) // 1000
            self._look_done(ready - asked)
        else:
            self._owed_ns += ready - asked
        self.row = [
            self.loader, self.generation, None, index, UNKNOWN, asked // 1000, ready_us, None, None, None, None,
            sent_us, made_by, self.size if index < self.whole else self.samples(index, data), queued_us, cpu_us,
        ]  # fmt: skip
        number = self.batches = self.batches + 1
        if number >= self.attend_at:
            self.session.opened(self)
        if costing:
            self.session.spent(entered)
            self.session.costed += 1
        return data

    def _look_done(self, waited_ns: int) -> None:
        """Set when to look next: at once after a long wait, else one later by the toss of a coin."""
        self._owed_ns = waited_ns if waited_ns > LOOK_WORTH_NS or self._coin.toss() else -waited_ns


class OwnPass(Pass):
    """A pass whose minibatches the loop fetches itself (no workers)."""

    def __init__(self, session: Any, loader: Any, iterator: Any, sizes: tuple[int, int, int] = UNSIZED) -> None:
        Pass.__init__(self, session, loader, 0, iterator, sizes)
        worker.join_cgroups(session.run)  # the loop reads the dataset itself
        self._counters = session.own_counters()
        self._write = session.own_fetches(loader).add
        self._collated_ns = 0
        fetcher = getattr(iterator, "_dataset_fetcher", None)
        if fetcher is not None:
            reference = weakref.ref(self)

            def took(took_ns: int) -> None:
                track = reference()
                if track is not None:
                    track._collated_ns += took_ns

            worker.time_collate(fetcher, took)

    def next(self, iterator: Any, original: Any) -> Any:
        """Time one `__next__`, which is the fetch itself."""
        costing = self.costing
        entered = thread_time_ns() if costing else 0
        if self.row is not None:
            self._close_row(self)
        self._collated_ns = 0
        asked_us, _ = self._counters.begin()
        if costing:
            self.costing = False
            self.session.spent(entered)
        try:
            data = original(iterator)
        except BaseException:
            self.ended()
            raise
        entered = thread_time_ns() if costing else 0
        counted = self._counters.end(asked_us)
        index = self.batches
        self._write(
            (
                self.loader, self.generation, index, None, asked_us, counted[0], None, counted[1], counted[2],
                counted[3], counted[4], counted[5], counted[6], counted[7], counted[8], counted[9],
                self._collated_ns // 1000, None, None, None, None, counted[10],
            )
        )  # fmt: skip
        self.row = [
            self.loader, self.generation, None, index, UNKNOWN, asked_us, counted[0], None, None, None, None,
            None, None, self.size if index < self.whole else self.samples(index, data), counted[4], counted[1],
        ]  # fmt: skip
        number = self.batches = self.batches + 1
        if number >= self.attend_at:
            self.session.opened(self)
        if costing:
            self.session.spent(entered)
            self.session.costed += 1
        return data


class OuterPass(Pass):
    """A pass over something that is not torch's loader: only the wait is seen."""

    def __init__(self, session: Any, loader: Any) -> None:
        Pass.__init__(self, session, loader, None)

    def next(self, iterator: Any, original: Any) -> Any:
        """Time one `next`."""
        costing = self.costing
        entered = thread_time_ns() if costing else 0
        if self.row is not None:
            self._close_row(self)
        if costing:
            self.costing = False
            self.session.spent(entered)
        asked = monotonic_ns()
        try:
            data = original(iterator)
        except BaseException:
            self.ended()
            raise
        ready = monotonic_ns()
        if costing:
            entered = thread_time_ns()
        self.row = [
            self.loader, self.generation, None, self.batches, UNKNOWN, asked // 1000, ready // 1000, None, None, None,
            None, None, None, count(data), None, None,
        ]  # fmt: skip
        number = self.batches = self.batches + 1
        if number >= self.attend_at:
            self.session.opened(self)
        if costing:
            self.session.spent(entered)
            self.session.costed += 1
        return data


def sizes_of(loader: Any) -> tuple[int, int, int]:
    """Return how many minibatches of a pass are whole ones, their samples, and those of the one that may come after.

    torch's own samplers say so beforehand. To count a minibatch that has just arrived takes microseconds: what
    describes a tensor is not in the caches then.
    """
    try:
        batches = loader.batch_sampler
        plain = type(batches).__module__ == "torch.utils.data.sampler" and type(batches).__name__ == "BatchSampler"
        if plain and type(batches.sampler).__module__.startswith("torch.utils.data."):
            whole, remainder = divmod(len(batches.sampler), batches.batch_size)
            return whole, batches.batch_size, remainder
    except Exception:
        pass
    return UNSIZED


def count(data: Any) -> int | None:
    """Return how many samples a minibatch holds, None where it cannot be told."""
    try:
        kind = type(data)
        if kind is list or kind is tuple:
            data = data[0]
        shape = getattr(data, "shape", None)  # asked for once: each time makes an object
        if shape is None and kind is not list and kind is not tuple and hasattr(data, "values"):
            data = next(iter(data.values()))
            shape = getattr(data, "shape", None)
        if shape is not None:
            return int(shape[0]) if len(shape) else 1
        return len(data)
    except Exception:
        return None


def install(dataloader: Any, session_of: Any) -> None:
    """Wrap torch's iterators, once per process; `session_of()` returns the live session or None."""
    base = dataloader._BaseDataLoaderIter
    several = dataloader._MultiProcessingDataLoaderIter
    if hasattr(base, "_edgetrain"):
        return
    base._edgetrain = None
    original_next, original_init = base.__next__, several.__init__
    own_init, original_reset = dataloader._SingleProcessDataLoaderIter.__init__, several._reset
    original_put = several._try_put_index
    workers = dataloader._utils.worker

    def __next__(self: Any) -> Any:
        track = self._edgetrain
        if track is None:
            return original_next(self)
        return track.next(self, original_next)

    def __init__(self: Any, loader: Any, *args: Any, **kwargs: Any) -> Any:
        session = session_of()
        if session is None:
            return original_init(self, loader, *args, **kwargs)
        number = session.number_of(loader)
        self._edgetrain_began_us = monotonic_ns() // 1000  # the pass includes the start of its workers
        loop = workers._worker_loop
        workers._worker_loop = worker.WorkerLoop(loop, session.run, number, session.generation_of(number), os.getpid())
        try:
            return original_init(self, loader, *args, **kwargs)
        finally:
            workers._worker_loop = loop

    def init_own(self: Any, loader: Any, *args: Any, **kwargs: Any) -> None:
        own_init(self, loader, *args, **kwargs)
        session = session_of()
        if session is not None:
            with session.guard("a loader could not be timed"):
                self._edgetrain = OwnPass(session, session.number_of(loader), self, sizes_of(loader))

    def _reset(self: Any, loader: Any, *args: Any, **kwargs: Any) -> Any:
        session = session_of()
        if session is None:
            self._edgetrain = None
            return original_reset(self, loader, *args, **kwargs)
        track = None
        with session.guard("a loader could not be timed"):
            if self._edgetrain is not None:
                self._edgetrain.ended()
            track = WorkerPass(session, session.number_of(loader), self, sizes_of(loader))
            track.began_us = self.__dict__.pop("_edgetrain_began_us", track.began_us)
        if track is None:
            return original_reset(self, loader, *args, **kwargs)
        self._edgetrain = track
        return original_reset(self, loader, *args, **kwargs)

    def _try_put_index(self: Any) -> None:
        track = self._edgetrain
        before, at_ns = self._send_idx, monotonic_ns()
        original_put(self)
        if track is not None and self._send_idx != before:
            track.sent[before] = (at_ns // 1000, self._task_info[before][0])

    base.__next__ = __next__
    several.__init__ = __init__
    several._reset = _reset
    several._try_put_index = _try_put_index
    dataloader._SingleProcessDataLoaderIter.__init__ = init_own
