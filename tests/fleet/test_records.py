"""A record comes back whole, resumed where it was cut off, or not at all."""

import json

import pytest

from edgetrain.errors import StoreError
from edgetrain.fleet.board_work import list_record, read_parts
from edgetrain.fleet.records import fetch_record
from edgetrain.record import FolderStore


@pytest.fixture
def board(tmp_path):
    run = tmp_path / "board" / "store" / "runs" / "r1"
    run.mkdir(parents=True)
    (run / "manifest.json").write_text("{}")
    (run / "samples.ets").write_bytes(bytes(range(256)) * 50)
    (run / "empty.jsonl").touch()
    return tmp_path / "board"


def test_a_record_that_was_cut_off_is_resumed_where_it_was(board, tmp_path):
    store, asked = FolderStore(tmp_path / "store"), []
    files = list_record(board / "store" / "runs" / "r1")
    half = store.path / ".partial" / "r1"
    half.mkdir(parents=True)
    (half / "samples.ets").write_bytes((bytes(range(256)) * 50)[:5000])

    def read(wanted):
        asked.extend(json.loads(wanted))
        return read_parts(str(board), "r1", wanted)

    fetch_record(store, "r1", files, read)
    assert ["samples.ets", 5000] in asked
    assert list_record(store.runs_folder / "r1") == files


def test_a_record_with_a_wrong_checksum_never_enters_the_store(board, tmp_path):
    store = FolderStore(tmp_path / "store")
    files = list_record(board / "store" / "runs" / "r1")
    (board / "store" / "runs" / "r1" / "samples.ets").write_bytes(bytes(256) * 50)
    with pytest.raises(StoreError, match="checksum"):
        fetch_record(store, "r1", files, lambda wanted: read_parts(str(board), "r1", wanted))
    assert not (store.runs_folder / "r1").exists()


def test_a_board_cannot_write_outside_the_record(board, tmp_path):
    store = FolderStore(tmp_path / "store")
    with pytest.raises(StoreError, match="no name of a run"):
        fetch_record(store, "../r1", (), lambda wanted: [])
