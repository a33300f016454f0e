"""Lists the files and folders that a program changes outside temporary folders, and other programs it starts.

An audit hook sees what Python code does: files opened for writing, renamed, linked or removed, folders made, metadata
changed. What torch writes in C++ (`torch.save`, `torch.jit.save`, `torch.from_file`, profiler traces) is watched where
Python calls it. What other C code writes (HDF5, safetensors), what `os.mkfifo` and `os.mknod` make (Python does not
audit them) and what other programs write is not seen. With `STOP`, the
process is killed before it makes the first such change; a new folder is only listed, because most scripts make one for
what they save at the end, and it can be removed while it is empty. What will fail (making a folder that exists) is no
change.
"""

from __future__ import annotations

import functools
import json
import os
import re
import signal
import sys
import tempfile
import threading
from typing import Any, Callable, Iterable, Iterator

from . import programs, stream

VARIABLE = "EDGETRAIN_LIST_WRITES"  # 1, or
STOP = "stop"
FOLDERS = "EDGETRAIN_WRITES_IN"  # folders in which the program may write, as a JSON list
MOST = 100  # files named per process
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
UNNAMED = getattr(os, "O_TMPFILE", 0)
# Not files of the user's: devices and pipes, what the kernel shows, shared memory.
SYSTEM = ("/dev", "/proc", "/sys")
MEMORY_FILE = "/memfd:"  # what a link in /proc/PID/fd to an anonymous file in memory names
DESCRIPTOR = re.compile(r"^(/dev/(fd/\d+|std(in|out|err))|/proc/(self|thread-self|\d+)/(task/\d+/)?fd/\d+)$")
FALSE = ("0", "no", "false", "off")  # of SQLite
COMPILED = (".pyc", ".pyo")
CACHE = "__pycache__"
# Places of a path and of the descriptor that it is relative to, among the arguments of an audit event. Of these the
# entry of a folder changes, which may be a link:
MADE = {"os.mkdir": (0, 2), "os.link": (1, 3), "os.symlink": (1, 2)}  # nothing happens where it exists
TAKEN = {"os.rename": (0, 2), "os.remove": (0, 1), "os.rmdir": (0, 1), "shutil.rmtree": (0, 1)}  # where it does not
# Of these what a link points to, metadata included; nothing happens where it does not exist.
CHANGED = {"os.truncate": (0, None), "os.chmod": (0, 2), "os.chown": (0, 3), "os.utime": (0, 3),
           "os.setxattr": (0, None), "os.removexattr": (0, None)}  # fmt: skip
STARTS = ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn")
# Functions of torch that open a file in C++: whose they are, their name, and that of the path, their first argument.
TORCH_WRITES = (
    ("_C.ScriptModule", "save", "filename"),
    ("_C.ScriptModule", "_save_for_mobile", "filename"),
    ("_C.ScriptFunction", "save", "filename"),
    ("_C.PyTorchFileWriter", "__init__", "file_name"),  # of torch.save, torch.package and torch.export
    ("_C._autograd._ProfilerResult", "save", "path"),
)
TORCH_MAPS = ("", "UntypedStorage", "_UntypedStorage")  # whose `from_file` maps a file: shared, it can be written
WATCHED = {"open", "sqlite3.connect", *MADE, *TAKEN, *CHANGED, *STARTS}


class WriteList:
    """What one process changes, each file once, and the programs it starts."""

    def __init__(self, run: str, allowed: Iterable[str], stop: bool = False) -> None:
        self._events = os.path.join(run, "events-inside.jsonl")
        self._left_out = tuple(os.path.realpath(path) for path in (run, *allowed)) + SYSTEM
        self._stop = stop
        self._seen: set[str] = set()
        self._programs: set[str] = set()
        self._folders: set[str] = set()  # that this process made
        self._own = threading.local()

    def audit(self, event: str, arguments: Any) -> None:
        """Called by Python for each audited event; it never raises."""
        try:
            if event in WATCHED and not getattr(self._own, "busy", False):
                self._note_all(event, arguments)
        except Exception:  # listing must never end the user's program
            pass

    def note(self, path: Any) -> None:
        """List a file that is about to be opened for writing where Python does not see it."""
        self.audit("open", (path, "w", None))

    def _note_all(self, event: str, arguments: Any) -> None:
        self._own.busy = True  # what is done here is audited too
        try:
            if event in STARTS:
                self._note_program(programs.unwatched(event, arguments))
            for name in _changed(event, arguments):
                if event == "os.mkdir" and self._stop:
                    self._note_folder(name)
                elif name not in self._folders:
                    self._note(name)
        finally:
            self._own.busy = False

    def _note(self, name: str | None) -> None:
        """List a file by its whole name, unless it is left out or was listed before."""
        if name is None or name in self._seen or len(self._seen) >= MOST or self._is_left_out(name):
            return
        self._seen.add(name)
        text = "a file or folder was about to be changed" if self._stop else "a file or folder was changed"
        stream.append_event(self._events, "write", text, pid=os.getpid(), file=name)
        if self._stop:
            os.kill(os.getpid(), signal.SIGKILL)  # the file is as it was, and no handler runs

    def _note_folder(self, name: str | None) -> None:
        if name is None or name in self._folders or len(self._folders) >= MOST or self._is_left_out(name):
            return
        self._folders.add(name)
        stream.append_event(self._events, "folder", "a folder was made", pid=os.getpid(), file=name)

    def _note_program(self, name: str | None) -> None:
        if name is None or name in self._programs or len(self._programs) >= MOST:
            return
        self._programs.add(name)
        text = "a program was started whose files are not watched"
        stream.append_event(self._events, "program", text, pid=os.getpid(), program=name)

    def _is_left_out(self, name: str) -> bool:
        if name.endswith(COMPILED) or CACHE in (os.path.basename(name), os.path.basename(os.path.dirname(name))):
            return True
        if name.startswith(MEMORY_FILE):
            return True
        return any(name == folder or name.startswith(folder + os.sep) for folder in self._left_out)


def _changed(event: str, arguments: Any) -> Iterator[str | None]:
    """Yield what an audit event is about to change, by its whole name."""
    if event == "open":
        yield _opened(*(tuple(arguments) + (None, None, None))[:3])
    elif event == "sqlite3.connect":
        yield _database(arguments[0])
    elif event in MADE:
        entry = _entry(*_at(arguments, MADE[event]))
        yield None if os.path.lexists(entry) else entry
    elif event in TAKEN:
        entry = _entry(*_at(arguments, TAKEN[event]))
        if os.path.lexists(entry):
            yield entry
            if event == "os.rename":
                yield _entry(*_at(arguments, (1, 3)))
    elif event in CHANGED:
        target = _target(*_at(arguments, CHANGED[event]))
        yield target if os.path.exists(target) else None


def _opened(path: Any, mode: Any, flags: Any) -> str | None:
    """Return the file that is opened for writing; None where it is only read."""
    if isinstance(path, int) or path is None:  # a descriptor: its file was seen when that was opened
        return None
    if not isinstance(flags, int):
        writes = isinstance(mode, str) and any(letter in mode for letter in "wax+")
        return _target(path) if writes else None
    if not flags & WRITING or (UNNAMED and flags & UNNAMED == UNNAMED):
        return None
    target = _target(path)
    if os.path.exists(target):
        reads = flags & os.O_ACCMODE == os.O_RDONLY and not flags & os.O_TRUNC
        fails = flags & os.O_CREAT and flags & os.O_EXCL
        return None if reads or fails else target
    return target if flags & os.O_CREAT else None


def _database(path: Any) -> str | None:
    """Return the file of a SQLite database; None where it is in memory or is opened for reading only."""
    name = os.fsdecode(path)
    if name in ("", ":memory:"):
        return None
    if not name.startswith("file:"):
        return _target(name)
    from urllib.parse import parse_qs, unquote, urlsplit

    parts = urlsplit(name)
    given = parse_qs(parts.query)
    unchanged = given.get("mode", [""])[0] in ("ro", "memory") or given.get("immutable", ["0"])[0] not in FALSE
    if parts.path in ("", ":memory:") or unchanged:
        return None
    return _target(unquote(parts.path))


def _at(arguments: Any, places: tuple[int, int | None]) -> tuple[Any, int]:
    """Return a path of an audit event and the descriptor of the folder that it is relative to; -1: the current one."""
    path, descriptor = places
    given = arguments[descriptor] if descriptor is not None and descriptor < len(arguments) else -1
    return arguments[path], given if isinstance(given, int) else -1


def _whole(path: Any, folder: int) -> str:
    if isinstance(path, int):
        return "/proc/self/fd/%d" % path
    name = os.fsdecode(path)
    return os.path.join("/proc/self/fd/%d" % folder, name) if folder >= 0 else os.path.abspath(name)


def _target(path: Any, folder: int = -1) -> str:
    """Return the whole name of the file that a path leads to."""
    name = _whole(path, folder)
    found = os.path.realpath(name)
    # A descriptor that is opened once more is no new file; what it leads to may have no name.
    return name if DESCRIPTOR.match(name) and not isinstance(path, int) else found


def _entry(path: Any, folder: int) -> str:
    """Return the whole name of an entry of a folder, itself not followed where it is a link."""
    head, tail = os.path.split(_whole(path, folder).rstrip(os.sep))
    return os.path.join(os.path.realpath(head), tail)


_lists: list[WriteList] = []


def install(run: str) -> None:
    """List what this process writes from now on; it cannot be taken back."""
    if not _lists:
        allowed = [tempfile.gettempdir(), *json.loads(os.environ.get(FOLDERS) or "[]")]
        _lists.append(WriteList(run, allowed, os.environ.get(VARIABLE) == STOP))
        sys.addaudithook(_lists[0].audit)


def watch_torch_save(serialization: Any) -> None:
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


def watch_torch(torch: Any) -> None:
    """List the files that other functions of torch open for writing in C++; a version may lack some of them."""
    if not _lists:
        return
    for place, name, argument in TORCH_WRITES:
        owner = _found_in(torch, place)
        if hasattr(owner, name):
            _replace(owner, name, _noting(getattr(owner, name), argument, 1))
    for place in TORCH_MAPS:
        owner = _found_in(torch, place)
        if hasattr(owner, "from_file"):
            watched = _noting(owner.from_file, "filename", 0, _is_shared)
            _replace(owner, "from_file", staticmethod(watched) if place else watched)


def _found_in(module: Any, place: str) -> Any:
    for name in filter(None, place.split(".")):
        module = getattr(module, name, None)
    return module


def _replace(owner: Any, name: str, function: Any) -> None:
    try:
        setattr(owner, name, function)
    except (AttributeError, TypeError):  # a class of C code that cannot be changed
        pass


def _is_shared(arguments: Any, named: Any) -> bool:
    """Whether a file is mapped so that writing to the tensor writes to the file."""
    return bool(arguments[1] if len(arguments) > 1 else named.get("shared"))


def _noting(
    original: Callable[..., Any],
    argument: str,
    place: int,
    writes: Callable[[Any, Any], bool] = lambda given, named: True,
) -> Callable[..., Any]:
    """Return a function that lists the file named by one of its arguments, then does what it did."""

    @functools.wraps(original, assigned=("__name__", "__doc__"))
    def noting(*arguments: Any, **named: Any) -> Any:
        path = arguments[place] if len(arguments) > place else named.get(argument)
        if isinstance(path, (str, bytes, os.PathLike)) and writes(arguments, named):
            _lists[0].note(path)
        return original(*arguments, **named)

    return noting
