"""A board's files under a root: reading, writing without following links, and the board's own programs.

Names are written as the board writes them (`/sys/class/hwmon`); the root turns them into paths, so a folder can
stand in for a board. Writing walks down from the root one component at a time and refuses every symbolic link:
sysfs is full of them, so what may be written is resolved once, when it is found, and never again.
"""

from __future__ import annotations

import contextlib
import errno
import os
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from edgetrain.errors import ProbeUnavailable

MOST_BYTES = 1 << 16  # no file of a board that we read is longer
PROGRAM_FOLDERS = ("/usr/sbin", "/usr/bin", "/sbin", "/bin")


class Register(Protocol):
    """One open file that is read again and again."""

    def read(self) -> str:
        """Return its first line as it is now; raises OSError."""

    def close(self) -> None: ...


class OpenFile:
    """A descriptor kept open: one pread a reading, no path lookup."""

    __slots__ = ("_fd",)

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def read(self) -> str:
        return os.pread(self._fd, 4096, 0).split(b"\n", 1)[0].decode("ascii", "replace").strip("\0 \t\r")

    def __del__(self) -> None:
        # A probe that is dropped without `close` must not keep its descriptors.
        if getattr(self, "_fd", -1) >= 0:
            self.close()

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


@dataclass(frozen=True, slots=True)
class Answer:
    """What one of the board's programs said."""

    status: int
    text: str  # stdout and stderr together


class Tree:
    """The files of one board."""

    def __init__(
        self,
        root: Path = Path("/"),
        now_ns: Callable[[], int] = time.monotonic_ns,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.root = Path(root)
        self.now_ns = now_ns
        self.sleep = sleep

    def path(self, name: str) -> Path:
        """Return where the board's file `name` lies here."""
        return self.root / name.lstrip("/")

    def name(self, path: Path) -> str:
        """Return what the board calls this path."""
        return "/" + str(path.relative_to(self.root)).lstrip("/")

    def text(self, name: str) -> str | None:
        """Return a file's text without NULs, or None where it cannot be read."""
        try:
            with self.path(name).open("rb") as file:
                return file.read(MOST_BYTES).decode("utf-8", "replace").replace("\0", " ").strip()
        except OSError:
            return None

    def strings(self, name: str) -> list[str]:
        """Return the NUL-separated strings of a device-tree property."""
        try:
            raw = self.path(name).read_bytes()[:MOST_BYTES]
        except OSError:
            return []
        return [part.decode("utf-8", "replace").strip() for part in raw.split(b"\0") if part.strip()]

    def number(self, name: str) -> int | None:
        """Return a file's first integer, or None."""
        text = self.text(name)
        try:
            return int(text.split()[0], 0) if text else None
        except ValueError:
            return None

    def numbers(self, name: str) -> tuple[int, ...]:
        """Return a file's integers, ascending and each once: a clock table."""
        text = self.text(name) or ""
        return tuple(sorted({int(word) for word in text.split() if word.isdigit()}))

    def exists(self, name: str) -> bool:
        return self.path(name).exists()

    def glob(self, pattern: str) -> list[str]:
        """Return the board's names that fit, in natural order (cpu2 before cpu10)."""
        try:
            found = [self.name(path) for path in self.root.glob(pattern.lstrip("/"))]
        except OSError:
            return []
        return sorted(found, key=_natural)

    def real(self, name: str) -> str | None:
        """Return `name` with links resolved, or None where that leaves the root or ends nowhere."""
        try:
            path = self.path(name).resolve(strict=True)
            return "/" + str(path.relative_to(self.root.resolve())).lstrip("/")
        except (OSError, ValueError, RuntimeError):
            return None

    def register(self, name: str) -> Register:
        """Open a file to be read often; ProbeUnavailable where it cannot be."""
        try:
            return OpenFile(self.path(name))
        except OSError as error:
            raise ProbeUnavailable(f"cannot read {name}: {error.strerror}", path=name, error=error) from error

    def writable(self, name: str) -> bool:
        """Return whether this user may write the file."""
        return os.access(self.path(name), os.W_OK)

    def write(self, name: str, text: str) -> None:
        """Write a value. Follows no link, creates nothing; raises OSError."""
        fd = open_beneath(self.root, name, os.O_WRONLY | os.O_TRUNC)
        try:
            os.write(fd, text.encode() + b"\n")
        finally:
            os.close(fd)

    def program(self, name: str) -> str | None:
        """Return the path of one of the board's own programs, or None."""
        for folder in PROGRAM_FOLDERS:
            path = self.path(f"{folder}/{name}")
            if os.access(path, os.X_OK) and path.is_file():
                return str(path)
        return None

    def run(self, name: str, arguments: Sequence[str], timeout_s: float = 30.0) -> Answer | None:
        """Run one of the board's programs and return what it said; None where there is none.

        Standard input says `n` and ends: a program that asks for leave to reboot is told no.
        """
        path = self.program(name)
        if path is None:
            return None
        try:
            done = subprocess.run(
                [path, *arguments],
                input="n\n",
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=timeout_s,
                text=True,
                errors="replace",
                check=False,
            )
        except subprocess.TimeoutExpired:
            return Answer(124, f"{name} did not answer within {timeout_s:g} s")
        except OSError as error:
            return Answer(126, f"{name} could not be started: {error.strerror}")
        return Answer(done.returncode, done.stdout)


def open_beneath(root: Path, name: str, flags: int, mode: int = 0o600) -> int:
    """Open a file below `root`, refusing a symbolic link in any component; raises OSError."""
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if ".." in parts or not parts:
        raise OSError(errno.EPERM, f"{name} is not a path below the board's root")
    fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in parts[:-1]:
            inner = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=fd)
            os.close(fd)
            fd = inner
        return os.open(parts[-1], flags | os.O_NOFOLLOW | os.O_CLOEXEC, mode, dir_fd=fd)
    finally:
        with contextlib.suppress(OSError):
            os.close(fd)


def _natural(name: str) -> list[tuple[int, int, str]]:
    parts: list[tuple[int, int, str]] = []
    digits = ""
    for letter in name + "\0":
        if letter.isdigit():
            digits += letter
            continue
        if digits:
            parts.append((0, int(digits), ""))
            digits = ""
        parts.append((1, 0, letter))
    return parts
