"""What the board was like before we changed it, on disk: safe against a kill, a power cut and other users.

Part of edgetrain-control: Python 3.6, standard library only.
"""

import contextlib
import fcntl
import glob
import hashlib
import json
import os
import stat
from typing import Any, Dict, NamedTuple, Optional

from edgetrain.device.privileged.files import MAX_BYTES, ControlError, Files

JOURNAL = "/var/lib/edgetrain/journal"
JOURNAL_VERSION = 2
PHASES = ("applying", "held", "restoring")


class JournalEntry(NamedTuple):
    """The board as it was before the first change, and what became of it since."""

    device: str  # module and serial number: a journal is of no use on another board
    boot: str  # boot id: after a reboot only what outlives one needs restoring
    phase: str  # applying | held | restoring
    keep: bool  # the user asked for the mode to stay after we end
    asked: str  # for people: what was being set
    values: Dict[str, int]  # settings by name
    stock: Optional[int] = None  # the stock mode before
    stock_changed: bool = False  # nvpmodel was run
    fan: Optional[Dict[str, int]] = None  # the fan before it was set to full speed
    outer: Optional[Any] = None  # the entry of a mode that was set to stay, inside which this one is held


def to_json(entry: JournalEntry) -> Dict[str, Any]:
    """Return an entry as JSON holds it."""
    document = dict(entry._asdict())
    document["outer"] = None if entry.outer is None else to_json(entry.outer)
    return document


def from_json(document: Any) -> JournalEntry:
    """Read an entry; ValueError, KeyError or TypeError where it is none."""
    entry = JournalEntry(**document)
    if entry.phase not in PHASES or not all(type(value) is int for value in entry.values.values()):
        raise ValueError("phase %r, or values that are no numbers" % (entry.phase,))
    return entry if entry.outer is None else entry._replace(outer=from_json(entry.outer))


class BoardJournal:
    """What the board was like before we changed it: one file, complete and synced before the first change.

    It lies in a folder that only its owner (root, when root acts) may enter. A lock beside it shows whether the writer
    still lives; the kernel drops that lock when a process dies, however it dies.
    """

    def __init__(self, files: Files) -> None:
        self.folder = files.at(JOURNAL)
        self.file = self.folder + "/board.json"
        self._lock = -1

    @property
    def locked(self) -> bool:
        """Whether this process holds the board."""
        return self._lock >= 0

    def lock(self) -> None:
        """Take the board for this process; ControlError while another one holds it."""
        if self.locked:
            return
        os.makedirs(self.folder, 0o700, exist_ok=True)
        self._check_folder()
        fd = os.open(self.folder + "/lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = os.read(fd, 32).decode("ascii", "replace").strip()
            os.close(fd)
            raise ControlError(
                "another edgetrain (process %s) is setting this board's modes" % (owner or "unknown")
            ) from None
        os.ftruncate(fd, 0)
        os.pwrite(fd, b"%d\n" % os.getpid(), 0)
        self._lock = fd

    def unlock(self) -> None:
        """Give the board back; safe to call twice."""
        if self.locked:
            os.close(self._lock)
            self._lock = -1

    def _check_folder(self) -> None:
        state = os.lstat(self.folder)
        if not stat.S_ISDIR(state.st_mode) or state.st_uid != os.geteuid() or state.st_mode & 0o077:
            raise ControlError(
                "%s is not a folder that only user %d may enter; inspect its contents, then remove it"
                % (self.folder, os.geteuid())
            )

    def read(self) -> Optional[JournalEntry]:
        """Return what is journaled, None where nothing is; ControlError where another user may have written it."""
        try:
            self._check_folder()
            fd = os.open(self.file, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise ControlError("cannot open the journal %s: %s" % (self.file, error.strerror)) from error
        try:
            state = os.fstat(fd)
            raw = os.read(fd, MAX_BYTES)
        finally:
            os.close(fd)
        if not stat.S_ISREG(state.st_mode) or state.st_nlink != 1 or state.st_uid != os.geteuid():
            raise self._foreign("user %d wrote it, or it is not a plain file" % state.st_uid)
        try:
            document = json.loads(raw.decode())
            if checksum(document["entry"]) != document["sha256"]:
                raise ValueError("its checksum is wrong")
            if document["version"] != JOURNAL_VERSION:
                raise ValueError("it is of version %s" % document["version"])
            return from_json(document["entry"])
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise self._foreign(str(error)) from error

    def _foreign(self, why: str) -> ControlError:
        text = "refusing the journal %s: %s; nothing was restored from it. Inspect it, then remove it"
        return ControlError(text % (self.file, why))

    def write(self, entry: JournalEntry) -> None:
        """Write an entry to disk atomically, synced; only then may the board be changed."""
        temporary = "%s.%d.tmp" % (self.file, os.getpid())
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            body = to_json(entry)
            text = json.dumps({"version": JOURNAL_VERSION, "entry": body, "sha256": checksum(body)})
            os.write(fd, text.encode())
            os.fsync(fd)
        finally:
            os.close(fd)
        os.replace(temporary, self.file)
        self._sync()

    def clear(self) -> None:
        """Remove the entry, and temporaries of writers that were killed: the board is as it was."""
        for path in [self.file] + glob.glob(self.file + ".*.tmp"):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
        self._sync()

    def _sync(self) -> None:
        fd = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        os.fsync(fd)
        os.close(fd)


def checksum(document: Any) -> str:
    """Return the checksum of a JSON document."""
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()
