"""Exports hold every training minibatch, its parts, and nothing where nothing was seen."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from edgetrain.analysis import summarize
from edgetrain.errors import UsageError
from edgetrain.record import ArrayTable, Event, FolderStore, Process
from edgetrain.report.export.prometheus import escape_label, prometheus_text
from edgetrain.report.export.tables import minibatch_table, sample_table, write_csv, write_parquet
from edgetrain.report.export.trace import write_trace
from tests.summaries import with_columns


@pytest.fixture
def run(record):
    """Return a run of two epochs of ten minibatches, of which two were evaluation and one copy was not seen."""
    found = FolderStore(record.store).open(record(epochs=2, minibatches=10))
    rows = found.minibatches().take(slice(None))
    phase, copied = rows["phase"].copy(), rows["copied_us"].copy()
    phase[[4, 14]], copied[0] = 2, -1
    process = replace(found.main, minibatches=with_columns(rows, phase=phase, copied_us=copied))
    return replace(found, processes=(process,))


def test_the_table_has_a_row_per_training_minibatch_and_its_parts_add_up(run) -> None:
    table = minibatch_table(run, summarize(run))
    assert len(table) == 18 and 2 not in table["phase"]
    parts = sum(table[name] for name in ("fetch_stall_s", "copy_s", "compute_s", "overhead_s"))
    np.testing.assert_allclose(parts, table["e2e_s"])
    assert set(table["steady"].tolist()) <= {0, 1}
    assert table.names[: len(run.minibatches().names)] == run.minibatches().names


def test_a_copy_that_was_never_seen_is_missing_and_not_zero(run) -> None:
    rows = with_columns(run.minibatches(), copied_us=np.full(20, -1), copying_us=np.full(20, -1))
    unseen = replace(run, processes=(Process(run.main.facts, rows, run.workers()),))
    assert np.isnan(minibatch_table(unseen, summarize(unseen))["copy_s"]).all()


def two_processes(run):
    """Return the run as two processes recorded it; the second has a column of its own."""
    facts = run.main.facts
    rows = with_columns(run.minibatches(), extra_us=np.full(len(run.minibatches()), 5))
    second = replace(run.main, facts=replace(facts, pid=8, rank=1), minibatches=rows)
    return replace(run, processes=(replace(run.main, facts=replace(facts, pid=7, rank=0)), second))


def test_minibatches_of_every_process_are_in_the_table(run) -> None:
    both = two_processes(run)
    table = minibatch_table(both, summarize(both))
    assert len(table) == 36 and table["process"].tolist() == [7] * 18 + [8] * 18
    assert set(table["rank"].tolist()) == {0, 1} and table["extra_us"].tolist() == [-1] * 18 + [5] * 18
    assert set(table["steady"][18:].tolist()) == {-1}  # found for the process that speaks for the run


def test_every_process_has_its_own_lane_in_a_trace(run, tmp_path: Path) -> None:
    both = two_processes(run)
    write_trace(both, summarize(both), tmp_path / "trace.json")
    events, _ = events_of(tmp_path / "trace.json")
    named = {event["pid"]: event["args"]["name"] for event in events if event["name"] == "process_name"}
    assert named == {1: f"{run.id}, rank 0, process 7", 2: f"{run.id}, rank 1, process 8"}
    for process in (1, 2):
        names = [event["name"] for event in events if event["pid"] == process]
        assert names.count("copy and compute") == 18 and names.count("fetch") == 20
    assert {event["pid"] for event in events if event["ph"] == "C"} == {1}


def test_csv_has_a_header_numbers_and_empty_cells(run, tmp_path: Path) -> None:
    table = minibatch_table(run, summarize(run))
    assert write_csv(table, tmp_path / "out.csv") == 18
    with (tmp_path / "out.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 18 and tuple(rows[0]) == table.names
    assert rows[0]["copied_us"] == "" and rows[1]["copied_us"] == str(table["copied_us"][1])
    assert all(row["cpu_us"] == "" for row in rows)  # nobody counted it
    assert float(rows[3]["e2e_s"]) == pytest.approx(table["e2e_s"][3], abs=1e-6)
    assert not any(cell in ("nan", "None", "-1") for row in rows for cell in row.values())


def test_csv_of_nothing_is_a_header(tmp_path: Path) -> None:
    assert write_csv(ArrayTable({"a": np.zeros(0, np.int64)}), tmp_path / "out.csv") == 0
    assert (tmp_path / "out.csv").read_text().split() == ["a"]


def test_parquet_has_the_same_rows_and_nulls(run, tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    table = minibatch_table(run, summarize(run))
    assert write_parquet(table, tmp_path / "out.parquet") == 18
    found = duckdb.sql(
        f"select count(*), count(copied_us), count(cpu_us), sum(e2e_s), min(asked_us) from '{tmp_path}/out.parquet'"
    ).fetchall()[0]
    assert found[:3] == (18, 17, 0)
    assert found[3] == pytest.approx(float(table["e2e_s"].sum())) and found[4] == int(table["asked_us"].min())


def test_a_quote_in_the_path_of_a_parquet_file_is_refused(run, tmp_path: Path) -> None:
    pytest.importorskip("duckdb")
    with pytest.raises(UsageError, match="quote"):
        write_parquet(minibatch_table(run, summarize(run)), tmp_path / "it's.parquet")


def test_a_folder_that_is_not_there_is_said_and_not_a_crash(run, tmp_path: Path) -> None:
    pytest.importorskip("duckdb")
    with pytest.raises(UsageError, match="cannot write"):
        write_parquet(minibatch_table(run, summarize(run)), tmp_path / "nowhere" / "out.parquet")


def events_of(path: Path) -> tuple[list[dict], dict]:
    document = json.loads(path.read_text())
    return document["traceEvents"], document["otherData"]


def test_a_trace_has_slices_counters_and_instants_on_the_runs_clock(run, tmp_path: Path) -> None:
    marked = replace(run, events=(Event("throttle", 'too "hot"', 1_000_500_000), Event("cost", "ours", 1)))
    written = write_trace(marked, summarize(marked), tmp_path / "trace.json")
    events, about = events_of(tmp_path / "trace.json")
    assert written.events == len(events) - 1 and written.minibatches_left_out == 0
    assert about == {"schema": "edgetrain/1", "run": run.id, "minibatches_left_out": 0}
    names = [event["name"] for event in events]
    assert names.count("fetch stall") == names.count("copy and compute") == 18
    assert names.count("fetch") == 20 and {"epoch 0", "epoch 1"} <= set(names)
    assert all(event["dur"] > 0 for event in events if event["ph"] == "X")
    watts = [event["args"]["value"] for event in events if event["name"] == "power: total [W]"]
    assert len(watts) == len(run.samples("rails")) and 18 < min(watts) < 22
    (instant,) = [event for event in events if event["ph"] == "i"]
    assert (instant["name"], instant["ts"], instant["args"]["text"]) == ("throttle", 1_000_500_000, 'too "hot"')


def test_readings_that_were_not_taken_are_left_out_of_a_trace(run, tmp_path: Path) -> None:
    rails = run.samples("rails")
    holes = with_columns(rails, total_w=np.where(np.arange(len(rails)) % 2, np.nan, rails["total_w"]))
    holed = replace(run, probes={"rails": holes})
    write_trace(holed, summarize(holed), tmp_path / "trace.json")
    events, _ = events_of(tmp_path / "trace.json")
    assert sum(event["name"] == "power: total [W]" for event in events) == (len(rails) + 1) // 2


def test_the_middle_of_a_long_run_is_left_out_of_a_trace_and_reported(run, tmp_path: Path) -> None:
    written = write_trace(run, summarize(run), tmp_path / "trace.json", max_slices=20)
    events, about = events_of(tmp_path / "trace.json")
    assert written.minibatches_left_out == about["minibatches_left_out"] == 8
    assert [event["args"]["minibatch"] for event in events if event["name"] == "fetch stall"] == [
        0, 1, 2, 3, 4, 13, 14, 15, 16, 17,
    ]  # fmt: skip
    fetched = [event["args"]["batch"] for event in events if event["name"] == "fetch"]
    assert fetched == [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]  # the first five, and of the second epoch the last five


def test_a_long_series_is_thinned_in_a_trace_and_keeps_its_extremes(run, tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    at = np.arange(50_000) * 100 + 1_000_000_000
    many = ArrayTable({"at_us": at, "total_w": draw.normal(20, 1, len(at))})
    long = replace(run, probes={"rails": many})
    write_trace(long, summarize(long), tmp_path / "trace.json")
    events, _ = events_of(tmp_path / "trace.json")
    watts = [event["args"]["value"] for event in events if event["name"] == "power: total [W]"]
    assert 10_000 < len(watts) <= 20_000
    assert (min(watts), max(watts)) == (many["total_w"].min(), many["total_w"].max())


def test_samples_are_one_row_per_reading_with_its_probe_and_name(run, tmp_path: Path) -> None:
    table = sample_table(run)
    assert table.names == ("at_us", "probe", "reading", "value") and len(table) == len(run.samples("rails"))
    write_csv(table, tmp_path / "out.csv")
    with (tmp_path / "out.csv").open(newline="") as file:
        first = next(csv.DictReader(file))
    assert (first["probe"], first["reading"]) == ("rails", "total_w") and 19 < float(first["value"]) < 21
    duckdb = pytest.importorskip("duckdb")
    write_parquet(table, tmp_path / "out.parquet")
    query = f"select reading, count(value) from '{tmp_path}/out.parquet' group by reading"
    assert duckdb.sql(query).fetchall() == [("total_w", len(table))]
    assert len(sample_table(replace(run, probes={}))) == 0


def test_metrics_are_in_base_units_with_totals_and_the_rails_apart(run) -> None:
    rails = run.samples("rails")
    two = replace(run, probes={"rails": with_columns(rails, VDD_GPU_w=rails["total_w"] / 2)})
    text = prometheus_text(two, replace(summarize(two), run='a"b'))
    label = 'run="a\\"b"'
    assert f"edgetrain_minibatches_total{{{label}}} 18" in text
    assert f'edgetrain_training_seconds_total{{{label},part="fetch_stall"}}' in text
    assert f'edgetrain_rail_power_watts{{{label},rail="VDD_GPU"}}' in text
    assert f'edgetrain_power_watts{{{label},scope="board"}}' in text and 'rail="total"' not in text
    assert text.count("# TYPE edgetrain_energy_joules_total counter") == 1
    assert escape_label('x"\n\\') == 'x\\"\\n\\\\'


def test_metrics_can_be_read_by_prometheus(run) -> None:
    parser = pytest.importorskip("prometheus_client.parser")
    families = {family.name: family for family in parser.text_string_to_metric_families(
        prometheus_text(run, summarize(run)))}  # fmt: skip
    assert families["edgetrain_training_seconds"].type == "counter"
    seconds = sum(sample.value for sample in families["edgetrain_training_seconds"].samples)
    assert seconds == pytest.approx(sum(epoch.e2e_s for epoch in summarize(run).epochs), rel=1e-6)
