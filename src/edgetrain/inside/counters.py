"""What the kernel counted for one thread: CPU time, run-queue wait, switches, faults, bytes from storage.

Readings are taken at both ends of a fetch, so they have to be cheap: descriptors stay open, and `/proc` is read
with one `pread`. Costs seen in Python, microseconds: clock 0.05, thread_time 0.4, getrusage 0.7, schedstat 1.3
(11.5 with open and close), /proc/self/io 2.7 parsed. Between the steps of a real network, where the caches are cold,
all of them together take about 50 µs. CPU time comes from `thread_time`, because getrusage and schedstat may lag to
the last scheduler tick. Standard library only, Python 3.8.
"""

from __future__ import annotations

import os
import resource
import time
from typing import Any

RUSAGE_THREAD = getattr(resource, "RUSAGE_THREAD", resource.RUSAGE_SELF)
BLOCK_BYTES = 512  # the kernel's ru_inblock is its read_bytes in these, and six times cheaper to read
READ_EVERY_US = 8000  # counters are read once per this much time of fetching: 50 µs of it are 0.6 %
READ_ONE_IN = 9  # fetches, at least
TIMED_US = 1000  # a fetch this long has its CPU time read even where its counters are not
NOT_READ = (None,) * 10
CPU_ONLY = (None,) * 9
COST_EVERY = 16  # one minibatch in 16 measures our own cost, in the loop and in a worker
MIN_HELPERS_US = 200  # CPU time of other threads within one fetch; below it they are not listed


class Dither:
    """A random bit; avoids aliasing with periodic loads."""

    _state = 1

    def bit(self) -> int:
        """Return 0 or 1."""
        self._state = (1103515245 * self._state + 12345) & 0x7FFFFFFF
        return self._state >> 16 & 1


class ReadSchedule:
    """Decides at which fetches counters are read: once per 8 ms of fetching, dithered; every fetch that is longer.

    With `at_least` 9, also one fetch in nine: a long fetch among short ones is then read at times, not only the one
    after it. The loop's own waits do without, because a fast loop hardly waits.
    """

    def __init__(self, at_least: int | None = None) -> None:
        self.due = True
        self._since_us = 0  # fetching since the last reading
        self._at_least = self._left = at_least
        self._dither = Dither()

    def fetched(self, took_us: int, read: bool) -> None:
        """A fetch took this long, and its counters were read or not."""
        if read:
            # One fetch more or less until the next reading.
            bit = self._dither.bit()
            self._since_us = took_us if took_us >= READ_EVERY_US or bit else -took_us
            self._left = None if self._at_least is None else self._at_least - bit
        else:
            self._since_us += took_us
            if self._left is not None:
                self._left -= 1
        self.due = self._since_us >= READ_EVERY_US or self._left == 1

    def read_next(self) -> None:
        """Read the counters of the next fetch in any case."""
        self.due = True


class Kernel:
    """The clocks and counters of the calling thread and of its process."""

    def now_us(self) -> int:
        return time.monotonic_ns() // 1000

    def thread_ns(self) -> int:
        return time.thread_time_ns()

    def process_ns(self) -> int:
        return time.process_time_ns()

    def thread_usage(self) -> Any:
        return resource.getrusage(RUSAGE_THREAD)

    def process_usage(self) -> Any:
        return resource.getrusage(resource.RUSAGE_SELF)


def open_schedstat(path: str = "/proc/thread-self/schedstat") -> int | None:
    """Return a descriptor of the calling thread's schedstat, or None where the kernel has none.

    The link is resolved when it is opened: call this in the thread whose wait is to be read.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        os.pread(fd, 64, 0).split()[1]
        return fd
    except (OSError, IndexError):
        return None


def slices(fd: int) -> tuple[int, int]:
    """Return how long the thread of this descriptor has waited for a CPU, in ns, and how often it got one."""
    try:
        _, waited, ran = os.pread(fd, 64, 0).split()
        return int(waited), int(ran)
    except (OSError, ValueError):
        return 0, 0


def queued_ns(fd: int | None) -> int:
    """Return how long the thread of this descriptor has waited for a CPU so far, in ns."""
    if fd is None:
        return 0
    try:
        return int(os.pread(fd, 64, 0).split()[1])
    except (OSError, IndexError, ValueError):
        return 0


class ThreadCounters:
    """Counters of one thread and of the process around it; `begin` and `end` bracket a fetch.

    Make it in the thread that fetches. Threads of the recorder and of the queue are excluded: their CPU time is not the
    dataset's, and is subtracted from what helper threads used.
    """

    def __init__(self, kernel: Kernel | None = None) -> None:
        self._kernel = kernel or Kernel()
        self._schedstat = open_schedstat()
        self._counts_bytes = os.path.exists("/proc/self/io")  # the kernel accounts I/O by task
        self._process = self._kernel.process_usage()
        self._own_tid = _thread_id()
        self._excluded: dict[int, int] = {}  # thread id: CPU clock
        # Thread id: descriptor, queued ns and slices at the last reading.
        self._helpers: dict[int, tuple[int, int, int]] = {}
        self._listing = False  # helper threads were seen working: their schedstat is read too
        self._last_queued_ns = queued_ns(self._schedstat)
        self._at_begin = (0, 0, 0, 0, 0, 0.0)
        self._schedule = ReadSchedule(at_least=READ_ONE_IN)
        self._reading = True  # the counters of this fetch are read
        self._cpu_from_ns = 0

    def exclude(self, thread: Any) -> None:
        """Leave a thread of the queue's or ours out of the helpers."""
        try:
            tid = getattr(thread, "native_id", None)
            if tid is not None and thread.ident is not None:
                self._excluded[tid] = time.pthread_getcpuclockid(thread.ident)
        except (OSError, AttributeError, ValueError):
            pass

    def begin(self) -> int | None:
        """Read at the start of a fetch; return the run-queue wait since the last end in µs, None where not read."""
        kernel = self._kernel
        self._reading = self._schedule.due
        if not self._reading:
            self._cpu_from_ns = kernel.thread_ns()
            return None
        if self._listing:
            self._read_helpers()
        usage = kernel.thread_usage()
        others = self._excluded_ns()
        process, thread = kernel.process_ns(), kernel.thread_ns()
        # The run queue is read last, next to the caller's clock: a preemption between them would count in one alone.
        queued = queued_ns(self._schedstat)
        self._at_begin = (queued, usage.ru_nvcsw, usage.ru_majflt, process - others, thread, usage.ru_stime)
        return (queued - self._last_queued_ns) // 1000

    def end(self, took_us: int) -> tuple[int | None, ...]:
        """Read at the end of a fetch that took this long; return its columns from `cpu_us` on, None where not read.

        µs: cpu, helpers' cpu, system, queued, helpers' queued, stolen; then read bytes, faults, switches, helpers.
        """
        if not self._reading:
            self._schedule.fetched(took_us, False)
            if self._schedule.due:
                self._last_queued_ns = queued_ns(self._schedstat)  # the next one's waking is counted from here
            if took_us < TIMED_US:
                return NOT_READ
            return ((self._kernel.thread_ns() - self._cpu_from_ns) // 1000,) + CPU_ONLY
        kernel, before = self._kernel, self._at_begin
        queued = self._last_queued_ns = queued_ns(self._schedstat)
        thread, process = kernel.thread_ns(), kernel.process_ns()
        usage = kernel.thread_usage()
        cpu_us = (thread - before[4]) // 1000
        helpers_us = max(0, (process - self._excluded_ns() - before[3]) // 1000 - cpu_us)
        # A preemption just before the first reading or just after the last waits outside the fetch.
        waited_us = max(0, min((queued - before[0]) // 1000, took_us - cpu_us))
        rest_us = max(0, took_us - cpu_us - waited_us)
        helpers_queued_us, helpers = self._helpers_since_begin(helpers_us, rest_us, took_us)
        switches = usage.ru_nvcsw - before[1]
        last, self._process = self._process, kernel.process_usage()
        # Helper threads read and compute for the fetch: with them, the process's kernel time since the last fetch.
        system_s = usage.ru_stime - before[5] if helpers is None else self._process.ru_stime - last.ru_stime
        read_blocks = self._process.ru_inblock - last.ru_inblock
        self._schedule.fetched(took_us, True)
        if read_blocks or self._listing:
            self._schedule.read_next()  # what reads from the medium, or has helper threads, is read each time
        return (
            cpu_us,
            helpers_us,
            max(0, int(system_s * 1e6)),
            waited_us if self._schedstat is not None else None,
            helpers_queued_us,
            rest_us if switches == 0 else 0,
            read_blocks * BLOCK_BYTES if self._counts_bytes else None,
            usage.ru_majflt - before[2],
            switches,
            helpers,
        )

    def _helpers_since_begin(self, helpers_us: int, rest_us: int, took_us: int) -> tuple[int | None, int | None]:
        """Return the helpers' run-queue wait and number, where they are listed; decide whether to list them."""
        queued_us = helpers = None
        if self._listing:
            queued_us, helpers = self._read_helpers(count_new=True)
        if helpers_us < MIN_HELPERS_US or 10 * rest_us < took_us:
            # Other threads matter only where the fetching one slept and they did not.
            self._listing = False
        elif not self._listing:
            self._listing = True
            self._read_helpers()
        return queued_us, helpers

    def _excluded_ns(self) -> int:
        total = 0
        for tid, clock in list(self._excluded.items()):
            try:
                total += time.clock_gettime_ns(clock)
            except OSError:  # that thread is gone
                del self._excluded[tid]
        return total

    def _read_helpers(self, count_new: bool = False) -> tuple[int, int]:
        """Return the run-queue wait of all helper threads since the last reading, in µs, and how many of them ran."""
        total = busy = 0
        try:
            names = os.listdir("/proc/self/task")
        except OSError:
            return 0, 0
        alive = set()
        for name in names:
            tid = int(name)
            if tid == self._own_tid or tid in self._excluded:
                continue
            alive.add(tid)
            known = self._helpers.get(tid)
            if known is None:
                fd = open_schedstat("/proc/self/task/%d/schedstat" % tid)
                if fd is None:
                    continue
                # A thread born within the fetch has waited for this fetch alone.
                known = (fd, 0, 0) if count_new else (fd,) + slices(fd)
            waited, ran = slices(known[0])
            total += max(0, waited - known[1])
            busy += ran != known[2]
            self._helpers[tid] = (known[0], waited, ran)
        for tid in [tid for tid in self._helpers if tid not in alive]:
            os.close(self._helpers.pop(tid)[0])
        return total // 1000, busy


def _thread_id() -> int:
    import threading

    return threading.get_native_id() if hasattr(threading, "get_native_id") else 0
