"""A slow storage medium without root: reads of dataset files wait in the reading process, in one queue for all of them.

Enabled by EDGETRAIN_READ_QUEUE, a JSON document that the lab writes. It wraps `open`, so it sees the files that Python
opens and no others; what the page cache already holds does not wait. Standard library only.
"""

from __future__ import annotations

import builtins
import ctypes
import fcntl
import io
import json
import mmap
import os
import struct
import time
from typing import Any, Callable, Mapping, Sequence

READ_QUEUE = "EDGETRAIN_READ_QUEUE"
_CACHESTAT = 451
_PAGE_BYTES = mmap.PAGESIZE
_libc = ctypes.CDLL(None, use_errno=True)
_plain_open: list[Callable[..., Any]] = []  # the built-in one, while ours is installed


def cached_bytes(descriptor: int, size_bytes: int) -> int:
    """Return how much of a file the page cache holds, in whole pages."""
    pages = -(-size_bytes // _PAGE_BYTES)
    if pages == 0:
        return 0
    span = struct.pack("QQ", 0, size_bytes)
    counts = ctypes.create_string_buffer(40)
    if _libc.syscall(_CACHESTAT, descriptor, span, counts, 0) == 0:
        return min(pages, struct.unpack_from("Q", counts.raw)[0]) * _PAGE_BYTES
    # Before Linux 6.5: mincore over a mapping.
    with mmap.mmap(descriptor, size_bytes, prot=mmap.PROT_READ | mmap.PROT_WRITE, flags=mmap.MAP_PRIVATE) as view:
        present = ctypes.create_string_buffer(pages)
        start = ctypes.addressof(ctypes.c_char.from_buffer(view))
        if _libc.mincore(ctypes.c_void_p(start), ctypes.c_size_t(size_bytes), present):
            return pages * _PAGE_BYTES
        return sum(byte & 1 for byte in present.raw) * _PAGE_BYTES


class ReadQueue:
    """One queue shared by processes: when each place of the medium is free, in a small locked file.

    `position_s` is the positioning time of a read by the depth of the queue it joins, from depth 1 on; the last one
    holds for every deeper queue. As many reads as `at_once` are served at the same time.
    """

    def __init__(self, path: str, position_s: Sequence[float], bytes_per_s: float, at_once: int) -> None:
        self._position_s = list(position_s)
        self._bytes_per_s = bytes_per_s
        # First when the medium's channel is free, then each place.
        self._places = struct.Struct(f"{at_once + 1}d")
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        if os.fstat(self._descriptor).st_size < self._places.size:
            os.ftruncate(self._descriptor, self._places.size)

    def wait(self, size_bytes: int) -> float:
        """Wait as long as a read of this size takes; return how long that was."""
        asked_s = time.monotonic()
        fcntl.lockf(self._descriptor, fcntl.LOCK_EX)
        try:
            free_s = list(self._places.unpack(os.pread(self._descriptor, self._places.size, 0)))
            place = min(range(1, len(free_s)), key=free_s.__getitem__)
            depth = 1 + sum(one > asked_s for one in free_s[1:])
            start_s = max(asked_s, free_s[place])
            positioned_s = start_s + self._position_s[min(depth, len(self._position_s)) - 1]
            done_s = max(positioned_s, free_s[0]) + size_bytes / self._bytes_per_s
            free_s[0] = free_s[place] = done_s
            os.pwrite(self._descriptor, self._places.pack(*free_s), 0)
        finally:
            fcntl.lockf(self._descriptor, fcntl.LOCK_UN)
        time.sleep(max(0.0, done_s - time.monotonic()))
        return time.monotonic() - asked_s


def install_read_queue(environment: Mapping[str, str] | None = None) -> bool:
    """Make `open` wait for reads below the dataset's folder, where the environment asks for it."""
    asked = (os.environ if environment is None else environment).get(READ_QUEUE)
    if not asked or _plain_open:
        return bool(_plain_open)
    facts = json.loads(asked)
    queue = ReadQueue(facts["file"], facts["position_s"], facts["bytes_per_s"], facts["at_once"])
    folder = facts["folder"].rstrip("/") + "/"
    plain_open = builtins.open
    _plain_open.append(plain_open)

    def waiting_open(file: Any, mode: str = "r", *rest: Any, **named: Any) -> Any:
        opened = plain_open(file, mode, *rest, **named)
        reads = "w" not in mode and "a" not in mode and isinstance(file, (str, bytes, os.PathLike))
        if reads and os.path.abspath(os.fsdecode(file)).startswith(folder):
            size_bytes = os.fstat(opened.fileno()).st_size
            missing = -(-size_bytes // _PAGE_BYTES) * _PAGE_BYTES - cached_bytes(opened.fileno(), size_bytes)
            if missing > 0:
                queue.wait(missing)
        return opened

    builtins.open = waiting_open
    io.open = waiting_open  # what pathlib calls
    return True


def remove_read_queue() -> None:
    """Undo `install_read_queue`."""
    if _plain_open:
        builtins.open = io.open = _plain_open.pop()
