"""What the kernel counted for one thread: CPU time, run-queue wait, switches, faults, bytes from storage.

Every reading is taken at both ends of a fetch, so it has to be cheap: descriptors stay open, and `/proc` is read
with one `pread`. Costs seen in Python, microseconds: clock 0.05, thread_time 0.4, getrusage 0.7, schedstat 1.3
(11.5 with open and close), /proc/self/io 2.7 parsed. CPU time comes from `thread_time`, because getrusage and schedstat
may lag to the last scheduler tick. Standard library only, Python 3.8.
"""

from __future__ import annotations

import os
import resource
import time
from typing import Any

RUSAGE_THREAD = getattr(resource, "RUSAGE_THREAD", resource.RUSAGE_SELF)
BLOCK_BYTES = 512  # the kernel's ru_inblock is its read_bytes in these, and six times cheaper to read
# A look takes some 50 µs between cold caches: one is owed for so much time fetched, so that a small network is not
# slowed down by being watched. Fetches between the looks have their instants, and from a millisecond on their CPU time.
# What reads from the medium, or has helper threads at work, is looked at each time.
LOOK_WORTH_US = 8000
TIMED_US = 1000
SKIP = 7  # most fetches between two looks, and one more by the toss of a coin
UNSEEN = (None,) * 10
CPU_ALONE = (None,) * 9
COSTED = 16  # one minibatch in so many tells what we cost, in the loop (a multiple of its 8) and in a worker
HELPERS_WORTH_US = 200  # less CPU time of other threads than this within one fetch is not worth listing them for


def open_schedstat(path: str = "/proc/thread-self/schedstat") -> int | None:
    """Return a descriptor of the calling thread's schedstat, or None where the kernel has none.

    The link is resolved when it is opened: call this in the thread that is to be watched.
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


class Coin:
    """Shows 0 or 1: what comes in turns must not always be looked at, or never."""

    _state = 1

    def toss(self) -> int:
        """Return what it shows now."""
        self._state = (1103515245 * self._state + 12345) & 0x7FFFFFFF
        return self._state >> 16 & 1


class ThreadCounters:
    """Counters of one thread and of the process around it; `begin` and `end` bracket a fetch.

    Make it in the thread that fetches. `others` are threads of ours or of the queue whose CPU time is not the
    dataset's: their clocks are taken off what helper threads used.
    """

    def __init__(self) -> None:
        self._schedstat = open_schedstat()
        self._counts_bytes = os.path.exists("/proc/self/io")  # the kernel accounts I/O by task
        self._whole = resource.getrusage(resource.RUSAGE_SELF)
        self._own_tid = _thread_id()
        self._not_helpers: dict[int, int] = {}  # thread id: CPU clock
        # Thread id: descriptor, queued ns and slices at the last look.
        self._helpers: dict[int, tuple[int, int, int]] = {}
        self._listing = False  # helper threads were seen working: their schedstat is read too
        self._last_queued_ns = queued_ns(self._schedstat)
        self._at_begin = (0, 0, 0, 0, 0, 0.0)
        self._light = False  # this fetch is timed only
        self._light_from_ns = 0  # the thread's CPU clock when it began
        self._skip = 0  # fetches to time only
        self._usual_us = 0  # how long the last fetch that was looked at took
        self._coin = Coin()

    def exclude(self, thread: Any) -> None:
        """Leave a thread of the queue's or ours out of the helpers."""
        try:
            tid = getattr(thread, "native_id", None)
            if tid is not None and thread.ident is not None:
                self._not_helpers[tid] = time.pthread_getcpuclockid(thread.ident)
        except (OSError, AttributeError, ValueError):
            pass

    def begin(self) -> tuple[int, int | None]:
        """Read at the start of a fetch; return the instant in µs and the run-queue wait since the last end."""
        self._light = self._skip > 0
        if self._light:
            self._skip -= 1
            self._light_from_ns = time.thread_time_ns()
            return time.monotonic_ns() // 1000, None
        if self._listing:
            self._look_at_helpers()
        usage = resource.getrusage(RUSAGE_THREAD)
        others = self._others_ns()
        process, thread = time.process_time_ns(), time.thread_time_ns()
        # The run queue and the clock are read side by side: a preemption between them would count in one alone.
        queued = queued_ns(self._schedstat)
        began = time.monotonic_ns() // 1000
        self._at_begin = (queued, usage.ru_nvcsw, usage.ru_majflt, process - others, thread, usage.ru_stime)
        return began, (queued - self._last_queued_ns) // 1000

    def end(self, began_us: int) -> tuple[int | None, ...]:
        """Read at the end of a fetch; return its columns from `fetched_us` on, None where not counted.

        µs: fetched, cpu, helpers' cpu, system, queued, helpers' queued, stolen; then read bytes, faults, switches,
        helpers.
        """
        fetched = time.monotonic_ns() // 1000
        took_us = fetched - began_us
        if self._light:
            return (fetched,) + self._timed(took_us)
        queued = self._last_queued_ns = queued_ns(self._schedstat)
        thread, process = time.thread_time_ns(), time.process_time_ns()
        usage = resource.getrusage(RUSAGE_THREAD)
        before = self._at_begin
        cpu_us = (thread - before[4]) // 1000
        helpers_us = max(0, (process - self._others_ns() - before[3]) // 1000 - cpu_us)
        # A preemption just before the first reading or just after the last waits outside the fetch.
        waited_us = max(0, min((queued - before[0]) // 1000, fetched - began_us - cpu_us))
        rest_us = max(0, fetched - began_us - cpu_us - waited_us)
        helpers_queued_us = helpers = None
        if self._listing:
            helpers_queued_us, helpers = self._look_at_helpers(born_count=True)
        if helpers_us < HELPERS_WORTH_US or 10 * rest_us < fetched - began_us:
            # Other threads matter only where the fetching one stood still and they did not.
            self._listing = False
        elif not self._listing:
            self._listing = True
            self._look_at_helpers()
        switches = usage.ru_nvcsw - before[1]
        whole, self._whole = self._whole, resource.getrusage(resource.RUSAGE_SELF)
        # Helper threads read and compute for the fetch: with them, the process's kernel time since the last fetch.
        system_s = usage.ru_stime - before[5] if helpers is None else self._whole.ru_stime - whole.ru_stime
        read_blocks = self._whole.ru_inblock - whole.ru_inblock
        self._usual_us = took_us
        if took_us < LOOK_WORTH_US and not read_blocks and not self._listing:
            self._skip = min(SKIP, LOOK_WORTH_US // (took_us + 1)) + self._coin.toss()
        return (
            fetched,
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

    def _timed(self, took_us: int) -> tuple[int | None, ...]:
        """Return the columns of a fetch that was only timed, from CPU time on."""
        if took_us > TIMED_US and took_us > 2 * self._usual_us:
            self._skip = 0  # the long one among short ones makes the stall: what comes next is worth a look
        if self._skip == 0:
            self._last_queued_ns = queued_ns(self._schedstat)  # the next one's waking is counted from here
        if took_us < TIMED_US:
            return UNSEEN
        return ((time.thread_time_ns() - self._light_from_ns) // 1000,) + CPU_ALONE

    def _others_ns(self) -> int:
        total = 0
        for tid, clock in list(self._not_helpers.items()):
            try:
                total += time.clock_gettime_ns(clock)
            except OSError:  # that thread is gone
                del self._not_helpers[tid]
        return total

    def _look_at_helpers(self, born_count: bool = False) -> tuple[int, int]:
        """Return the run-queue wait of all helper threads since the last look, in µs, and how many of them ran."""
        total = busy = 0
        try:
            names = os.listdir("/proc/self/task")
        except OSError:
            return 0, 0
        alive = set()
        for name in names:
            tid = int(name)
            if tid == self._own_tid or tid in self._not_helpers:
                continue
            alive.add(tid)
            known = self._helpers.get(tid)
            if known is None:
                fd = open_schedstat("/proc/self/task/%d/schedstat" % tid)
                if fd is None:
                    continue
                # A thread born within the fetch has waited for this fetch alone.
                known = (fd, 0, 0) if born_count else (fd,) + slices(fd)
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
