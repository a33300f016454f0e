"""A table of bytes in shared memory, filled by all processes of a training and never emptied: what is in stays in.

One anonymous file in memory (memfd) holds a header, a hash table and the values. Forked processes inherit it, others
open it through /proc while the process that made it lives; nothing is left behind when that one is killed. A value is
looked up without a lock. It is added in two steps, each under a lock of the file: space and slot are taken and the
value written, then its offset makes it visible. A process killed in between leaves a slot that is never found. The
memory is freed when no process has the cache any more.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import mmap
import os
import struct
import threading
import warnings
import weakref
from typing import Any, Iterator

HEADER = struct.Struct("<QQQQ")  # slots, next free byte, values, values that did not fit
NUMBER = struct.Struct("<Q")
WARNED_AT = HEADER.size  # the warnings that some process has given, one bit each
SAMPLES_AT = WARNED_AT + NUMBER.size  # samples made while nothing had been cached
CHECKS_AT = SAMPLES_AT + NUMBER.size  # values made twice
SLOT = struct.Struct("<16sQQ")  # digest of the key, length, offset (0: not visible yet)
HEADER_BYTES = 64
DIGEST_BYTES = 16
MIN_SLOTS = 1 << 8
SLOTS_PER_VALUE = 3  # a sample may have two values: a picture and its mask
VALUE_BYTES = 8 << 10  # or many: frames of a clip. With values of this size, slots and bytes run out together
FULLEST = 0.75  # of the slots in use: above, looking for a key takes long
ALIGN = 8
TABLE_FULL, NEVER_USED, NOT_A_KEY, COPIED = 1, 2, 4, 8  # warnings

# Each cache that this process has open, by what tells its file from others: one object and one descriptor per file.
_open: weakref.WeakValueDictionary[tuple[int, int], SharedCache] = weakref.WeakValueDictionary()


class SharedCache:
    """Bytes by key, within a budget that counts the table too."""

    def __init__(self, budget_bytes: int, expected: int) -> None:
        slots = max(MIN_SLOTS, SLOTS_PER_VALUE * expected, int(budget_bytes / VALUE_BYTES / FULLEST))
        self.first_byte = HEADER_BYTES + slots * SLOT.size
        if budget_bytes < 2 * self.first_byte:
            raise ValueError(
                "a cache of %d bytes is too small for %d values: its table alone takes %d"
                % (budget_bytes, expected, self.first_byte)
            )
        fd = _memory_file()
        self.path = "/proc/%d/fd/%d" % (os.getpid(), fd)
        self.made_by = os.getpid()
        os.ftruncate(fd, budget_bytes)
        self._map(fd, budget_bytes)
        HEADER.pack_into(self._memory, 0, slots, self.first_byte, 0, 0)

    def _map(self, fd: int, budget_bytes: int) -> None:
        self._fd, self.budget_bytes = fd, budget_bytes
        # What was looked up may still be in use; the mapping goes with the last of it.
        weakref.finalize(self, os.close, fd).atexit = False
        self._memory = mmap.mmap(fd, budget_bytes)
        self._thread_lock = threading.Lock()
        self._pid = os.getpid()
        self._file = _identity(fd)
        _open[self._file] = self

    def __reduce__(self) -> Any:
        return open_cache, (self.path, self.made_by, self._file, self.budget_bytes, self.first_byte)

    @property
    def values(self) -> int:
        """How many values are in."""
        return HEADER.unpack_from(self._memory, 0)[2]

    @property
    def used_bytes(self) -> int:
        """Memory in use, the table included."""
        return HEADER.unpack_from(self._memory, 0)[1]

    @property
    def left_out(self) -> int:
        """How often a value did not fit."""
        return HEADER.unpack_from(self._memory, 0)[3]

    def get(self, key: bytes) -> memoryview | None:
        """Return the value of a key; None where it is not in."""
        digest = _digest(key)
        for place in self._places(digest):
            found, length, offset = SLOT.unpack_from(self._memory, place)
            if found == digest:
                return memoryview(self._memory)[offset : offset + length] if offset else None
            if found == _EMPTY:
                return None
        return None

    def put(self, key: bytes, value: Any) -> bool:
        """Add a value; return whether it is in now. What does not fit is left out, and nothing is ever taken out."""
        digest, length = _digest(key), len(value)
        with self._locked():
            slots, free, values, left_out = HEADER.unpack_from(self._memory, 0)
            place = self._free_place(digest)
            if place is None:
                return True  # another process was first
            fits = free + length <= self.budget_bytes
            stored = fits and values < FULLEST * slots
            if stored:
                after = -(-(free + length) // ALIGN) * ALIGN
                HEADER.pack_into(self._memory, 0, slots, after, values + 1, left_out)
                SLOT.pack_into(self._memory, place, digest, length, 0)
                self._memory[free : free + length] = value
            else:
                HEADER.pack_into(self._memory, 0, slots, free, values, left_out + 1)
        if not stored:
            if fits:
                self.warn_once(
                    TABLE_FULL,
                    "the table of the cache is full with %d values although %.1f MB of %.1f MB are free; further "
                    "values are not kept: cache a step whose values are larger, or give a larger ram, which makes the "
                    "table larger too" % (values, (self.budget_bytes - free) / 1e6, self.budget_bytes / 1e6),
                )
            return False
        with self._locked():  # locking orders what was written before what is written now, for other cores too
            SLOT.pack_into(self._memory, place, digest, length, free)
        return True

    def count(self, what: int) -> int:
        """Count samples or checks; return the number before, in all processes together (about: without a lock)."""
        (before,) = NUMBER.unpack_from(self._memory, what)
        NUMBER.pack_into(self._memory, what, before + 1)
        return before

    def warn_once(self, which: int, message: str, stacklevel: int = 4) -> None:
        """Give a warning unless some process has given it."""
        if NUMBER.unpack_from(self._memory, WARNED_AT)[0] & which:
            return
        with self._locked():
            (given,) = NUMBER.unpack_from(self._memory, WARNED_AT)
            NUMBER.pack_into(self._memory, WARNED_AT, given | which)
        if not given & which:
            warnings.warn("edgetrain.cached: " + message, RuntimeWarning, stacklevel=stacklevel)

    def _free_place(self, digest: bytes) -> int | None:
        """Return where a new key goes; None where it is there already."""
        for place in self._places(digest):
            found = SLOT.unpack_from(self._memory, place)[0]
            if found == digest:
                return None
            if found == _EMPTY:
                return place
        return None

    def _places(self, digest: bytes) -> Iterator[int]:
        slots = HEADER.unpack_from(self._memory, 0)[0]
        first = int.from_bytes(digest[:8], "little")
        for step in range(slots):
            yield HEADER_BYTES + ((first + step) % slots) * SLOT.size

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        if self._pid != os.getpid():  # forked: another thread may have held the lock of the parent
            self._thread_lock, self._pid = threading.Lock(), os.getpid()
        with self._thread_lock:
            fcntl.lockf(self._fd, fcntl.LOCK_EX)
            try:
                yield
            finally:
                fcntl.lockf(self._fd, fcntl.LOCK_UN)


_EMPTY = bytes(DIGEST_BYTES)


def open_cache(path: str, made_by: int, file: tuple[int, int], budget_bytes: int, first_byte: int) -> SharedCache:
    """Return the cache that another process, or this one, has made."""
    found = _open.get(file)
    if found is not None:
        return found
    try:
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        raise RuntimeError(_not_opened(path, error.strerror))
    if _identity(fd) != file:
        os.close(fd)
        raise RuntimeError(_not_opened(path, "it was freed"))
    cache = SharedCache.__new__(SharedCache)
    cache.path, cache.made_by, cache.first_byte = path, made_by, first_byte
    cache._map(fd, budget_bytes)
    return cache


def has_open_caches() -> bool:
    """Return whether this process has any cache in memory."""
    return bool(_open)


def reserved_bytes() -> int:
    """Return what the caches of this process may still fill."""
    return sum(max(0, cache.budget_bytes - cache.used_bytes) for cache in list(_open.values()))


def _not_opened(path: str, reason: str | None) -> str:
    return (
        "the cache made by another process cannot be opened (%s): %s; make it in the process that starts the loader's "
        "workers, and keep the dataset there" % (path, reason)
    )


def _identity(fd: int) -> tuple[int, int]:
    status = os.fstat(fd)
    return status.st_dev, status.st_ino


def _digest(key: bytes) -> bytes:
    return hashlib.blake2b(key, digest_size=DIGEST_BYTES).digest()


def _memory_file() -> int:
    try:
        return os.memfd_create("edgetrain-cache", os.MFD_CLOEXEC)
    except (AttributeError, OSError):
        import tempfile

        fd, path = tempfile.mkstemp(prefix="edgetrain-cache-", dir="/dev/shm")
        os.unlink(path)
        return fd
