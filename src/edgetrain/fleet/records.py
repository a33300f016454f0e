"""Fetches a run's record from a board: in parts, resumed where it was cut off, checked against its checksums."""

from __future__ import annotations

import base64
import json
import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from edgetrain.errors import StoreError
from edgetrain.fleet.board_work import FetchedFile, checksum
from edgetrain.record import FolderStore

ReadParts = Callable[[str], str]  # [[file, offset], ...] to base64 parts, both JSON
PARTS = ".partial"  # in the store; a run appears under its name only when it is whole


def fetch_record(store: FolderStore, run: str, files: Sequence[FetchedFile], read: ReadParts) -> None:
    """Bring a record into the store; a record that is there already is left alone."""
    if Path(run).name != run or run.startswith("."):
        raise StoreError(f"a board named a run {run!r}, which is no name of a run")
    final, partial = store.runs_folder / run, store.path / PARTS / run
    if final.exists():
        return
    for file in files:
        _target(partial, file).parent.mkdir(parents=True, exist_ok=True)
    while True:
        wanted = [(file, _have(partial, file)) for file in files]
        wanted = [(file, have) for file, have in wanted if have < file.size]
        if not wanted:
            break
        parts = json.loads(read(json.dumps([[file.name, have] for file, have in wanted])))
        got = 0
        for (file, _), part in zip(wanted, parts, strict=True):
            data = base64.b64decode(part)
            got += len(data)
            with open(_target(partial, file), "ab") as out:
                out.write(data)
        if not got:
            shutil.rmtree(partial)
            raise StoreError(f"the record of run {run} is shorter on the board than its list says")
    for file in files:
        path = _target(partial, file)
        with open(path, "ab") as written:
            os.fsync(written.fileno())
        if checksum(path) != file.sha256:
            shutil.rmtree(partial)
            raise StoreError(f"{file.name} of run {run} does not have the checksum that the board gave")
    store.runs_folder.mkdir(parents=True, exist_ok=True)
    os.rename(partial, final)


def _target(partial: Path, file: FetchedFile) -> Path:
    path = partial / file.name
    if partial.resolve() not in path.resolve().parents:
        raise StoreError(f"a board named a file {file.name!r} outside its record")
    return path


def _have(partial: Path, file: FetchedFile) -> int:
    try:
        size = _target(partial, file).stat().st_size
    except FileNotFoundError:
        return 0
    if size > file.size:
        _target(partial, file).unlink()
        return 0
    return size
