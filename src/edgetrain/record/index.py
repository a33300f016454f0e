"""An index derived from the manifests, so that listing thousands of runs is quick; it can be deleted at any time."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from edgetrain.documents import DocumentError, from_document, to_document
from edgetrain.record.manifest import Manifest
from edgetrain.record.owner import give_to_owner_of_folder
from edgetrain.record.reader import MANIFEST, read_manifest
from edgetrain.schema import Origin

INDEX = "index.sqlite"
LAYOUT = 3  # raised when the rows change shape: the file is then made anew


@dataclass(frozen=True, slots=True)
class RunRow:
    """What a listing shows of a run. None: not known."""

    schema: str
    run: str
    state: str | None
    origin: Origin | None
    started: str | None
    network: str | None
    batch_size: int | None
    workers: int | None
    cache: str | None
    device: str | None
    campaign: str | None

    @classmethod
    def of(cls, run: str, manifest: Manifest) -> RunRow:
        """Return the row of a manifest."""
        loading = manifest.loading
        return cls(
            manifest.schema,
            run,
            manifest.state,
            manifest.origin if manifest.state != "unknown" else None,
            manifest.started_wall,
            manifest.workload.network,
            manifest.workload.batch_size,
            loading.workers if loading else None,
            loading.cache if loading else None,
            manifest.device.name,
            manifest.campaign,
        )


class Index:
    """SQLite beside the runs. Without it, or where it is damaged or read-only, the manifests are read instead."""

    def __init__(self, store: Path, timeout_s: float = 5.0) -> None:
        self._store, self._timeout_s = store, timeout_s  # how long to wait for another process that writes to it

    def rows(self, runs: Iterable[str]) -> list[RunRow]:
        """Return a row for each run, reading only manifests that changed since they were indexed."""
        stamps = {run: self._stamp(run) for run in runs}
        base, known = self._open()
        listed, fresh = [], []
        for run, stamp in stamps.items():
            row = self._indexed(known, run, stamp)
            if row is None:
                row = RunRow.of(run, read_manifest(self._store / "runs" / run, []))
                fresh.append((run, stamp, json.dumps(to_document(row))))
            listed.append(row)
        if base is not None:
            gone = [(run,) for run in known if run not in stamps]
            try:
                if fresh or gone:
                    base.executemany("insert or replace into runs values (?, ?, ?)", fresh)
                    base.executemany("delete from runs where run = ?", gone)
                    base.commit()
            except (sqlite3.Error, UnicodeError):  # a folder's name may be no text
                pass  # it costs time at the next listing, not answers
            base.close()
            give_to_owner_of_folder(self._store / INDEX)
        return listed

    def _open(self) -> tuple[sqlite3.Connection | None, dict[str, tuple[str, str]]]:
        """Return the index and what it holds: stamp and row by run; a damaged file is made anew."""
        path = self._store / INDEX
        for _ in range(2):
            try:
                base = sqlite3.connect(path, timeout=self._timeout_s)
            except sqlite3.Error:
                break
            try:
                return base, self._contents(base)
            except sqlite3.OperationalError:
                base.close()  # read-only, or held by another process
                break
            except sqlite3.DatabaseError:
                base.close()
                with contextlib.suppress(OSError):
                    path.unlink()
        return None, {}

    def _contents(self, base: sqlite3.Connection) -> dict[str, tuple[str, str]]:
        if base.execute("pragma user_version").fetchone()[0] != LAYOUT:
            base.executescript(
                "drop table if exists runs;"
                "create table runs (run text primary key, stamp text, row text);"
                f"pragma user_version = {LAYOUT};"
            )
        found = base.execute("select run, stamp, row from runs").fetchall()
        return {str(run): (str(stamp), str(row)) for run, stamp, row in found}

    def _indexed(self, known: dict[str, tuple[str, str]], run: str, stamp: str) -> RunRow | None:
        if run not in known or known[run][0] != stamp or not stamp:
            return None
        try:
            return from_document(RunRow, json.loads(known[run][1]))
        except (ValueError, DocumentError):
            return None

    def _stamp(self, run: str) -> str:
        """Return what changes with the manifest: each one is a new file, and two may have the same instant."""
        try:
            found = (self._store / "runs" / run / MANIFEST).stat()
        except OSError:
            return ""
        return f"{found.st_mtime_ns}-{found.st_ino}-{found.st_size}"
