"""Changes: named and checked as declared settings are, applied to what was recorded."""

import pytest

from edgetrain.analysis import summarize
from edgetrain.errors import UsageError
from edgetrain.prediction import (
    MODELLED,
    BoardFacts,
    ChangeFacts,
    ModeEffect,
    changed_setting,
    read_changes,
    read_pipeline,
)
from edgetrain.prediction.pipeline.changes import board_assumptions
from edgetrain.schema import StorageModel, all_settings
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
    with pytest.raises(UsageError, match="less than the 419 MB"):
        apply(ram="300MB", storage="sd")


def test_what_the_training_holds_is_not_page_cache():
    found = apply(ram="500MiB", storage="sd")
    assert found.cache_bytes == (500 << 20) - (400 << 20)
    assert found.medium == MEDIA["sd"]


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
    from edgetrain.record import ComputeFacts

    with pytest.raises(UsageError, match="paced step"):
        apply(Training(compute=ComputeFacts("cpu", "a CPU")), compute_ms=50)


def test_a_power_mode_changes_step_cpu_and_cores():
    found = apply(facts=ChangeFacts(MEDIA, mode=ModeEffect(2.0, 0.5, 4)))
    assert (found.step_time, found.cpu_speed, found.cores) == (2.0, 0.5, 4.0)


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
