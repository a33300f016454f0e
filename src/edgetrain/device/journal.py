"""What was so before we changed it: one file, safe against a kill, a power cut and a stranger.

The journal is on disk, whole and synced, before the first write to the board. It lies in a folder of its own that
only its owner (root, when root acts) may enter, so nobody else can make us write something. A lock beside it says
whether the writer still lives; the kernel drops that lock when a process dies, however it dies.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from edgetrain.errors import ControlRefused, NeedsRoot

FOLDER = "/var/lib/edgetrain/journal"
FILE = "board.json"
LOCK = "lock"
MOST_BYTES = 1 << 20
VERSION = 1
PHASES = ("applying", "held", "restoring")


@dataclass(frozen=True, slots=True)
class Entry:
    """The board as it was, and what became of it since."""

    device: str  # module and serial: a journal is of no use on another board
    boot: str  # boot id: after a reboot only what outlives one needs restoring
    phase: str  # applying | held | restoring
    keep: bool  # the user asked for the mode to stay after we end
    values: Mapping[str, str]  # path → value, before the first change
    nvpmodel: int | None = None  # the stock mode before, where we changed it
    asked: str = ""  # for people: what was being set
    extra: Mapping[str, Any] = field(default_factory=dict)


class Journal:
    """The journal folder of one board."""

    def __init__(self, root: Path, folder: str = FOLDER) -> None:
        self._root = root
        self._folder = root / folder.lstrip("/")
        self._lock_fd: int | None = None

    @property
    def folder(self) -> Path:
        return self._folder

    @property
    def locked(self) -> bool:
        """Whether this process holds the board."""
        return self._lock_fd is not None

    def prepare(self) -> None:
        """Make the folder, or refuse one that others may write."""
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except PermissionError as error:
            raise NeedsRoot(
                f"cannot make {self._folder}, where changes to the board are journaled; run this with sudo",
                command="sudo edgetrain modes set MODE",
            ) from error
        except OSError as error:
            raise ControlRefused(
                f"cannot make {self._folder} ({error.strerror}); nothing is changed without a journal"
            ) from error
        self._check_folder()

    def _check_folder(self) -> None:
        state = os.lstat(self._folder)
        if not stat.S_ISDIR(state.st_mode):
            raise ControlRefused(f"{self._folder} is not a folder; remove it: a journal is followed through no link")
        if state.st_uid != os.geteuid() or state.st_mode & 0o077:
            if os.geteuid() != 0 and state.st_uid == 0:
                raise NeedsRoot(
                    f"the journal in {self._folder} is root's; run: sudo edgetrain modes restore",
                    command="sudo edgetrain modes restore",
                )
            raise ControlRefused(
                f"{self._folder} belongs to user {state.st_uid} with mode {state.st_mode & 0o777:o}: somebody else "
                "could have written there; remove it after looking at what it holds"
            )

    def lock(self) -> None:
        """Take the board for this process; ControlRefused while another one holds it."""
        if self._lock_fd is not None:
            return
        self.prepare()
        fd = os.open(self._folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = os.read(fd, 32).decode("ascii", "replace").strip()
            os.close(fd)
            raise ControlRefused(
                f"another edgetrain (process {owner or 'unknown'}) is setting this board's modes; wait for it or end it"
            ) from None
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
        self._lock_fd = fd

    def unlock(self) -> None:
        """Give the board back; safe to call twice."""
        if self._lock_fd is not None:
            os.close(self._lock_fd)
            self._lock_fd = None

    def read(self) -> Entry | None:
        """Return what is journaled, None where nothing is; refuse what somebody else may have written."""
        try:
            self._check_folder()
            fd = os.open(self._folder / FILE, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise ControlRefused(f"cannot open the journal {self._folder / FILE}: {error.strerror}") from error
        with contextlib.ExitStack() as stack:
            stack.callback(os.close, fd)
            state = os.fstat(fd)
            if not stat.S_ISREG(state.st_mode) or state.st_nlink != 1 or state.st_size > MOST_BYTES:
                raise self._foreign("it is not a plain file of ours")
            if state.st_uid != os.geteuid():
                raise self._foreign(f"user {state.st_uid} wrote it")
            raw = os.read(fd, MOST_BYTES)
        try:
            return _decode(raw)
        except (ValueError, KeyError, TypeError) as error:
            raise self._foreign(f"it does not read as one ({error})") from error

    def _foreign(self, why: str) -> ControlRefused:
        path = self._folder / FILE
        return ControlRefused(
            f"refusing the journal {path}: {why}; nothing was restored from it. Look at it, then remove it",
            path=str(path),
        )

    def write(self, entry: Entry) -> None:
        """Put an entry on disk as one step, synced; only then may the board be touched."""
        temporary = self._folder / f"{FILE}.{os.getpid()}.tmp"
        with contextlib.suppress(FileNotFoundError):
            temporary.unlink()
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            os.write(fd, _encode(entry))
            os.fsync(fd)
        finally:
            os.close(fd)
        os.replace(temporary, self._folder / FILE)
        self._sync()

    def clear(self) -> None:
        """Forget the entry: the board is as it was."""
        with contextlib.suppress(FileNotFoundError):
            (self._folder / FILE).unlink()
        # Temporaries of writers that were killed.
        for left in self._folder.glob(f"{FILE}.*.tmp"):
            with contextlib.suppress(OSError):
                left.unlink()
        self._sync()

    def _sync(self) -> None:
        fd = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


def _encode(entry: Entry) -> bytes:
    body = {
        "version": VERSION,
        "device": entry.device,
        "boot": entry.boot,
        "phase": entry.phase,
        "keep": entry.keep,
        "values": dict(entry.values),
        "nvpmodel": entry.nvpmodel,
        "asked": entry.asked,
        "extra": dict(entry.extra),
    }
    text = json.dumps(body, sort_keys=True)
    return json.dumps({"entry": body, "sha256": hashlib.sha256(text.encode()).hexdigest()}).encode()


def _decode(raw: bytes) -> Entry:
    document = json.loads(raw)
    body = document["entry"]
    text = json.dumps(body, sort_keys=True)
    if hashlib.sha256(text.encode()).hexdigest() != document["sha256"]:
        raise ValueError("its checksum is wrong")
    if body["version"] != VERSION or body["phase"] not in PHASES:
        raise ValueError(f"version {body['version']}, phase {body['phase']!r}")
    values = body["values"]
    if not all(isinstance(name, str) and isinstance(value, str) for name, value in values.items()):
        raise ValueError("values that are not text")
    stock = body["nvpmodel"]
    if stock is not None and not isinstance(stock, int):
        raise ValueError("a stock mode that is not a number")
    return Entry(
        str(body["device"]), str(body["boot"]), str(body["phase"]), bool(body["keep"]), values, stock,
        str(body["asked"]), dict(body["extra"]),
    )  # fmt: skip
