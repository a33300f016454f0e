"""Stores of runs: the interface, and the folder that is one (`runs/`, `campaigns/`, `data/` and an index)."""

from __future__ import annotations

import os
import re
import secrets
import shutil
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from edgetrain.documents import to_document
from edgetrain.errors import StoreError, UsageError
from edgetrain.inside.stream import StreamWriter, append_event, now_us, write_json
from edgetrain.record.facts import ProcessFacts, SamplerReport
from edgetrain.record.index import Index, RunRow
from edgetrain.record.manifest import Manifest, RunnerFacts
from edgetrain.record.owner import give_to_owner_of_folder
from edgetrain.record.reader import MANIFEST, SAMPLER, read_manifest, read_run
from edgetrain.record.run import Run

ColumnSpecs = Sequence[tuple[str, str]]  # name and encoding, as in `inside.stream`
LIVE = "running"
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")  # a process id means the same process within one boot only


class RowWriter(Protocol):
    """Appends rows to one stream of a run."""

    @property
    def failed(self) -> str | None:
        """The first error met while writing; the stream is silent after it."""

    def add(self, row: tuple[float | int | None, ...]) -> None: ...

    def flush(self) -> None: ...

    def close(self) -> None: ...


class RunWriter(Protocol):
    """Writes one run; what is written can be read back through the store at any time."""

    @property
    def id(self) -> str: ...

    def write_manifest(self, manifest: Manifest) -> None: ...

    def write_process(self, facts: ProcessFacts, place: int = 0) -> None: ...

    def write_sampler(self, report: SamplerReport) -> None: ...

    def stream(self, name: str, kind: str, columns: ColumnSpecs) -> RowWriter:
        """Begin a stream: `minibatches-<pid>`, `workers-…`, `samples-<probe>`."""

    def event(self, kind: str, text: str, at_us: int | None = None, doubt: str | None = None) -> None: ...


class Store(Protocol):
    """Where runs are kept. `find` takes an id, the start or end of one, or `last`."""

    def create(self, manifest: Manifest) -> RunWriter: ...

    def find(self, name: str) -> str: ...

    def open(self, name: str, light: bool = False) -> Run: ...

    def runs(self) -> list[RunRow]:
        """Return one row per run, oldest first."""

    def remove(self, name: str) -> str:
        """Delete a run; return its id."""


def default_store() -> Path:
    """Return the folder named by EDGETRAIN_STORE, else the user's own."""
    named = os.environ.get("EDGETRAIN_STORE")
    if named:
        return Path(named).expanduser()
    return Path.home() / ".local" / "share" / "edgetrain"


def new_id(manifest: Manifest) -> str:
    """Return a fresh run id: start in UTC, network, four random digits."""
    label = re.sub(r"[^A-Za-z0-9_.]+", "-", manifest.workload.network or "run").strip("-.")[:32] or "run"
    return f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{label}-{secrets.token_hex(2)}"


def match_id(name: str, ids: Sequence[str], where: str) -> str:
    """Return the one id that `name` means; `ids` are oldest first."""
    if not name:
        raise UsageError("no run is named: give an id, the start or end of one, a folder, or last")
    if not ids:
        raise StoreError(f"{where} holds no runs yet; make one with: edgetrain run lenet5")
    if name == "last":
        return ids[-1]
    if name in ids:
        return name
    hits = [run for run in ids if run.startswith(name)] or [run for run in ids if run.endswith(name)]
    if len(hits) == 1:
        return hits[0]
    if hits:
        some = ", ".join(hits[:4]) + (" …" if len(hits) > 4 else "")
        raise StoreError(f"{name!r} fits {len(hits)} runs ({some}); give more of the id, or its end")
    raise StoreError(f"there is no run {name!r} in {where}; edgetrain ls lists those there are")


class FolderWriter:
    """Writes one run directory."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def id(self) -> str:
        return self.path.name

    def write_manifest(self, manifest: Manifest) -> None:
        write_json(str(self.path / MANIFEST), to_document(replace(manifest, run=self.id)))

    def write_process(self, facts: ProcessFacts, place: int = 0) -> None:
        name = "inside.json" if place == 0 else f"inside-{place}.json"
        write_json(str(self.path / name), to_document(facts))

    def write_sampler(self, report: SamplerReport) -> None:
        write_json(str(self.path / SAMPLER), to_document(report))

    def stream(self, name: str, kind: str, columns: ColumnSpecs) -> StreamWriter:
        return StreamWriter(str(self.path / f"{name}.ets"), kind, columns)

    def event(self, kind: str, text: str, at_us: int | None = None, doubt: str | None = None) -> None:
        facts = {} if doubt is None else {"doubt": doubt}
        at = now_us() if at_us is None else at_us
        append_event(str(self.path / "events-runner.jsonl"), kind, text, at_us=at, **facts)


class FolderStore:
    """A folder of records: `runs/`, `campaigns/`, `data/`, and an index that can be rebuilt."""

    def __init__(self, path: Path | str | None = None) -> None:
        self.path = Path(path).expanduser() if path is not None else default_store()

    @property
    def runs_folder(self) -> Path:
        return self.path / "runs"

    @property
    def data(self) -> Path:
        """Where generated datasets lie."""
        return self.path / "data"

    @property
    def campaigns(self) -> Path:
        return self.path / "campaigns"

    def create(self, manifest: Manifest) -> FolderWriter:
        """Make a run directory with a fresh id and its manifest."""
        try:
            self.runs_folder.mkdir(parents=True, exist_ok=True)
            give_to_owner_of_folder(self.runs_folder)
            while True:
                path = self.runs_folder / new_id(manifest)
                try:
                    path.mkdir()
                    give_to_owner_of_folder(path)
                    break
                except FileExistsError:
                    continue
            writer = FolderWriter(path)
            writer.write_manifest(manifest)
        except OSError as error:
            raise StoreError(
                f"cannot write to the store {self.path} ({error.strerror or error}); "
                "choose another with --store or EDGETRAIN_STORE"
            ) from error
        return writer

    def find(self, name: str) -> str:
        """Return the id of a run named by id, by the start or end of one, by the path of its folder, or as `last`."""
        return self.locate(name).name

    def locate(self, name: str) -> Path:
        """Return the directory of a run; see `find`."""
        if name and (Path(name) / MANIFEST).is_file():
            return Path(name)
        return self.runs_folder / match_id(name, self._ids(), f"the store {self.path}")

    def open(self, name: str, light: bool = False) -> Run:
        """Read a run; `light` leaves out telemetry."""
        return read_run(self.locate(name), light)

    def manifest(self, name: str) -> Manifest:
        """Read the manifest of a run alone."""
        return read_manifest(self.locate(name), [])

    def runs(self) -> list[RunRow]:
        """Return one row per run, oldest first, through the index."""
        return Index(self.path).rows(self._ids())

    def removable(self, name: str) -> Path:
        """Return the directory of a run that may be deleted: not being recorded, and within this store."""
        path = self.locate(name)
        if path.parent.resolve() != self.runs_folder.resolve() or path.is_symlink():
            raise UsageError(f"{path} is not a run of the store {self.path}; delete the folder yourself")
        manifest = read_manifest(path, [])
        if (runner := live_runner(manifest)) is not None:
            raise StoreError(f"{path.name} is being recorded by process {runner.pid}; stop it first")
        return path

    def remove(self, name: str) -> str:
        """Delete a run of this store; return its id."""
        path = self.removable(name)
        try:
            shutil.rmtree(path)
        except OSError as error:
            raise StoreError(f"cannot delete {error.filename or path}: {error.strerror or error}") from error
        return path.name

    def _ids(self) -> list[str]:
        try:
            found = [entry.name for entry in os.scandir(self.runs_folder) if entry.is_dir()]
        except FileNotFoundError:
            return []
        except OSError as error:
            raise StoreError(
                f"cannot read the store {self.path} ({error.strerror}); a store is a folder that this user may read: "
                "choose another with --store or EDGETRAIN_STORE"
            ) from error

        def made(run: str) -> tuple[str, int]:
            try:
                return run[:15], (self.runs_folder / run).stat().st_ctime_ns
            except OSError:
                return run[:15], 0

        return sorted(found, key=made)


def live_runner(manifest: Manifest) -> RunnerFacts | None:
    """Return the process that records a run at this moment; None where the run has ended or its recorder has."""
    runner = manifest.runner
    if manifest.state != LIVE or runner is None or not Path(f"/proc/{runner.pid}").exists():
        return None
    try:
        boot = BOOT_ID.read_text().strip()
    except OSError:
        return runner
    return runner if runner.boot in (None, boot) else None
