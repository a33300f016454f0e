"""The journal of a campaign: one JSON object per line, appended and synced, readable after a kill at any instant."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from edgetrain.documents import DocumentError, from_document, read_json, to_document
from edgetrain.errors import EdgetrainError, StoreError


@dataclass(frozen=True, slots=True)
class CampaignEntry:
    """One line of the journal: a run was begun, done or failed, or the campaign started or ended."""

    kind: str  # start | begun | done | failed | lost | end
    at: float  # wall clock, seconds
    key: str | None = None  # of the planned run
    attempt: int | None = None
    run: str | None = None  # id of its record
    reason: str | None = None
    took_s: float | None = None
    energy_j: float | None = None
    planned: int | None = None  # of a start: runs in the plan
    done: int | None = None  # of an end
    name: str | None = None  # of a start: the plan's
    board: str | None = None  # on a fleet: where


class CampaignJournal:
    """Append-only record of which runs were begun and how they ended."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> list[CampaignEntry]:
        """Return every complete entry; a torn last line is ignored."""
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            return []
        entries = []
        for line in data.split(b"\n"):
            with contextlib.suppress(ValueError, DocumentError):
                entries.append(from_document(CampaignEntry, read_json(line)))
        return entries

    def append(self, entry: CampaignEntry) -> None:
        """Add one entry; it is on the disk when this returns."""
        known = {name: value for name, value in to_document(entry).items() if value is not None}
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
            try:
                size = os.fstat(descriptor).st_size
                # After a torn line, begin a fresh one: it then reads as damaged instead of damaging ours.
                torn = size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
                os.write(descriptor, (b"\n" if torn else b"") + json.dumps(known).encode() + b"\n")
                os.fdatasync(descriptor)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise StoreError(
                f"the campaign's journal {self.path} cannot be written ({error.strerror}); free some space there"
            ) from error


class MachineLock:
    """Reserves the machine for one campaign: two would disturb each other's measurements. A second fails, or waits.

    With `only` it reserves just that campaign, whose boards are simulated: `folder` is the campaign's.
    """

    def __init__(self, folder: Path | None = None, wait: bool = False, only: str | None = None) -> None:
        # The variable is for tests, whose campaigns measure nothing.
        own = os.environ.get("EDGETRAIN_CAMPAIGN_LOCK")
        shared = Path("/run/lock") if os.access("/run/lock", os.W_OK) else Path("/tmp")
        lock = folder or (Path(own) if own else shared)
        self.path = lock / "edgetrain-campaign.lock"
        self._wait, self._only = wait, only
        self._descriptor: int | None = None

    def __enter__(self) -> MachineLock:
        try:
            self._descriptor = _open_for_all(self.path)
        except OSError as error:
            raise EdgetrainError(f"cannot open {self.path}: {error.strerror}; remove it and try again") from error
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | (0 if self._wait else fcntl.LOCK_NB))
        except OSError as error:
            who = os.pread(self._descriptor, 200, 0).decode(errors="replace").strip()
            os.close(self._descriptor)
            raise EdgetrainError(self._refusal(who or "unknown")) from error
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, f"process {os.getpid()}".encode(), 0)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)

    def _refusal(self, who: str) -> str:
        if self._only is not None:
            return f"campaign {self._only} is already being carried out ({who}); wait for it"
        return (
            f"another campaign is running on this machine ({who}); wait for it: two would disturb each other's"
            " measurements"
        )


def _open_for_all(path: Path) -> int:
    """Open a lock file that any user may lock: root and the user who called sudo share it."""
    flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        # Not with O_CREAT: in a folder like /tmp the kernel refuses that for another user's file, to root too.
        return os.open(path, flags)
    except FileNotFoundError:
        descriptor = os.open(path, flags | os.O_CREAT, 0o666)
        with contextlib.suppress(OSError):
            os.fchmod(descriptor, 0o666)  # whatever the umask is
        return descriptor
