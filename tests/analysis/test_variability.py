"""How much runs of one setting differ: over time, between units, between software versions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from edgetrain.analysis import MeasureVariability, UnitEpoch, UnitRun, summarize, unit_run, variability
from edgetrain.analysis.drift import TimedRun, common_slope, unit_slope
from edgetrain.analysis.outliers import outliers
from edgetrain.analysis.sample_size import needed
from edgetrain.analysis.variance import nested_squares, time_component, unit_component
from edgetrain.device import open_simulated
from edgetrain.device.simulated.physics import unit_factors
from edgetrain.record import MemoryStore
from edgetrain.runner import simulate_run
from edgetrain.schema import Origin, build_experiment
from edgetrain.student import quantile


def made(unit: str | None, times_ms: Sequence[float], number: int = 0, **more: object) -> UnitRun:
    """Return a run of a unit with these minibatch times, one per epoch, 600 s apart."""
    epochs = tuple(UnitEpoch(time / 1e3, time / 1e2, 600.0 * place) for place, time in enumerate(times_ms))
    started_s = 1e9 + 10_000 * number
    known = UnitRun(
        f"{unit}-{number}", unit, "nano", "L4T 32", {"network": "lenet5"}, Origin.MEASURED, started_s, 9000.0, epochs
    )
    return replace(known, **more)


def drawn_fleet(units: int, runs: int, between: float, within: float, seed: int = 0) -> list[UnitRun]:
    draw = np.random.default_rng(seed)
    found = []
    for unit in range(units):
        factor = math.exp(between * draw.standard_normal())
        for run in range(runs):
            own = factor * math.exp(within * draw.standard_normal())
            found.append(
                made(f"u{unit}", [100 * own * math.exp(0.002 * draw.standard_normal()) for _ in range(3)], run)
            )
    return found


def time_of(runs: Sequence[UnitRun], difference: float = 0.01) -> MeasureVariability:
    (setting,) = variability(runs, difference=difference).settings
    return setting.measures[0]


def kinds(found: MeasureVariability) -> set[str]:
    return {doubt.kind for doubt in found.doubts}


@pytest.mark.parametrize("planted", [0.01, 0.05, 0.08])
def test_intervals_of_the_spread_between_units_contain_the_truth_about_as_often_as_they_say(planted: float) -> None:
    inside = 0
    for seed in range(100):
        seen = time_of(drawn_fleet(8, 3, planted, 0.01, seed)).between_units
        assert seen is not None
        inside += seen.lo <= planted <= seen.hi
    assert inside >= 85


def test_heavy_tailed_units_widen_the_interval() -> None:
    light = np.asarray([-1.5, -1.2, -0.8, -0.3, 0.3, 0.8, 1.2, 1.5]) / 50
    heavy = np.asarray([-0.2, -0.1, 0.0, 0.0, 0.1, 0.1, 0.2, 3.0]) / 50
    widths = []
    for means in (light, heavy):
        scaled = means / means.std()
        runs = [[np.asarray([mean]), np.asarray([mean + 1e-3])] for mean in scaled]
        seen = unit_component(nested_squares(runs))
        assert seen is not None
        widths.append(seen.hi / seen.value)
    assert widths[1] > widths[0]


def test_components_add_up_to_the_spread_of_single_epochs() -> None:
    draw = np.random.default_rng(3)
    runs = [[draw.normal(0, 0.02) + 0.01 * draw.standard_normal(20) for _ in range(50)] for _ in range(4)]
    seen = time_component(nested_squares(runs))
    assert seen is not None
    assert seen.value == pytest.approx(math.hypot(0.02, 0.01), rel=0.1)
    assert seen.lo < seen.value < seen.hi


def test_units_with_unequal_numbers_of_runs_are_compared_by_their_means() -> None:
    runs = drawn_fleet(10, 4, 0.05, 0.002, 5)
    fewer = [run for run in runs if run.unit in ("u0", "u1") or not run.run.endswith("-3")]
    every, some = (time_of(each).between_units for each in (runs, fewer))
    assert every is not None and some is not None
    assert some.value == pytest.approx(every.value, rel=0.1)


def test_a_unit_that_lies_apart_is_named_and_the_spread_is_given_without_it() -> None:
    runs = drawn_fleet(9, 3, 0.01, 0.003, 1)
    slow = [made("slow", [130.0, 131.0, 129.5], number) for number in range(3)]
    found = time_of([*runs, *slow])
    assert found.outliers == ("slow",)
    assert [unit.unit for unit in found.by_unit if unit.outlier] == ["slow"]
    assert found.between_units is not None and found.between_units_without_outliers is not None
    assert found.between_units_without_outliers.hi < found.between_units.value


def test_two_units_that_lie_apart_do_not_hide_each_other() -> None:
    values = np.asarray([*np.linspace(-0.01, 0.01, 10), 0.2, 0.21])
    assert sorted(outliers(values)) == [10, 11]


def test_a_unit_is_seldom_named_where_all_are_alike() -> None:
    draw = np.random.default_rng(0)
    named = sum(bool(outliers(draw.standard_normal(10))) for _ in range(400))
    assert named <= 0.08 * 400


def test_drift_is_found_with_its_interval() -> None:
    draw = np.random.default_rng(2)
    hours = np.arange(90) / 6
    slopes = [unit_slope([TimedRun(hours, 0.002 * hours + 0.003 * draw.standard_normal(90))]) for _ in range(5)]
    known = [slope for slope in slopes if slope is not None]
    assert len(known) == 5
    common = common_slope(known)
    assert common is not None
    lo, hi = common.bounds(0.9)
    assert lo < 0.002 < hi and hi - lo < 0.001


def test_drift_is_seen_between_runs_made_hours_apart() -> None:
    runs = [made("a", [100.0 * 1.01**number] * 2, number) for number in range(6)]
    found = time_of(runs)
    assert found.drift_per_h is not None
    # Runs begin 10,000 s apart and each is 1 % slower.
    assert found.drift_per_h.value == pytest.approx(1.01 ** (3600 / 10_000) - 1, rel=0.02)


def test_runs_too_short_for_drift_say_so() -> None:
    runs = [replace(made("a", [100, 101, 99], 0), epochs=tuple(UnitEpoch(0.1, None, 1.0 * n) for n in range(3)))]
    found = time_of(runs)
    assert found.drift_per_h is None and "short_span" in kinds(found)


def test_software_on_the_same_units_is_compared_unit_by_unit() -> None:
    draw = np.random.default_rng(4)
    runs = []
    for unit in range(5):
        factor = math.exp(0.05 * draw.standard_normal())
        for number, (software, slower) in enumerate((("L4T 32", 1.0), ("L4T 35", 1.1)) * 2):
            times = [100 * factor * slower * math.exp(0.003 * draw.standard_normal()) for _ in range(2)]
            runs.append(made(f"u{unit}", times, number, software=software))
    found = time_of(runs)
    (change,) = found.software
    assert change.same_units and change.lo is not None and change.hi is not None
    assert change.lo < 0.1 < change.hi and change.hi - change.lo < 0.02
    assert found.between_software is not None
    assert found.between_software.lo < math.log(1.1) / math.sqrt(2) < found.between_software.hi
    # Its effect is removed before units are compared.
    assert found.between_runs is not None and found.between_runs.hi < 0.02


def test_software_that_ran_on_one_other_unit_only_is_not_judged() -> None:
    runs = [made("a", [100, 101], n) for n in range(2)] + [
        made("b", [120, 121], n, software="L4T 35") for n in range(2)
    ]
    found = time_of(runs)
    assert found.software[0].lo is None and found.between_software is None
    assert "software_and_unit" in kinds(found)


def test_a_promised_sample_size_shows_the_difference_four_times_of_five() -> None:
    count = needed(0.02, 0.03)
    draw = np.random.default_rng(0)
    a, b = draw.normal(0, 0.02, (2000, count)), draw.normal(math.log1p(0.03), 0.02, (2000, count))
    deviation = np.sqrt((a.var(axis=1, ddof=1) + b.var(axis=1, ddof=1)) / count)
    seen = np.abs(b.mean(axis=1) - a.mean(axis=1)) / deviation > quantile(0.975, 2 * count - 2)
    assert 0.76 < seen.mean() < 0.9


def test_fewer_runs_show_a_larger_difference() -> None:
    runs = drawn_fleet(6, 4, 0.05, 0.01)
    sizes = [time_of(runs, difference).sample_size for difference in (0.01, 0.05)]
    assert sizes[0].runs is not None and sizes[1].runs is not None and sizes[0].runs > sizes[1].runs
    assert sizes[0].units is not None and sizes[0].units > sizes[0].runs  # units differ more than runs


def test_one_unit_leaves_the_spread_between_units_open() -> None:
    found = time_of([made("a", [100, 101, 102], number) for number in range(3)])
    assert found.between_units is None and found.sample_size.units is None and "one_unit" in kinds(found)
    assert found.between_runs is not None


def test_one_run_per_unit_is_a_doubt() -> None:
    found = time_of([made(f"u{unit}", [100 + unit, 101 + unit]) for unit in range(5)])
    assert found.between_units is not None and found.between_runs is None and found.sample_size.runs is None
    assert "one_run_per_unit" in kinds(found)


def test_only_like_is_compared_with_like() -> None:
    runs = drawn_fleet(3, 2, 0.01, 0.01)
    slower = [replace(run, setting={"network": "resnet18"}) for run in runs]
    other_mode = [replace(run, setting={"network": "lenet5", "power_mode": "low"}) for run in runs]
    other_board = [replace(run, board="orin-agx") for run in runs]
    report = variability([*runs, *slower, *other_mode, *other_board])
    assert len(report.settings) == 4
    assert all(len(setting.run_ids) == 6 for setting in report.settings)


def test_a_unit_without_power_is_named_and_missing_from_energy_only() -> None:
    runs = drawn_fleet(4, 2, 0.02, 0.01)
    blind = [
        replace(run, energy_reason="no sensor", epochs=tuple(replace(epoch, energy_j=None) for epoch in run.epochs))
        if run.unit == "u1"
        else run
        for run in runs
    ]
    (setting,) = variability(blind).settings
    time, energy = setting.measures
    assert time.units == 4 and energy.units == 3
    assert any(
        doubt.kind == "no_energy" and "u1" in doubt.text and "no sensor" in doubt.text for doubt in setting.doubts
    )


def test_runs_without_a_unit_are_left_out_where_others_have_one() -> None:
    runs = drawn_fleet(3, 2, 0.02, 0.01)
    report = variability([*runs, made(None, [100, 101], 9)])
    assert any("unit is not recorded" in text for text in report.left_out)
    assert len(report.settings[0].run_ids) == 6


def test_runs_that_all_lack_a_unit_are_taken_as_one_with_a_doubt() -> None:
    (setting,) = variability([made(None, [100, 101], number) for number in range(3)]).settings
    assert setting.measures[0].units == 1
    assert any(doubt.kind == "unit_unknown" for doubt in setting.doubts)


def test_a_single_short_run_is_left_out_with_its_reason() -> None:
    report = variability([made("a", [100, 101])])
    assert not report.settings and "only run of its setting" in report.left_out[0]


def test_recorded_runs_of_simulated_units_show_the_planted_factors(tmp_path: Path) -> None:
    store = MemoryStore()
    runs = []
    for unit in range(1, 6):
        device = open_simulated(f"xavier-nx?unit={unit}&spread=8", tmp_path / f"unit{unit}")
        for number in range(2):
            settings = {
                "network": "resnet18_cifar_gn",
                "epochs": 3,
                "minibatches": 20,
                "baseload_s": 0,
                "cache": "warm",
            }
            run = store.open(simulate_run(build_experiment(settings, repeat=number), device, store))
            runs.append(unit_run(run, summarize(run)))
    (setting,) = variability(runs).settings
    time, energy = setting.measures
    planted = np.asarray([math.log(unit_factors("xavier-nx", unit, 0.08)[0]) for unit in range(1, 6)])
    seen = np.asarray([math.log1p(unit.deviation) for unit in time.by_unit])
    assert np.corrcoef(planted, seen)[0, 1] > 0.97
    assert time.between_units is not None and time.between_units.lo < 0.08 < time.between_units.hi
    assert energy.units == 5 and setting.origin is Origin.SIMULATED
    # Runs of different units have noise of their own.
    assert len({round(run.epochs[0].time_s / run.epochs[1].time_s, 6) for run in runs}) == len(runs)
