"""The processes of a trial: found by session and descent, and killed so that none of their handlers runs.

Standard library only: the guard of trials (`trial_guard`) runs it in a small process of its own.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

# Processes that remove shared memory once those that used it are gone: Python's resource tracker (joblib has one too)
# by its command line, torch's shared-memory manager by its name. Killed with the others, they would leave their
# segments in /dev/shm until the machine restarts.
TRACKER = b"resource_tracker import main"
MANAGER = "torch_shm_manag"  # the kernel keeps 15 characters
CLEAN_UP_S = 3.0  # torch's manager waits 2 s for new clients
STOP_WITHIN_S = 5.0  # processes that start others and may not be stopped never end the search for new ones
GONE_WITHIN_S = 15.0  # for what was killed: freeing memory takes 0.3 s per GB, and a read from a slow medium must end
POLL_S = 0.02


@dataclass(frozen=True, slots=True)
class ProcessStat:
    """One process as /proc/PID/stat shows it."""

    pid: int
    parent: int
    session: int
    ended: bool  # a zombie: nobody has asked for its status yet


def read_processes(root: Path = Path("/")) -> dict[int, ProcessStat]:
    """Return all processes; those that end meanwhile are left out."""
    found = {}
    for folder in (root / "proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError, IndexError, ValueError):
                fields = (folder / "stat").read_bytes().rpartition(b")")[2].split()
                pid = int(folder.name)
                found[pid] = ProcessStat(pid, int(fields[1]), int(fields[3]), fields[0] in (b"Z", b"X"))
    return found


def family(leader: int, root: Path = Path("/"), sessions: Iterable[int] = ()) -> list[ProcessStat]:
    """Return a session's processes and all descendants of its leader, in whatever session; parents before children.

    `sessions` are further ones whose processes count: a descendant whose parent has ended is found by its session only.
    """
    known = read_processes(root)
    wanted = {leader, *sessions}
    found = dict.fromkeys(() if _is_reused(leader, known) else _below(leader, known))
    found.update(dict.fromkeys(pid for pid, one in sorted(known.items()) if one.session in wanted))
    return [known[pid] for pid in found if pid in known]


def descendants(pid: int) -> set[int]:
    """Return the processes that a process started, and those that they started, in whatever session they are."""
    return set(_below(pid, read_processes())) - {pid}


@dataclass(frozen=True, slots=True)
class Survivor:
    """A process that could not be killed."""

    pid: int
    name: str


def stop_session(pid: int) -> tuple[int, ...]:
    """Stop a session and all descendants of its leader, and return them, parents first: none of them starts another."""
    return tuple(dict.fromkeys(_stop_all(pid)))


def continue_processes(pids: Iterable[int]) -> None:
    """Let stopped processes go on, children first."""
    for pid in reversed(tuple(pids)):
        _send(pid, signal.SIGCONT)


def kill_session(pid: int, within_s: float = GONE_WITHIN_S) -> tuple[Survivor, ...]:
    """Kill a session and all descendants of its leader; none of their handlers runs. Return those still there.

    All of them are stopped first: none starts another process, or sees one end and saves something. Processes that
    remove shared memory may do so before they are killed. The leader may have ended already.
    """
    stopped = stop_session(pid)
    cleaners = [one for one in stopped if cleans_up(one)]
    allowed = [one for one in stopped if one not in cleaners and _send(one, signal.SIGKILL)]
    for one in cleaners:
        _send(one, signal.SIGCONT)
    _wait_for(cleaners, CLEAN_UP_S)
    allowed += [one for one in cleaners if _send(one, signal.SIGKILL)]
    _wait_for(allowed, within_s)  # waiting for those of another user would be in vain
    return tuple(Survivor(one, _name(one)) for one in stopped if _lives(one))


def cleans_up(pid: int, root: Path = Path("/")) -> bool:
    """Whether a process removes shared memory of others once they are gone."""
    folder = root / "proc" / str(pid)
    try:
        named = (folder / "comm").read_text(errors="replace").strip()
        return named == MANAGER or TRACKER in (folder / "cmdline").read_bytes()
    except OSError:
        return False


def _stop_all(leader: int) -> Iterator[int]:
    """Stop processes until a listing shows no new one; yield them, parents first."""
    if not _is_reused(leader, read_processes()):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(leader, signal.SIGSTOP)  # most of them at once
    seen: set[int] = set()
    sessions = {leader}
    until_s = time.monotonic() + STOP_WITHIN_S
    while fresh := [one for one in family(leader, sessions=sessions) if not one.ended and one.pid not in seen]:
        for one in fresh:
            _send(one.pid, signal.SIGSTOP)
            yield one.pid
        seen.update(one.pid for one in fresh)
        sessions.update(one.session for one in fresh)
        sessions.discard(os.getsid(0))
        if time.monotonic() > until_s:
            return


def _is_reused(leader: int, known: Mapping[int, ProcessStat]) -> bool:
    """Whether the id of a session's leader, which has ended, is now that of a process of another session."""
    return leader in known and known[leader].session != leader


def _wait_for(pids: Iterable[int], within_s: float) -> None:
    """Wait until these processes have ended."""
    until_s = time.monotonic() + within_s
    left = list(pids)
    while (left := [pid for pid in left if _lives(pid)]) and time.monotonic() < until_s:
        time.sleep(POLL_S)


def _below(pid: int, known: dict[int, ProcessStat]) -> list[int]:
    """Return a process and its descendants, parents before children."""
    children: dict[int, list[int]] = {}
    for one in known.values():
        children.setdefault(one.parent, []).append(one.pid)
    found = {pid: None}
    left = [pid]
    while left:
        new = [child for each in left for child in sorted(children.get(each, ())) if child not in found]
        found.update(dict.fromkeys(new))
        left = new
    return list(found)


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] not in (b"Z", b"X")
    except (OSError, IndexError):
        return False


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text(errors="replace").strip()
    except OSError:
        return "?"


def _send(pid: int, number: signal.Signals) -> bool:
    """Send a signal; return whether that was allowed."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass
    except PermissionError:
        return False
    return True
