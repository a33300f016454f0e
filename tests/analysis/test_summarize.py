"""A run summed up keeps the laws: parts add up, causes sum to the stall, what was not measured is null."""

import math
from types import SimpleNamespace

import numpy as np
import pytest

from edgetrain.analysis import summarize
from edgetrain.analysis.doubts import _from_cpu
from edgetrain.documents import to_document
from edgetrain.inside.stream import StreamWriter, append_event, write_json
from edgetrain.record import FolderStore

PARTS = ("fetch_stall_s", "copy_s", "compute_s", "overhead_s")


@pytest.fixture
def document(record):
    return lambda **settings: to_document(summarize(FolderStore(record.store).open(record(**settings))))


def test_the_document_holds_what_it_promises(document):
    found = document()
    for key in (
        "schema",
        "run",
        "origin",
        "workload",
        "device",
        "overhead_pct",
        "doubts",
        "minibatch",
        "power_w",
        "steady",
    ):
        assert key in found
    assert set(found["minibatch"]) == {"median_ms", "mean_ms", "p95_ms", "p99_ms"}


@pytest.mark.parametrize("seed", range(5))
def test_parts_of_every_epoch_add_up_to_its_time(document, seed):
    for epoch in document(seed=seed)["epochs"]:
        assert sum(epoch[part] for part in PARTS) == pytest.approx(epoch["e2e_s"])


@pytest.mark.parametrize("seed", range(5))
def test_causes_sum_to_the_stall(document, seed):
    for epoch in document(seed=seed)["epochs"]:
        assert sum(epoch["stall_by"].values()) == pytest.approx(epoch["fetch_stall_s"])
        assert min(epoch["stall_by"].values()) >= 0


def test_bytes_read_are_counted_epoch_by_epoch(document):
    cold, warm = document(minibatches=40)["epochs"]
    assert (cold["read_bytes"], warm["read_bytes"]) == (40 * 1_900_000, 0)


def test_energy_is_power_times_time_within_its_own_error(document):
    for epoch in document(power_w=20.0)["epochs"]:
        assert epoch["energy_j"] == pytest.approx(20 * epoch["e2e_s"], abs=epoch["energy_pm_j"] + 0.2)


def test_without_a_sensor_energy_is_null_with_the_reason(document):
    found = document(power_w=None)
    assert found["epochs"][0]["energy_j"] is None
    assert found["energy_by"] is None
    assert "sensor" in found["energy_reason"]


def test_energy_is_not_split_without_a_baseload(document):
    found = document()
    assert found["energy_by"] is None
    assert "--baseload-s" in found["energy_by_reason"]


def test_stalls_that_draw_no_more_than_idle_get_no_energy_beyond_the_error(document):
    split = document(baseload={"from_us": 999_600_000, "to_us": 1_000_000_000})["energy_by"]
    assert abs(split["stall_j"]) <= split["pm_j"] and abs(split["compute_j"]) <= split["pm_j"]


def test_long_stalls_split_the_energy_into_parts_that_sum_to_the_whole(document):
    window = {"from_us": 999_600_000, "to_us": 1_000_000_000}
    found = document(stall_us=2_000_000, compute_us=2_000_000, minibatches=10, epochs=1, baseload=window)
    split = found["energy_by"]
    whole = split["stall_j"] + split["compute_j"] + split["baseload_j"]
    assert whole == pytest.approx(found["epochs"][0]["energy_j"], abs=split["pm_j"] + 0.1)


def test_a_run_that_never_ended_says_so(document):
    assert "unfinished" in [doubt["kind"] for doubt in document(state="running")["doubts"]]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(("share", "kinds"), [(math.nan, set()), (0.5, {"steal", "other_load"})])
def test_samples_of_which_none_was_read_say_nothing_and_do_not_warn(record, share, kinds):
    run = record()
    for name, column in (("cpu", "steal_share"), ("load", "other_share")):
        path = record.store / "runs" / run / f"samples-{name}.ets"
        path.unlink(missing_ok=True)
        writer = StreamWriter(str(path), "samples", (("at_us", "delta"), (column, "f4")))
        writer.add((1_000_000_000, share))
        writer.close()
    doubts = to_document(summarize(FolderStore(record.store).open(run)))["doubts"]
    assert {doubt["kind"] for doubt in doubts} == kinds


def test_an_empty_record_is_summed_up_as_nothing(document):
    found = document(epochs=0)
    assert found["epochs"] == []
    assert found["minibatch"]["median_ms"] is None


def test_the_tools_own_cost_is_reported(document):
    cost = document()["overhead_pct"]
    assert cost is not None and math.isfinite(cost) and 0 < cost < 5


def test_the_tools_own_cost_adds_up_over_loop_workers_writers_and_sampler(record):
    run = record()
    folder = record.store / "runs" / run
    minibatches = len(FolderStore(record.store).open(run).minibatches())
    for batches in (30, 10):
        append_event(
            str(folder / "events-inside.jsonl"), "cost", "w", batches=batches, per_batch_us=40.0, writer_cpu_s=0.25
        )
    cost = to_document(summarize(FolderStore(record.store).open(run)))["overhead"]
    assert cost["worker_us_per_minibatch"] == pytest.approx(40.0)
    assert cost["writing_cpu_s"] == pytest.approx(0.5)
    assert cost["cpu_s"] == pytest.approx((12.0 * minibatches + 40.0 * 40) / 1e6 + 0.5 + 0.01)


def test_a_doubt_is_reported_once_by_its_name_and_counted_in_words(record):
    run = record()
    events = str(record.store / "runs" / run / "events-sampler.jsonl")
    append_event(events, "doubt", "the sampler fell behind: 6 of 324 readings missed", doubt="sampler_fell_behind")
    append_event(events, "throttle", "sw power cap")
    append_event(events, "other_load", "other processes use 1.4 of 2 cores")
    write_json(str(record.store / "runs" / run / "sampler.json"), {"late_p99_s": 0.5, "reads_failed": {"gpu_w": 1}})
    doubts = to_document(summarize(FolderStore(record.store).open(run)))["doubts"]
    kinds = [doubt["kind"] for doubt in doubts]
    assert sorted(kinds) == ["other_load", "sampler_fell_behind", "sensor", "throttle"]
    words = " ".join(doubt["text"] for doubt in doubts)
    assert "throttled once" in words and "gpu_w once" in words and "1 times" not in words


def test_the_mean_load_of_other_processes_and_a_moment_of_it_are_told_apart():
    event = SimpleNamespace(kind="other_load", text="other processes use 0.9 of 2 cores")
    shares = {"load": {"other_share": np.array([0.1, 0.38])}}
    run = SimpleNamespace(events=(event,), samples=lambda probe: shares.get(probe, {}))
    (doubt,) = _from_cpu(run)
    assert doubt.text == (
        "other processes used 24% of the cores on average over the whole run; at one time: other processes use 0.9 of "
        "2 cores"
    )
