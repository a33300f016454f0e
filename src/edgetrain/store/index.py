"""A derived index over the run directories, so that listing thousands of runs is quick; rebuilt at will."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from edgetrain.schema import SCHEMA
from edgetrain.store.codec import read_json

LAYOUT = 1  # raised when the rows change shape: the file is then made anew


class Index:
    """SQLite beside the runs. Everything in it can be read off the directories; without it we read those."""

    def __init__(self, store: Path) -> None:
        self._store = store

    def rows(self, runs: Iterable[str]) -> list[dict[str, Any]]:
        """Return a row for each run, reading only manifests that changed since they were indexed."""
        runs = list(runs)
        stamps = {run: self._stamp(run) for run in runs}
        known: dict[str, tuple[int, str]] = {}
        base: sqlite3.Connection | None = None
        try:
            base = sqlite3.connect(self._store / "index.sqlite", timeout=5)
            if base.execute("pragma user_version").fetchone()[0] != LAYOUT:
                base.executescript(
                    "drop table if exists runs;"
                    "create table runs (run text primary key, stamp integer, row text);"
                    f"pragma user_version = {LAYOUT};"
                )
            known = {run: (stamp, row) for run, stamp, row in base.execute("select run, stamp, row from runs")}
        except sqlite3.Error:
            # A read-only or broken index costs time, not answers.
            known = {}
        listed = []
        fresh = []
        for run in runs:
            if run in known and known[run][0] == stamps[run]:
                listed.append(json.loads(known[run][1]))
                continue
            row = self._read(run)
            listed.append(row)
            fresh.append((run, stamps[run], json.dumps(row)))
        if base is not None:
            try:
                base.executemany("insert or replace into runs values (?, ?, ?)", fresh)
                gone = [(run,) for run in known if run not in stamps]
                base.executemany("delete from runs where run = ?", gone)
                base.commit()
            except sqlite3.Error:
                pass
            base.close()
        return listed

    def _stamp(self, run: str) -> int:
        try:
            return (self._store / "runs" / run / "manifest.json").stat().st_mtime_ns
        except OSError:
            return 0

    def _read(self, run: str) -> dict[str, Any]:
        manifest = read_json(self._store / "runs" / run / "manifest.json") or {"state": "unknown"}
        workload = manifest.get("workload") or {}
        loading = manifest.get("loading") or {}
        device = manifest.get("device") or {}
        return {
            "schema": manifest.get("schema", SCHEMA),
            "run": run,
            "state": manifest.get("state"),
            "origin": manifest.get("origin"),
            "started": manifest.get("started_wall"),
            "network": workload.get("network"),
            "batch_size": workload.get("batch_size"),
            "workers": loading.get("workers"),
            "cache": loading.get("cache"),
            "device": device.get("name"),
            "campaign": manifest.get("campaign"),
        }
