from dataclasses import fields

import numpy as np
import pytest

from edgetrain.analysis import EpochSummary, MinibatchTimes, PowerSummary, Summary
from edgetrain.errors import UsageError
from edgetrain.recommendation.profiled import ProfiledModes
from edgetrain.recommendation.records import measurements_from, power_mode_of, stall_times
from edgetrain.record import PowerModeRecord
from edgetrain.schema import Origin, PowerMode

MODE = PowerMode(8, 1_728_000_000, 612_750_000, 3_199_000_000)
OTHER = PowerMode(4, 10**9)


def blank(kind, **known):
    """Return a dataclass with the fields given, all others None."""
    return kind(**{item.name: known.get(item.name) for item in fields(kind)})


def epoch(number, stall_s, compute_s):
    return blank(EpochSummary, epoch=number, minibatches=10, fetch_stall_s=stall_s, compute_s=compute_s)


def summary(mode=MODE, median_ms=100.0, power=20.0, origin=Origin.MEASURED, **more):
    known = {
        "run": "r",
        "origin": origin,
        "power_mode": PowerModeRecord(mode, mode),
        "minibatch": MinibatchTimes(median_ms, median_ms * 1.1),
        "power_w": PowerSummary(power, power),
        "epochs": (epoch(0, 9.0, 1.0), epoch(1, 1.0, 2.0)),
    }
    return blank(Summary, **(known | more))


@pytest.mark.parametrize(
    "recorded",
    [
        PowerModeRecord(MODE),
        PowerModeRecord(None, MODE, MODE),
        PowerModeRecord(OTHER, PowerMode(8, 1_728_000_000, 612_750_000, 3_199_000_000, "50W")),
    ],
)
def test_the_mode_of_a_run_is_what_was_read_back_else_what_was_requested(recorded):
    assert power_mode_of(summary(power_mode=recorded)) == MODE


def test_a_run_without_mode_or_power_is_not_a_measurement():
    runs = [summary(power=None), summary(power_mode=None)]
    assert measurements_from(runs) == []
    with pytest.raises(
        UsageError, match="c has 0 usable power modes, and at least 2 are needed: 2 of 2 runs are left out"
    ):
        ProfiledModes.of_runs("c", runs)


def test_repeats_are_averaged_and_carry_the_weakest_origin():
    (found,) = measurements_from([summary(median_ms=90), summary(median_ms=110, origin=Origin.SIMULATED, temp_c=50.0)])
    assert found.time_s == pytest.approx(0.1) and found.time_mean_s == pytest.approx(0.11)
    assert found.origin is Origin.SIMULATED and found.temp_c == 50.0


def test_stalls_are_those_of_warm_epochs_in_the_order_of_the_measurements_and_nan_where_not_known():
    runs = [summary(), summary(mode=OTHER, epochs=()), summary(epochs=(epoch(0, None, 4.0),))]
    stalls = stall_times(runs)
    assert stalls.fetch_stall_s[0] == pytest.approx(0.1) and stalls.compute_s[0] == pytest.approx(0.3)
    assert np.isnan(stalls.fetch_stall_s[1]) and np.isnan(stalls.compute_s[1])
    assert [found.mode for found in measurements_from(runs)] == [MODE, OTHER]


def test_runs_of_a_board_without_gpu_clock_keep_their_modes_and_the_least_baseload():
    runs = [summary(OTHER, baseload_w=5.0), summary(PowerMode(2, 10**9), baseload_w=4.0)]
    found = ProfiledModes.of_runs("c", runs)
    assert found.baseload_w == 4.0 and np.isnan(found.table.gpu_hz).all()
    assert [found.table.mode(row) for row in range(2)] == [OTHER, PowerMode(2, 10**9)]
