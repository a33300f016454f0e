"""What the lab has set up on this machine, found by name rather than remembered, so that leftovers can be removed.

Everything of a session carries its id: a folder under the state folder with the mount points in it, loop devices whose
backing file lies there, a server whose command line names it, control groups named after it. Taking a session down
searches for these, so it works after any crash and touches nothing else.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import signal
import time
from dataclasses import dataclass
from pathlib import Path

from edgetrain.documents import from_document_leniently, read_json, to_document
from edgetrain.errors import LabError
from edgetrain.inside.stream import write_json
from edgetrain.lab import cgroups, fuse, loop
from edgetrain.schema import LimitsAsked, LimitsGot, SessionFacts

_STATE = "state.json"
_KNOWN_FILES = (_STATE, "control.sock", "read-queue")
_KNOWN_FOLDERS = ("view", "disk")
_END_S = 3.0


def state_folder() -> Path:
    """Return where sessions are kept: root's in /run, a user's in their own runtime folder."""
    own = os.environ.get("EDGETRAIN_LAB_STATE")
    if own:
        return Path(own)
    if os.geteuid() == 0:
        return Path("/run/edgetrain/lab")
    return Path(os.environ.get("XDG_RUNTIME_DIR") or f"/tmp/edgetrain-{os.getuid()}") / "edgetrain-lab"


def mark() -> str:
    """Return the prefix of this state folder's session ids: those of another folder must not be removed."""
    return hashlib.sha256(str(state_folder()).encode()).hexdigest()[:4]


def find_groups() -> list[Path]:
    """Return every control group that a session of this state folder made."""
    return cgroups.ours(mark())


def starting_tick(pid: int) -> int | None:
    """Return when a process started, in clock ticks: with its pid this identifies it. None: no such process."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return int(file.read().rpartition(")")[2].split()[19])
    except (OSError, IndexError, ValueError):
        return None


@dataclass(frozen=True, slots=True)
class SessionState:
    """What a session's file keeps, for `lab status` and `lab down`."""

    owner: tuple[int, int | None] | None = None  # process and its starting tick
    held: bool = False  # stays until `lab down`
    asked: LimitsAsked | None = None
    got: LimitsGot | None = None


@dataclass(frozen=True, slots=True)
class LabSession:
    """One use of the lab."""

    id: str
    folder: Path

    @property
    def disk(self) -> Path:
        """Return where the one-file disk is mounted."""
        return self.folder / "disk"

    @property
    def view(self) -> Path:
        """Return where training finds the dataset."""
        return self.folder / "view"

    @property
    def control(self) -> Path:
        """Return the server's socket."""
        return self.folder / "control.sock"

    def write(self, state: SessionState) -> None:
        """Keep the state."""
        write_json(str(self.folder / _STATE), to_document(state))

    def read(self) -> SessionState:
        """Return the state; without an owner where the writer was killed first."""
        with contextlib.suppress(OSError, ValueError):
            document = read_json((self.folder / _STATE).read_text())
            if isinstance(document, dict):
                return from_document_leniently(SessionState, document, [])
        return SessionState()

    def facts(self) -> SessionFacts:
        """Return what `lab status` shows of it."""
        state = self.read()
        return SessionFacts(
            session=self.id,
            leftover=self.is_leftover(),
            held=state.held,
            owner=state.owner[0] if state.owner else None,
            mounts=tuple(mounts_under(self.folder)),
            loops=tuple(loop.backed_by(str(self.folder))),
            servers=tuple(servers_of(self.folder)),
            got=state.got,
        )

    def is_leftover(self) -> bool:
        """Return whether its owner is gone without taking it down."""
        state = self.read()
        if state.held:
            return False
        if state.owner is None:
            # Being made right now, or its process was killed before it could write the state.
            with contextlib.suppress(OSError):
                return time.time() - self.folder.stat().st_mtime > 5
            return True
        return starting_tick(state.owner[0]) != state.owner[1]


def new(held: bool = False) -> LabSession:
    """Make a session; a held one stays until `lab down`."""
    root = state_folder()
    root.mkdir(parents=True, exist_ok=True, mode=0o700)
    if root.is_symlink() or root.stat().st_uid != os.geteuid():
        raise LabError(f"{root} belongs to another user or is a link; remove it, or set EDGETRAIN_LAB_STATE")
    name = mark() + secrets.token_hex(3)
    session = LabSession(name, root / name)
    session.folder.mkdir(mode=0o700)
    session.write(SessionState((os.getpid(), starting_tick(os.getpid())), held))
    return session


def find_sessions() -> list[LabSession]:
    """Return every session of this state folder."""
    root = state_folder()
    if not root.is_dir():
        return []
    return [LabSession(path.name, path) for path in sorted(root.iterdir()) if path.is_dir() and not path.is_symlink()]


def mounts_under(prefix: Path) -> list[str]:
    """Return mount points under a folder, deepest first."""
    found = []
    with open("/proc/self/mountinfo") as file:
        for line in file:
            where = line.split()[4].encode().decode("unicode_escape")
            if where.startswith(f"{prefix}/"):
                found.append(where)
    return sorted(found, key=lambda where: where.count("/"), reverse=True)


def servers_of(folder: Path) -> list[int]:
    """Return the processes that serve a session, found by their command line."""
    found = []
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(OSError):
            with open(f"/proc/{entry.name}/cmdline", "rb") as file:
                words = file.read().split(b"\0")
            ours = b"edgetrain.lab.server" in words or b"edgetrain.lab.memory" in words
            if ours and any(word.startswith(f"{folder}/".encode()) or folder.name.encode() in word for word in words):
                found.append(int(entry.name))
    return found


def take_down(session: LabSession) -> list[str]:
    """Remove everything a session set up; return what could not be removed and why."""
    stayed: list[str] = []
    for where in [str(session.view), *mounts_under(session.folder)]:
        if where in mounts_under(session.folder):
            _unmount(where, stayed)
    for device in loop.backed_by(str(session.folder)):
        loop.detach(device)
    _end(servers_of(session.folder))
    stayed += cgroups.remove_groups(cgroups.ours(session.id))
    for where in mounts_under(session.folder):
        _unmount(where, stayed)
    for name in _KNOWN_FILES:
        with contextlib.suppress(OSError):
            (session.folder / name).unlink()
    for name in _KNOWN_FOLDERS:
        with contextlib.suppress(OSError):
            (session.folder / name).rmdir()
    try:
        session.folder.rmdir()
    except FileNotFoundError:
        pass
    except OSError as error:
        stayed.append(f"{session.folder}: {error.strerror}")
    return stayed


def _unmount(where: str, stayed: list[str]) -> None:
    try:
        fuse.unmount(where)
    except OSError:
        # A file is still open there; the mount goes when it is closed.
        try:
            fuse.unmount(where, lazy=True)
        except OSError as error:
            stayed.append(f"{where}: {error.strerror}")


def _end(pids: list[int]) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        for pid in pids:
            with contextlib.suppress(OSError):
                os.kill(pid, number)
        until = time.monotonic() + _END_S
        while time.monotonic() < until and any(_alive(pid) for pid in pids):
            time.sleep(0.02)
        if not any(_alive(pid) for pid in pids):
            return


def _alive(pid: int) -> bool:
    with contextlib.suppress(OSError):
        os.waitpid(pid, os.WNOHANG)  # where it is our own child
    with contextlib.suppress(OSError), open(f"/proc/{pid}/stat") as file:
        return file.read().rpartition(")")[2].split()[0] != "Z"
    return False


def sweep() -> list[str]:
    """Take down what killed runs left behind; return the ids."""
    removed = []
    for session in find_sessions():
        if session.is_leftover():
            take_down(session)
            removed.append(session.id)
    known = {session.id for session in find_sessions()}
    # Groups whose folder is gone already.
    for group in find_groups():
        if cgroups.session_of(group) not in known and _age_s(group) > 5:
            cgroups.remove_groups([group])
    return removed


def remove_groups() -> list[str]:
    """Remove every control group of this state folder's sessions; return what could not be removed and why."""
    return cgroups.remove_groups(find_groups())


def _age_s(path: Path) -> float:
    with contextlib.suppress(OSError):
        return time.time() - path.stat().st_ctime
    return 0.0
