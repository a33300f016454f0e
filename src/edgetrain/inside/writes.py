"""Lists the files that a program opens for writing, renames or removes outside temporary folders, as events.

An audit hook sees what Python code does; `torch.save` writes in C++ and is watched by itself. What other C code writes
(HDF5, safetensors) is not seen. With `STOP`, the process is killed before it makes the first such change.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import threading
from typing import Any, Iterable

from . import stream

VARIABLE = "EDGETRAIN_LIST_WRITES"  # 1, or
STOP = "stop"
MOST = 100  # files named per process
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
# Not files of the user's: devices and pipes, what the kernel shows, shared memory.
SYSTEM = ("/dev", "/proc", "/sys")
COMPILED = (".pyc", ".pyo")
CHANGES = {"os.rename": (0, 1), "os.remove": (0,), "os.rmdir": (0,), "os.truncate": (0,), "shutil.rmtree": (0,),
           "os.link": (1,), "os.symlink": (1,), "sqlite3.connect": (0,)}  # fmt: skip


class WriteList:
    """The files of one process that were changed, each once."""

    def __init__(self, run: str, temporary: Iterable[str], stop: bool = False) -> None:
        self._events = os.path.join(run, "events-inside.jsonl")
        self._left_out = tuple(os.path.realpath(path) for path in (run, *temporary)) + SYSTEM
        self._stop = stop
        self._seen: set[str] = set()
        self._own = threading.local()

    def audit(self, event: str, arguments: Any) -> None:
        """Called by Python for each audited event."""
        if event == "open":
            path, mode, flags = (tuple(arguments) + (None, None, None))[:3]
            if not (isinstance(flags, int) and flags & WRITING) and not (
                isinstance(mode, str) and any(letter in mode for letter in "wax+")
            ):
                return
            self.note(path)
        elif event in CHANGES:
            for place in CHANGES[event]:
                if place < len(arguments):
                    self.note(arguments[place])

    def note(self, path: Any) -> None:
        """List a path, unless it is left out or was listed before."""
        if isinstance(path, int) or path is None or getattr(self._own, "busy", False):
            return
        self._own.busy = True
        try:
            name = os.path.realpath(os.fsdecode(path))
            if name in self._seen or len(self._seen) >= MOST or self._is_left_out(name):
                return
            self._seen.add(name)
            text = "a file was about to be changed" if self._stop else "a file was opened for writing"
            stream.append_event(self._events, "write", text, pid=os.getpid(), file=name)
            if self._stop:
                os.kill(os.getpid(), signal.SIGKILL)  # the file is as it was, and no handler runs
        except Exception:  # listing must never end the user's program
            pass
        finally:
            self._own.busy = False

    def _is_left_out(self, name: str) -> bool:
        if name.endswith(COMPILED) or os.path.basename(os.path.dirname(name)) == "__pycache__":
            return True
        return any(name == folder or name.startswith(folder + os.sep) for folder in self._left_out)


_lists: list[WriteList] = []


def install(run: str) -> None:
    """List what this process writes from now on; it cannot be taken back."""
    if not _lists:
        _lists.append(WriteList(run, (tempfile.gettempdir(),), os.environ.get(VARIABLE) == STOP))
        sys.addaudithook(_lists[0].audit)


def watch_torch(serialization: Any) -> None:
    """List what `torch.save` writes to a path: it does not open the file in Python."""
    if not _lists or hasattr(serialization.save, "_edgetrain"):
        return
    original = serialization._open_zipfile_writer

    def _open_zipfile_writer(name_or_buffer: Any) -> Any:
        if isinstance(name_or_buffer, (str, bytes, os.PathLike)):
            _lists[0].note(name_or_buffer)
        return original(name_or_buffer)

    serialization._open_zipfile_writer = _open_zipfile_writer
    serialization.save._edgetrain = True
