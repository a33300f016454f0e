"""One simulated epoch: laws that hold for any pipeline."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from edgetrain.prediction import (
    Budget,
    DatasetOnMedium,
    HandOver,
    PipelineCosts,
    PipelineSetting,
    StepCosts,
    StepKind,
    simulate_epoch,
)
from edgetrain.schema import StorageModel

SD = StorageModel("sd", read_s=7.2e-3, bytes_per_s=88e6)
PICTURES = DatasetOnMedium(2.8e9, 23_080, 23_080)
FREE = HandOver(0.0, 0.0, 0.0, 0.0)
WHOLE = Budget(10**9, 10**9)


def costs(fetch_s=0.070, step_s=0.030, kind=StepKind.PACED, hand_over=FREE, in_loop=False, **step):
    return PipelineCosts(
        batch_size=16,
        fetch_cpu_s=np.full(50, fetch_s),
        fetch_wait_s=np.zeros(50),
        fetch_fixed_s=0.0,
        cold_cpu_s=1e-3,
        collate_s=fetch_s / 10,
        hand_over=hand_over,
        step=StepCosts(kind, np.full(50, step_s), **step),
        fork_s=0.0,
        worker_start_s=0.0,
        in_loop=in_loop,
    )


def setting(workers=1, samples=1600, cores=8.0, **more):
    return PipelineSetting(workers, 2, 16, samples, cores, **more)


def test_parts_sum_to_the_whole():
    found = simulate_epoch(setting(2, dataset=PICTURES, medium=SD), costs(), 0)
    parts = found.stall_s + found.compute_s + found.copy_s + found.overhead_s
    assert parts == pytest.approx(found.e2e_s)


def test_without_workers_fetch_and_step_follow_each_other():
    found = simulate_epoch(setting(0), costs(in_loop=True), 1)
    assert found.e2e_s == pytest.approx(100 * (0.070 + 0.030), rel=1e-6)
    assert found.stall_s == pytest.approx(100 * 0.070, rel=1e-6)


def test_one_worker_is_as_slow_as_the_slower_of_fetch_and_step():
    fetching = simulate_epoch(setting(1), costs(0.070, 0.030), 1)
    computing = simulate_epoch(setting(1), costs(0.020, 0.030), 1)
    assert fetching.e2e_s == pytest.approx(100 * 0.070 + 0.030, rel=0.01)
    assert computing.e2e_s == pytest.approx(100 * 0.030 + 0.020, rel=0.01)


def test_more_workers_never_hurt_where_cores_are_plenty_and_the_hand_over_is_free():
    times = [simulate_epoch(setting(workers, cores=64.0), costs(), 1).e2e_s for workers in (0, 1, 2, 3, 4)]
    for fewer, more in pairwise(times):
        assert more <= 1.01 * fewer
    assert times[-1] == pytest.approx(100 * 0.030, rel=0.1)


def test_workers_beyond_the_cores_bring_nothing():
    two, four = (simulate_epoch(setting(workers, cores=2.0), costs(), 1).e2e_s for workers in (2, 4))
    assert four >= 0.98 * two


def test_workers_hurt_a_step_that_is_shorter_than_the_hand_over():
    slow = HandOver(0.3e-3, 1.2e-3, 0.1e-3, 0.1e-3)
    quick = costs(0.0005, 0.002, hand_over=slow)
    assert simulate_epoch(setting(1), quick, 1).e2e_s > 1.2 * simulate_epoch(setting(0), quick, 1).e2e_s


def test_a_step_on_the_cpu_slows_down_when_workers_take_its_core():
    alone = simulate_epoch(setting(0, cores=1.0), costs(0.03, 0.05, StepKind.CPU), 1)
    beside = simulate_epoch(setting(1, cores=1.0), costs(0.03, 0.05, StepKind.CPU), 1)
    assert beside.compute_s > 1.3 * alone.compute_s
    assert beside.e2e_s == pytest.approx(alone.e2e_s, rel=0.12)


def test_a_cold_epoch_waits_for_the_medium_and_a_later_one_does_not():
    cold = simulate_epoch(setting(0, dataset=replace_samples(1600), medium=SD), costs(), 0)
    warm = simulate_epoch(setting(0, dataset=replace_samples(1600), medium=SD), costs(), 1)
    assert cold.missed_share == 1.0
    assert warm.missed_share == 0.0
    per_image = SD.read_s + PICTURES.sample_bytes / SD.bytes_per_s + 1e-3
    assert cold.e2e_s - warm.e2e_s == pytest.approx(1600 * per_image, rel=0.02)


def replace_samples(samples):
    return DatasetOnMedium(PICTURES.sample_bytes * samples, samples, samples)


def test_two_workers_on_one_medium_gain_less_than_twice():
    one, two = (
        simulate_epoch(setting(workers, dataset=replace_samples(1600), medium=SD), costs(), 0).e2e_s
        for workers in (1, 2)
    )
    assert one / two < 1.7


def test_a_page_cache_for_half_the_dataset_serves_far_less_than_half_of_it():
    half = setting(0, dataset=replace_samples(1600), medium=SD, cache_bytes=0.5 * 1600 * PICTURES.sample_bytes)
    assert simulate_epoch(half, costs(), 1).missed_share > 0.8
    kept = replace(half, never_evicts=True)
    assert simulate_epoch(kept, costs(), 1).missed_share == pytest.approx(0.5, abs=0.05)
    quarter = replace(kept, samples=400)  # of the dataset: what no epoch has read yet cannot be in a cache
    assert simulate_epoch(quarter, costs(), 1).missed_share == pytest.approx(0.75, abs=0.05)


def test_part_of_an_epoch_stands_for_all_of_it():
    whole = setting(2, samples=23_080, dataset=PICTURES, medium=SD, cache_bytes=1.4e9)
    for epoch in (0, 1):
        exact = simulate_epoch(whole, costs(), epoch, budget=WHOLE)
        assert simulate_epoch(whole, costs(), epoch).e2e_s == pytest.approx(exact.e2e_s, rel=0.02)


def test_an_accelerator_computes_while_the_loop_fetches():
    found = simulate_epoch(setting(0), costs(0.02, 0.03, StepKind.ACCELERATOR, launch_s=0.002, ahead=1), 1)
    assert found.e2e_s == pytest.approx(100 * 0.03, rel=0.05)
    waiting = simulate_epoch(setting(0), costs(0.02, 0.03, StepKind.ACCELERATOR, launch_s=0.002, ahead=0), 1)
    assert waiting.e2e_s == pytest.approx(100 * 0.05, rel=0.05)


def test_a_launch_bound_step_takes_as_long_as_issuing_it():
    found = simulate_epoch(setting(1), costs(0.001, 0.002, StepKind.ACCELERATOR, launch_s=0.010, ahead=1), 1)
    assert found.e2e_s == pytest.approx(100 * 0.010, rel=0.05)
    faster = simulate_epoch(
        setting(1, cpu_speed=2.0), costs(0.001, 0.002, StepKind.ACCELERATOR, launch_s=0.010, ahead=1), 1
    )
    assert faster.e2e_s == pytest.approx(found.e2e_s / 2, rel=0.05)


def test_a_batch_twice_as_large_halves_what_is_paid_per_minibatch():
    slow = HandOver(0.3e-3, 1.0e-3, 0.0, 0.0)
    base, larger = setting(1), replace(setting(1), batch_size=32)
    one = simulate_epoch(base, costs(0.001, 0.003, hand_over=slow), 1)
    two = simulate_epoch(larger, costs(0.001, 0.003, hand_over=slow), 1)
    assert two.stall_s == pytest.approx(one.stall_s / 2, rel=0.2)


def test_workers_that_are_not_kept_start_again_in_each_epoch():
    slow_start = replace(costs(0.01, 0.03), fork_s=0.1, worker_start_s=1.0)
    kept = simulate_epoch(setting(1), slow_start, 1)
    started = simulate_epoch(setting(1, persistent=False), slow_start, 1)
    assert started.e2e_s - kept.e2e_s == pytest.approx(1.1, rel=0.05)


def test_page_locked_memory_halves_the_copy_and_lets_the_loop_run_ahead():
    plain = costs(0.025, 0.02, StepKind.ACCELERATOR, launch_s=0.001, copy_s=0.01, ahead=1)
    found = simulate_epoch(setting(0), plain, 1)
    pinned = simulate_epoch(setting(0, pin_memory=True), plain, 1)
    assert found.copy_s == pytest.approx(100 * 0.01, rel=0.05)
    assert pinned.copy_s == pytest.approx(100 * 0.005, rel=0.05)
    assert pinned.e2e_s < found.e2e_s


def test_the_pinning_thread_takes_the_interpreter_from_a_loop_that_is_busy_issuing_kernels():
    slow = HandOver(0.0, 1.0e-3, 0.0, 0.0)
    launching = costs(0.0005, 0.0005, StepKind.ACCELERATOR, slow, launch_s=0.002, ahead=1)
    plain, pinned = (simulate_epoch(setting(2, pin_memory=pin), launching, 1).e2e_s for pin in (False, True))
    assert plain == pytest.approx(100 * 0.003, rel=0.1)
    assert pinned == pytest.approx(100 * 0.003, rel=0.1)
    computing = costs(0.0005, 0.010, StepKind.ACCELERATOR, slow, launch_s=0.002, ahead=1)
    assert simulate_epoch(setting(2, pin_memory=True), computing, 1).e2e_s == pytest.approx(100 * 0.010, rel=0.05)


@pytest.mark.parametrize(("copy_s", "at_four_times_the_size_s"), [(0.1e-3, 0.1e-3), (20e-3, 79.55e-3)])
def test_a_small_copy_takes_the_same_for_any_batch_size(copy_s, at_four_times_the_size_s):
    copying = costs(0.001, 0.002, StepKind.ACCELERATOR, copy_s=copy_s)
    large = PipelineSetting(0, 2, 64, 100 * 64, 8.0)
    assert simulate_epoch(large, copying, 1).copy_s == pytest.approx(100 * at_four_times_the_size_s, rel=0.01)


@pytest.mark.parametrize("workers", [0, 1, 3, 8])
def test_the_same_seed_gives_the_same_epoch(workers):
    asked = setting(workers, dataset=PICTURES, medium=SD, cores=2.0)
    assert simulate_epoch(asked, costs(), 0, seed=3) == simulate_epoch(asked, costs(), 0, seed=3)


def test_the_first_steps_of_a_training_take_longer_once():
    slow = costs(0.01, 0.03, StepKind.ACCELERATOR, warm_up_s=2.0)
    first, later = simulate_epoch(setting(1), slow, 0), simulate_epoch(setting(1), slow, 1)
    assert first.compute_s - later.compute_s == pytest.approx(2.0, rel=0.01)


def test_a_first_epoch_after_a_warm_start_reads_what_the_page_cache_could_not_hold():
    half = setting(0, dataset=replace_samples(1600), medium=SD, cache_bytes=0.5 * 1600 * PICTURES.sample_bytes)
    first, later = simulate_epoch(half, costs(), 0, unread=0.0), simulate_epoch(half, costs(), 1)
    assert first.missed_share == pytest.approx(later.missed_share, abs=0.02)
    assert first.missed_share > 0.8
    assert simulate_epoch(replace(half, cache_bytes=None), costs(), 0, unread=0.0).missed_share == 0.0


def test_a_later_epoch_of_part_of_the_dataset_is_the_mean_of_those_that_the_training_has():
    quarter = setting(0, samples=400, dataset=replace_samples(1600), medium=SD)
    expected = np.mean([0.75**epoch for epoch in range(1, 5)])
    found = simulate_epoch(replace(quarter, epochs=5), costs(), 1)
    assert found.missed_share == pytest.approx(expected, abs=0.01)
    assert simulate_epoch(replace(quarter, epochs=2), costs(), 1).missed_share == pytest.approx(0.75, abs=0.01)
    assert simulate_epoch(replace(quarter, epochs=5), costs(), 1, unread=0.0).missed_share == 0.0
