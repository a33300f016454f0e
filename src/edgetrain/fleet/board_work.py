"""What a board does for a campaign: one experiment at a time in its own session, found again after any loss.

The functions are Dask tasks: named, with text as arguments and results. Each experiment has a folder on the board:

    experiments/DIGEST/request-N.json   what was asked, attempt N
    experiments/DIGEST/lock             held by the process that carries it out
    experiments/DIGEST/outcome-N.json   how attempt N ended, written when the record is complete

A run that is under way is attached to; one that is done is never made again, unless its record turned out damaged.
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from edgetrain.documents import from_document, read_json, to_document
from edgetrain.errors import EdgetrainError
from edgetrain.runner import MachineLock, Settle
from edgetrain.schema import Experiment

POLL_S, MAX_POLL_S = 0.05, 1.0  # a long experiment is asked for less often: the board measures meanwhile
STARTS = 2  # how often the process of one attempt is started before the attempt has failed
FULL_BYTES = 1 << 20  # a disk with less free space is full: records do not fit
PART_BYTES = 4 << 20  # of a record, per task


@dataclass(frozen=True, slots=True)
class BoardRequest:
    """One experiment for one board."""

    campaign: str
    key: str
    attempt: int
    folder: str  # the board's own, on the board
    device: str
    experiment: Experiment
    like: str | None = None
    settle: Settle = field(default_factory=Settle)
    cool_down_s: float = 0.0
    damaged: tuple[str, ...] = ()  # runs whose record had wrong checksums: to be made again

    @property
    def home(self) -> Path:
        """Where this experiment's files lie on the board."""
        digest = hashlib.sha256(json.dumps([self.campaign, self.key]).encode()).hexdigest()[:20]
        return Path(self.folder).expanduser() / "experiments" / digest


@dataclass(frozen=True, slots=True)
class FetchedFile:
    """One file of a record, with its checksum."""

    name: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class BoardOutcome:
    """How an experiment ended on a board."""

    state: str  # done | failed
    attempt: int
    run: str | None = None
    reason: str | None = None
    took_s: float | None = None
    files: tuple[FetchedFile, ...] = ()


def carry_out(request_text: str) -> str:
    """Carry an experiment out, or attach to the process that does; return its outcome (a task)."""
    request = from_document(BoardRequest, read_json(request_text))
    try:
        outcome = _carried_out(request, request_text)
    except OSError as error:
        reason = (
            f"{error.strerror or error} on the board ({error.filename or request.folder}); `fleet doctor` says more"
        )
        outcome = BoardOutcome("failed", request.attempt, reason=reason)
    return json.dumps(to_document(outcome))


def _carried_out(request: BoardRequest, request_text: str) -> BoardOutcome:
    home = request.home
    home.mkdir(parents=True, exist_ok=True)
    started, pause_s = 0, POLL_S
    while True:
        outcome = known_outcome(request)
        if outcome is not None:
            return outcome
        with hold_lock(home / "lock") as free:
            dead = free and known_outcome(request) is None
        if dead:
            if started == STARTS:
                return BoardOutcome("failed", request.attempt, reason=_why_dead(home))
            started += 1
            _start(request, request_text)
        time.sleep(pause_s)
        pause_s = min(1.2 * pause_s, MAX_POLL_S)


def known_outcome(request: BoardRequest) -> BoardOutcome | None:
    """Return the outcome that answers a request: any attempt that is done, else this attempt's or a later one's."""
    found = []
    for path in request.home.glob("outcome-*.json"):
        with contextlib.suppress(OSError, ValueError, EdgetrainError):
            found.append(from_document(BoardOutcome, read_json(path.read_bytes())))
    found = [one for one in found if one.run is None or one.run not in request.damaged]
    found.sort(key=lambda outcome: (outcome.state != "done", -outcome.attempt))
    if found and (found[0].state == "done" or found[0].attempt >= request.attempt):
        return found[0]
    return None


def _why_dead(home: Path) -> str:
    """Return why an experiment's process ended without an outcome, as far as it can be seen."""
    free = shutil.disk_usage(home).free
    if free < FULL_BYTES:
        return f"the board's disk is full: {free >> 10} KiB are free in {home}; free some space there"
    try:
        last = (home / "experiment.log").read_text(errors="replace").strip().rpartition("\n")[2]
    except OSError:
        last = ""
    return f"the experiment's process ended {STARTS} times without an outcome ({last or 'killed'}); see {home}"


def _start(request: BoardRequest, text: str) -> None:
    """Start the experiment in its own session, so that it survives the loss of this worker."""
    path = request.home / f"request-{request.attempt}.json"
    write_whole(path, text.encode())
    with open(request.home / "experiment.log", "ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "edgetrain.fleet.experiment", str(path)],
            start_new_session=True,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    # Wait until it holds its lock or is gone: else a second one would be started at the next turn.
    while process.poll() is None:
        with hold_lock(request.home / "lock") as free:
            if not free:
                return
        time.sleep(POLL_S / 5)


@contextlib.contextmanager
def hold_lock(path: Path, tries: int = 1) -> Iterator[bool]:
    """Take a lock; yields whether it was got. Others that only check it let go within a millisecond."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        for left in range(tries, 0, -1):
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if left > 1:
                    time.sleep(0.01)
                continue
            yield True
            return
        yield False
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def hold_board(folder: Path, device: str) -> Iterator[None]:
    """Reserve the board: one experiment at a time, and no other campaign on this machine; waits for both.

    Simulated boards share a machine, and none disturbs another: each has a lock of its own.
    """
    folder.mkdir(parents=True, exist_ok=True)
    own = folder if device.startswith("sim:") else None
    with MachineLock(own, wait=True):
        yield


def device_there(folder: str, device: str) -> str:
    """Return the device as the board opens it; a simulated board lies in the board's own folder."""
    if not device.startswith("sim:") or "@" in device:
        return device
    name, mark, query = device.partition("?")
    return f"{name}@{(Path(folder).expanduser() / 'sim').absolute()}{mark}{query}"


def write_whole(path: Path, data: bytes) -> None:
    """Write a file so that it is there completely or not at all, also after a power cut."""
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    with open(fresh, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.replace(fresh, path)


def list_record(run: Path) -> tuple[FetchedFile, ...]:
    """Return the files of a record with their checksums."""
    files = sorted(path for path in run.rglob("*") if path.is_file() and not path.is_symlink())
    return tuple(FetchedFile(str(path.relative_to(run)), path.stat().st_size, checksum(path)) for path in files)


def checksum(path: Path) -> str:
    """Return the SHA-256 of a file."""
    found = hashlib.sha256()
    with open(path, "rb") as file:
        while part := file.read(1 << 20):
            found.update(part)
    return found.hexdigest()


def read_parts(folder: str, run: str, wanted: str) -> str:
    """Return parts of a record's files, base64, as JSON (a task); `wanted` lists [file, offset] pairs as JSON."""
    root = (Path(folder).expanduser() / "store" / "runs" / run).resolve()
    if root.parent != (Path(folder).expanduser() / "store" / "runs").resolve():
        raise EdgetrainError(f"{run!r} is not the name of a run")
    parts, left = [], PART_BYTES
    for name, offset in read_json(wanted):
        path = (root / name).resolve()
        if root not in path.parents:
            raise EdgetrainError(f"{name!r} is not a file of the run {run}")
        with open(path, "rb") as file:
            file.seek(offset)
            data = file.read(max(0, left))
        left -= len(data)
        parts.append(base64.b64encode(data).decode())
    return json.dumps(parts)


def restore_board(folder: str, device: str, changed: str = "") -> str:
    """Put the board's power mode back as it was before edgetrain changed it (a task); return what was undone.

    `changed` is empty where the campaign set no modes: what only root can see was then not left by it.
    """
    from edgetrain.device import open_device

    place = Path(folder).expanduser()
    with hold_board(place, device):
        control = open_device(device_there(folder, device)).control()
        if control is None:
            return "it has no power modes"
        done = control.repair()
        if done is None and changed:
            control.held()  # NeedsRoot where something was left that this user cannot undo: repair is silent about it
    return "nothing was left changed" if done is None else f"{done.asked} was undone"
