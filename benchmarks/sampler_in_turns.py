"""The sampler on a clock that stands still while it is stopped: `python sampler_in_turns.py CLOCK …its arguments…`.

Whoever stops it says in CLOCK, eight bytes, how many microseconds of the machine's clock it shall not have seen. So
what it does once a second it does once in a second of its own.
"""

from __future__ import annotations

import mmap
import sys
import time
from collections.abc import Callable

RECORDED_SHARE = 0.45  # of the benchmark's time; for what waits on the machine's own clock

with open(sys.argv.pop(1), "rb") as file:
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

from edgetrain.sampling import sampler  # noqa: E402  (with those clocks)
from edgetrain.sampling.__main__ import main  # noqa: E402

sampler.FLUSH_S /= RECORDED_SHARE
sys.exit(main())
