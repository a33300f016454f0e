"""Limits the page cache of some processes, by a memory control group whose limit follows their own memory.

A memory group counts process memory and the pages its members were first to read. What is asked for is a limit on the
cache alone, so the group's limit is the cache plus everything else the group uses at the moment (anonymous and shared
memory, kernel tables), and follows that as it changes: process memory never displaces the cache, nor the reverse.

While readers start, their own memory grows by tens of megabytes between two updates; until all have started and it is
stable, the limit has some slack, or the kernel would kill one of them for a cache that is not even full.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from edgetrain.errors import LabError

PERIOD_S = 0.2
SETTLE_S = 1.0  # without growth for this long, the limit is exact
_STEP_BYTES = 1 << 20
# An interpreter with torch forked into a worker dirties some tens of megabytes at once.
_SLACK_BYTES = 128 << 20
_GROWTH_BYTES = 8 << 20  # minibatches are allocated and freed; this much above every earlier value is growth
_SETTLED_S = 0.5  # memory that has not grown for this long has stopped growing
_PAGE_BYTES = 4096


@dataclass(frozen=True, slots=True)
class GroupMemory:
    """What a memory group uses: file pages apart from everything else."""

    cache_bytes: int
    other_bytes: int


def read_group_memory(folder: Path) -> GroupMemory:
    """Read what a group uses, in either version's files."""
    numbers = {}
    for line in (folder / "memory.stat").read_text().splitlines():
        name, _, value = line.partition(" ")
        numbers[name] = int(value)
    if (folder / "memory.current").exists():
        used = int((folder / "memory.current").read_text())
        file_bytes = numbers["file"] - numbers.get("shmem", 0)
    else:
        used = int((folder / "memory.usage_in_bytes").read_text())
        file_bytes = numbers["total_cache"] - numbers.get("total_shmem", 0)
    return GroupMemory(max(0, file_bytes), max(0, used - file_bytes))


def count_members(folder: Path) -> int:
    """Return how many processes are in a group and right below it."""
    files = [folder / "cgroup.procs", *folder.glob("*/cgroup.procs")]
    return sum(len(file.read_text().split()) for file in files if file.exists())


def set_limit(folder: Path, limit_bytes: int) -> None:
    """Write the limit; the kernel reclaims what is above it before it returns."""
    name = "memory.max" if (folder / "memory.max").exists() else "memory.limit_in_bytes"
    limit_bytes = max(_PAGE_BYTES, limit_bytes // _PAGE_BYTES * _PAGE_BYTES)
    for attempt in range(5):
        try:
            (folder / name).write_text(str(limit_bytes))
            return
        except OSError as error:
            # Version 1 answers EBUSY while pages are being written.
            if attempt == 4:
                raise LabError(
                    f"the kernel refused {limit_bytes} bytes for {folder / name}: {error.strerror}"
                ) from error
            time.sleep(0.05)


class CacheLimit:
    """Keeps the cache of one group at the size asked for, from a thread, until closed."""

    def __init__(
        self,
        folder: Path,
        cache_bytes: int,
        readers: int = 1,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self.folder = folder
        self.cache_bytes = cache_bytes
        self.readers = readers  # how many processes will join
        self._now_s = now_s
        self._high_bytes = 0  # own memory was never more than a step above this
        self._grew_s = now_s()
        self._all_started = False
        self.most_cache_bytes = 0
        self.most_other_bytes = 0
        self._limit_bytes = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="edgetrain-lab-memory", daemon=True)
        set_limit(folder, cache_bytes + _SLACK_BYTES)

    def start(self) -> CacheLimit:
        """Follow from now on."""
        self._thread.start()
        return self

    def step(self) -> None:
        """Read once and correct the limit."""
        used = read_group_memory(self.folder)
        self.most_cache_bytes = max(self.most_cache_bytes, used.cache_bytes)
        self.most_other_bytes = max(self.most_other_bytes, used.other_bytes)
        if used.other_bytes - self._high_bytes >= _GROWTH_BYTES:
            self._high_bytes, self._grew_s = used.other_bytes, self._now_s()
        self._all_started = self._all_started or count_members(self.folder) >= self.readers
        settled = self._all_started and self._now_s() - self._grew_s > _SETTLED_S
        wanted = self.cache_bytes + used.other_bytes + (0 if settled else _SLACK_BYTES)
        if abs(wanted - self._limit_bytes) >= _STEP_BYTES:
            self._limit_bytes = wanted
            set_limit(self.folder, wanted)

    def _follow(self) -> None:
        while not self._stop.wait(PERIOD_S):
            with contextlib.suppress(OSError, LabError, KeyError, ValueError):
                self.step()

    def close(self) -> None:
        """Stop following; the limit stays until the group is removed."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(2)


def main(sleep: Callable[[float], None] = time.sleep) -> int:
    """Follow one group until it is gone: how `lab up` keeps a limit after it returned."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("cache_bytes", type=int)
    parser.add_argument("readers", type=int)
    options = parser.parse_args()
    limit = CacheLimit(options.folder, options.cache_bytes, options.readers)
    while options.folder.is_dir():
        with contextlib.suppress(OSError, LabError, KeyError, ValueError):
            limit.step()
        sleep(PERIOD_S)
    return 0


if __name__ == "__main__":
    sys.exit(main())
