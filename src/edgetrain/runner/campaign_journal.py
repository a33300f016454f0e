"""The journal of a campaign: one JSON object a line, appended and synced, readable after a kill at any instant."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from edgetrain.errors import EdgetrainError, StoreError


class Journal:
    """Append-only truth of what was begun and what ended."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> list[dict[str, Any]]:
        """Return every whole entry; a torn last line never happened."""
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            return []
        entries = []
        for line in data.split(b"\n"):
            with contextlib.suppress(ValueError):
                entry = json.loads(line)
                if isinstance(entry, dict):
                    entries.append(entry)
        return entries

    def append(self, entry: Mapping[str, Any]) -> None:
        """Add one entry; it is on the disk when this returns."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
            try:
                size = os.fstat(descriptor).st_size
                # After a torn line, begin a fresh one: it then reads as broken instead of breaking ours.
                torn = size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
                line = (b"\n" if torn else b"") + json.dumps(dict(entry), default=str).encode() + b"\n"
                os.write(descriptor, line)
                os.fdatasync(descriptor)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise StoreError(
                f"the campaign's journal {self.path} cannot be written ({error.strerror}); make room for it"
            ) from error


class OneAtATime:
    """Holds the machine for one campaign: two would measure each other."""

    def __init__(self, folder: Path | None = None) -> None:
        # The variable is for tests, whose campaigns measure nothing.
        own = os.environ.get("EDGETRAIN_CAMPAIGN_LOCK")
        shared = Path("/run/lock") if os.access("/run/lock", os.W_OK) else Path("/tmp")
        lock = folder or (Path(own) if own else shared)
        self.path = lock / "edgetrain-campaign.lock"
        self._descriptor: int | None = None

    def __enter__(self) -> OneAtATime:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            self._descriptor = os.open(self.path, flags, 0o666)
        except OSError as error:
            raise EdgetrainError(f"cannot open {self.path}: {error.strerror}; remove it and try again") from error
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            who = os.pread(self._descriptor, 200, 0).decode(errors="replace").strip()
            os.close(self._descriptor)
            raise EdgetrainError(
                f"another campaign is running on this machine ({who or 'unknown'}); wait for it: two would measure each"
                " other",
                holder=who,
            ) from error
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, f"process {os.getpid()}".encode(), 0)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
