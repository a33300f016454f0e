"""What a what-if takes from the lab's tables and the catalogue: steps, media, RAM and clocks of the recorded run."""

from dataclasses import replace

import pytest

from edgetrain.analysis import summarize
from edgetrain.api.mode_effects import ModeEffects, _mode_of_board
from edgetrain.api.what_if import change_facts, open_model, storage_media, training_memory, whatif
from edgetrain.errors import UsageError
from edgetrain.lab import training_bytes
from edgetrain.record import DeviceFacts, LimitsRecord, PowerModeRecord
from edgetrain.schema import Experiment, Limits, LimitsAsked, PowerMode, Workload
from tests.prediction.pipeline.recorded import Training

MEDIA = storage_media()
PACED = Experiment(Workload("mobilenet_v3", batch_size=16), preset="xavier-agx", compute="paced", compute_ms=195.0)
WARM = Training(workers=1, step_s=0.195)


def step_after(experiment, **changes):
    run = WARM.run(experiment=experiment)
    model = open_model(run, [])
    facts = change_facts(model.summary, changes, MEDIA, experiment=model.predictor.base.experiment)
    row = model.row(changes, facts)
    return row.later.compute_s.value / (1280 / changes["batch_size"]), row.assumed


def test_a_presets_step_follows_the_batch_size_as_its_published_figures_do():
    step_s, assumed = step_after(PACED, batch_size=32)
    assert step_s == pytest.approx(0.361, rel=0.01)
    assert any("by published figures of xavier-agx" in text for text in assumed)
    faster = replace(PACED, limits=Limits(speed=10.0), compute_ms=19.5)
    step_s, _ = step_after(faster, batch_size=32)
    assert step_s == pytest.approx(0.361, rel=0.01)  # of the recorded one, by the same ratio


def test_a_step_that_a_user_paced_stays_as_it_is():
    step_s, assumed = step_after(replace(PACED, compute_ms=200.0), batch_size=32)
    assert step_s == pytest.approx(0.195, rel=0.01)
    assert any("paced, so it stays at 195 ms" in text for text in assumed)
    step_s, _ = step_after(None, batch_size=32)
    assert step_s == pytest.approx(0.195, rel=0.01)


def test_media_are_as_fast_as_the_labs_emulation_made_the_recorded_one():
    limits = LimitsRecord(LimitsAsked(storage=MEDIA["sd"], speed=10.0))
    summary = summarize(Training(workers=1).run(limits=limits))
    facts = change_facts(summary, {"storage": "hdd"}, MEDIA)
    assert facts.media["hdd"].read_s == pytest.approx(MEDIA["hdd"].read_s / 10)
    assert facts.media["hdd"].bytes_per_s == pytest.approx(MEDIA["hdd"].bytes_per_s * 10)
    plain = change_facts(summarize(Training(workers=1).run()), {"storage": "hdd"}, MEDIA)
    assert plain.media["hdd"] == MEDIA["hdd"]


def test_what_is_held_of_the_ram_is_what_the_lab_takes_off():
    run = Training().run()
    about = replace(run.manifest.workload, network="mobilenet_v3")
    memory = training_memory(summarize(replace(run, manifest=replace(run.manifest, workload=about))))
    for batch_size in (1, 16, 64):
        assert memory.at(batch_size) == training_bytes("mobilenet_v3", batch_size)


def test_a_setting_is_changed_or_swept_and_not_both():
    run = Training(workers=1).run()
    with pytest.raises(UsageError, match="workers is given twice, as workers=2 and as a sweep"):
        whatif(run, {"workers": 2}, sweep=("workers", [0, 1]), repeats=[])


def test_a_sweep_is_one_setting_and_its_values():
    run = Training(workers=1).run()
    values = [row.changes["workers"] for row in whatif(run, sweep={"workers": [0, 2]}, repeats=[]).settings]
    assert values == [0, 2]
    for wrong in ({"workers": [0], "batch_size": [8]}, {"workers": 2}, {}, ("workers", "0..2"), "workers=0..2"):
        with pytest.raises(UsageError, match="give one setting and its values"):
            whatif(run, sweep=wrong, repeats=[])


def test_profiled_modes_need_a_question_about_a_power_mode():
    with pytest.raises(UsageError, match="give power_mode=… too"):
        whatif(Training(workers=1).run(), {"workers": 2}, profiled="nope", repeats=[])


def test_a_start_can_be_swept():
    run = Training(workers=1).run(limits=LimitsRecord(LimitsAsked(storage=MEDIA["sd"])))
    cold, warm = whatif(run, sweep=("cache", ["cold", "warm"]), repeats=[]).settings
    assert (cold.first.cache, warm.first.cache) == ("cold", "warm")
    assert cold.first.e2e_s.value > 1.5 * warm.first.e2e_s.value


BOARD = DeviceFacts(name="orin-agx", kind="jetson", cores=12, ram_bytes=30 * 10**9)


def test_clocks_are_those_of_the_board_that_was_recorded_and_not_of_the_machine_at_hand():
    assert _mode_of_board("12/2201/1300/3199", BOARD).gpu_hz == 1_300_500_000
    with pytest.raises(UsageError, match="this board has no mode with 16 cores"):
        _mode_of_board("16/2201/1300/3199", BOARD)


def test_a_mode_of_a_recorded_board_is_compared_on_any_machine():
    held = PowerMode(12, 2_201_600_000, 1_300_500_000, 3_199_000_000)
    run = Training(workers=1).run(device=BOARD, power_mode=PowerModeRecord(held, held, held))
    summary = summarize(run)
    measured = replace(
        summary,
        power_w=replace(summary.power_w, median=40.0, mean=40.0),
        minibatch=replace(summary.minibatch, median_ms=70.0, mean_ms=70.0),
    )
    effect = ModeEffects(measured).of("4/1190/1300/3199")
    assert effect.cores == 4
    assert effect.cpu_speed == pytest.approx(1190.4 / 2201.6, rel=0.01)


@pytest.mark.parametrize("speed", [1.0, 10.0])
def test_a_board_is_as_fast_as_the_labs_emulation_would_make_it(speed):
    run = Training(workers=1).run(limits=LimitsRecord(LimitsAsked(storage=MEDIA["sd"], speed=speed)))
    about = replace(run.manifest.workload, network="mobilenet_v3")
    model = open_model(replace(run, manifest=replace(run.manifest, workload=about)), [])
    changes = {"preset": "xavier-agx", "batch_size": 32}
    row = model.row(changes, change_facts(model.summary, changes, MEDIA))
    assert row.later.compute_s.value / 40 == pytest.approx(0.361 / speed, rel=0.03)
