"""The slow medium without root: reads of dataset files wait in the reading process, in one queue for all of them.

Entered through EDGETRAIN_READ_BUCKET. It wraps `open`, so it sees the files a dataset opens from Python and no others;
what the page cache already holds is not waited for. Standard library only.
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
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from edgetrain.lab.queueing import Medium

ENTRY = "EDGETRAIN_READ_BUCKET"
_CACHESTAT = 451
_PAGE_BYTES = mmap.PAGESIZE
_libc = ctypes.CDLL(None, use_errno=True)
_state: dict[str, Any] = {}


def missing_bytes(descriptor: int, size_bytes: int) -> int:
    """Return how much of a file the page cache does not hold."""
    if size_bytes == 0:
        return 0
    pages = -(-size_bytes // _PAGE_BYTES)
    span = struct.pack("QQ", 0, size_bytes)
    counts = ctypes.create_string_buffer(40)
    if _libc.syscall(_CACHESTAT, descriptor, span, counts, 0) == 0:
        cached = struct.unpack_from("Q", counts.raw)[0]
        return max(0, pages - int(cached)) * _PAGE_BYTES
    # Before Linux 6.5: mincore over a mapping.
    with mmap.mmap(descriptor, size_bytes, prot=mmap.PROT_READ | mmap.PROT_WRITE, flags=mmap.MAP_PRIVATE) as view:
        present = ctypes.create_string_buffer(pages)
        start = ctypes.addressof(ctypes.c_char.from_buffer(view))
        if _libc.mincore(ctypes.c_void_p(start), ctypes.c_size_t(size_bytes), present):
            return 0
        return sum(not (byte & 1) for byte in present.raw) * _PAGE_BYTES


class Bucket:
    """One queue shared by processes: when each place of the medium is free, in a small locked file."""

    def __init__(self, path: str | os.PathLike[str], medium: Medium) -> None:
        self.medium = medium
        # Beyond a few dozen at once the user-space queue no longer matters.
        self._places = struct.Struct(f"{min(medium.at_once, 64) + 1}d")
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
            positioned_s = start_s + self.medium.read_s / self.medium.gain_at(depth)
            done_s = max(positioned_s, free_s[0]) + size_bytes / self.medium.bytes_per_s
            free_s[0] = free_s[place] = done_s
            os.pwrite(self._descriptor, self._places.pack(*free_s), 0)
        finally:
            fcntl.lockf(self._descriptor, fcntl.LOCK_UN)
        time.sleep(max(0.0, done_s - time.monotonic()))
        return time.monotonic() - asked_s


def entry(path: Path, folder: Path, medium: Medium) -> str:
    """Return the value of EDGETRAIN_READ_BUCKET for a dataset folder."""
    return json.dumps({"file": str(path), "folder": str(folder.resolve()), "medium": medium.as_dict()})


def install(environment: Mapping[str, str] = os.environ) -> bool:
    """Make `open` wait for reads below the dataset folder, where the environment asks for it."""
    asked = environment.get(ENTRY)
    if not asked or _state:
        return bool(_state)
    facts = json.loads(asked)
    bucket = Bucket(facts["file"], Medium.from_dict(facts["medium"]))
    folder = facts["folder"].rstrip("/") + "/"
    plain_open = builtins.open
    _state["open"] = plain_open

    def waiting_open(file: Any, mode: str = "r", *rest: Any, **named: Any) -> Any:
        opened = plain_open(file, mode, *rest, **named)
        reads = "w" not in mode and "a" not in mode and isinstance(file, (str, bytes, os.PathLike))
        if reads and os.path.abspath(os.fsdecode(file)).startswith(folder):
            lacking = missing_bytes(opened.fileno(), os.fstat(opened.fileno()).st_size)
            if lacking:
                bucket.wait(lacking)
        return opened

    builtins.open = waiting_open
    io.open = waiting_open  # what pathlib calls
    return True


def remove() -> None:
    """Undo `install`."""
    if _state:
        builtins.open = io.open = _state.pop("open")
