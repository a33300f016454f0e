"""Lets this process keep freed memory, for commands that read runs of millions of minibatches."""

from __future__ import annotations

import ctypes

M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_MAX = -1, -2, -4  # of mallopt(3)


def keep_freed_memory() -> None:
    """Have the C library keep freed memory for the next array instead of returning it to the kernel.

    Columns of ten million rows are 80 MB each: faulting every one in anew took four times as long as the arithmetic on
    it. It changes the whole process, so a command does it, never the library.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(M_MMAP_MAX, 0)
        mallopt(M_TRIM_THRESHOLD, 2**31 - 1)
        mallopt(M_TOP_PAD, 2**28)
    except (OSError, AttributeError):
        pass  # another C library: slower, not wrong
