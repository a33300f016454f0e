"""Changes: named and checked as declared settings are, applied to what was recorded."""

from dataclasses import replace

import pytest

from edgetrain.analysis import summarize
from edgetrain.errors import UsageError
from edgetrain.prediction import (
    MODELLED,
    BoardFacts,
    ChangeFacts,
    ModeEffect,
    PublishedStep,
    StepKind,
    TrainingMemory,
    changed_setting,
    in_mode,
    read_changes,
    read_pipeline,
    simulate_epoch,
)
from edgetrain.prediction.pipeline.changes import board_assumptions, change_assumptions
from edgetrain.record import ComputeFacts, DeviceFacts, LimitsRecord
from edgetrain.schema import CoresGot, LimitsAsked, LimitsGot, StorageModel, all_settings
from tests.prediction.pipeline.recorded import IMAGE_BYTES, Training

MEDIA = {"sd": StorageModel("sd", 7e-3, 88e6), "hdd": StorageModel("hdd", 19e-3, 130e6)}


def apply(training=None, facts=None, **changes):
    run = (training or Training()).run()
    summary = summarize(run)
    return changed_setting(read_pipeline(run, summary), summary, read_changes(changes), facts or ChangeFacts(MEDIA))


def test_every_name_is_a_declared_setting():
    assert set(MODELLED) <= set(all_settings())


def test_text_is_read_as_the_settings_type():
    read = read_changes({"workers": "2", "pin_memory": "yes", "cpu_share": "0.5", "storage": "sd"})
    assert read == {"workers": 2, "pin_memory": True, "cpu_share": 0.5, "storage": "sd"}


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"wrokers": 2}, "'wrokers' is not a setting; what can be changed: workers"),
        ({"learning_rate": 0.1}, "not part of the model"),
        ({"workers": -1}, "workers is -1; the minimum is 0"),
        ({"workers": "many"}, "workers is 'many'; write a number"),
        ({"cores": "1.5"}, "write a whole number"),
        ({"pin_memory": "perhaps"}, "write true or false"),
        ({"workers": 0, "prefetch": 4}, "contradict"),
        ({"ram": "4GiB", "page_cache": "1GB"}, "contradict"),
        ({"cores": 4, "power_mode": "15W"}, "contradict"),
        ({"ram": "lots"}, "cannot read 'lots'"),
        ({"cache": "keep"}, "cache=keep does not say what the first epoch finds in the page cache; write cache=cold"),
        ({"cache": "lukewarm"}, "it is one of cold, warm, keep"),
    ],
)
def test_what_cannot_be_is_refused_with_a_reason(changes, says):
    with pytest.raises(UsageError, match=says.replace("(", r"\(")):
        read_changes(changes)


def test_what_needs_workers_is_refused_where_the_run_has_none():
    with pytest.raises(UsageError, match="prefetch=4 needs workers, and the run has none; add workers=1 or more"):
        apply(Training(workers=0), prefetch=4)
    assert apply(Training(workers=0), prefetch=4, workers=2).prefetch == 4


def test_a_medium_that_is_not_known_is_refused_with_the_list():
    with pytest.raises(UsageError, match="storage=ufs is not a known medium; known: sd, hdd"):
        apply(storage="ufs")


def test_less_ram_needs_a_medium_to_read_from():
    with pytest.raises(UsageError, match="add storage="):
        apply(ram="1GiB")


def test_ram_below_the_training_itself_is_refused():
    with pytest.raises(UsageError, match="less than the 629 MB that system and training need"):
        apply(ram="600MB", storage="sd")


def test_what_the_training_holds_is_not_page_cache():
    found = apply(ram="700MiB", storage="sd")
    assert found.cache_bytes == pytest.approx((700 << 20) - 1.5 * (400 << 20))
    assert found.medium == MEDIA["sd"]


MEMORY = TrainingMemory(1e9, 1e6)  # at a batch size of 16: 1,016 MB


def with_memory(training, changes, **manifest):
    run = training.run(**manifest)
    summary = summarize(run)
    pipeline = read_pipeline(run, summary, MEMORY)
    return pipeline, changed_setting(pipeline, summary, read_changes(changes), ChangeFacts(MEDIA))


def test_what_is_held_of_another_machines_ram_follows_the_batch_size():
    _, found = with_memory(Training(), {"ram": "3GB", "storage": "sd"})
    assert found.cache_bytes == 3e9 - 1e9 - 16e6
    _, found = with_memory(Training(), {"ram": "3GB", "storage": "sd", "batch_size": 64})
    assert found.cache_bytes == 3e9 - 1e9 - 64e6


IN_A_CONTAINER = Training(workers=0, cold_read_s=0.16, again_share=0.6)  # its page cache held part of 154 MB
EMULATED_RAM = LimitsRecord(LimitsAsked(ram_bytes=1_100_000_000, taken_bytes=10**9, page_cache_bytes=100_000_000))


@pytest.mark.parametrize(
    ("manifest", "ram"), [({}, f"{32 << 30}"), ({"limits": EMULATED_RAM}, "1.1GB")], ids=("machine", "emulated")
)
def test_the_present_ram_gains_no_page_cache(manifest, ram):
    pipeline, found = with_memory(IN_A_CONTAINER, {"ram": ram, "storage": "sd"}, **manifest)
    assert pipeline.setting.cache_bytes is not None and pipeline.setting.cache_bytes < 154e6
    assert found.cache_bytes == pipeline.setting.cache_bytes
    _, less = with_memory(IN_A_CONTAINER, {"ram": "1.05GB", "storage": "sd"}, **manifest)
    assert less.cache_bytes <= 1.05e9 - 1.016e9


def test_the_memory_that_is_held_of_the_ram_is_said():
    pipeline, _ = with_memory(Training(), {})
    (said,) = change_assumptions(pipeline, {"ram": "4GiB"}, ChangeFacts(MEDIA))
    assert said == "ram: system and training hold 1.02 GB of it, at most the rest is page cache"


def test_a_cold_start_needs_a_medium_to_read_from():
    with pytest.raises(UsageError, match="add storage="):
        apply(cache="cold")
    assert apply(cache="cold", storage="sd").cache == "cold"
    assert apply(cache="warm").cache == "warm"


def test_a_larger_dataset_has_more_of_everything():
    found = apply(dataset_scale=4)
    assert found.samples == 4 * 80 * 16
    assert found.dataset is not None
    assert found.dataset.total_bytes == 4 * 80 * 16 * IMAGE_BYTES


def test_a_dataset_larger_than_the_page_cache_needs_a_medium_to_read_from():
    with pytest.raises(UsageError, match=r"dataset_scale=400.* more than the .* left for the page cache.*add storage="):
        apply(dataset_scale=400)
    assert apply(dataset_scale=400, storage="sd").cached_share() < 0.6


def test_a_minibatch_cannot_hold_more_than_the_dataset():
    with pytest.raises(UsageError, match="more than the 1280 samples"):
        apply(batch_size=2000)


def test_a_paced_step_can_be_given_another_duration_and_a_real_one_cannot():
    assert apply(compute_ms=50).fixed_step_s == pytest.approx(0.05)
    with pytest.raises(UsageError, match="paced step"):
        apply(Training(compute=ComputeFacts("cpu", "a CPU")), compute_ms=50)


def test_a_power_mode_changes_step_cpu_and_cores():
    found = apply(facts=ChangeFacts(MEDIA, mode=ModeEffect(2.0, 0.5, 4)))
    assert (found.step_time, found.cpu_speed, found.cores) == (2.0, 0.5, 4.0)


@pytest.mark.parametrize(
    ("changes", "cores"),
    [
        ({"device": DeviceFacts(name="b", cores=8, usable_cores=2, ram_bytes=32 << 30)}, 2.0),
        ({"device": DeviceFacts(name="b", cores=8, usable_cores=8, ram_bytes=32 << 30)}, 4.0),
        ({"limits": LimitsRecord(LimitsAsked(cores=3), LimitsGot(cores=CoresGot(3, (5, 6, 7), "cpuset")))}, 3.0),
    ],
    ids=("affinity", "not limited", "lab"),
)
def test_a_power_mode_brings_no_cores_that_the_run_may_not_use(changes, cores):
    run = Training(cores=8).run(**changes)
    pipeline = read_pipeline(run, summarize(run))
    assert in_mode(pipeline.setting, ModeEffect(1.0, 1.0, 4), pipeline.most_cores).cores == cores


@pytest.mark.parametrize(("cores", "others"), [(1, 0.5), (2, 1.0), (4, 2.0), (8, 2.0)])
def test_other_programs_are_met_on_as_many_cores_as_are_used(cores, others):
    device = DeviceFacts(name="host", cores=4, usable_cores=2, ram_bytes=32 << 30, threads=1)
    run = Training(cores=4, other_cores=2.0).run(device=device)
    summary = summarize(run)
    found = changed_setting(read_pipeline(run, summary), summary, {"cores": cores}, ChangeFacts(MEDIA))
    assert found.others == pytest.approx(others)


def test_a_power_mode_changes_a_paced_step_too():
    found = apply(facts=ChangeFacts(MEDIA, mode=ModeEffect(2.0, 0.5, 4)))
    assert found.fixed_step_s == pytest.approx(2.0 * apply().fixed_step_s)


@pytest.mark.parametrize(("core_speed", "speed", "says"), [(0.6, 0.6, "0.60 times as fast"), (None, 1.0, "not known")])
def test_a_boards_cores_are_compared_by_photographs_only_where_the_run_trained_on_some(core_speed, speed, says):
    board = BoardFacts("b", 6, 1e9, "hdd", core_speed)
    assert apply(facts=ChangeFacts(MEDIA, board)).cpu_speed == speed
    run = Training().run()
    assert any(says in text for text in board_assumptions(read_pipeline(run, summarize(run)), board))


def test_a_board_brings_its_cores_storage_page_cache_and_speed():
    board = BoardFacts("b", 6, 1e9, "hdd", image_s=0.0175, step_s=0.39)
    found = apply(facts=ChangeFacts(MEDIA, board))
    assert found.cores == 6
    assert found.medium == MEDIA["hdd"]
    assert found.cache_bytes == 1e9
    assert found.fixed_step_s == 0.39
    assert found.cpu_speed == pytest.approx(0.07 / 16 / 0.0175, rel=0.01)


GPU = Training(workers=1, step_s=0.030, launch_s=0.005, gpu="a GPU", compute=ComputeFacts("cuda", "a GPU"))


def test_a_boards_step_at_another_batch_size_replaces_the_recorded_one_and_is_not_scaled_again():
    board = BoardFacts("b", 6, 1e9, "hdd", step_s=0.1)  # at a batch size of 32
    run = GPU.run()
    summary = summarize(run)
    pipeline = read_pipeline(run, summary)
    assert pipeline.costs.step.kind is StepKind.ACCELERATOR
    for changes in ({}, {"batch_size": 32}):
        found = changed_setting(pipeline, summary, changes, ChangeFacts(MEDIA, board))
        simulated = simulate_epoch(found, pipeline.costs, 1)
        assert simulated.compute_s / found.minibatches == pytest.approx(0.1, rel=0.01)


def test_a_step_paced_by_published_figures_follows_them_to_another_batch_size():
    facts = ChangeFacts(MEDIA, published_step=PublishedStep("xavier-agx", 361 / 195))
    found = apply(facts=facts, batch_size=32)
    assert found.fixed_step_s == pytest.approx(apply().fixed_step_s * 361 / 195)
    assert found.step_deviation > 0
    pipeline, _ = with_memory(Training(), {})
    (said,) = change_assumptions(pipeline, {"batch_size": 32}, facts)
    assert "at a batch size of 32, by published figures of xavier-agx" in said


def test_a_step_paced_by_its_user_stays_at_another_batch_size_and_that_is_said():
    found = apply(batch_size=32)
    assert found.fixed_step_s == apply().fixed_step_s
    pipeline, _ = with_memory(Training(), {})
    (said,) = change_assumptions(pipeline, {"batch_size": 32}, ChangeFacts(MEDIA))
    assert said.startswith("step: paced, so it stays at 30") and "compute_ms=" in said
    assert not change_assumptions(pipeline, {"batch_size": 32, "compute_ms": 50}, ChangeFacts(MEDIA))


def test_the_medium_of_the_run_by_its_own_name_is_no_change():
    fast = LimitsRecord(LimitsAsked(storage=MEDIA["sd"], speed=10.0))
    run = Training().run(limits=fast)
    summary = summarize(run)
    pipeline = read_pipeline(run, summary)
    assert pipeline.setting.medium == MEDIA["sd"].faster(10.0)
    same = changed_setting(pipeline, summary, {"storage": "sd"}, ChangeFacts(MEDIA))
    assert same.medium == pipeline.setting.medium


def test_a_board_in_a_faster_emulation_is_faster_but_no_core_than_this_machines():
    board = BoardFacts("b", 6, 1e9, "hdd", image_s=0.0175, step_s=0.39, speed=3.0)
    found = apply(facts=ChangeFacts(MEDIA, board))
    assert found.fixed_step_s == pytest.approx(0.13)
    assert found.cpu_speed == pytest.approx(3 * 0.07 / 16 / 0.0175, rel=0.01)
    assert apply(facts=ChangeFacts(MEDIA, replace(board, speed=10.0))).cpu_speed == 1.0


@pytest.mark.parametrize(("scale", "samples"), [(4, 1280), (1, 1280), (0.5, 640)])
def test_a_capped_epoch_takes_no_more_samples_than_the_dataset_has(scale, samples):
    about = replace(Training().run().manifest.workload, max_minibatches=80)
    run = Training().run(workload=about)
    summary = summarize(run)
    found = changed_setting(read_pipeline(run, summary), summary, {"dataset_scale": scale}, ChangeFacts(MEDIA))
    assert found.samples == samples
