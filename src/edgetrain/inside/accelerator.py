"""Instants on the accelerator's timeline: CUDA events recorded in the loop, read later, never waited for.

`elapsed_time` is a float32 of milliseconds, so times are chained event to event, each step short, and the chain is
tied to the host's clock by anchors: the GPU is idle, an event is recorded and finishes at once, and the host's clock
before and after says when. Anchors are taken where the loop stands still anyhow (first use, end of a pass, or once a
minute while the GPU waits for data). Between anchors two bounds hold the chain: an event cannot finish before it was
recorded, nor after it was seen finished.

The loop only records events; the thread that keeps the record reads them, once a second. Between the steps of a real
network the caches are cold: on an H200 each look at an event took the loop 14 µs, asking torch for the current stream
21 µs, recording on a stream already in hand 9 µs. A lock keeps the two threads apart where an event is moved.

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
MOST_WAITING = 20_000  # events and rows; a training that outruns the keeper by more reads some itself
AT_ONCE = 64  # events that the keeper reads before it lets the loop go on: half a millisecond
MOST_RESTS = 64  # in one go
MOST_DRIFT = 1e-3  # a clock off by more than this is a broken anchor, not drift


class Cuda:
    """Event pool, chain and anchors of one CUDA device."""

    def __init__(self, torch: Any, emit: Any, problem: Any) -> None:
        self._torch = torch
        self._emit = emit
        self._problem = problem
        self._new = lambda: torch.cuda.Event(enable_timing=True)
        self._here, self._handle_of, self._record = _recording(torch)
        self._device: Any = None
        self._handle: Any = None  # of the stream now in hand
        self._stream: Any = None
        self._lock = threading.Lock()
        self._captures = 0  # graphs being captured now: looking at an event from any thread would spoil them
        self._capturing = self._mind_captures()
        self._free: list[Any] = []
        # (event, row, column, host µs), or a row, which is complete: it goes out when it is its turn
        self._waiting: collections.deque[Any] = collections.deque()
        self._latest: Any = (None, None, 0, 0)  # mark
        self.close: Any = self._waiting.append  # a row has no more marks to come; bound: it runs once a minibatch
        self._last: Any = None  # (event, host µs), the chain's end
        self._anchor: Any = None  # (event, host µs, ± µs)
        self._rate = 1.0
        self.anchors: list[dict[str, Any]] = []  # for the record: [{at_us, pm_us, rate}]

    def _mind_captures(self) -> Any:
        """Have graph captures say when they begin and end; return what tells whether one is under way."""
        graph = getattr(self._torch.cuda, "CUDAGraph", None)
        if graph is None:
            return getattr(self._torch.cuda, "is_current_stream_capturing", None)
        begin, end = graph.capture_begin, graph.capture_end

        @functools.wraps(begin)
        def capture_begin(*arguments: Any, **named: Any) -> Any:
            self._captures += 1
            with self._lock:  # whoever looks at an event now finishes first
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

    def mark(self, row: list[Any], column: int) -> None:
        """Record an event on the current stream whose instant will be put into the row.

        All in one function: it runs twice a minibatch, and each call within it costs a microsecond of cold caches.
        """
        if self._captures or (self._capturing is not None and self._capturing()):
            return  # an event of ours would become part of the user's graph
        if self._anchor is None:
            self.anchor()
            if self._anchor is None:
                return
        try:
            event = self._free.pop()
        except IndexError:
            event = self._new()
        device = self._here()
        handle = self._handle_of(device)
        if handle != self._handle or device != self._device:
            self._take_stream(device, handle)
        self._record(event, self._stream)
        self._latest = entry = (event, row, column, monotonic_ns() // 1000)
        self._waiting.append(entry)

    def _take_stream(self, device: int, handle: int) -> None:
        """Make an object of the current stream: it takes longer than recording the event, so it is kept."""
        self._stream = self._torch.cuda.current_stream()
        self._device, self._handle = device, handle

    def remark(self, row: list[Any], column: int) -> None:
        """Move a mark set earlier in this minibatch to here, or set it."""
        latest, waiting = self._latest, self._waiting
        if latest[1] is row and latest[2] == column and not self._captures:
            with self._lock:  # the keeper may have read it meanwhile
                if waiting and waiting[-1] is latest:
                    self._free.append(waiting.pop()[0])
        self.mark(row, column)

    def relieve(self) -> None:
        """Help a keeper that does not keep up, so that memory stays bounded; call it now and then."""
        if len(self._waiting) > MOST_WAITING:
            self.settle(64)

    def settle(self, most: int = -1, rest: Any = None) -> bool:
        """Read finished events, oldest first, without waiting for them; return whether none is left.

        Call `rest` now and then: a loop that wants the interpreter waits for a few events alone.
        """
        waiting = self._waiting
        finished = self._count_finished()
        at_once = max(AT_ONCE, 1 + finished // MOST_RESTS)
        read = 0
        while True:
            with self._lock:
                if not waiting:
                    return True
                if self._captures:
                    return False
                entry = waiting[0]
                if type(entry) is list:
                    self._emit(waiting.popleft())
                    continue
                event, row, column, recorded = entry
                if read == most or not (read < finished or event.query()):
                    return False
                waiting.popleft()
                try:
                    row[column] = int(self._host_us(event, recorded))
                except (RuntimeError, ValueError) as error:  # recorded on another device than the chain's
                    if read < finished and not event.query():  # recorded again since, or on another stream
                        waiting.appendleft(entry)
                        return False
                    self._problem("an event on the accelerator could not be placed: %s" % error)
            read += 1
            if rest is not None and read % at_once == 0:
                rest()

    def _count_finished(self) -> int:
        """Return how many events are finished, oldest first: a stream works in order, so few have to be asked."""
        with self._lock:
            if self._captures:
                return 0
            # A copy first, in one step: the loop appends meanwhile.
            events = [entry[0] for entry in list(self._waiting) if type(entry) is tuple]
            low, high = 0, len(events)
            while low < high:
                middle = (low + high) // 2
                if events[middle].query():
                    low = middle + 1
                else:
                    high = middle
            return low

    def _host_us(self, event: Any, recorded: int) -> float:
        last, last_us = self._last
        at_us = last_us + last.elapsed_time(event) * US_PER_MS * self._rate
        at_us = min(max(at_us, recorded), monotonic_ns() // 1000)
        if self._anchor is None or last is not self._anchor[0]:
            self._free.append(last)
        self._last = (event, at_us)
        return at_us

    def drain(self) -> None:
        """Wait for the device, then read everything. Only where the loop stands still anyhow."""
        self._torch.cuda.synchronize()
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
                if span_us > 1e6 and abs((at_us - self._anchor[1]) / span_us - 1) < MOST_DRIFT:
                    self._rate = (at_us - self._anchor[1]) / span_us
            with self._lock:
                self._anchor = (event, at_us, width_ns / 2000.0)
                self._last = (event, at_us)
            self.anchors.append({"at_us": int(at_us), "pm_us": width_ns / 2000.0, "rate": self._rate})
            del self.anchors[1:-100]
        except (RuntimeError, IndexError) as error:  # another thread may have taken the last event
            self._problem("the accelerator's clock could not be tied to the host's: %s" % error)

    def due(self) -> bool:
        """Return whether the last anchor is older than a minute."""
        return self._anchor is not None and monotonic_ns() // 1000 - self._anchor[1] > ANCHOR_EVERY_US

    def name(self) -> str:
        """Return what the device calls itself."""
        return str(self._torch.cuda.get_device_name())

    def peak_bytes(self) -> int:
        """Return the most memory torch held on the device, in bytes."""
        return int(self._torch.cuda.max_memory_reserved())


def _recording(torch: Any) -> tuple[Any, Any, Any]:
    """Return what tells the current device, what tells its current stream's handle, and what records on a stream."""
    try:
        low = torch._C
        return low._cuda_getDevice, low._cuda_getCurrentRawStream, low._CudaEventBase.record
    except AttributeError:
        return lambda: None, lambda device: None, lambda event, stream: event.record()
