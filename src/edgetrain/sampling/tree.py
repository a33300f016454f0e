"""The training process with all its descendants, summed.

When a child is reaped the kernel adds its CPU time to the parent's `cutime` and its I/O to the parent's own, so sums
over living processes lose nothing of loader workers that have ended.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Collection, Sequence
from pathlib import Path

from edgetrain.device import FAST_S, TICKS_PER_S, KeptFile, ProbeEvent
from edgetrain.errors import ProbeUnavailable
from edgetrain.sampling.pagecache import PAGE_BYTES

# How often the tree is searched. Loader workers are forked by the main thread; children of other threads are searched
# for every fifth time, because a torch process has dozens of threads and each is a file to open.
SEARCH_INTERVAL_S = 1.0
ALL_THREADS_EVERY = 5
# One search opens at most this many threads' files (10 µs each), and large trees are searched less often.
MAX_THREADS = 500
SEARCH_S_PER_PROCESS = 0.03
# Beyond this many processes only the first are summed, and the run gets a doubt.
MAX_PROCESSES = 256
# One process costs about 15 µs per reading; this keeps the probe under half a percent of a core.
S_PER_PROCESS = 0.003


class ProcessTree:
    """A process and its descendants, searched for every second; never the sampler itself."""

    def __init__(self, pid: int, proc: Path = Path("/proc"), not_these: Collection[int] = ()) -> None:
        self.pid, self._proc, self._not = pid, os.fspath(proc), frozenset((*not_these, os.getpid()))
        self._members: dict[int, tuple[KeptFile, KeptFile | None]] = {}
        self._searches = 0
        self._searched_s = -math.inf
        self._threads_left = 0
        self.truncated = False
        self.search()
        if not self._members:
            raise ProbeUnavailable(f"no process {pid} to watch")

    @property
    def pids(self) -> Collection[int]:
        """The members as last seen."""
        return self._members.keys()

    def search(self) -> None:
        """Find the processes that belong to the tree now."""
        self._searches += 1
        self._searched_s = time.monotonic()
        every_thread = self._searches % ALL_THREADS_EVERY == 1
        self._threads_left = MAX_THREADS
        found: dict[int, None] = {}
        waiting = [self.pid]
        while waiting and len(found) < MAX_PROCESSES:
            pid = waiting.pop()
            if pid in found or pid in self._not:
                continue
            found[pid] = None
            waiting += self._children(pid, every_thread)
        self.truncated |= bool(waiting)
        if not every_thread:
            # A child of a side thread is still there unless its file shows otherwise.
            for pid in self._members:
                found.setdefault(pid, None)
        for pid in [pid for pid in self._members if pid not in found]:
            self._drop(pid)
        for pid in found:
            if pid not in self._members:
                self._add(pid)

    def search_if_due(self) -> None:
        """Search again when the last search is a second old, or more for a large tree."""
        if time.monotonic() - self._searched_s >= max(SEARCH_INTERVAL_S, SEARCH_S_PER_PROCESS * len(self._members)):
            self.search()

    def cpu_s(self) -> float:
        """Return the CPU seconds of all, the reaped included."""
        return sum(fields[0] for fields in self._stats())

    def totals(self) -> tuple[float, float, int, int]:
        """Return (CPU seconds, resident bytes, processes, threads)."""
        cpu_s = rss = 0.0
        processes = threads = 0
        for seconds, resident, count in self._stats():
            cpu_s += seconds
            rss += resident
            processes += 1
            threads += count
        return cpu_s, rss, processes, threads

    def io_bytes(self) -> tuple[float, float, float]:
        """Return bytes (read from the medium, written to it, asked for by read calls); NaN where not allowed."""
        read = written = asked = 0.0
        seen = False
        for _, io in self._members.values():
            values = _numbers(io.read()) if io is not None else {}
            if b"read_bytes" in values:
                seen = True
                read += values[b"read_bytes"]
                written += values.get(b"write_bytes", 0)
                asked += values.get(b"rchar", 0)
        return (read, written, asked) if seen else (math.nan, math.nan, math.nan)

    def close(self) -> None:
        """Close the descriptors."""
        for pid in list(self._members):
            self._drop(pid)

    def _stats(self) -> list[tuple[float, float, int]]:
        found = []
        for pid, (stat, _) in list(self._members.items()):
            fields = stat.read().rpartition(b")")[2].split()
            if len(fields) < 22:
                self._drop(pid)  # it ended and was reaped
                continue
            # Of the process's line after its name: user, system, and the same of reaped children; threads; pages.
            numbers = [fields[place] for place in (11, 12, 13, 14, 17, 21)]
            if not all(number.isdigit() for number in numbers):
                continue
            *ticks, threads, pages = (int(number) for number in numbers)
            found.append((sum(ticks) / TICKS_PER_S, float(pages * PAGE_BYTES), threads))
        return found

    def _children(self, pid: int, every_thread: bool) -> list[int]:
        folder = f"{self._proc}/{pid}/task"
        try:
            threads = os.listdir(folder) if every_thread and self._threads_left > 0 else [str(pid)]
        except OSError:
            return []
        self._threads_left -= len(threads)
        found: list[int] = []
        for thread in threads:
            try:
                with open(f"{folder}/{thread}/children", "rb", buffering=0) as file:
                    found += [int(word) for word in file.read(65536).split()]
            except (OSError, ValueError):
                continue  # the thread has ended, or the kernel lacks CONFIG_PROC_CHILDREN
        return found

    def _add(self, pid: int) -> None:
        try:
            stat = KeptFile(f"{self._proc}/{pid}/stat", 1024)
        except ProbeUnavailable:
            return
        io: KeptFile | None
        try:
            io = KeptFile(f"{self._proc}/{pid}/io", 512)
        except ProbeUnavailable:
            io = None
        self._members[pid] = (stat, io)

    def _drop(self, pid: int) -> None:
        stat, io = self._members.pop(pid)
        stat.close()
        if io is not None:
            io.close()


class ProcessProbe:
    """Sums of the training's process tree; counters never fall."""

    name = "process"
    columns: Sequence[str] = (
        "read_bytes",
        "write_bytes",
        "asked_bytes",
        "cpu_s",
        "rss_bytes",
        "process_count",
        "thread_count",
    )
    blocking = False

    def __init__(self, tree: ProcessTree) -> None:
        self._tree = tree
        self.period_s = FAST_S
        self._most = [0.0] * 4
        self._reported = False

    def read(self) -> list[float]:
        """Return the sums now; NaN once no process is left."""
        self._tree.search_if_due()
        cpu_s, rss_bytes, processes, threads = self._tree.totals()
        if not processes:
            return [math.nan] * len(self.columns)
        self.period_s = max(FAST_S, processes * S_PER_PROCESS)
        counters = (*self._tree.io_bytes(), cpu_s)
        # Between a worker's end and its reaping its part is in neither place: hold the counter still.
        self._most = [max(old, new) if new == new else old for old, new in zip(self._most, counters, strict=True)]
        seen = [most if new == new else math.nan for most, new in zip(self._most, counters, strict=True)]
        return [*seen, rss_bytes, float(processes), float(threads)]

    def pop_events(self) -> list[ProbeEvent]:
        """Report once that the tree is larger than what is summed."""
        if not self._tree.truncated or self._reported:
            return []
        self._reported = True
        return [ProbeEvent("doubt", f"the training has more than {MAX_PROCESSES} processes; only these are summed")]

    def close(self) -> None:
        """Close the descriptors."""
        self._tree.close()


def _numbers(data: bytes) -> dict[bytes, int]:
    """Return the `name: number` lines of /proc/PID/io."""
    values = {}
    for line in data.split(b"\n"):
        name, _, number = line.partition(b": ")
        if number.isdigit():
            values[name] = int(number)
    return values
