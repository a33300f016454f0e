"""The store: a folder of run directories. Creates them, finds them, reads them back."""

from __future__ import annotations

import ctypes
import os
import re
import secrets
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from edgetrain.errors import StoreError, UsageError
from edgetrain.inside.stream import write_json
from edgetrain.schema import SCHEMA, Columns, Run
from edgetrain.store.codec import JoinedColumns, StreamColumns, read_events, read_json, read_stream
from edgetrain.store.index import Index

LARGE_BYTES = 32 * 2**20  # streams above this are read with memory kept
M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_MAX = -1, -2, -4  # of mallopt(3)


def default_store() -> Path:
    """Return the folder named by EDGETRAIN_STORE, else the user's own."""
    named = os.environ.get("EDGETRAIN_STORE")
    if named:
        return Path(named).expanduser()
    return Path.home() / ".local" / "share" / "edgetrain"


class Store:
    """A folder of records: `runs/`, `campaigns/`, `data/`, and an index that can be rebuilt."""

    def __init__(self, path: Path | str | None = None) -> None:
        self.path = Path(path).expanduser() if path is not None else default_store()

    @property
    def runs(self) -> Path:
        return self.path / "runs"

    @property
    def data(self) -> Path:
        """Where generated datasets lie."""
        return self.path / "data"

    @property
    def campaigns(self) -> Path:
        return self.path / "campaigns"

    def create(self, manifest: Mapping[str, Any]) -> Path:
        """Make a run directory with a fresh id and its manifest; return its path."""
        network = str((manifest.get("workload") or {}).get("network") or "run")
        label = re.sub(r"[^A-Za-z0-9_.]+", "-", network).strip("-.")[:32] or "run"
        stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime())
        try:
            self.runs.mkdir(parents=True, exist_ok=True)
            while True:
                run = f"{stamp}-{label}-{secrets.token_hex(2)}"
                path = self.runs / run
                try:
                    path.mkdir()
                    break
                except FileExistsError:
                    continue
            write_json(str(path / "manifest.json"), {"schema": SCHEMA, "run": run, "state": "running", **manifest})
        except OSError as error:
            raise StoreError(
                f"cannot write to the store {self.path} ({error.strerror or error}); "
                "choose another with --store or EDGETRAIN_STORE"
            ) from error
        return path

    def find(self, name: str) -> Path:
        """Return the directory of a run named by id, by the start or end of one, by path, or as `last`."""
        if not name:
            raise UsageError("which run is not said: give an id, the start or end of one, a folder, or last")
        as_path = Path(name)
        if (as_path / "manifest.json").is_file():
            return as_path
        runs = self._ids()
        if not runs:
            raise StoreError(f"the store {self.path} holds no runs yet; make one with: edgetrain run lenet5")
        if name == "last":
            return self.runs / runs[-1]
        if name in runs:
            return self.runs / name
        hits = [run for run in runs if run.startswith(name)] or [run for run in runs if run.endswith(name)]
        if len(hits) == 1:
            return self.runs / hits[0]
        if hits:
            some = ", ".join(hits[:4]) + (" …" if len(hits) > 4 else "")
            raise StoreError(f"{name!r} fits {len(hits)} runs ({some}); give more of the id, or its end")
        raise StoreError(f"there is no run {name!r} in {self.path}; edgetrain ls shows those there are")

    def _ids(self) -> list[str]:
        try:
            found = [entry.name for entry in os.scandir(self.runs) if entry.is_dir()]
        except FileNotFoundError:
            return []
        except OSError as error:
            raise StoreError(
                f"cannot read the store {self.path} ({error.strerror}); a store is a folder that this user may read: "
                "choose another with --store or EDGETRAIN_STORE"
            ) from error

        def made(run: str) -> tuple[str, int]:
            try:
                return run[:15], (self.runs / run).stat().st_ctime_ns
            except OSError:
                return run[:15], 0

        return sorted(found, key=made)

    def open(self, name: str, light: bool = False) -> Run:
        """Read a run; `light` leaves out telemetry streams."""
        return read_run(self.find(name), light=light)

    def list(self) -> list[dict[str, Any]]:
        """Return one row per run, oldest first, through the index."""
        return Index(self.path).rows(self._ids())


def read_run(path: Path, light: bool = False) -> Run:
    """Read one run directory, however it was left; what could not be read is named in `lost`."""
    lost: list[str] = []
    if sum(file.stat().st_size for file in path.glob("*.ets")) > LARGE_BYTES:
        _keep_freed_memory()
    manifest = read_json(path / "manifest.json")
    if manifest is None:
        lost.append("the manifest is missing or broken: settings are not known")
        manifest = {"schema": SCHEMA, "run": path.name, "state": "unknown"}
    inside = read_json(path / "inside.json")
    sampler = read_json(path / "sampler.json")
    manifest = {**manifest, "inside": inside, "sampler": sampler}
    minibatches = _read_kind(path, "minibatches", lost)
    workers = _read_kind(path, "workers", lost)
    samples: dict[str, Columns] = {}
    if not light:
        names = {file.name[len("samples-") : -len(".ets")] for file in path.glob("samples-*.ets")}
        for name in sorted(names):
            columns = _read_kind(path, f"samples-{name}", lost, exact=True)
            if columns:
                samples[name] = columns
    events: list[dict[str, Any]] = []
    for file in sorted(path.glob("events-*.jsonl")):
        try:
            found, broken = read_events(file)
        except OSError as error:
            lost.append(f"{file.name}: {error.strerror}")
            continue
        events.extend(found)
        if broken:
            lost.append(f"{file.name}: {broken} broken lines")
    events.sort(key=lambda event: event.get("at_us") or 0)
    return Run(
        str(manifest.get("run", path.name)),
        path,
        manifest,
        minibatches,
        workers,
        samples,
        tuple(events),
        tuple(lost),
    )


def _keep_freed_memory() -> None:
    """Have the C library keep freed memory for the next array instead of giving it back.

    Columns of ten million rows are 80 MB each: taking every one anew from the kernel, page by page, took four
    times as long as the arithmetic on it.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(M_MMAP_MAX, 0)
        mallopt(M_TRIM_THRESHOLD, 2**31 - 1)
        mallopt(M_TOP_PAD, 2**28)
    except (OSError, AttributeError):
        pass  # another C library: slower, not wrong


def _read_kind(path: Path, kind: str, lost: list[str], exact: bool = False) -> Columns:
    files = [path / f"{kind}.ets"] if exact else sorted(path.glob(f"{kind}-*.ets"))
    parts: list[StreamColumns] = []
    for file in files:
        try:
            stream = read_stream(file)
        except (StoreError, OSError, ValueError) as error:
            lost.append(str(error))
            continue
        if stream.skipped_bytes:
            lost.append(f"{file.name}: {stream.skipped_bytes} bytes could not be read")
        parts.append(stream.columns)
    instants = {"minibatches": "asked_us", "workers": None}
    return JoinedColumns(parts, order_by=instants.get(kind, "at_us"))
