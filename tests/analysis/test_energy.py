"""Energy: windows add up, a known power gives a known energy, and the ± covers what was thrown away."""

import numpy as np
import pytest

from edgetrain.analysis.energy import Power, energy, find_power, integral_j
from edgetrain.record import ArrayTable, Manifest, Run
from edgetrain.schema import PowerSource


def power_of(at_s, power_w, refresh_s=0.1, quantum_w=0.0, counter=None):
    none = np.zeros(0)
    at_s, power_w = np.asarray(at_s, float), np.asarray(power_w, float)
    counter_at, counter_j = (none, none) if counter is None else (at_s, np.asarray(counter, float))
    return Power(at_s, power_w, counter_at, counter_j, refresh_s, quantum_w, "board")


def test_neighbouring_windows_add_up():
    power = power_of([0, 1, 2, 3], [4.0, 9.0, 2.0, 7.0])
    whole = integral_j(power.at_s, power.power_w, 0, 3)
    parts = integral_j(power.at_s, power.power_w, 0, 1.3) + integral_j(power.at_s, power.power_w, 1.3, 3)
    assert parts == pytest.approx(whole)


def test_constant_power_gives_power_times_time_whatever_the_sampling():
    power = power_of([0, 0.5, 0.6, 3, 10], [5.0] * 5)
    found = energy(power, 1_000_000, 9_000_000)
    assert found is not None
    assert found.joules == pytest.approx(40.0)


def test_a_window_outside_the_samples_is_refused():
    assert energy(power_of([0, 1, 2], [5.0] * 3), 1_000_000, 9_000_000) is None


def test_the_plus_minus_covers_the_truth_of_a_quantised_and_slow_sensor():
    draw = np.random.default_rng(7)
    hits = 0
    for _ in range(200):
        fine = np.arange(0, 60, 0.001)
        watts = 20 + 5 * np.sin(2 * np.pi * fine / draw.uniform(3, 15)) + draw.uniform(-2, 2)
        at = np.arange(draw.uniform(0, 0.43), 60, 0.43)
        seen = np.round(np.interp(at, fine, watts) / 0.4) * 0.4
        start, stop = sorted(draw.uniform(2, 57, 2))
        if stop - start < 8:
            stop = start + 8 if start < 40 else start
            if stop == start:
                continue
        inside = (fine >= start) & (fine < stop)
        truth = float(watts[inside].sum() * 0.001)
        found = energy(power_of(at, seen, 0.43, 0.4), start * 1e6, stop * 1e6)
        hits += found is None or abs(found.joules - truth) <= found.pm_j
    assert hits >= 180


def test_the_counter_is_used_where_there_is_one():
    power = power_of([0, 1, 2, 3, 4], [5.0] * 5, counter=[0, 6, 12, 18, 24])
    found = energy(power, 1_000_000, 3_000_000)
    assert found is not None
    assert (found.joules, found.method) == (pytest.approx(12.0), "counter")


def test_repeated_readings_of_one_refresh_count_once():
    at_us = np.arange(0, 2_000_000, 100_000)
    watts = np.repeat([10.0, 20.0, 10.0, 20.0], 5)
    source = PowerSource("rails", ("total_w",), refresh_s=0.5)
    run = Run("r", Manifest(power=source), probes={"rails": ArrayTable({"at_us": at_us, "total_w": watts})})
    power, _ = find_power(run)
    assert power is not None
    assert len(power.at_s) == 5  # four refreshes, and the last instant


def test_no_sensor_is_said_and_not_zero():
    power, reason = find_power(Run("r", Manifest(power=None)))
    assert power is None
    assert "no power sensor" in reason
