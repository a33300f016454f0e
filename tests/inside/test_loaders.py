"""Every minibatch of any loader has its instants, and joins the worker's row that made it."""

from __future__ import annotations

import json
import multiprocessing
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Sampler

from edgetrain.analysis.attribution import attribute
from edgetrain.analysis.breakdown import break_down
from edgetrain.inside import rows, session
from edgetrain.inside.worker import WorkerLoop
from tests.inside import records, scenes

LOADERS: dict[str, tuple[Any, dict[str, Any]]] = {
    "own": (scenes.Numbers(), {}),
    "own-iterable": (scenes.Counted(), {}),
    "own-single": (scenes.Numbers(8), {"batch_size": None}),
    "one-worker": (scenes.Numbers(), {"num_workers": 1}),
    "deep": (scenes.Numbers(), {"num_workers": 2, "prefetch_factor": 5}),
    "persistent": (scenes.Numbers(), {"num_workers": 2, "persistent_workers": True}),
    "persistent-iterable": (scenes.Counted(), {"num_workers": 2, "persistent_workers": True}),
    "iterable": (scenes.Counted(), {"num_workers": 2}),
    "collate": (scenes.Numbers(), {"num_workers": 1, "collate_fn": scenes.stack}),
    "many-at-once": (scenes.ManyAtOnce(), {"num_workers": 1}),
    "single": (scenes.Numbers(8), {"num_workers": 1, "batch_size": None}),
    "any-order": (scenes.Numbers(), {"num_workers": 2, "in_order": False}),
    "timeout": (scenes.Numbers(), {"num_workers": 1, "timeout": 30}),
    "pinned": (scenes.Numbers(), {"num_workers": 1, "pin_memory": True}),
    "spawn": (scenes.Numbers(), {"num_workers": 1, "multiprocessing_context": "spawn", "persistent_workers": True}),
    "forkserver": (
        scenes.Counted(),
        {"num_workers": 1, "multiprocessing_context": "forkserver", "persistent_workers": True},
    ),
}


@pytest.mark.parametrize("name", LOADERS)
@pytest.mark.filterwarnings("ignore:'pin_memory'")
def test_every_minibatch_joins_its_workers_row_and_no_instant_is_out_of_order(name: str, tmp_path: Path) -> None:
    dataset, arguments = LOADERS[name]
    arguments = {"batch_size": 4, **arguments}
    seen = scenes.train(tmp_path, DataLoader(dataset, **arguments))
    assert sorted(seen) == sorted(list(range(dataset.count)) * 2)
    minibatches, workers = records.joined(tmp_path)
    size = arguments["batch_size"] or 1
    assert len(minibatches["batch"]) == 2 * dataset.count // size
    assert set(minibatches["epoch"].tolist()) == {0, 1}
    assert set(minibatches["phase"].tolist()) == {1}
    assert minibatches["samples"].sum() == len(seen)
    asked, ready = minibatches["asked_us"], minibatches["ready_us"]
    for earlier, later in (
        (asked, ready),
        (ready, minibatches["copying_us"]),
        (minibatches["copying_us"], minibatches["copied_us"]),
        (minibatches["copied_us"], minibatches["launched_us"]),
        (minibatches["launched_us"], minibatches["done_us"]),
        (workers["began_us"], workers["fetched_us"]),
        (workers["fetched_us"], ready),
    ):
        assert np.all(earlier <= later)
    assert np.all(asked[1:] >= ready[:-1])
    assert np.array_equal(minibatches["worker"], workers["worker"])
    wall = workers["fetched_us"] - workers["began_us"]
    assert np.all(workers["cpu_us"] + workers["queued_us"] <= wall + 2_000)
    if arguments.get("num_workers"):
        assert np.all(workers["fetched_us"] <= workers["pickled_us"])
        assert np.all(workers["pickled_us"] <= workers["shipped_us"])
        assert np.all(minibatches["sent_us"] <= workers["began_us"])
    else:
        assert set(minibatches["worker"].tolist()) == {-1}
        first = minibatches["batch"] == 0  # asked when the iterator was made
        assert np.array_equal(workers["began_us"][~first], asked[~first])
        assert np.all(workers["began_us"][first] >= asked[first])
    if "collate_fn" in arguments:
        assert np.all(workers["collate_us"] >= 1_000)
    assert np.all(workers["collate_us"] <= wall)


class SlowFeeder:
    """A worker's queues: one index to fetch, and a feeder thread that is slow to return from a send that arrived."""

    def __init__(self) -> None:
        self.arrived = threading.Event()

    def get(self) -> tuple[int, list[int]]:
        return 0, [0]

    def put(self, message: Any) -> None:
        threading.Thread(target=self._send_bytes, args=(b"",), daemon=True).start()

    def _send_bytes(self, data: bytes) -> None:
        self.arrived.set()
        time.sleep(0.02)


def end_before_the_feeder_returns(folder: Path) -> None:
    """Act as a loader worker whose loop already has the last batch, in a process of its own."""
    queue = SlowFeeder()

    def loop(*arguments: Any) -> None:
        queue.put((queue.get()[0], None))
        assert queue.arrived.wait(5)

    WorkerLoop(loop, str(folder), 0, 0, os.getppid())(*[queue] * 10, 0)


def test_a_worker_that_ends_while_its_last_send_returns_still_knows_when_it_was_sent(tmp_path: Path) -> None:
    child = multiprocessing.get_context("fork").Process(target=end_before_the_feeder_returns, args=(tmp_path,))
    child.start()
    child.join()
    assert child.exitcode == 0
    (sent,) = records.columns(tmp_path, "workers")["shipped_us"].tolist()
    assert sent > 0


class Odd(Sampler[int]):
    """A sampler of the user's, which yields fewer numbers than it says."""

    def __len__(self) -> int:
        return 24

    def __iter__(self) -> Iterator[int]:
        return iter(range(1, 24, 2))


SIZES: dict[str, tuple[dict[str, Any], list[int]]] = {
    "the last is short": ({"batch_size": 5}, [5, 5, 5, 5, 4]),
    "the last is dropped": ({"batch_size": 5, "drop_last": True, "shuffle": True}, [5, 5, 5, 5]),
    "single samples": ({"batch_size": None}, [1] * 24),
    "a sampler that errs": ({"batch_size": 5, "sampler": Odd()}, [5, 5, 2]),
    "batches of the user's": ({"batch_sampler": [[1], [2, 3], [4, 5, 6]]}, [1, 2, 3]),
    "a collate function that leaves some out": ({"batch_size": 5, "collate_fn": scenes.some}, [5, 5, 5, 5, 4]),
}


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("name", SIZES)
def test_the_samples_of_a_minibatch_are_those_fetched_or_else_those_delivered(
    name: str, workers: int, tmp_path: Path
) -> None:
    arguments, expected = SIZES[name]
    scenes.train(tmp_path, DataLoader(scenes.Numbers(), num_workers=workers, **arguments), epochs=1)
    assert records.batches(tmp_path)["samples"].tolist() == expected


def test_what_the_run_was_trained_with_is_on_record(tmp_path: Path) -> None:
    loader = DataLoader(scenes.Numbers(), batch_size=4, num_workers=1, prefetch_factor=3)
    scenes.train(tmp_path, loader)
    facts = records.facts(tmp_path)
    assert facts["problems"] == []
    (described,) = facts["loaders"]
    assert (described["workers"], described["prefetch_factor"], described["batch_size"]) == (1, 3, 4)
    assert (described["dataset_class"], described["length"], described["start_method"]) == ("Numbers", 6, "fork")
    assert (described["delivered"], described["trained"]) == (12, 12)
    assert [(epoch["epoch"], epoch["loss"]) for epoch in facts["epochs"]] == [(0, 1.0), (1, 0.5)]
    assert facts["epochs"][0]["ended_us"] < facts["epochs"][1]["ended_us"]
    assert facts["ended"] is True
    assert facts["main_thread_cost"]["minibatches"] == 14  # each pass has an end
    assert 0 < facts["main_thread_cost"]["per_minibatch_us"] < 5_000
    costs = [json.loads(line) for line in (tmp_path / "events-inside.jsonl").read_text().splitlines()]
    assert [(event["kind"], event["batches"]) for event in costs] == [("cost", 6), ("cost", 6)]  # a worker an epoch
    assert all(0 < event["per_batch_us"] < 5_000 for event in costs)
    assert facts["written_bytes"] > 0


@pytest.mark.parametrize("workers", [0, 1])
def test_a_long_fetch_among_short_ones_is_known_to_have_stood_still(workers: int, tmp_path: Path) -> None:
    """Counters of short fetches are read now and then; a long one in ten must not be missed."""
    scenes.train(tmp_path, DataLoader(scenes.Straggles(), batch_size=1, num_workers=workers), epochs=1)
    minibatches, made = records.joined(tmp_path)
    wall = made["fetched_us"] - made["began_us"]
    long = wall > 15_000
    assert long.sum() >= 20
    assert np.count_nonzero(made["cpu_us"] >= 0) < 150  # the others are not all read
    assert np.all(made["cpu_us"][long] >= 0)
    assert np.median(made["cpu_us"][long]) < 5_000
    parts = break_down(minibatches)
    by = attribute(minibatches, made, parts.rows, parts.stall_s)
    assert by.blocked_s.sum() == pytest.approx((wall - made["cpu_us"])[long].sum() / 1e6, rel=0.25)


@pytest.mark.parametrize(("sleep_s", "least", "most"), [(0.002, 0.05, 0.6), (0.012, 0.8, 1.01)])
def test_the_loops_counters_are_read_in_proportion_to_its_waits_and_at_each_long_one(
    sleep_s: float, least: float, most: float, tmp_path: Path
) -> None:
    scenes.train(tmp_path, DataLoader(scenes.Numbers(80, sleep_s), batch_size=1, num_workers=1), epochs=1)
    minibatches = records.batches(tmp_path)
    assert np.array_equal(minibatches["queued_us"] >= 0, minibatches["cpu_us"] >= 0)
    assert least < np.mean(minibatches["cpu_us"] >= 0) < most


@pytest.mark.parametrize("workers", [0, 1])
def test_the_users_exception_arrives_as_it_was_and_what_came_before_is_kept(workers: int, tmp_path: Path) -> None:
    loader = DataLoader(scenes.Fails(), batch_size=4, num_workers=workers)
    with pytest.raises(ArithmeticError, match="sample 13 is broken"):
        scenes.train(tmp_path, loader)
    assert records.batches(tmp_path)["batch"].tolist() == [0, 1, 2]
    assert records.facts(tmp_path)["problems"] == []


def test_a_loop_left_early_keeps_its_last_minibatch(tmp_path: Path) -> None:
    recording = scenes.session.begin(tmp_path)
    for place, _ in enumerate(DataLoader(scenes.Numbers(), batch_size=4, num_workers=1)):
        recording.launched()
        if place == 2:
            break
    recording.end()
    assert records.batches(tmp_path)["batch"].tolist() == [0, 1, 2]


def test_a_session_begun_twice_is_one_session(tmp_path: Path) -> None:
    first = scenes.session.begin(tmp_path)
    try:
        assert scenes.session.begin(tmp_path / "elsewhere") is first
    finally:
        first.end()
    assert not (tmp_path / "elsewhere").exists()


def test_after_the_end_nothing_more_is_written(tmp_path: Path) -> None:
    loader = DataLoader(scenes.Numbers(), batch_size=4, num_workers=1, persistent_workers=True)
    scenes.train(tmp_path, loader, epochs=1)
    before = {path: path.stat().st_size for path in tmp_path.iterdir() if path.name.startswith("mini")}
    assert sum(1 for _ in loader) == 6
    assert {path: path.stat().st_size for path in before} == before


def test_a_loop_left_at_its_first_minibatch_was_evaluating_if_gradients_were_off(tmp_path: Path) -> None:
    recording = session.begin(tmp_path)
    with torch.no_grad():
        for _ in DataLoader(scenes.Numbers(8), batch_size=4):
            break
    recording.end()  # gradients are on again
    assert records.batches(tmp_path)["phase"].tolist() == [rows.NO_GRADIENTS]


def test_a_pass_that_turns_to_evaluating_midway_and_is_left_is_told_apart(tmp_path: Path) -> None:
    recording = session.begin(tmp_path)
    with torch.enable_grad():  # on again after it
        for number, _ in enumerate(DataLoader(scenes.Numbers(32), batch_size=4)):
            if number < 3:
                recording.launched()
            else:
                torch.set_grad_enabled(False)
            if number == 5:
                break
    recording.end()
    phases = records.batches(tmp_path)["phase"].tolist()
    assert phases == [rows.TRAINED] * 3 + [rows.NO_GRADIENTS] * 3


def test_marks_go_to_the_pass_that_delivered_last_whichever_it_is(tmp_path: Path) -> None:
    recording = session.begin(tmp_path)
    training = iter(DataLoader(scenes.Numbers(32), batch_size=4))
    other = iter(DataLoader(scenes.Numbers(32), batch_size=4))
    for number in range(8):
        next(training)
        recording.launched()
        if number in (3, 5):
            next(other)  # somebody looks at one, and leaves it at that
    recording.end()
    found = records.batches(tmp_path)
    trained = found["loader"] == found["loader"][0]
    assert found["phase"][trained].tolist() == [rows.TRAINED] * 8
    assert found["phase"][~trained].tolist() == [rows.UNKNOWN] * 2
