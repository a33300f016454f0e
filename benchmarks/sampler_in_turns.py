"""The sampler on a clock that stands still while it is stopped.

    python sampler_in_turns.py CLOCK SHARE PIDS …its arguments…

Whoever stops it says in CLOCK, eight bytes, how many microseconds of the machine's clock it shall not have seen. So
what it does once a second it does once in a second of its own. What waits on the machine's own clock goes by the SHARE
of it that is not missed. Processes among PIDS (1,2,3) it does not look at.
"""

from __future__ import annotations

import functools
import mmap
import sys
import time
from collections.abc import Callable

clock, share, pids = (sys.argv.pop(1) for _ in range(3))
with open(clock, "rb") as file:
    MISSED_US = memoryview(mmap.mmap(file.fileno(), 8, prot=mmap.PROT_READ)).cast("q")


def less(clock: Callable[..., float], per_us: float) -> Callable[..., float]:
    """Return a clock without the time that was missed."""
    return lambda *which: clock(*which) - MISSED_US[0] * per_us


def less_ns(clock: Callable[[], int]) -> Callable[[], int]:
    """Return a clock of whole nanoseconds without the time that was missed."""
    return lambda: clock() - MISSED_US[0] * 1000


time.monotonic, time.time = less(time.monotonic, 1e-6), less(time.time, 1e-6)
time.clock_gettime = less(time.clock_gettime, 1e-6)
time.monotonic_ns = less_ns(time.monotonic_ns)

from edgetrain.sampling import __main__, sampler  # noqa: E402  (with those clocks)

sampler.FLUSH_S /= float(share)
__main__.ProcessTree = functools.partial(  # type: ignore[assignment,misc]
    __main__.ProcessTree, not_these=[int(pid) for pid in pids.split(",") if pid]
)
sys.exit(__main__.main())
