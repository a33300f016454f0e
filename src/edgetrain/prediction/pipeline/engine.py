"""The event loop of the model: processes that compute on shared cores, sleep, read from a medium, or wait.

A process is a generator that yields what it needs next, as a tuple:

    (COMPUTE, seconds, threads)     CPU time at full speed, on this number of threads
    (SLEEP, seconds)                time that passes without a core
    (UNTIL, instant)                the same, up to an instant
    (READ, positioned, size)        one request to the medium; `positioned` is False where it continues an earlier one
    (WAIT, queue)                   until something lies in the queue

Cores are shared by all runnable threads equally (processor sharing in virtual time): with n of them on c cores each
runs at min(1, c / n), so an event costs O(log n) however many threads there are.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, TypeAlias

from edgetrain.schema import StorageModel

COMPUTE, SLEEP, UNTIL, READ, WAIT = range(5)
# What computing costs more, set by hand on a virtual machine with two threads of one core: beside busy cores
# (shared caches, hardware threads), and with more threads than cores (switching).
BUSY_NEIGHBOURS = 0.08
OVERSUBSCRIBED = 0.05

Need: TypeAlias = tuple[Any, ...]
Activity: TypeAlias = Generator[Need, Any, None]


class Slot:
    """A queue between two processes: one puts, the other waits for it."""

    __slots__ = ("items", "waiter")

    def __init__(self) -> None:
        self.items: deque[int] = deque()
        self.waiter: Activity | None = None


@dataclass(frozen=True, slots=True)
class CoreSharing:
    """The cores, and threads of other programs that are runnable all the time (their average number)."""

    cores: float
    others: float = 0.0
    busy_neighbours: float = BUSY_NEIGHBOURS
    oversubscribed: float = OVERSUBSCRIBED

    def crowded(self, threads: int) -> bool:
        """Return whether there are more runnable threads than cores, with this many of the training."""
        return threads + self.others > self.cores + 0.5

    def rate(self, threads: int) -> float:
        """Return the speed of each thread for a number of runnable threads of the training."""
        total = threads + self.others
        share = min(1.0, self.cores / total) if total > 0 else 1.0
        beside = 0.0 if self.cores <= 1 else min(1.0, (threads - 1) / (self.cores - 1))
        slower = self.busy_neighbours * max(0.0, beside) + (self.oversubscribed if self.crowded(threads) else 0.0)
        return share / (1.0 + slower)


class RequestQueue:
    """When each request to a storage medium is done: one queue for all readers, as the lab's disk server keeps it."""

    def __init__(self, medium: StorageModel) -> None:
        self.medium = medium
        self._free_s = [0.0] * medium.at_once
        self._channel_s = 0.0
        self._due: deque[float] = deque()
        self._gain = _gain_table(medium)
        self.busy_s = 0.0

    def admit(self, now_s: float, positioned: bool, size_bytes: float) -> float:
        """Return the instant at which this request is answered."""
        due, free = self._due, self._free_s
        while due and due[0] <= now_s:
            due.popleft()
        server = 0 if len(free) == 1 else min(range(len(free)), key=free.__getitem__)
        at_s = start_s = max(now_s, free[server])
        if positioned:
            at_s += self.medium.read_s / self._gain[min(len(due) + 1, len(self._gain) - 1)]
        done_s = max(at_s, self._channel_s) + size_bytes / self.medium.bytes_per_s
        self._channel_s = free[server] = done_s
        self.busy_s += done_s - start_s
        due.append(done_s)
        return done_s


def _gain_table(medium: StorageModel) -> list[float]:
    """Return how much faster positioning is at each queue depth, linear between the medium's points."""
    points = [(1, 1.0), *sorted(medium.gain)]
    table = [1.0]
    for depth in range(1, points[-1][0] + 1):
        below = max(point for point in points if point[0] <= depth)
        above = min((point for point in points if point[0] >= depth), default=below)
        share = 0.0 if above[0] == below[0] else (depth - below[0]) / (above[0] - below[0])
        table.append(below[1] + share * (above[1] - below[1]))
    return table


class Engine:
    """Runs processes until none is left that can go on."""

    def __init__(self, cores: CoreSharing, medium: StorageModel | None) -> None:
        self.now_s = 0.0
        self.medium = None if medium is None else RequestQueue(medium)
        self._cores = cores
        self._rates: list[float] = [1.0]
        self._virtual_s = 0.0  # work that a thread runnable all the time would have done
        self._threads = 0  # runnable ones
        self._computing: list[tuple[float, int, int, Activity]] = []
        self._timed: list[tuple[float, int, Activity]] = []
        self._order = 0

    def start(self, process: Activity) -> None:
        """Let a process begin now."""
        self._go_on(process)

    def put(self, slot: Slot, item: int) -> None:
        """Put something into a queue; who waits for it goes on."""
        slot.items.append(item)
        if slot.waiter is not None:
            waiter, slot.waiter = slot.waiter, None
            self._order += 1
            heapq.heappush(self._timed, (self.now_s, self._order, waiter))

    def run(self) -> None:
        """Go from event to event until nothing can happen any more."""
        computing, timed = self._computing, self._timed
        while computing or timed:
            if computing:
                rate = self._rate()
                due_s = self.now_s + (computing[0][0] - self._virtual_s) / rate
                if not timed or due_s < timed[0][0]:
                    self.now_s = due_s
                    self._virtual_s, _, threads, process = heapq.heappop(computing)
                    self._threads -= threads
                    self._go_on(process)
                    continue
                self._virtual_s += (timed[0][0] - self.now_s) * rate
            self.now_s, _, process = heapq.heappop(timed)
            self._go_on(process)

    def _rate(self) -> float:
        rates = self._rates
        while len(rates) <= self._threads:
            rates.append(self._cores.rate(len(rates)))
        return rates[self._threads]

    def _go_on(self, process: Activity) -> None:
        """Resume a process and note what it needs next; what takes no time is done at once."""
        for need in process:
            kind = need[0]
            if kind == COMPUTE:
                if need[1] <= 0.0:
                    continue
                self._order += 1
                heapq.heappush(self._computing, (self._virtual_s + need[1], self._order, need[2], process))
                self._threads += need[2]
                return
            if kind == WAIT:
                slot = need[1]
                if slot.items:
                    continue
                slot.waiter = process
                return
            if kind == SLEEP:
                until_s = self.now_s + need[1]
            elif kind == UNTIL:
                until_s = need[1]
            else:
                assert self.medium is not None
                until_s = self.medium.admit(self.now_s, need[1], need[2])
            if until_s <= self.now_s:
                continue
            self._order += 1
            heapq.heappush(self._timed, (until_s, self._order, process))
            return
