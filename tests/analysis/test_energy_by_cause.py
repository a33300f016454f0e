"""Stalls much shorter than the sensor's refresh are given their energy, with a ± that holds; or none is claimed."""

import dataclasses

import numpy as np
import pytest

from edgetrain.analysis.breakdown import break_down
from edgetrain.analysis.energy import Power
from edgetrain.analysis.energy_by_cause import split_energy, waiting_times
from edgetrain.record import ArrayTable, BaseloadWindow, Manifest, Run

IDLE_W, STALL_W, COMPUTE_W = 80.0, 120.0, 300.0


def world(
    stall_ms,
    step_ms,
    minibatches=300,
    seed=0,
    vary=0.2,
    fill_s=0.6,
    lag_s=0.0,
    counter=True,
    refresh_s=0.1,
    noise_w=1.0,
    rest_s=0.0,
):
    """Return parts, power and baseload of a training whose power is known at every instant."""
    draw = np.random.default_rng(seed)
    at, asked, ready, done = 10.0, [], [], []
    levels = [(0.0, IDLE_W), *([(at - rest_s, STALL_W)] if rest_s else [])]
    for number in range(minibatches):
        asked.append(at)
        wait = stall_ms / 1e3 * (1 + vary * draw.uniform(-1, 1)) + (fill_s if number == 0 else 0.0)
        levels.append((at, STALL_W))
        at += wait
        ready.append(at)
        levels.append((at, COMPUTE_W))
        at += step_ms / 1e3 * (1 + 0.02 * draw.standard_normal())
        done.append(at)
    levels.append((at, IDLE_W))
    instants = np.array([begin for begin, _ in levels] + [at + 2])
    watts = np.array([level for _, level in levels])
    joules = np.concatenate([[0.0], np.cumsum(watts * np.diff(instants))])
    columns = {"asked_us": asked, "ready_us": ready, "done_us": done, "launched_us": done}
    table = {name: np.round(np.array(values) * 1e6).astype(np.int64) for name, values in columns.items()}
    for name in ("epoch", "generation", "loader"):
        table[name] = np.zeros(minibatches, np.int64)
    table["phase"] = np.ones(minibatches, np.int64)
    reads = np.arange(1.0, at + 1, refresh_s) + draw.uniform(0, 0.004, len(np.arange(1.0, at + 1, refresh_s)))
    counted = np.interp(reads - lag_s, instants, joules)
    mean_w = np.diff(counted, prepend=counted[0] - IDLE_W * refresh_s) / np.diff(reads, prepend=reads[0] - refresh_s)
    noise_j = np.cumsum(draw.normal(0, noise_w * refresh_s, len(reads)))
    counted, mean_w = counted + noise_j, mean_w + draw.normal(0, noise_w, len(reads))
    empty = np.zeros(0)
    power = Power(reads, mean_w, reads if counter else empty, counted if counter else empty, refresh_s, 0.1, "gpu")
    stall_s = sum(r - a for a, r in zip(asked, ready, strict=True))
    return (
        break_down(ArrayTable(table)),
        power,
        BaseloadWindow(2_000_000, int((9.5 - rest_s) * 1e6)),
        stall_s * (STALL_W - IDLE_W),
    )


@pytest.mark.parametrize("counter", [True, False])
@pytest.mark.parametrize("stall_ms", [20, 60, 200])
@pytest.mark.parametrize("step_ms", [30, 150])
def test_the_energy_of_short_stalls_lies_within_its_error(stall_ms, step_ms, counter):
    parts, power, baseload, truth_j = world(stall_ms, step_ms, counter=counter)
    split, reason = split_energy(parts, power, IDLE_W, baseload)
    assert reason is None
    assert abs(split.stall_j - truth_j) <= split.pm_j
    assert split.pm_j <= 0.2 * (split.stall_j + split.compute_j + split.baseload_j)


def test_a_sensor_that_shows_power_late_is_understood():
    parts, power, baseload, truth_j = world(150, 100, lag_s=0.1)
    split, _ = split_energy(parts, power, IDLE_W, baseload)
    assert abs(split.stall_j - truth_j) <= split.pm_j


def test_parts_sum_to_the_energy_of_the_run():
    parts, power, baseload, _ = world(60, 60)
    split, _ = split_energy(parts, power, IDLE_W, baseload)
    whole_j = float(np.interp(parts.done_us[-1] / 1e6, power.counter_at_s, power.counter_j)) - float(
        np.interp(parts.begin_us[0] / 1e6, power.counter_at_s, power.counter_j)
    )
    assert split.stall_j + split.compute_j + split.baseload_j == pytest.approx(whole_j)


def test_nothing_is_claimed_where_every_reading_holds_the_same_share_of_stall():
    parts, power, baseload, _ = world(2, 2, minibatches=8000, vary=0.0, fill_s=0.0, refresh_s=1.0, noise_w=3.0)
    split, reason = split_energy(parts, power, IDLE_W, baseload)
    assert split is None
    assert "share of stalls" in reason


def test_too_few_readings_are_named_with_the_number_that_is_needed():
    parts, power, baseload, _ = world(100, 100, minibatches=5)
    split, reason = split_energy(parts, power, IDLE_W, baseload)
    assert split is None
    assert "20 are needed" in reason


def test_a_gpu_that_waits_before_the_training_shows_what_its_stalls_draw():
    parts, power, baseload, truth_j = world(20, 20, minibatches=250, vary=0.0, fill_s=0.0, refresh_s=0.7, rest_s=4.0)
    assert split_energy(parts, power, IDLE_W, baseload)[0] is None  # every reading holds the same share of stall
    split, reason = split_energy(parts, power, IDLE_W, baseload, [(6.0, 10.0)])
    assert reason is None
    assert abs(split.stall_j - truth_j) <= split.pm_j
    assert split.pm_j <= 0.2 * (split.stall_j + split.compute_j + split.baseload_j)


def test_a_gpu_waits_where_the_process_holds_its_memory_and_it_does_nothing():
    parts, *_ = world(100, 100, minibatches=10)
    at_s = np.arange(0.0, 16.0)
    gpu = {
        "at_us": (at_s * 1e6).astype(np.int64),
        "gpu_memory_bytes": np.where(at_s < 5, 0.5e9, 2e9),
        "gpu_share": np.where((at_s >= 10) & (at_s <= 12), 0.5, np.where(at_s == 8, 0.3, 0.0)),
    }
    manifest = Manifest(baseload=BaseloadWindow(1_000_000, 4_000_000))
    run = Run("x", manifest, probes={"gpu": ArrayTable(gpu)})
    # Busy from 7 to 8, training from 10 to about 12.6.
    assert waiting_times(run, parts) == [(5.0, 7.0), (8.0, 9.0), (13.0, 15.0)]
    assert waiting_times(dataclasses.replace(run, probes={}), parts) == []
