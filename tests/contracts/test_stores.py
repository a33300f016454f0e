"""Every store of runs keeps the same promises: on disk and in memory."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from edgetrain.errors import StoreError, UsageError
from edgetrain.record import (
    NULL,
    FolderStore,
    LoadingFacts,
    Manifest,
    MemoryStore,
    ProcessFacts,
    RunnerFacts,
    SamplerReport,
    Store,
    WorkloadFacts,
)
from edgetrain.schema import Doubt, Experiment, Limits, Loading, Origin, PowerMode, Workload

LENET = Manifest(state="finished", workload=WorkloadFacts(network="lenet5", batch_size=16))
MINIBATCHES = (("asked_us", "delta"), ("ready_us", "after:asked_us"), ("batch", "plain"))
SAMPLES = (("at_us", "delta"), ("total_w", "f8"), ("gpu_share", "f4"))


@pytest.fixture(params=["folder", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return FolderStore(tmp_path / "store") if request.param == "folder" else MemoryStore()


def fill(store: Store, *rows: tuple[int | None, ...], pid: int = 7, **manifest: object) -> str:
    """Make a finished run with these minibatches; return its id."""
    writer = store.create(replace(LENET, **manifest))
    stream = writer.stream(f"minibatches-{pid}", "minibatches", MINIBATCHES)
    for row in rows:
        stream.add(row)
    stream.close()
    return writer.id


def test_a_manifest_is_read_back_as_it_was_written_with_the_runs_own_id(store: Store) -> None:
    mode = PowerMode(4, 10**9, 5 * 10**8, None, "30W")
    experiment = Experiment(
        Workload("lenet5", batch_size=8), Loading(workers=3), Limits(ram="4GiB"), mode, factors={"workers": 3}
    )
    manifest = replace(
        LENET,
        origin=Origin.EMULATED,
        command=("edgetrain", "run", "lenet5"),
        loading=LoadingFacts(workers=3, cache="cold"),
        experiment=experiment,
        factors={"workers": 3, "storage": "sd"},
        doubts=(Doubt("steal", "5 % was stolen"),),
        losses=(1.5, None),
    )
    writer = store.create(manifest)
    assert store.open(writer.id).manifest == replace(manifest, run=writer.id)


def test_the_last_manifest_written_counts(store: Store) -> None:
    writer = store.create(replace(LENET, state="running"))
    writer.write_manifest(replace(LENET, state="failed", reason="out of memory"))
    assert (store.open(writer.id).manifest.state, store.runs()[0].state) == ("failed", "failed")
    assert store.open(writer.id).manifest.run == writer.id


def test_missing_integers_are_minus_one_and_missing_floats_are_nan(store: Store) -> None:
    writer = store.create(LENET)
    stream = writer.stream("minibatches-7", "minibatches", MINIBATCHES)
    for row in ((100, 150, 0), (None, None, 1), (300, None, None)):
        stream.add(row)
    stream.close()
    samples = writer.stream("samples-rails", "samples", SAMPLES)
    samples.add((100, 12.5, None))
    samples.add((200, None, 0.5))
    samples.close()
    run = store.open(writer.id)
    rows = {tuple(row) for row in zip(*(run.main.minibatches[name].tolist() for name, _ in MINIBATCHES), strict=True)}
    assert rows == {(100, 150, 0), (NULL, NULL, 1), (300, NULL, NULL)}
    rails = run.samples("rails")
    assert rails["at_us"].tolist() == [100, 200]
    np.testing.assert_array_equal(rails["total_w"], [12.5, np.nan])
    np.testing.assert_array_equal(rails["gpu_share"], np.array([np.nan, 0.5], np.float32))


def test_minibatches_come_in_the_order_the_loop_asked_for_them_whatever_the_order_of_streams(store: Store) -> None:
    writer = store.create(LENET)
    for name, rows in (("minibatches-a-7", [(300, 310, 1)]), ("minibatches-b-7", [(100, 110, 0)])):
        stream = writer.stream(name, "minibatches", MINIBATCHES)
        for row in rows:
            stream.add(row)
        stream.close()
    assert store.open(writer.id).minibatches()["batch"].tolist() == [0, 1]


def test_a_run_can_be_read_while_it_is_being_written(store: Store) -> None:
    writer = store.create(replace(LENET, state="running"))
    stream = writer.stream("minibatches-7", "minibatches", MINIBATCHES)
    for batch in range(3):
        stream.add((batch * 100, batch * 100 + 50, batch))
        stream.flush()
        assert len(store.open(writer.id).minibatches()) == batch + 1
    stream.close()
    assert stream.failed is None


def test_events_come_in_the_order_they_happened_and_keep_their_doubt(store: Store) -> None:
    writer = store.create(LENET)
    writer.event("mode", "holding 30W", 2000)
    writer.event("doubt", "the machine was busy", 1000, doubt="not_quiet")
    writer.event("epoch", "began")
    events = store.open(writer.id).events
    assert [(event.kind, event.text, event.doubt) for event in events] == [
        ("doubt", "the machine was busy", "not_quiet"),
        ("mode", "holding 30W", None),
        ("epoch", "began", None),
    ]
    assert [event.at_us for event in events[:2]] == [1000, 2000]
    assert events[2].at_us is not None and events[2].at_us > 2000


def test_what_processes_say_of_themselves_is_read_back(store: Store) -> None:
    writer = store.create(LENET)
    writer.write_process(ProcessFacts(pid=7, torch="2.4", problems=("a worker died",)))
    writer.write_sampler(SamplerReport(cpu_s=0.5, reads_failed={"gpu_w": 2}))
    run = store.open(writer.id)
    assert run.main.facts == ProcessFacts(pid=7, torch="2.4", problems=("a worker died",))
    assert run.sampler == SamplerReport(cpu_s=0.5, reads_failed={"gpu_w": 2})


def test_several_processes_are_kept_apart_and_the_main_one_has_the_most_minibatches(store: Store) -> None:
    writer = store.create(LENET)
    for place, (pid, count) in enumerate(((12, 2), (9, 3))):
        writer.write_process(ProcessFacts(pid=pid, rank=place), place)
        stream = writer.stream(f"minibatches-{pid}", "minibatches", MINIBATCHES)
        for batch in range(count):
            stream.add((batch * 100, batch * 100 + 50, pid))
        stream.close()
    run = store.open(writer.id)
    assert [(one.facts.rank, set(one.minibatches["batch"].tolist())) for one in run.processes] == [(0, {12}), (1, {9})]
    assert run.main.facts.pid == 9 and len(run.minibatches()) == 3


def test_facts_without_a_process_id_belong_to_the_only_stream(store: Store) -> None:
    writer = store.create(LENET)
    writer.write_process(ProcessFacts(parameters=61_706))
    stream = writer.stream("minibatches-0", "minibatches", MINIBATCHES)
    stream.add((100, 150, 0))
    stream.close()
    (process,) = store.open(writer.id).processes
    assert process.facts.parameters == 61_706 and len(process.minibatches) == 1


def test_rows_of_loader_workers_belong_to_the_training_process(store: Store) -> None:
    id = fill(store, (100, 150, 0))
    writer = store.create(LENET)
    for name in ("workers-0-0-8", "workers-0-1-9"):
        stream = writer.stream(name, "workers", (("batch", "plain"),))
        stream.add((1,))
        stream.close()
    assert len(store.open(id).workers()) == 0
    (process,) = store.open(writer.id).processes  # the training process wrote nothing of its own
    assert len(process.workers) == 2 and len(process.minibatches) == 0


def test_an_empty_run_is_a_run(store: Store) -> None:
    writer = store.create(Manifest())
    run = store.open(writer.id)
    assert run.processes == () and run.sampler is None and run.events == () and run.lost == ()
    assert len(run.minibatches()) == len(run.workers()) == len(run.samples("rails")) == 0


def test_a_light_reading_leaves_telemetry_out_and_nothing_else(store: Store) -> None:
    writer = store.create(LENET)
    stream = writer.stream("minibatches-7", "minibatches", MINIBATCHES)
    stream.add((100, 150, 0))
    stream.close()
    samples = writer.stream("samples-rails", "samples", SAMPLES)
    samples.add((100, 12.5, 0.5))
    samples.close()
    assert set(store.open(writer.id).probes) == {"rails"}
    light = store.open(writer.id, light=True)
    assert light.probes == {} and len(light.minibatches()) == 1


def test_runs_are_found_by_id_by_its_start_by_its_end_and_as_the_last(store: Store) -> None:
    first, second = fill(store), fill(store, workload=WorkloadFacts(network="vgg11"))
    for name in (first, first[-4:], "last", second[-10:], second):
        assert store.find(name) == (first if name in (first, first[-4:]) else second)
    assert store.open("last").id == second
    alone = MemoryStore() if isinstance(store, MemoryStore) else FolderStore(store.path / "other")
    only = fill(alone)
    assert alone.find(only[:8]) == only


def test_ids_differ_and_name_the_network_in_letters_that_paths_can_hold(store: Store) -> None:
    ids = {fill(store, workload=WorkloadFacts(network="../my net/ü:make")) for _ in range(20)}
    assert len(ids) == 20
    assert all("/" not in id and "my-net" in id and id.isascii() for id in ids)


@pytest.mark.parametrize("name", ["nosuch", "zzzz", "../.."])
def test_a_name_nothing_fits_is_named_in_the_error(store: Store, name: str) -> None:
    fill(store)
    for look in (store.find, store.open, store.remove):
        with pytest.raises(StoreError, match="edgetrain ls") as raised:
            look(name)
        assert repr(name) in str(raised.value)


def test_a_name_that_fits_several_runs_names_them(store: Store) -> None:
    ids = [fill(store) for _ in range(2)]
    with pytest.raises(StoreError, match="fits 2 runs") as raised:
        store.find(ids[0][:4])
    assert all(id in str(raised.value) for id in ids)


def test_an_empty_store_and_an_empty_name_say_what_to_do(store: Store) -> None:
    assert store.runs() == []
    with pytest.raises(StoreError, match="edgetrain run"):
        store.find("last")
    with pytest.raises(UsageError, match="no run is named"):
        store.find("")


def test_runs_are_listed_oldest_first_with_what_is_known_of_them(store: Store) -> None:
    first = fill(store, campaign="grid", loading=LoadingFacts(workers=2, cache="cold"), origin=Origin.SIMULATED)
    second = fill(store, workload=WorkloadFacts())
    rows = store.runs()
    assert [row.run for row in rows] == [first, second]
    assert (rows[0].network, rows[0].batch_size, rows[0].workers, rows[0].cache) == ("lenet5", 16, 2, "cold")
    assert (rows[0].campaign, rows[0].origin, rows[0].state) == ("grid", Origin.SIMULATED, "finished")
    assert (rows[1].network, rows[1].workers, rows[1].campaign) == (None, None, None)


def test_a_removed_run_is_gone_and_the_others_stay(store: Store) -> None:
    first, second = fill(store, (100, 150, 0)), fill(store, (100, 150, 0))
    assert store.remove(first[-4:]) == first
    assert [row.run for row in store.runs()] == [second]
    with pytest.raises(StoreError):
        store.open(first)
    assert len(store.open(second).minibatches()) == 1


def test_a_run_that_is_being_recorded_is_not_removed(store: Store) -> None:
    id = fill(store, state="running", runner=RunnerFacts(os.getpid()))
    with pytest.raises(StoreError, match=f"recorded by process {os.getpid()}"):
        store.remove(id)
    assert store.open(id).id == id


@pytest.mark.parametrize(
    "runner", [None, RunnerFacts(2**22 + 1), RunnerFacts(os.getpid(), "another-boot")], ids=["none", "dead", "rebooted"]
)
def test_a_run_whose_recorder_was_killed_is_removed(store: Store, runner: RunnerFacts | None) -> None:
    id = fill(store, state="running", runner=runner)
    assert store.remove(id) == id
    assert store.runs() == []
