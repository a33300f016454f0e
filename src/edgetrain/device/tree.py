"""A board's files under a root, with the registers that probes read again and again.

Names are written as the board writes them (`/sys/class/hwmon`); the root turns them into paths, so a folder can serve
as a board. What may be written is found by `privileged.find_settings`, links resolved.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Protocol

from edgetrain.device.base import DeviceClock, SystemClock
from edgetrain.device.privileged import MAY_HANG, Files
from edgetrain.errors import ProbeUnavailable


class Register(Protocol):
    """One file that is read again and again."""

    def read(self) -> str:
        """Return its first line as it is now; raises OSError."""

    def close(self) -> None:
        """Close it; safe to call twice."""


class OpenFile:
    """A descriptor kept open: one pread per reading, no path lookup."""

    __slots__ = ("_fd",)

    def __init__(self, path: Path) -> None:
        self._fd = -1
        self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)

    def read(self) -> str:
        """Return the first line."""
        return os.pread(self._fd, 4096, 0).split(b"\n", 1)[0].decode("ascii", "replace").strip("\0 \t\r")

    def __del__(self) -> None:
        # A probe that is dropped without `close` must not keep its descriptors.
        self.close()

    def close(self) -> None:
        """Close the descriptor."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class LimitedRegister:
    """A file whose reading may never return: it is read with a time limit, and given up after the first hang."""

    def __init__(self, files: Files, name: str) -> None:
        self._files, self._name = files, name

    def read(self) -> str:
        """Return the first line; raises OSError once a reading has hung."""
        return self._files.read_bytes(self._name).split(b"\n", 1)[0].decode("ascii", "replace").strip("\0 \t\r")

    def close(self) -> None:
        """Nothing is held open."""


class Tree(Files):
    """The files of one board."""

    def __init__(self, root: Path = Path("/"), clock: DeviceClock | None = None) -> None:
        self.clock = clock or SystemClock()
        super().__init__(os.fspath(root), self.clock.sleep)
        self.root = Path(root)

    def path(self, name: str) -> Path:
        """Return where the board's file `name` lies here."""
        return Path(self.at(name))

    def strings(self, name: str) -> list[str]:
        """Return the NUL-separated strings of a device-tree property."""
        try:
            raw = self.read_bytes(name)
        except OSError:
            return []
        return [part.decode("utf-8", "replace").strip() for part in raw.split(b"\0") if part.strip()]

    def numbers(self, name: str) -> tuple[int, ...]:
        """Return a file's integers, ascending and each once: a clock table."""
        text = self.text(name) or ""
        return tuple(sorted({int(word) for word in text.split() if word.isdigit()}))

    def register(self, name: str) -> Register:
        """Open a file to be read often; ProbeUnavailable where it cannot be."""
        if MAY_HANG.search(name):
            return LimitedRegister(self, name)
        try:
            return OpenFile(self.path(name))
        except OSError as error:
            raise ProbeUnavailable(f"cannot read {name}: {error.strerror}") from error

    def refused(self, name: str) -> bool:
        """Return whether the file is there and this user may not read it; not read, because a sensor may block."""
        return self.exists(name) and not os.access(self.at(name), os.R_OK)

    def writable(self, name: str) -> bool:
        """Return whether this user may write the file."""
        return os.access(self.at(name), os.W_OK)
