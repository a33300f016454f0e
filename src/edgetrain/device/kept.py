"""A file of /proc or /sys, opened once and read again and again from its beginning.

Opening costs more than reading: kept descriptors took telemetry from 0.74 % of a core to 0.27 % at 10 Hz. Sensors
fail now and then (EAGAIN from a busy bus, ENODEV from a core that went offline, empty text): counted, never raised.
"""

from __future__ import annotations

import errno
import math
import os
from pathlib import Path

from edgetrain.device.privileged import read_descriptor
from edgetrain.errors import ProbeUnavailable

# After these the descriptor never recovers, and a new one may work: the core or the module came back.
_GONE = frozenset({errno.ENODEV, errno.ENXIO, errno.ESTALE, errno.EBADF, errno.EIO, errno.ENOENT})
_OPEN = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
# A sensor whose file has gone is opened again once in this many readings: opening costs more than reading.
_REOPEN_EVERY = 50


class KeptFile:
    """One kernel file behind one descriptor."""

    __slots__ = ("_fd", "_misses", "failures", "path", "size")

    def __init__(self, path: Path | str, size: int = 4096) -> None:
        self._fd = -1
        self.path = os.fspath(path)
        self.size = size
        self.failures = 0
        self._misses = 0
        try:
            self._fd = os.open(self.path, _OPEN)
        except OSError as error:
            raise ProbeUnavailable(f"cannot open {self.path}: {error.strerror}") from error

    def read(self) -> bytes:
        """Return the file's content now, empty where it could not be read."""
        if self._fd < 0 and not self._reopened():
            return b""
        try:
            return os.pread(self._fd, self.size, 0)
        except OSError as error:
            self.failures += 1
            if error.errno in _GONE:
                self.close()
            return b""

    def read_all(self) -> bytes:
        """Return the file's content however long it is, growing the buffer for the next time."""
        data = self.read()
        while len(data) >= self.size and self.size < 1 << 22:
            self.size *= 2
            data = self.read()
        return data

    def number(self, scale: float = 1.0) -> float:
        """Return the file's one number times `scale`; NaN where it is not one."""
        data = self.read()
        if not data:
            return math.nan
        try:
            value = float(data)
        except ValueError:
            self.failures += 1
            return math.nan
        if not math.isfinite(value):  # Python reads "nan" and "1e999" as numbers
            self.failures += 1
            return math.nan
        return value * scale

    def _reopened(self) -> bool:
        self._misses += 1
        if self._misses % _REOPEN_EVERY:
            return False
        try:
            self._fd = os.open(self.path, _OPEN)
        except OSError:
            return False
        return True

    def __del__(self) -> None:
        # A probe that is dropped without `close` must not keep its descriptors.
        self.close()

    def close(self) -> None:
        """Close the descriptor; safe to call twice."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def text_of(path: Path) -> str | None:
    """Return a small file's stripped text, once; None where it cannot be read."""
    try:
        # Unbuffered: on EAGAIN a buffered read returns None instead of raising. Device-tree strings end in NUL.
        return read_descriptor(os.fspath(path)).decode("utf-8", "replace").replace("\0", " ").strip()
    except OSError:
        return None


def numbered(folder: Path, prefix: str) -> list[tuple[int, Path]]:
    """Return the entries `prefix0`, `prefix1`, ... of a folder with their numbers, in that order."""
    try:
        names = os.listdir(folder)
    except OSError:
        return []
    found = [(int(name[len(prefix) :]), folder / name) for name in names if _is_numbered(name, prefix)]
    return sorted(found)


def _is_numbered(name: str, prefix: str) -> bool:
    return name.startswith(prefix) and name[len(prefix) :].isdecimal()
