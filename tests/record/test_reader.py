"""A run directory is read however it was left; what could not be read is named, and the rest is kept."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgetrain.analysis import summarize
from edgetrain.inside.stream import MINIBATCHES, StreamWriter, write_json
from edgetrain.record import NULL, FolderStore, PowerModeRecord, ProcessFacts, read_run
from edgetrain.schema import SCHEMA, Doubt, Origin, PowerMode
from tests.recording import write_record


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Return the directory of a small whole run."""
    store = tmp_path / "store"
    return store / "runs" / write_record(store, epochs=1, minibatches=10)


def change(run: Path, **fields: Any) -> None:
    """Put other values into the manifest."""
    path = run / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))


def add_rows(path: Path, count: int, first_us: int = 1_000, meta: dict[str, Any] | None = None) -> None:
    """Write a stream of minibatches of its own."""
    writer = StreamWriter(str(path), "minibatches", MINIBATCHES, meta)
    for batch in range(count):
        row = dict.fromkeys(name for name, _ in MINIBATCHES)
        asked = first_us + 100 * batch
        row |= {"loader": 0, "generation": 0, "epoch": 0, "batch": batch, "phase": 1, "asked_us": asked}
        row |= {"ready_us": asked + 10, "done_us": asked + 90}
        writer.add(tuple(row.values()))
    writer.close()


def test_a_whole_run_loses_nothing(run: Path) -> None:
    found = read_run(run)
    assert found.lost == () and found.path == run and found.id == run.name
    assert len(found.minibatches()) == len(found.workers()) == 10
    assert [event.kind for event in found.events] == ["epoch"]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("state", 3),
        ("origin", "guessed"),
        ("workload", ["lenet5"]),
        ("workload", {"batch_size": "sixteen"}),
        ("loading", "two workers"),
        ("power_mode", "8 cores at 1728 MHz, GPU 624.75 MHz, memory 2133 MHz"),
        ("clock", {"start": {}}),
        ("doubts", [{"kind": "steal"}]),
        ("losses", "none"),
        ("factors", {"workers": [1, 2]}),
        ("experiment", {"workload": {}}),
        ("baseload", {"from_us": 1}),
    ],
)
def test_a_field_that_cannot_be_read_is_named_and_the_others_are_kept(run: Path, field: str, value: Any) -> None:
    change(run, **{field: value}, campaign="kept")
    found = read_run(run)
    (lost,) = found.lost
    assert lost.startswith(f"manifest: {field} cannot be read (")
    assert found.manifest.campaign == "kept" and len(found.minibatches()) == 10
    assert Doubt("lost", lost) in summarize(found).doubts


def test_fields_of_a_later_version_are_ignored(run: Path) -> None:
    change(run, invented=1, workload={"network": "lenet5", "invented": [1]})
    found = read_run(run)
    assert found.lost == () and found.manifest.workload.network == "lenet5"


@pytest.mark.parametrize("schema", ["edgetrain/0", "edgetrain/2", 7])
def test_a_manifest_of_another_version_is_named_with_both_versions(run: Path, schema: Any) -> None:
    change(run, schema=schema)
    found = read_run(run)
    assert found.lost[0] == f"the manifest is of version {schema!r}; this edgetrain reads {SCHEMA}"
    assert found.manifest.workload.network == "lenet5"


def test_a_stream_of_another_version_is_named_with_both_versions(run: Path) -> None:
    (stream,) = run.glob("minibatches-*.ets")
    header, _, rest = stream.read_bytes().partition(b"\n")
    stream.write_bytes(json.dumps(json.loads(header) | {"version": 4}).encode() + b"\n" + rest)
    found = read_run(run)
    assert found.lost == (f"{stream.name} is of stream version 4; this edgetrain reads version 1",)
    assert len(found.minibatches()) == 0 and len(found.workers()) == 10


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "\x00\x00", '"x"'])
def test_without_a_readable_manifest_the_rows_are_kept_and_the_loss_is_named(run: Path, text: str) -> None:
    (run / "manifest.json").write_text(text)
    found = read_run(run)
    assert "manifest is missing or damaged" in found.lost[0]
    assert found.manifest.state == "unknown" and found.manifest.workload.network is None
    assert found.id == run.name and len(found.minibatches()) == 10


def test_power_modes_are_numbers_and_a_clock_that_is_not_there_is_none(run: Path) -> None:
    mode = {"cores": 4, "cpu_hz": 10**9, "gpu_hz": None, "emc_hz": None, "name": "10W"}
    change(run, power_mode={"asked": mode, "start": None})
    found = read_run(run).manifest.power_mode
    assert found == PowerModeRecord(PowerMode(4, 10**9, None, None, "10W"))
    assert found is not None and found.held == found.asked


def test_odd_facts_of_a_process_are_named_with_their_file(run: Path) -> None:
    write_json(str(run / "inside.json"), {"pid": 1, "torch": 2.4, "parameters": 12, "epochs": [{"loss": 0}]})
    write_json(str(run / "sampler.json"), {"cpu_s": "little", "wall_s": 3.0})
    found = read_run(run)
    assert [text.partition(" (")[0] for text in found.lost] == [
        "inside.json: torch cannot be read",
        "inside.json: epochs cannot be read",
        "sampler.json: cpu_s cannot be read",
    ]
    assert found.main.facts.parameters == 12 and found.sampler is not None and found.sampler.wall_s == 3.0


def test_several_processes_are_kept_apart_by_their_ids(tmp_path: Path) -> None:
    run = FolderStore(tmp_path).runs_folder / "several"
    run.mkdir(parents=True)
    for place, pid in enumerate((40, 31, 22)):
        write_json(str(run / ("inside.json" if not place else f"inside-{place}.json")), {"pid": pid, "rank": place})
        add_rows(run / f"minibatches-{pid}.ets", 3 + place)
        writer = StreamWriter(str(run / f"workers-0-0-{pid + 1}.ets"), "workers", (("batch", "plain"),), {"pid": pid})
        for batch in range(3 + place):
            writer.add((batch,))
        writer.close()
    found = read_run(run)
    assert [(one.facts.pid, one.facts.rank) for one in found.processes] == [(40, 0), (31, 1), (22, 2)]
    assert [(len(one.minibatches), len(one.workers)) for one in found.processes] == [(3, 3), (4, 4), (5, 5)]
    assert found.main.facts.pid == 22


def test_a_process_without_facts_still_has_its_rows(tmp_path: Path) -> None:
    run = tmp_path / "killed"
    run.mkdir()
    add_rows(run / "minibatches-5.ets", 4)
    add_rows(run / "minibatches-6.ets", 2)
    found = read_run(run)
    assert [(one.facts, len(one.minibatches)) for one in found.processes] == [
        (ProcessFacts(pid=5), 4),
        (ProcessFacts(pid=6), 2),
    ]


def test_rows_of_workers_are_read_once_where_the_training_process_left_nothing(tmp_path: Path) -> None:
    run = tmp_path / "killed"
    run.mkdir()
    for name in ("workers-0-0-8.ets", "workers-0-1-9.ets"):
        writer = StreamWriter(str(run / name), "workers", (("batch", "plain"),))
        writer.add((3,))
        writer.close()
    assert read_run(run).workers()["batch"].tolist() == [3, 3]


def test_a_stream_cut_short_keeps_its_whole_frames_and_names_what_it_lost(run: Path) -> None:
    add_rows(run / "minibatches-1.ets", 5, first_us=10**10)  # appended to what is there, as a frame of its own
    data = (run / "minibatches-1.ets").read_bytes()
    (run / "minibatches-1.ets").write_bytes(data[:-3])
    found = read_run(run)
    assert len(found.minibatches()) == 10
    assert any("minibatches-1.ets" in text and "bytes could not be read" in text for text in found.lost)


def test_empty_and_foreign_files_are_named_and_cost_nothing_else(run: Path) -> None:
    (run / "samples-gpu.ets").write_bytes(b"")
    (run / "workers-9-9-9.ets").write_bytes(b"\x89PNG")
    found = read_run(run)
    assert len(found.lost) == 2 and all(name in " ".join(found.lost) for name in ("samples-gpu", "workers-9-9-9"))
    assert "gpu" not in found.probes and len(found.workers()) == 10


def test_damaged_lines_of_events_are_counted_and_the_others_are_kept(run: Path) -> None:
    with (run / "events-test.jsonl").open("ab") as file:
        file.write(b'{"kind": "mode", "text": "30W", "at_us": 5}\n{"kind": "mo\n\xff\xfe\n{"text": "no kind"}\n[]\n')
    found = read_run(run)
    assert [event.kind for event in found.events] == ["mode", "epoch"]
    assert found.lost == ("events-test.jsonl: 4 damaged lines",)


def test_an_event_with_facts_nobody_knows_is_still_an_event(run: Path) -> None:
    with (run / "events-test.jsonl").open("a") as file:
        file.write(json.dumps({"kind": "other_load", "text": "make", "at_us": 1, "cores": 1.5}) + "\n")
    found = read_run(run)
    assert found.events[0].text == "make" and found.lost == ()


def test_the_origin_is_a_value_of_its_own_type_and_not_text(run: Path) -> None:
    assert read_run(run).manifest.origin is Origin.SIMULATED


def test_a_column_one_stream_lacks_is_missing_in_its_rows(tmp_path: Path) -> None:
    run = tmp_path / "joined"
    run.mkdir()
    for name, columns, row in (
        ("minibatches-a-5.ets", (("asked_us", "delta"), ("batch", "plain")), (10, 1)),
        ("minibatches-b-5.ets", (("asked_us", "delta"), ("x_w", "f8")), (20, 2.5)),
    ):
        writer = StreamWriter(str(run / name), "minibatches", columns)
        writer.add(row)
        writer.close()
    table = read_run(run).main.minibatches
    assert table["batch"].tolist() == [1, NULL]
    np.testing.assert_array_equal(table["x_w"], [np.nan, 2.5])


def test_an_origin_that_cannot_be_read_is_never_taken_for_measured(run: Path) -> None:
    change(run, origin="magic")
    found = read_run(run)
    assert found.manifest.origin is Origin.SIMULATED and any("origin" in text for text in found.lost)
    (run / "manifest.json").write_text("{")
    assert read_run(run).manifest.origin is Origin.SIMULATED


def test_a_manifest_that_is_a_pipe_is_damaged_and_not_waited_for(run: Path) -> None:
    (run / "manifest.json").unlink()
    os.mkfifo(run / "manifest.json")
    assert "the manifest is missing or damaged: settings are not known" in read_run(run).lost
