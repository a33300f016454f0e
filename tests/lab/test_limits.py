"""Limits are read as users write them; impossible ones are refused before anything is set up."""

import pytest

from edgetrain.errors import EdgetrainError, LabError, UsageError
from edgetrain.lab import as_board, limits_for, resolve_limits, training_bytes
from edgetrain.schema import Experiment, Limits, Workload


def test_limits_are_read_as_written():
    limits = resolve_limits(Limits(storage="sd", page_cache="300MB", cores=2, cpu_share=0.5))
    assert limits.storage is not None and limits.storage.name == "sd"
    assert limits.cache_bytes == 300_000_000
    assert (limits.cores, limits.cpu_share) == (2, 0.5)


@pytest.mark.parametrize(
    "asked",
    [
        {"cores": 0},
        {"cpu_share": 0},
        {"cpu_share": -1},
        {"speed": -2},
        {"storage": "floppy"},
        {"page_cache": "a lot"},
        {"page_cache": "1MB"},
    ],
)
def test_impossible_limits_are_refused(asked):
    with pytest.raises(EdgetrainError):
        resolve_limits(Limits(**asked))


def test_ram_below_what_the_network_needs_is_refused_before_the_oom_killer_acts():
    experiment = Experiment(Workload("vgg11"), limits=Limits(ram="1GB"))
    with pytest.raises(LabError, match="OOM"):
        limits_for(experiment)


def test_a_larger_network_leaves_less_page_cache():
    left = [
        limits_for(Experiment(Workload(name), limits=Limits(ram="8GB"))).cache_bytes for name in ("lenet5", "vgg11")
    ]
    assert left[0] > left[1] > 0
    assert training_bytes("vgg11", 16) > training_bytes("vgg11", 1)


def test_a_preset_fills_in_a_board_and_shrinking_divides_dataset_and_page_cache():
    plain = as_board(Experiment(Workload("mobilenet_v3"), preset="xavier-nx"))
    small = as_board(Experiment(Workload("mobilenet_v3"), preset="xavier-nx", shrink=20))
    assert plain.compute == "paced" and plain.compute_ms == pytest.approx(390)
    assert limits_for(plain).cache_bytes == 20 * limits_for(small).cache_bytes
    assert small.workload.dataset_scale == pytest.approx(1 / 20)


def test_what_the_experiment_sets_itself_replaces_the_preset():
    chosen = as_board(
        Experiment(Workload("mobilenet_v3"), preset="xavier-nx", limits=Limits(storage="hdd"), compute_ms=5.0)
    )
    limits = limits_for(chosen)
    assert limits.storage is not None and limits.storage.name == "hdd"
    assert chosen.compute_ms == 5.0


def test_speed_divides_every_time_of_a_board():
    fast = as_board(Experiment(Workload("mobilenet_v3"), preset="xavier-agx", limits=Limits(speed=2)))
    assert fast.compute_ms == pytest.approx(97.5)
    medium = limits_for(fast).medium
    assert medium is not None and medium.cost_s(122_000) == pytest.approx(0.45e-3, rel=0.01)


def test_an_unknown_preset_is_refused_with_the_known_ones():
    with pytest.raises(UsageError, match="xavier-agx"):
        as_board(Experiment(Workload("lenet5"), preset="toaster"))


def test_lighter_pictures_at_a_speed_take_what_photographs_take_on_the_board():
    def share(**limits):
        experiment = Experiment(Workload("mobilenet_v3"), preset="xavier-nx", limits=Limits(**limits))
        return as_board(experiment, image_s=lambda width, height: 1e-8 * width * height).limits.cpu_share

    # A quarter of the pixels at four times the speed: the core is slowed as much as before.
    assert share(speed=4, picture="400x300") == pytest.approx(share())
    assert share(speed=2) == pytest.approx(2 * share())
    with pytest.raises(UsageError, match="400x300"):
        share(picture="large")
