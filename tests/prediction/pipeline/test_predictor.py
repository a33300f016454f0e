"""Predictions from one run: near what the same training takes under the other setting, with intervals."""

from dataclasses import replace

import pytest

from edgetrain.analysis import summarize
from edgetrain.prediction import BoardFacts, ChangeFacts, PipelinePredictor, WhatIfModel, simulate_epoch
from edgetrain.prediction.pipeline.uncertainty import draw_variations, spread_of
from edgetrain.record import BatchSizeFacts, ComputeFacts, LimitsRecord
from edgetrain.schema import Experiment, LimitsAsked, StorageModel, Workload
from tests.prediction.pipeline.recorded import Training

SD = StorageModel("sd", 7e-3, 88e6)


def predictor(training):
    run = training.run()
    return PipelinePredictor(run, summarize(run))


def later_s(training):
    return summarize(training.run()).epochs[1].e2e_s


def test_the_recorded_setting_is_predicted_as_it_was():
    found = predictor(Training(workers=1))
    assert found.predict(found.setting, cold=False).later.e2e_s.value == pytest.approx(later_s(Training()), rel=0.02)


def test_what_the_model_gets_wrong_of_the_recorded_run_is_corrected_in_every_answer():
    found = predictor(Training(workers=1))
    before = found.predict_point(found.setting, cold=False).later.e2e_s
    found.pipeline = replace(found.pipeline, later_error=found.pipeline.later_error - 0.1)  # now 10 % too fast
    after = found.predict(found.setting, cold=False).later
    assert after.e2e_s.value == pytest.approx(before * 1.105, rel=0.001)
    assert after.e2e_s.lo < after.e2e_s.value < after.e2e_s.hi


@pytest.mark.parametrize(("before", "after"), [(1, 2), (1, 0), (2, 1), (0, 1)])
def test_another_number_of_workers_is_predicted_as_it_would_have_been_recorded(before, after):
    made = {"fetch_s": 0.07, "collate_share": 0.0, "step_s": 0.03, "cores": 16}
    found = predictor(Training(workers=before, **made))
    answer = found.predict(replace(found.setting, workers=after), cold=False).later.e2e_s
    truth = later_s(Training(workers=after, **made))
    assert answer.value == pytest.approx(truth, rel=0.04)
    assert answer.lo < truth < answer.hi


@pytest.mark.parametrize("changes", [{}, {"workers": 3}, {"batch_size": 32}, {"medium": SD, "cache_bytes": 50e6}])
def test_a_point_has_the_values_that_its_interval_is_put_around(changes):
    found = predictor(Training(workers=1))
    setting = replace(found.setting, **changes)
    for cold in (False, True):
        point, whole = found.predict_point(setting, cold), found.predict(setting, cold)
        for name in ("e2e_s", "stall_s", "compute_s"):
            assert getattr(point.first, name) == getattr(whole.first, name).value
            assert getattr(point.later, name) == getattr(whole.later, name).value
        assert point.assumed == whole.assumed


def test_what_is_more_urgent_can_run_between_two_simulations():
    found, pauses = predictor(Training(workers=1)), []
    found.predict(found.setting, pause=lambda: pauses.append(1))
    assert len(pauses) >= 12


def test_an_interval_is_wider_the_more_is_assumed():
    found = predictor(Training(workers=0))

    def width(**changes):
        e2e = found.predict(replace(found.setting, **changes), cold=False).later.e2e_s
        return e2e.hi / e2e.lo

    assert width() < width(workers=1)
    assert width() < width(medium=SD, cache_bytes=50e6)


def test_what_is_assumed_is_named():
    found = predictor(Training(workers=0))
    answer = found.predict(replace(found.setting, workers=2, batch_size=32, medium=SD))
    named = " ".join(answer.assumed)
    for what in ("hand-over", "batch size", "reads from the medium"):
        assert what in named


def test_waiting_that_a_lock_could_cause_is_named_where_more_workers_are_asked_for():
    found = predictor(Training(workers=1, fetch_s=0.05, wait_s=0.05))
    assert "lock" in " ".join(found.predict(replace(found.setting, workers=2)).assumed)
    assert "lock" not in " ".join(found.predict(found.setting).assumed)


def test_a_busy_machine_widens_the_interval():
    quiet, busy = predictor(Training()), predictor(Training(other_cores=1.0))
    assert quiet.predict(quiet.setting).later.e2e_s.hi < busy.predict(busy.setting).later.e2e_s.hi


def test_a_compute_bound_training_does_not_become_uncertain_through_its_loader():
    bound, fetching = predictor(Training(fetch_s=0.005)), predictor(Training(fetch_s=0.07))

    def width(one):
        e2e = one.predict(one.setting, cold=False).later.e2e_s
        return e2e.hi / e2e.lo

    assert width(bound) < width(fetching)


def test_gains_are_against_the_recorded_setting_over_as_many_epochs():
    run = Training(workers=1, cores=16).run()
    summary = summarize(run)
    model = WhatIfModel(PipelinePredictor(run, summary), summary)
    row = model.row({"workers": 2})
    assert row.gain_pct == pytest.approx(48, abs=6)
    assert model.base.total_s.value == pytest.approx(sum(epoch.e2e_s for epoch in summary.epochs), rel=0.02)
    answer = model.answer([row])
    assert answer.base.gain_pct == 0
    assert [epoch.epoch for epoch in answer.recorded] == [0, 1, 2]


@pytest.mark.parametrize(
    "training",
    [
        Training(workers=0, cold_read_s=0.16, again_share=0.6),
        Training(workers=2, cold_read_s=0.16, again_share=0.6, cores=8),
        Training(workers=0, cold_read_s=0.16, cold_minibatches=24),
        Training(workers=1, pause_s=0.4),
    ],
    ids=("reads again", "reads again with workers", "half cached", "evaluates"),
)
def test_the_recorded_training_is_predicted_to_take_as_long_as_it_took(training):
    run = training.run()
    summary = summarize(run)
    base = WhatIfModel(PipelinePredictor(run, summary), summary).base
    assert base.total_s.value == pytest.approx(sum(epoch.e2e_s for epoch in summary.epochs), rel=0.04)


def test_a_faster_medium_is_no_loss_for_a_run_that_began_with_its_dataset_in_the_page_cache():
    run = Training(workers=0).run(limits=LimitsRecord(LimitsAsked(storage=SD)))
    summary = summarize(run)
    model = WhatIfModel(PipelinePredictor(run, summary), summary)
    ssd = ChangeFacts({"ssd": StorageModel("ssd", 0.1e-3, 500e6), "sd": SD})
    row, same = model.row({"storage": "ssd"}, ssd), model.row({"storage": "sd"}, ssd)
    assert abs(row.gain_pct) < 1.0 and any(text.startswith("gain: of later epochs") for text in row.assumed)
    assert same.gain_pct == pytest.approx(0.0, abs=0.1)
    assert not any(text.startswith("gain:") for text in same.assumed)


def test_time_that_the_model_does_not_describe_is_said_where_there_is_much_of_it():
    found = predictor(Training(workers=1))
    assert not found.notes
    found.pipeline = replace(found.pipeline, later_error=-0.4)
    assert "only within 49%" in found.notes[0]


def test_page_locked_memory_costs_the_loop_its_copy_where_there_are_no_workers():
    gpu = Training(workers=0, gpu="a GPU", compute=ComputeFacts("cuda", "a GPU"), launch_s=0.005)
    found = predictor(gpu)
    setting, pinned = found.setting, replace(found.setting, pin_memory=True)
    assert (
        found.predict(pinned, cold=False).later.stall_s.value > found.predict(setting, cold=False).later.stall_s.value
    )


def test_the_stall_of_a_loop_that_only_waits_is_as_uncertain_as_its_time():
    found = predictor(Training(workers=0, fetch_s=0.3, step_s=0.005))
    later = found.predict(found.setting, cold=False).later
    reach = later.e2e_s.hi - later.e2e_s.value
    assert 0.7 * reach < later.stall_s.hi - later.stall_s.value < 1.2 * reach


def test_the_energy_on_another_board_is_not_known_and_what_is_assumed_of_the_board_is_said():
    run = Training(workers=1).run()
    summary = summarize(run)
    summary = replace(summary, epochs=tuple(replace(one, energy_j=90.0, energy_pm_j=1.0) for one in summary.epochs))
    model = WhatIfModel(PipelinePredictor(run, summary), summary)
    board = ChangeFacts({"sd": SD}, BoardFacts("b", 4, 1e9, "sd", step_s=0.05))
    row, point = model.row({"preset": "b"}, board), model.values({"preset": "b"}, board)
    assert model.base.later.energy_j is not None
    assert row.later.energy_j is None and point.later.energy_j is None
    assert any("50 ms on b, by published figures" in text for text in row.assumed)
    assert any("speed of those of b is not known" in text for text in point.assumed)
    assert model.row({"workers": 2}).later.energy_j is not None


def launch_bound():
    return Training(
        workers=2,
        fetch_s=0.005,
        step_s=0.0101,
        launch_s=0.010,
        gpu="a GPU",
        cores=16,
        compute=ComputeFacts("cuda", "a GPU"),
    )


def test_a_launch_bound_step_takes_the_same_for_a_larger_batch_and_the_assumption_is_named():
    found = predictor(launch_bound())
    larger = replace(found.setting, batch_size=32)
    answer = found.predict(larger, cold=False)
    assert answer.later.e2e_s.value < 0.7 * found.predict(found.setting, cold=False).later.e2e_s.value
    assert "launch-bound" in " ".join(answer.assumed)
    assert "launch-bound" not in " ".join(found.predict(found.setting).assumed)


def test_a_probe_replaces_the_assumption_about_a_launch_bound_step():
    sizes = tuple(BatchSizeFacts(size, 8, 0.001, 0.001, 0.010 * size / 16) for size in (8, 16, 32))
    run = launch_bound().run(batch_sizes=sizes)
    found = PipelinePredictor(run, summarize(run))
    answer = found.predict(replace(found.setting, batch_size=64), cold=False)
    assert "launch-bound" not in " ".join(answer.assumed)
    now = found.predict(found.setting, cold=False)
    assert answer.later.e2e_s.value == pytest.approx(now.later.e2e_s.value, rel=0.1)  # proportional: the probe says so


def model_of(training, **manifest):
    run = training.run(**manifest)
    summary = summarize(run)
    return WhatIfModel(PipelinePredictor(run, summary), summary)


SSD = StorageModel("ssd", 0.1e-3, 500e6)
MEDIA = ChangeFacts({"sd": SD, "ssd": SSD})


def test_what_was_cut_short_is_in_no_total_and_no_gain():
    whole, cut = model_of(Training(workers=1, epochs=2)), model_of(Training(workers=1, epochs=3, last_minibatches=10))
    assert cut.base.total_s.value == pytest.approx(whole.base.total_s.value, rel=1e-3)
    assert cut.row({"workers": 2}).gain_pct == pytest.approx(whole.row({"workers": 2}).gain_pct, abs=0.1)
    answer = cut.answer([])
    assert [epoch.epoch for epoch in answer.recorded] == [0, 1]
    assert any("epoch 2 (10 minibatches) left out" in note for note in answer.notes)


def test_another_medium_is_read_as_much_as_the_recorded_one_was_in_the_first_epoch():
    model = model_of(Training(workers=0, cold_read_s=0.16, cold_minibatches=24))
    row = model.row({"storage": "ssd"}, MEDIA)
    assert model.base.first.read_share == pytest.approx(0.3, abs=0.01)
    assert row.first.read_share == pytest.approx(0.3, abs=0.01)
    assert not any(text.startswith("gain:") for text in row.assumed)


def test_a_partly_cached_start_is_not_compared_with_an_empty_page_cache():
    model = model_of(Training(workers=0, cold_read_s=0.16, cold_minibatches=24))
    row = model.row({"dataset_scale": 2, "storage": "sd"}, MEDIA)
    assert row.first.read_share == 1.0
    assert any(text.startswith("gain: of later epochs") for text in row.assumed)


@pytest.mark.parametrize(("training", "began"), [(Training(workers=1, cold_read_s=0.14), "cold"), (Training(), "warm")])
def test_a_start_can_be_asked_for(training, began):
    model = model_of(training, limits=LimitsRecord(LimitsAsked(storage=SD)))
    assert model.base.first.cache == began
    cold, warm = (model.row({"cache": cache}, MEDIA) for cache in ("cold", "warm"))
    assert (cold.first.cache, warm.first.cache) == ("cold", "warm")
    assert (cold.first.read_share, warm.first.read_share) == (1.0, 0.0)
    assert cold.first.e2e_s.value > 1.5 * warm.first.e2e_s.value
    assert cold.total_s.value > warm.total_s.value
    assert cold.gain_pct < warm.gain_pct


def test_a_warm_start_reads_what_a_smaller_page_cache_cannot_hold():
    model = model_of(Training(workers=1), limits=LimitsRecord(LimitsAsked(storage=SD)))
    half = model.row({"page_cache": "77MB"}, MEDIA)
    assert half.first.cache == "warm"
    assert half.first.read_share == pytest.approx(half.later.read_share, abs=0.02)
    assert half.first.read_share > 0.7
    point = model.values({"page_cache": "77MB"}, MEDIA)
    assert point.total_s == pytest.approx(half.total_s.value)


def test_later_epochs_of_part_of_the_dataset_are_as_many_as_were_recorded():
    training = Training(workers=0, cold_read_s=0.16, epochs=4)
    taken = training.minibatches * training.batch_size
    about = replace(
        training.run().manifest.workload, samples=4 * taken, dataset_files=4 * taken, dataset_bytes=4 * taken * 120_000,
        max_minibatches=training.minibatches,
    )  # fmt: skip
    found = model_of(training, workload=about)
    expected = (0.75 + 0.75**2 + 0.75**3) / 3
    assert found.base.later.read_share == pytest.approx(expected, abs=0.01)


def width(estimate):
    return estimate.hi / estimate.lo


def test_a_published_step_is_uncertain_although_the_recorded_one_was_paced():
    found = predictor(Training(workers=1, fetch_s=0.005))
    sure = found.predict(found.setting, cold=False).later.e2e_s
    unsure = found.predict(replace(found.setting, step_deviation=0.05), cold=False).later.e2e_s
    assert unsure.value == sure.value
    assert width(unsure) > 1.1 * width(sure)


def test_what_busy_cores_cost_is_uncertain_where_there_are_some():
    found = predictor(Training(workers=1, fetch_s=0.07, cores=2))
    pipeline = found.pipeline
    known = spread_of(pipeline, replace(found.setting, workers=2), 0.0)
    unknown = replace(known, busy_neighbours=0.0, oversubscribed=0.0)
    crowded = replace(found.setting, workers=4)

    def reached(spread):
        times = [
            simulate_epoch(each.of_setting(crowded), each.of_costs(pipeline.costs), 1).e2e_s
            for each in draw_variations(replace(spread, speed=0.0, fetch=0.0, hand_over=0.0, model=0.0), 8)
        ]
        return max(times) / min(times)

    assert reached(known) > 1.03
    assert reached(unknown) == 1.0


def test_an_answer_with_more_threads_than_cores_is_wider_where_the_run_had_fewer():
    found = predictor(Training(workers=1, cores=4))
    few, many = (spread_of(found.pipeline, replace(found.setting, workers=each), 0.0).model for each in (3, 4))
    assert many > few
    busy = predictor(Training(workers=4, cores=4))
    assert spread_of(busy.pipeline, replace(busy.setting, workers=6), 0.0).model == few


def test_workers_that_are_started_again_in_every_epoch_are_named_and_cost_time():
    script = Training(workers=0, persistent=False, fetch_s=0.01, minibatches=20)
    model = model_of(script, experiment=Experiment(Workload("s", command=("python", "s.py"))))
    again, kept = model.row({"workers": 2}), model.row({"workers": 2, "persistent": True})
    assert any(text.startswith("workers: started again in every epoch") for text in again.assumed)
    assert not any(text.startswith("workers:") for text in kept.assumed)
    assert again.later.e2e_s.value > kept.later.e2e_s.value


def test_more_workers_of_a_stream_are_predicted_for_a_sharded_one_and_that_is_said():
    model = model_of(Training(workers=0, iterable=True, cores=8))
    sharded = "stream (IterableDataset): it must be sharded between workers"
    assert any(text.startswith(sharded) for text in model.row({"workers": 2}).assumed)
    assert not any(text.startswith(sharded) for text in model.row({"workers": 1}).assumed)
    assert not any(text.startswith(sharded) for text in model_of(Training(workers=0)).row({"workers": 2}).assumed)
