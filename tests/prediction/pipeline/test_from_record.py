"""What of a record feeds the model, and that the model gives the record back."""

from dataclasses import replace

import numpy as np
import pytest

from edgetrain.analysis import lru_hit_share, summarize
from edgetrain.errors import PredictError
from edgetrain.prediction import (
    StepKind,
    TrainingMemory,
    calibrate,
    later_mean_s,
    read_pipeline,
    simulate_epoch,
)
from edgetrain.record import (
    ArrayTable,
    BatchSizeFacts,
    ComputeFacts,
    DeviceFacts,
    HandOverFacts,
    ImportFacts,
    LimitsRecord,
    LoaderFacts,
    Process,
    WorkloadFacts,
)
from edgetrain.schema import Experiment, LimitsAsked, Loading, StorageModel, Workload
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


def test_readers_that_waited_together_do_not_make_a_medium_slower():
    one, four = (read(Training(workers=workers, cold_read_s=0.16)).setting.medium for workers in (1, 4))
    assert one is not None and four is not None
    assert four.bytes_per_s > 2.5 * one.bytes_per_s
    assert four.read_s > one.read_s


@pytest.mark.parametrize("workers", [0, 1, 4])
def test_a_cold_first_epoch_is_reproduced_whatever_read_it(workers):
    run = Training(workers=workers, cold_read_s=0.16, cores=8).run()
    summary = summarize(run)
    assert abs(calibrate(read_pipeline(run, summary)).first_error) < 0.05


def test_what_later_epochs_read_again_tells_what_the_page_cache_held():
    training = Training(workers=0, cold_read_s=0.16, again_share=0.5)
    found = read(training).setting
    assert found.dataset is not None and found.cache_bytes is not None
    again = 1.0 - lru_hit_share(found.cache_bytes / found.dataset.cached_bytes)
    assert again == pytest.approx(0.5, abs=0.05)


def test_a_dataset_that_was_not_read_again_fits_the_page_cache_and_a_larger_one_need_not():
    found = read(
        Training(workers=0, cold_read_s=0.16), device=DeviceFacts(name="host", cores=2, ram_bytes=10**9)
    ).setting
    assert found.dataset is not None and found.cached_share() == 1.0
    larger = replace(found.dataset, total_bytes=40 * found.dataset.total_bytes)
    assert replace(found, dataset=larger).cached_share() < 0.5


@pytest.mark.parametrize(("usable", "cores"), [(None, 64), (4, 4), (128, 64)])
def test_cores_are_those_that_the_training_could_use(usable, cores):
    device = DeviceFacts(name="host", cores=64, usable_cores=usable, ram_bytes=32 << 30, threads=1)
    assert read(Training(cores=64), device=device).setting.cores == cores


def test_a_training_on_part_of_the_cores_meets_part_of_the_other_load():
    device = DeviceFacts(name="host", cores=16, usable_cores=2, ram_bytes=32 << 30, threads=1)
    found = read(Training(cores=16, other_cores=8.0), device=device)
    assert found.setting.others == pytest.approx(1.0)
    assert found.other_load == pytest.approx(0.5)


def test_the_loader_is_the_training_loops_however_many_minibatches_another_delivered():
    run = Training(workers=2).run()
    other = LoaderFacts(1, 0, None, 1, True, False)
    many = {name: np.concatenate([column, np.tile(column[:1], 400)]) for name, column in run.main.minibatches.items()}
    for name, value in {"loader": 1, "phase": 2, "launched_us": -1, "done_us": -1}.items():
        many[name][-400:] = value
    facts = replace(run.main.facts, loaders=(*run.main.facts.loaders, other))
    mixed = replace(run, processes=(replace(run.main, facts=facts, minibatches=ArrayTable(many)),))
    found = read_pipeline(mixed, summarize(run))
    assert found.setting.workers == 2 and not found.setting.pin_memory


def test_minibatches_of_unknown_size_count_as_full_ones():
    run = Training(workers=0).run()
    rows = dict(run.main.minibatches.items())
    rows["samples"] = np.full_like(rows["samples"], -1)
    unknown = replace(run, processes=(replace(run.main, minibatches=ArrayTable(rows)),))
    assert read_pipeline(unknown, summarize(unknown)).setting.samples == 80 * 16


def test_what_the_loop_does_beside_its_steps_is_added_and_not_spread():
    run = Training(workers=0, pause_s=0.5).run()
    summary = summarize(run)
    found = calibrate(read_pipeline(run, summary))
    assert found.costs.aside_s == pytest.approx(0.05, rel=0.2)
    assert abs(found.later_error) < 0.02
    simulated = simulate_epoch(found.base.setting, found.costs, 1)
    assert simulated.compute_s == pytest.approx(summary.epochs[1].compute_s, rel=0.03)


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


def test_an_epoch_that_was_cut_short_is_left_out_and_named():
    found = read(Training(workers=1, cold_read_s=0.16, epochs=3, last_minibatches=14))
    assert found.setting.samples == 80 * 16
    assert [epoch.epoch for epoch in found.epochs] == [0, 1]
    assert len(found.missed_shares) == 2
    assert found.setting.epochs == 2
    assert "epoch 2 (14 minibatches) left out: cut short; whole ones have 80 minibatches" in found.notes


def slowed(training, factor, *, waits=False):
    """Return a run whose first epoch something else slowed: its steps, or the loop's waits for data."""
    run = training.run()
    main, made = run.main.minibatches, run.main.workers
    columns = {name: main[name].copy() for name in main.names}
    fetched = {name: made[name].copy() for name in made.names}
    instants = [columns[n] for n in columns if n.endswith("_us") and n not in ("queued_us", "cpu_us")]
    moved = [fetched[n] for n in ("began_us", "fetched_us")]
    for row in np.flatnonzero(columns["epoch"] == 0):
        more = int((factor - 1) * training.step_s * 1e6)
        for each in instants:
            each[row + 1 :] += more
        for each in moved:
            each[row + 1 :] += more
        later = (
            ("ready_us", "copying_us", "copied_us", "launched_us", "done_us") if waits else ("launched_us", "done_us")
        )
        for name in later:
            columns[name][row] += more
        if waits:
            fetched["fetched_us"][row] += more
    process = Process(run.main.facts, ArrayTable(columns), ArrayTable(fetched))
    return replace(run, processes=(process,))


ON_CPU = Training(workers=0, fetch_s=0.004, step_s=0.02, compute=ComputeFacts("cpu", "cpu", None))


def test_a_first_epoch_whose_steps_something_else_slowed_is_left_out_and_named():
    run = slowed(ON_CPU, 8)
    found = read_pipeline(run, summarize(run))
    assert [epoch.epoch for epoch in found.epochs] == [1, 2]
    assert found.costs.step.step_s.mean() == pytest.approx(0.02, rel=0.02)
    (note,) = found.notes
    assert note.startswith("epoch 0 left out: its steps took 160 ms on average, those of later epochs 20 ms")


def test_a_first_epoch_that_waits_longer_for_data_is_the_trainings_own():
    run = slowed(ON_CPU, 8, waits=True)
    found = read_pipeline(run, summarize(run))
    assert [epoch.epoch for epoch in found.epochs] == [0, 1, 2] and found.notes == ()


def test_a_minibatch_of_two_optimizers_has_one_fetch():
    run = ON_CPU.run()
    known = run.main.minibatches
    counted = {"forwards": 3, "forwards_after": 0, "backwards": 1, "thread": 0, "site": 0, "reaches_back": -1}
    rows = []
    for row in range(len(known)):
        first = {name: int(known[name][row]) for name in known.names} | counted | {"epoch": -1, "idle_us": -1}
        ended = first["done_us"]
        nothing = dict.fromkeys(("loader", "generation", "batch", "worker", "sent_us", "samples", "site"), -1)
        second = dict.fromkeys(("asked_us", "ready_us"), ended) | {"launched_us": ended + 15, "done_us": ended + 15}
        rows.append(first | {"steps": 1, "other_steps": 0, "optimizer": 0})
        rows.append(first | nothing | second | {"steps": 0, "other_steps": 1, "optimizer": 1})
    table = ArrayTable({name: np.array([each[name] for each in rows], np.int64) for name in rows[0]})
    gan = replace(run, processes=(Process(run.main.facts, table, run.main.workers),))
    found = read_pipeline(gan, summarize(gan))
    assert [epoch.minibatches for epoch in found.epochs] == [80, 80, 80]
    assert found.costs.fetch_cpu_s.mean() == pytest.approx(0.004, rel=0.02)


def test_epochs_that_differ_a_little_are_all_whole():
    found = read(Training(workers=1, epochs=3, last_minibatches=76))
    assert len(found.epochs) == 3 and not found.notes


def test_an_epoch_that_was_cut_short_is_no_part_of_a_repeats_mean():
    whole = summarize(Training(workers=1, epochs=2).run())
    cut = summarize(Training(workers=1, epochs=3, last_minibatches=14).run())
    assert later_mean_s(cut.epochs) == pytest.approx(later_mean_s(whole.epochs), rel=1e-3)


def test_a_dataset_whose_size_is_guessed_from_its_reads_is_named():
    training = Training(workers=0, cold_read_s=0.16)
    about = WorkloadFacts(network="made", batch_size=training.batch_size)
    notes = " ".join(read(training, workload=about).notes)
    assert "dataset taken from what the first epoch read: 154 MB in 1280 samples" in notes
    assert "--dataset FOLDER" in notes
    assert not read(training).notes


def test_a_cold_run_whose_minibatches_do_not_say_how_many_samples_they_hold_began_cold():
    run = Training(workers=0, cold_read_s=0.16).run()
    rows = dict(run.main.minibatches.items())
    rows["samples"] = np.full_like(rows["samples"], -1)
    opaque = replace(run, processes=(replace(run.main, minibatches=ArrayTable(rows)),))
    found = read_pipeline(opaque, summarize(opaque))
    assert found.began_cold
    assert found.missed_shares == pytest.approx((1.0, 0.0, 0.0), abs=0.01)


def test_reads_beside_a_dataset_that_lay_in_the_page_cache_are_not_of_the_dataset():
    run = Training(workers=0, cold_read_s=0.16, cold_minibatches=20).run()
    summary = summarize(run)
    cached = replace(summary, epochs=tuple(replace(each, cached_share_before=1.0) for each in summary.epochs))
    assert read_pipeline(run, summary).began_cold
    found = read_pipeline(run, cached)
    assert not found.began_cold and found.setting.medium is None


SLOWED = [
    Training(workers=0, cpu_share=0.5, fetch_s=0.02, step_s=0.08, compute=ComputeFacts("cpu", "a CPU")),
    Training(workers=1, cpu_share=0.5, fetch_s=0.06, step_s=0.03),
    Training(
        workers=1, cpu_share=0.5, fetch_s=0.002, step_s=0.0101, launch_s=0.010, gpu="a GPU", cores=8,
        compute=ComputeFacts("cuda", "a GPU"),
    ),
]  # fmt: skip


@pytest.mark.parametrize("training", SLOWED, ids=("computes", "loads", "launches"))
def test_durations_of_a_run_on_slowed_cores_are_not_slowed_once_more(training):
    run = training.run()
    summary = summarize(run)
    pipeline = read_pipeline(run, summary)
    simulated = simulate_epoch(pipeline.setting, pipeline.costs, 1)
    assert simulated.e2e_s == pytest.approx(summary.epochs[1].e2e_s, rel=0.06)
    assert pipeline.costs.fetch_wait_s.mean() == pytest.approx(0.0, abs=1e-4)


def test_a_step_at_full_speed_of_the_cores_takes_half_of_what_it_took_at_half_of_it():
    found = read(SLOWED[0])
    faster = simulate_epoch(replace(found.setting, cpu_speed=1.0), found.costs, 1)
    assert faster.compute_s == pytest.approx(80 * 0.04, rel=0.03)


def with_experiment(training, persistent=True, command=None):
    asked = Experiment(Workload("made", command=command), Loading(workers=0, persistent=persistent))
    return read(training, experiment=asked)


def test_workers_that_a_script_does_not_have_yet_would_not_be_kept_unless_it_says_so():
    script = Training(workers=0, persistent=False)
    assert not with_experiment(script, command=("python", "train.py")).setting.persistent
    assert with_experiment(Training(workers=0)).setting.persistent
    assert not with_experiment(Training(workers=0), persistent=False).setting.persistent


def test_the_memory_that_is_held_is_no_page_cache():
    device = DeviceFacts(name="host", cores=2, ram_bytes=2 * 10**9)
    run = Training(workers=0, epochs=1).run(device=device)
    found = read_pipeline(run, summarize(run), TrainingMemory(10**9, 10**6))
    assert found.setting.cache_bytes == 10**9 - 16 * 10**6
