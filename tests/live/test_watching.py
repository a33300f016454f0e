"""What is going on in a store: the run being recorded, its last minutes, campaigns, and what cannot be read."""

from __future__ import annotations

import json
import os

import pytest

from edgetrain.live import Watcher, live_table
from edgetrain.record import FolderStore
from tests.report.printing import assert_plain, printed

ALIVE = {"pid": os.getpid(), "boot": None}


def watcher(record, at_s: float = 1004.0, window_s: float = 3.0) -> Watcher:
    return Watcher(FolderStore(record.store), window_s, lambda: round(at_s * 1e6), lambda: 1_000.0)


def test_a_run_being_recorded_is_shown_with_its_last_minutes(record) -> None:
    name = record(epochs=2, minibatches=40, state="running", runner=ALIVE)
    view = watcher(record).read()
    run = view.running
    assert run is not None and (run.run, run.state, run.epoch) == (name, "running", 1)
    assert run.minibatches == 80 and run.power_w == pytest.approx(20.0, abs=1)
    assert run.median_s == pytest.approx(0.05, rel=0.2) and run.stall_share is not None and 0.2 < run.stall_share < 0.6
    assert {plot.id for plot in view.plots} == {"minibatches", "power"}
    assert all(series.x.min() >= -10.0 and series.x.max() <= 0.0 for plot in view.plots for series in plot.series)


def test_a_runner_that_died_is_said_and_a_finished_run_is_not_running(record) -> None:
    record(state="running", runner={"pid": 2**22 + 1, "boot": None})
    run = watcher(record).read().running
    assert run is not None and run.state == "ended unexpectedly"
    record(seed=2)
    assert watcher(record).read().running is None


def test_a_run_that_is_still_training_is_shown_though_a_newer_one_died(record) -> None:
    name = record(state="running", runner=ALIVE, started_wall="2026-01-01T00:00:00+00:00")
    record(state="running", seed=1, runner={"pid": 2**22 + 1, "boot": None})
    record(state="running", seed=2, runner={"pid": 2**22 + 1, "boot": None})
    run = watcher(record).read().running
    assert run is not None and (run.run, run.state) == (name, "running")


def test_a_record_on_another_clock_is_shown_by_its_own_end(record) -> None:
    record(state="running", runner=ALIVE)
    run = watcher(record, at_s=5e6).read().running
    assert run is not None and run.median_s is not None


def test_an_empty_store_and_a_damaged_run_are_said(record, tmp_path) -> None:
    view = Watcher(FolderStore(tmp_path / "nothing")).read()
    assert view.running is None and view.runs == () and "no training is running" in printed(live_table(view))
    name = record(state="running", runner=ALIVE)
    folder = FolderStore(record.store).path / "runs" / name
    for file in folder.glob("*.ets"):
        file.write_bytes(b"not a stream")
    damaged = watcher(record).read()
    assert damaged.running is not None and damaged.running.median_s is None


def test_a_campaign_has_its_progress_and_the_time_left(record) -> None:
    folder = FolderStore(record.store).campaigns / "grid-0123abcd"
    folder.mkdir(parents=True)
    entries = [{"kind": "start", "at": 1.0, "planned": 5, "name": "grid"}]
    entries += [{"kind": "done", "at": 2.0, "key": f"k{number}", "run": "r", "took_s": 30.0} for number in range(2)]
    entries += [{"kind": "failed", "at": 3.0, "key": "k2", "reason": "x"}, {"kind": "begun", "at": 4.0, "key": "k3"}]
    journal = folder / "journal.jsonl"
    journal.write_text("".join(json.dumps(entry) + "\n" for entry in entries) + '{"torn')
    os.utime(journal, (990.0, 990.0))
    found = watcher(record).read().campaign
    assert found is not None and (found.planned, found.done, found.failed) == (5, 2, 1)
    assert found.left_s == 90.0 and found.now == "k3"
    journal.write_text(journal.read_text().partition('{"torn')[0] + json.dumps({"kind": "end", "at": 5.0}) + "\n")
    os.utime(journal, (990.0, 990.0))
    assert watcher(record).read().campaign is None


def test_the_terminal_shows_the_same(record) -> None:
    hostile = {"network": "\x1b[31mlenet", "batch_size": 16}
    record(epochs=2, minibatches=40, state="running", runner=ALIVE, workload=hostile)
    text = printed(live_table(watcher(record).read()))
    assert "epoch 2, 80 minibatches" in text and "stalled" in text and "█" in text and "power" in text
    assert_plain(text)


def test_the_terminal_view_fits_eighty_columns(record) -> None:
    record(epochs=2, minibatches=40, state="running", runner=ALIVE)
    lines = printed(live_table(watcher(record).read(), 80), 80).splitlines()
    assert max(map(len, lines)) <= 80 and not any("…" in line for line in lines)
    (series,) = [line for line in lines if "copy and compute" in line]
    assert "█" in series and series.rstrip().endswith("ms")
