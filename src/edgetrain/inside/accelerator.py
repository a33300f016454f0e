"""Instants on the accelerator's timeline: CUDA events recorded in the loop, read later, never waited for.

`elapsed_time` is a float32 of milliseconds, so times are chained event to event, each step short, and the chain is
tied to the host's clock by anchors: the GPU is idle, an event is recorded and finishes at once, and the host's clock
is read before and after. Anchors are taken where the loop does not compute (first use, end of a pass, or once a
minute while the GPU waits for data). Between anchors two bounds hold the chain: an event cannot finish before it was
recorded, nor after it was found finished.

The loop records events, and every sixteenth minibatch it reads those that have finished, all at once: between the
steps of a real network the caches are cold, and on an H200 reading a single event took the loop 14 µs, one of many
3 µs. Getting the current stream from torch took 21 µs, recording on a known stream 9 µs. A loop too slow for that
leaves them to the writer thread; a lock keeps the two apart.

Side streams, and work other libraries put on streams of their own, are not seen by an event on the current stream.
"""

from __future__ import annotations

import collections
import functools
import threading
from time import monotonic_ns
from typing import Any

US_PER_MS = 1000.0
ANCHOR_TRIES = 20  # the narrowest of these is kept
ANCHOR_EVERY_US = 60 * 1000 * 1000
MAX_DRIFT = 1e-3  # a clock off by more than this is a broken anchor, not drift


class Cuda:
    """Event pool, chain and anchors of one CUDA device."""

    def __init__(self, torch: Any, emit: Any, problem: Any) -> None:
        self._torch = torch
        self._emit = emit
        self._problem = problem
        self._new = lambda: torch.cuda.Event(enable_timing=True)
        self._here, self._handle_of, self._record, self._query, self._elapsed = _calls(torch)
        self._current_stream = getattr(torch.cuda, "current_stream", lambda: None)
        self._lock = threading.Lock()
        self._paused = True  # there is no anchor, or a graph may be being captured
        self._captures = 0  # graphs being captured now: reading an event from any thread would break them
        self._capturing = self._watch_captures()
        self._free: list[Any] = []
        # In order of recording: (event, row, column, host µs) for an event that may not have finished, or a row that
        # gets no further events. A row is written when all entries before it have been read, so rows keep their order.
        self._waiting: collections.deque[Any] = collections.deque()
        # Ends a row. The deque's own method, because it is called once per minibatch in the training thread.
        self.close: Any = self._waiting.append
        self._last: Any = None  # (event, host µs) of the last event that was read; the next one is timed from it
        self._anchor: Any = None  # (event, host µs, ± µs)
        self._rate = 1.0
        self.times_settled = 0
        self.mark: Any = self._marker()
        self.anchors: list[dict[str, float]] = []  # for the record: [{at_us, pm_us, rate}]

    def _watch_captures(self) -> Any:
        """Count graph captures as they begin and end; where that is not possible, return torch's own query."""
        graph = getattr(self._torch.cuda, "CUDAGraph", None)
        if graph is None:
            return getattr(self._torch.cuda, "is_current_stream_capturing", None)
        begin, end = graph.capture_begin, graph.capture_end

        @functools.wraps(begin)
        def capture_begin(*arguments: Any, **named: Any) -> Any:
            self._captures += 1
            self._paused = True
            with self._lock:  # a reading under way finishes first
                pass
            try:
                return begin(*arguments, **named)
            except BaseException:
                self._captures -= 1
                raise

        @functools.wraps(end)
        def capture_end(*arguments: Any, **named: Any) -> Any:
            try:
                return end(*arguments, **named)
            finally:
                self._captures = max(0, self._captures - 1)

        graph.capture_begin, graph.capture_end = capture_begin, capture_end
        return None

    def _marker(self) -> Any:
        """Return the function `mark(row, column, now_us)`.

        It records an event on the current stream whose instant will be put into the row. It runs twice per minibatch
        with cold caches, where each access costs up to a microsecond: so what it needs is in its cells, and it calls
        no other function of the recorder.
        """
        pop, append, new, record = self._free.pop, self._waiting.append, self._new, self._record
        here, handle_of, current_stream = self._here, self._handle_of, self._current_stream
        only = self._only_device()
        stream = known_device = known_handle = None

        def mark(row: list[Any], column: int, now_us: int) -> None:
            nonlocal stream, known_device, known_handle
            if self._paused and self._still_paused():
                return
            try:
                event = pop()
            except IndexError:
                event = new()
            device = here() if only is None else only
            handle = handle_of(device)
            if handle != known_handle or device != known_device:
                # Making an object of a stream takes longer than recording an event: it is kept.
                stream, known_device, known_handle = current_stream(), device, handle
            record(event, stream)
            append((event, row, column, now_us))

        return mark

    def _only_device(self) -> int | None:
        """Return the number of the device where there is only one: then the current one need not be queried."""
        try:
            return 0 if self._torch.cuda.device_count() == 1 else None
        except (AttributeError, RuntimeError):
            return None

    def _still_paused(self) -> bool:
        """Return whether no event may be recorded now: it would become part of the user's graph, or has no anchor."""
        if self._captures or (self._capturing is not None and self._capturing()):
            return True
        if self._anchor is None:
            self.anchor()
        self._paused = self._anchor is None or self._capturing is not None
        return self._anchor is None

    def remark(self, row: list[Any], column: int, now_us: int) -> None:
        """Move a mark set earlier in this minibatch to here, or set it."""
        waiting = self._waiting
        if not self._captures:
            with self._lock:  # the writer thread may have read it meanwhile
                if waiting:
                    latest = waiting[-1]
                    if type(latest) is tuple and latest[1] is row and latest[2] == column:
                        self._free.append(waiting.pop()[0])
        self.mark(row, column, now_us)

    def settle(self) -> bool:
        """Read finished events, oldest first, without waiting for them; return whether none is left.

        All at once: the reading thread holds the interpreter, and the loop waits for it.
        """
        self.times_settled += 1
        with self._lock:
            waiting, free = self._waiting, self._free
            if not waiting or self._captures:
                return not waiting
            try:
                left = self._count_finished()
            except RuntimeError as error:
                self._give_up(error)
                return True
            now_us = monotonic_ns() // 1000  # all of them have finished by now
            scale, elapsed = US_PER_MS * self._rate, self._elapsed
            anchored = None if self._anchor is None else self._anchor[0]
            last, last_us = self._last or (None, 0)
            while waiting:
                entry = waiting[0]
                if type(entry) is list:
                    self._emit(waiting.popleft())
                    continue
                if not left:
                    break
                left -= 1
                event, row, column, recorded_us = entry
                try:
                    at_us = last_us + elapsed(last, event) * scale
                    at_us = recorded_us if at_us < recorded_us else now_us if at_us > now_us else at_us
                    row[column] = int(at_us)
                except (RuntimeError, ValueError) as error:  # recorded on another device than the chain's
                    if not self._query(event):
                        break  # recorded again since, or on another stream
                    self._problem("the time of an accelerator event could not be determined: %s" % error)
                    waiting.popleft()
                    continue
                waiting.popleft()
                if last is not anchored:
                    free.append(last)
                last, last_us = event, at_us
            self._last = (last, last_us)
            return not waiting

    def _count_finished(self) -> int:
        """Return how many events are finished, oldest first: a stream works in order, so few have to be queried."""
        # A copy first, in one step: the loop appends meanwhile.
        events = [entry[0] for entry in list(self._waiting) if type(entry) is tuple]
        low, high = 0, len(events)
        while low < high:
            middle = (low + high) // 2
            if self._query(events[middle]):
                low = middle + 1
            else:
                high = middle
        return low

    def _give_up(self, error: Exception) -> None:
        """Stop reading events after an error of the device; write the waiting rows with the host's instants only."""
        self._problem("accelerator events could not be read: %s" % error)
        while self._waiting:
            entry = self._waiting.popleft()
            if type(entry) is list:
                self._emit(entry)

    def drain(self) -> None:
        """Wait for the device, then read everything. Only where the loop does not compute."""
        try:
            self._torch.cuda.synchronize()
        except RuntimeError as error:
            with self._lock:
                self._give_up(error)
            raise
        self.settle()

    def anchor(self) -> None:
        """Tie the chain to the host's clock. Waits for the device."""
        try:
            self.drain()
            best: Any = None
            for _ in range(ANCHOR_TRIES):
                event = self._free.pop() if self._free else self._new()
                before = monotonic_ns()
                event.record()
                event.synchronize()
                after = monotonic_ns()
                if best is None or after - before < best[2]:
                    if best is not None:
                        self._free.append(best[0])
                    best = (event, (before + after) / 2000.0, after - before)
                else:
                    self._free.append(event)
            event, at_us, width_ns = best
            if self._anchor is not None:
                span_us = self._anchor[0].elapsed_time(event) * US_PER_MS
                if span_us > 1e6 and abs((at_us - self._anchor[1]) / span_us - 1) < MAX_DRIFT:
                    self._rate = (at_us - self._anchor[1]) / span_us
            with self._lock:
                self._anchor = (event, at_us, width_ns / 2000.0)
                self._last = (event, at_us)
            self.anchors.append({"at_us": int(at_us), "pm_us": width_ns / 2000.0, "rate": self._rate})
            del self.anchors[1:-100]
        except (RuntimeError, IndexError) as error:  # another thread may have taken the last event
            self._problem("the accelerator's clock could not be aligned with the host's: %s" % error)

    def due(self) -> bool:
        """Return whether the last anchor is older than a minute."""
        return self._anchor is not None and monotonic_ns() // 1000 - self._anchor[1] > ANCHOR_EVERY_US

    def name(self) -> str:
        """Return the name of the device."""
        return str(self._torch.cuda.get_device_name())

    def peak_bytes(self) -> int:
        """Return the most memory torch held on the device, in bytes."""
        return int(self._torch.cuda.max_memory_reserved())


def _calls(torch: Any) -> tuple[Any, Any, Any, Any, Any]:
    """Return functions for the current device, its current stream's handle, and to record, query and read an event.

    Those beneath torch's own methods: each of these is one call more.
    """
    try:
        low = torch._C
        event = low._CudaEventBase
        return low._cuda_getDevice, low._cuda_getCurrentRawStream, event.record, event.query, event.elapsed_time
    except AttributeError:
        return (
            lambda: None,
            lambda device: None,
            lambda event, stream: event.record(),
            lambda event: event.query(),
            lambda first, second: first.elapsed_time(second),
        )
