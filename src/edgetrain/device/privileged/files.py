"""A board's files below a root: reads that never block for long, writes that follow no symbolic link.

Part of edgetrain-control: Python 3.6, standard library only.
"""

import contextlib
import errno
import glob
import os
import re
import subprocess
import threading
import time
from typing import Any, Callable, List, Optional, Sequence, Set, Tuple

MAX_BYTES = 1 << 20  # no file of a board that we read is longer
READ_LIMIT_S = 2.0
PROGRAM_FOLDERS = ("/usr/sbin", "/usr/bin", "/sbin", "/bin")
# On one JetPack 7.2 Thor reading a devfreq file never returned.
MAY_HANG = re.compile(r"/devfreq/(?:gpu-|bwmgr/)")


class ControlError(Exception):
    """A request that is not carried out; the text says why."""


class Files:
    """A board's files below a root. Reading never blocks for long; writing follows no symbolic link."""

    def __init__(self, root: str = "/", sleep: Callable[[float], None] = time.sleep) -> None:
        self.base = os.fspath(root)
        self.sleep = sleep
        self.hung: Set[str] = set()
        self.read_limit_s = READ_LIMIT_S

    def at(self, name: str) -> str:
        """Return where the board's file `name` lies here."""
        return os.path.join(self.base, name.lstrip("/"))

    def read_bytes(self, name: str) -> bytes:
        """Return a file's content; raises OSError, EAGAIN included, which buffered reading would turn into None."""
        if not MAY_HANG.search(name):
            return self.descriptor(self.at(name))
        if name in self.hung:
            raise OSError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT), name)
        answer: List[Any] = []

        def read() -> None:
            try:
                answer.append(self.descriptor(self.at(name)))
            except OSError as error:
                answer.append(error)

        thread = threading.Thread(target=read, daemon=True)
        thread.start()
        thread.join(self.read_limit_s)
        if not answer:
            self.hung.add(name)  # the thread is given up, and the file is not read again
            raise OSError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT), name)
        if isinstance(answer[0], OSError):
            raise answer[0]
        return bytes(answer[0])

    def descriptor(self, path: str) -> bytes:
        """Read one file."""
        return read_descriptor(path)

    def text(self, name: str) -> Optional[str]:
        """Return a file's text without NULs, or None where it cannot be read."""
        try:
            return self.read_bytes(name).decode("utf-8", "replace").replace("\0", " ").strip()
        except OSError:
            return None

    def number(self, name: str) -> Optional[int]:
        """Return a file's first integer, or None."""
        words = (self.text(name) or "").split()
        try:
            return int(words[0], 0) if words else None
        except ValueError:
            return None

    def exists(self, name: str) -> bool:
        """Return whether the file is there; a folder that may not be entered counts as empty."""
        return os.path.exists(self.at(name))

    def glob(self, pattern: str) -> List[str]:
        """Return the board's names that match, in natural order (cpu2 before cpu10)."""
        found = glob.glob(self.at(pattern))
        return sorted(("/" + os.path.relpath(path, self.base) for path in found), key=natural)

    def real(self, name: str) -> Optional[str]:
        """Return `name` with links resolved, or None where that leaves the root or the file does not exist."""
        path, base = os.path.realpath(self.at(name)), os.path.realpath(self.base)
        if not os.path.exists(path) or not (path + "/").startswith(base.rstrip("/") + "/"):
            return None
        return "/" + os.path.relpath(path, base)

    def write(self, name: str, text: str) -> None:
        """Write a value. Follows no link, creates nothing; raises OSError."""
        fd = open_beneath(self.base, name, os.O_WRONLY | os.O_TRUNC)
        try:
            os.write(fd, text.encode() + b"\n")
        finally:
            os.close(fd)

    def program(self, name: str) -> Optional[str]:
        """Return the path of one of the board's own programs, or None."""
        paths = [self.at(folder + "/" + name) for folder in PROGRAM_FOLDERS]
        return next((path for path in paths if os.path.isfile(path) and os.access(path, os.X_OK)), None)

    def run(self, name: str, arguments: Sequence[str], timeout_s: float = 30.0) -> Optional[Tuple[int, str]]:
        """Run one of the board's programs; return its status and output, or None where there is none.

        Standard input says `n` and ends: a program that asks whether it may reboot is answered with no.
        """
        path = self.program(name)
        if path is None:
            return None
        command = [path] + list(arguments)
        try:
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        except OSError as error:
            return 126, "%s could not be started: %s" % (name, error.strerror)
        try:
            output = process.communicate(b"n\n", timeout=timeout_s)[0]
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            return 124, "%s did not answer within %g s" % (name, timeout_s)
        return process.returncode, output.decode("utf-8", "replace")


def read_descriptor(path: str) -> bytes:
    """Read a small file without buffering; raises OSError."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        data = os.read(fd, 1 << 16)
        while data and len(data) < MAX_BYTES:
            more = os.read(fd, 1 << 16)
            if not more:
                break
            data += more
        return data
    finally:
        os.close(fd)


def open_beneath(root: str, name: str, flags: int) -> int:
    """Open a file below `root`, refusing a symbolic link in any component; raises OSError."""
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if ".." in parts or not parts:
        raise OSError(errno.EPERM, "%s is not a path below the board's root" % name)
    fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in parts[:-1]:
            inner = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=fd)
            os.close(fd)
            fd = inner
        return os.open(parts[-1], flags | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=fd)
    finally:
        with contextlib.suppress(OSError):
            os.close(fd)


def natural(name: str) -> List[Tuple[int, int, str]]:
    """Return a sort key that counts numbers as numbers."""
    parts = re.findall(r"\d+|\D", name)
    return [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in parts]
