"""What of a record feeds the model, and that the model gives the record back."""

from dataclasses import replace

import numpy as np
import pytest

from edgetrain.analysis import summarize
from edgetrain.errors import PredictError
from edgetrain.prediction import StepKind, calibrate, read_pipeline
from edgetrain.record import (
    BatchSizeFacts,
    ComputeFacts,
    HandOverFacts,
    ImportFacts,
    LimitsRecord,
    Process,
    WorkloadFacts,
)
from edgetrain.schema import LimitsAsked, StorageModel
from tests.prediction.pipeline.recorded import IMAGE_BYTES, Training

SD = StorageModel("sd", read_s=7.2e-3, bytes_per_s=88e6)


def read(training, **manifest):
    run = training.run(**manifest)
    return read_pipeline(run, summarize(run))


def test_costs_are_those_the_run_was_made_with():
    found = read(Training(workers=1, fetch_s=0.07, wait_s=0.02, ship_s=0.002, receive_s=0.0015, step_s=0.03))
    costs = found.costs
    assert costs.fetch_cpu_s.mean() == pytest.approx(0.07, rel=0.01)
    assert costs.fetch_wait_s.mean() == pytest.approx(0.02, rel=0.01)
    assert costs.hand_over.ship_s == pytest.approx(0.002, rel=0.01)
    assert costs.hand_over.receive_s + costs.hand_over.latency_s == pytest.approx(0.0015, rel=0.01)
    assert costs.step.kind is StepKind.PACED
    assert found.setting.workers == 1
    assert found.setting.samples == 80 * 16
    assert found.costs.assumed >= {"cold read"}


def test_without_workers_the_hand_over_is_assumed():
    found = read(Training(workers=0))
    assert "hand-over" in found.costs.assumed
    assert found.costs.hand_over.receive_s > 0


def test_reads_of_the_first_epoch_are_told_from_a_warm_one():
    found = read(Training(workers=1, cold_read_s=0.13), limits=LimitsRecord(LimitsAsked(storage=SD)))
    assert found.missed_shares == pytest.approx((1.0, 0.0, 0.0), abs=0.01)
    assert found.setting.medium == SD
    assert found.costs.fetch_cpu_s.mean() == pytest.approx(0.07, rel=0.01)


def test_a_medium_that_is_not_the_labs_is_known_from_its_reads():
    found = read(Training(workers=0, cold_read_s=0.16))
    medium = found.setting.medium
    assert medium is not None
    per_image = medium.read_s + IMAGE_BYTES / medium.bytes_per_s
    assert per_image == pytest.approx(0.01, rel=0.1)


def test_other_load_is_taken_from_the_telemetry():
    found = read(Training(other_cores=0.5))
    assert found.setting.others == pytest.approx(0.5)
    assert found.other_load == pytest.approx(0.25)


@pytest.mark.parametrize(
    "training",
    [
        Training(workers=0),
        Training(workers=1),
        Training(workers=2),
        Training(workers=1, fetch_s=0.02),
        Training(workers=2, fetch_s=0.001, step_s=0.003, minibatches=400),
        Training(workers=0, cold_read_s=0.16),
        Training(workers=1, compute=ComputeFacts("cpu", "a CPU"), step_s=0.08),
        Training(workers=1, wait_s=0.05),
    ],
    ids=lambda one: f"w{one.workers}-f{one.fetch_s}-s{one.step_s}",
)
def test_the_model_reproduces_the_run_it_was_fed_with(training):
    run = training.run()
    summary = summarize(run)
    found = calibrate(read_pipeline(run, summary))
    assert abs(found.later_error) < 0.02
    assert abs(found.first_error) < 0.06


def test_steps_that_run_ahead_of_the_accelerator_are_seen():
    waits = read(Training(workers=0, gpu="a GPU", compute=ComputeFacts("cuda", "a GPU"), launch_s=0.005))
    assert waits.costs.step.kind is StepKind.ACCELERATOR
    assert waits.costs.step.launch_s == pytest.approx(0.005, rel=0.1)


def test_a_launch_bound_step_is_recognised():
    found = read(Training(workers=0, gpu="a GPU", compute=ComputeFacts("cuda", "a GPU"), step_s=0.01, launch_s=0.0098))
    assert found.costs.step.step_s.mean() < 0.0098
    assert found.costs.step.launch_s == pytest.approx(0.0098, rel=0.05)


def test_a_run_that_is_too_short_says_how_long_it_must_be():
    with pytest.raises(PredictError, match="has 6 minibatches; at least 16"):
        read(Training(epochs=2, minibatches=3))


def test_an_imported_log_is_refused():
    with pytest.raises(PredictError, match="imported from a log"):
        read(Training(), imported=ImportFacts("somewhere"))


def test_several_processes_are_refused():
    run = Training().run()
    twice = replace(run, processes=(run.processes[0], run.processes[0]))
    with pytest.raises(PredictError, match="2 processes"):
        read_pipeline(twice, summarize(twice))


def test_a_run_without_a_record_of_its_fetches_is_refused():
    run = Training().run()
    bare = replace(run, processes=(Process(run.main.facts, run.main.minibatches),))
    with pytest.raises(PredictError, match="no record of most of its fetches"):
        read_pipeline(bare, summarize(bare))


def test_the_size_of_a_sample_is_right_where_an_epoch_takes_part_of_the_dataset():
    training = Training(workers=0, cold_read_s=0.16)
    taken = training.minibatches * training.batch_size
    about = WorkloadFacts(network="made", batch_size=training.batch_size, samples=10 * taken, dataset_scale=1.0)
    known = read(training, workload=replace(about, dataset_bytes=10 * taken * IMAGE_BYTES)).setting.dataset
    unknown = read(training, workload=about).setting.dataset
    for dataset in (known, unknown):
        assert dataset is not None and dataset.sample_bytes == IMAGE_BYTES and not dataset.packed


def test_libraries_that_a_worker_loads_are_not_taken_for_a_dataset():
    training = Training(workers=1, cold_read_s=0.16, cold_minibatches=3)
    about = WorkloadFacts(network="made", batch_size=training.batch_size)
    setting = read(training, workload=about).setting
    assert setting.dataset is None and setting.medium is None


def test_one_epoch_is_enough_and_said_so():
    found = read(Training(epochs=1))
    assert any("one epoch only" in note for note in found.notes)


def test_fetches_whose_counters_were_not_read_take_the_mean_of_the_others():
    run = Training(workers=1).run()
    workers = dict(run.main.workers.items())
    workers["cpu_us"] = workers["cpu_us"].copy()
    workers["cpu_us"][np.arange(len(workers["cpu_us"])) % 8 != 0] = -1
    from edgetrain.record import ArrayTable

    sparse = replace(run, processes=(replace(run.main, workers=ArrayTable(workers)),))
    found = read_pipeline(sparse, summarize(sparse))
    assert found.costs.fetch_cpu_s.mean() == pytest.approx(0.07, rel=0.01)


def test_a_hand_over_that_was_probed_is_not_assumed():
    probed = HandOverFacts(9_600_000, 100, 0.0012, 0.0015, 0.0014, 0.002, 0.008)
    found = read(Training(workers=0), hand_over=probed)
    assert "hand-over" not in found.costs.assumed
    assert found.costs.hand_over.receive_s == pytest.approx(0.0012)
    assert found.costs.hand_over.release_s == pytest.approx(0.0014)
    assert found.costs.minibatch_bytes == 9_600_000


def test_probed_batch_sizes_replace_what_is_assumed_about_them():
    sizes = tuple(BatchSizeFacts(size, 8, 0.001 * size, 0.001 * size, 0.010 + 0.001 * size) for size in (8, 16, 32))
    found = read(Training(workers=0, compute=ComputeFacts("cpu", "a CPU")), batch_sizes=sizes)
    assert "batch size" not in found.costs.assumed
    scaling = found.costs.step_by_batch
    assert scaling is not None
    assert scaling.at(16) == pytest.approx(1.0)
    assert scaling.at(64) == pytest.approx(0.074 / 0.026, rel=0.01)
    assert found.costs.fetch_by_batch is not None
    assert found.costs.fetch_by_batch.at(4) == pytest.approx(0.25)


def test_one_wrong_probe_does_not_ruin_the_answer_for_a_much_larger_batch():
    fetches_s = {8: 0.051, 16: 0.083, 32: 0.186}  # as measured once: the largest is 10 % too slow
    sizes = tuple(BatchSizeFacts(size, 8, seconds, seconds, 0.023) for size, seconds in fetches_s.items())
    found = read(Training(workers=0, compute=ComputeFacts("cpu", "a CPU")), batch_sizes=sizes)
    assert found.costs.fetch_by_batch is not None
    assert found.costs.fetch_by_batch.at(64) <= 4.0


def test_a_step_that_never_follows_the_batch_size_is_not_extrapolated_below_itself():
    times_s = {8: 0.0248, 16: 0.0228, 32: 0.0215}
    sizes = tuple(BatchSizeFacts(size, 8, 0.001 * size, 0.001 * size, step_s) for size, step_s in times_s.items())
    found = read(Training(workers=0, compute=ComputeFacts("cpu", "a CPU")), batch_sizes=sizes)
    assert found.costs.step_by_batch is not None
    assert found.costs.step_by_batch.at(256) == pytest.approx(1.0)
