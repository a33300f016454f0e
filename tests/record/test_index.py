"""The index is a copy: deleted, damaged or read-only it costs time, never answers."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from edgetrain.cli import main
from edgetrain.record import FolderStore, Manifest, WorkloadFacts
from edgetrain.record.index import Index

LENET = Manifest(state="finished", workload=WorkloadFacts(network="lenet5"))


@pytest.fixture
def store(tmp_path: Path) -> FolderStore:
    found = FolderStore(tmp_path / "store")
    for network in ("lenet5", "vgg11", "resnet18"):
        found.create(replace(LENET, workload=WorkloadFacts(network=network)))
    return found


def networks(store: FolderStore) -> list[str | None]:
    return [row.network for row in store.runs()]


def indexed(store: FolderStore) -> dict[str, str]:
    """Return the rows that the index holds."""
    base = sqlite3.connect(store.path / "index.sqlite")
    try:
        return dict(base.execute("select run, row from runs").fetchall())
    finally:
        base.close()


def test_the_index_holds_a_row_per_run_and_forgets_runs_that_are_gone(store: FolderStore) -> None:
    assert networks(store) == ["lenet5", "vgg11", "resnet18"]
    assert set(indexed(store)) == {row.run for row in store.runs()}
    shutil.rmtree(store.locate("last"))
    assert networks(store) == ["lenet5", "vgg11"]
    assert len(indexed(store)) == 2


def test_rows_are_taken_from_the_index_while_manifests_stay_as_they_are(store: FolderStore) -> None:
    run = store.runs()[0].run
    base = sqlite3.connect(store.path / "index.sqlite")
    row = json.loads(base.execute("select row from runs where run = ?", (run,)).fetchone()[0])
    base.execute("update runs set row = ? where run = ?", (json.dumps({**row, "network": "from the index"}), run))
    base.commit()
    base.close()
    assert networks(store)[0] == "from the index"


def test_a_changed_manifest_is_read_again(store: FolderStore) -> None:
    for number in range(5):  # one after the other, so that two lie within one tick of the filesystem's clock
        writer = store.create(replace(LENET, state="running"))
        assert store.runs()[-1].state == "running"
        writer.write_manifest(replace(LENET, state="failed", campaign=f"c{number}"))
        assert (store.runs()[-1].state, store.runs()[-1].campaign) == ("failed", f"c{number}")


def test_a_deleted_index_is_made_again(store: FolderStore) -> None:
    before = store.runs()
    (store.path / "index.sqlite").unlink()
    assert store.runs() == before
    assert len(indexed(store)) == 3


@pytest.mark.parametrize("kind", ["garbage", "cut", "zeros in the middle", "another layout"])
def test_a_damaged_index_is_made_again(store: FolderStore, kind: str) -> None:
    before, path = store.runs(), store.path / "index.sqlite"
    data = bytearray(path.read_bytes())
    if kind == "garbage":
        path.write_bytes(b"not a database at all, but long enough to be looked at" * 100)
    elif kind == "cut":
        path.write_bytes(data[: len(data) // 2 + 7])
    elif kind == "zeros in the middle":
        data[100:] = bytes(len(data) - 100)
        path.write_bytes(data)
    else:
        base = sqlite3.connect(path)
        base.executescript("drop table runs; create table runs (other text); pragma user_version = 1;")
        base.close()
    assert store.runs() == before
    assert set(indexed(store)) == {row.run for row in before}


@pytest.mark.parametrize("row", ["not json", "[]", '{"schema": 3}'])
def test_a_row_that_cannot_be_read_is_replaced_by_its_manifest(store: FolderStore, row: str) -> None:
    before = store.runs()
    base = sqlite3.connect(store.path / "index.sqlite")
    base.execute("update runs set row = ?", (row,))
    base.commit()
    base.close()
    assert store.runs() == before


def test_an_index_that_cannot_be_opened_or_written_costs_no_answer(store: FolderStore) -> None:
    (store.path / "index.sqlite").mkdir()
    assert networks(store) == ["lenet5", "vgg11", "resnet18"]
    (store.path / "index.sqlite").rmdir()
    store.runs()
    holder = sqlite3.connect(store.path / "index.sqlite", isolation_level=None)
    holder.execute("begin exclusive")
    try:
        rows = Index(store.path, timeout_s=0.05).rows([row.name for row in store.runs_folder.iterdir()])
    finally:
        holder.close()
    assert {row.network for row in rows} == {"lenet5", "vgg11", "resnet18"}


def test_a_read_only_index_costs_no_answer(store: FolderStore) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may write everywhere")
    store.runs()
    store.create(replace(LENET, workload=WorkloadFacts(network="mobilenet_v3")))
    (store.path / "index.sqlite").chmod(0o444)
    store.path.chmod(0o555)
    try:
        assert networks(store)[-1] == "mobilenet_v3"
    finally:
        store.path.chmod(0o755)


ODD = {
    "empty": b"",
    "cut": b'{"run": "x", "state": "fin',
    "no text": b"\xff\xfe\x00",
    "a list": b"[1, 2]",
    "null": b"null",
    "deep": b'{"workload": ' + b"[" * 5000 + b"]" * 5000 + b"}",
    "wrong types": b'{"state": 3, "workload": [], "loading": "two", "device": null, "campaign": {"a": 1}}',
    "wrong inner types": b'{"state": "finished", "workload": {"network": ["a"], "batch_size": "many"}}',
    "huge number": b'{"workload": {"batch_size": 1' + b"0" * 400 + b"}}",
    "another version": b'{"schema": "edgetrain/9", "state": "finished", "workload": {"network": "x", "new": true}}',
    "lone surrogate": b'{"state": "finished", "workload": {"network": "\\ud800"}}',
    "unknown origin": b'{"state": "finished", "origin": "guessed"}',
}


@pytest.mark.parametrize("odd", ODD.values(), ids=ODD.keys())
@pytest.mark.parametrize("form", ["table", "json"])
def test_one_odd_manifest_does_not_stop_the_listing(
    store: FolderStore, odd: bytes, form: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run = store.runs()[1].run
    (store.locate(run) / "manifest.json").write_bytes(odd)
    for _ in range(2):  # from the manifest, then from the index
        assert main(["ls", "--store", str(store.path), *(["--json"] if form == "json" else [])]) == 0
        out = capsys.readouterr().out
        assert run in out and "lenet5" in out and "resnet18" in out


def test_folders_that_are_no_runs_are_listed_without_facts(store: FolderStore) -> None:
    (store.runs_folder / "somebody's folder").mkdir()
    (store.runs_folder / "a file").write_text("")
    os.mkdir(os.fsencode(store.runs_folder) + b"/\xff\xfe")
    rows = {row.run: row for row in store.runs()}
    assert len(rows) == 5 and "a file" not in rows
    assert rows["somebody's folder"].network is None and rows["somebody's folder"].origin is None
