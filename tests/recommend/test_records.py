import numpy as np
import pytest

from edgetrain.recommend.records import measurements_from, peak_1s_w, power_mode_of, stalls_from
from edgetrain.schema import Origin, PowerMode

MODE = PowerMode(8, 1_728_000_000, 612_750_000, 3_199_000_000)


def document(mode=MODE, median_ms=100.0, power=20.0, origin="measured", **more):
    return {
        "run": "r", "origin": origin, "power_mode": {"asked": str(mode), "start": str(mode)},
        "minibatch": {"median_ms": median_ms, "mean_ms": median_ms * 1.1}, "power_w": {"median": power, "mean": power},
        "epochs": [{"epoch": 0, "minibatches": 10, "fetch_stall_s": 9.0, "compute_s": 1.0},
                   {"epoch": 1, "minibatches": 10, "fetch_stall_s": 1.0, "compute_s": 2.0}],
    } | more  # fmt: skip


@pytest.mark.parametrize(
    "recorded",
    [
        str(MODE),
        {"asked": None, "start": str(MODE), "end": str(MODE)},
        {"asked": {"cores": 8, "cpu_hz": 1_728_000_000, "gpu_hz": 612_750_000, "emc_hz": 3_199_000_000}, "found": None},
        {"cores": 8, "cpu_hz": 1_728_000_000, "gpu_hz": 612_750_000, "emc_hz": 3_199_000_000},
    ],
)
def test_a_recorded_mode_is_read_however_it_was_written(recorded):
    assert power_mode_of({"power_mode": recorded}) == MODE


def test_a_run_without_mode_or_power_is_no_measurement():
    assert power_mode_of({"power_mode": None}) is None
    assert measurements_from([document(power_w={"median": None}), document(power_mode=None)]) == []


def test_repeats_are_averaged_and_carry_the_weakest_origin():
    found = measurements_from([document(median_ms=90), document(median_ms=110, origin="simulated")])
    assert len(found) == 1
    assert found[0].time_s == pytest.approx(0.1) and found[0].time_mean_s == pytest.approx(0.11)
    assert found[0].origin is Origin.SIMULATED


def test_stalls_are_those_of_warm_epochs_in_the_order_of_the_measurements():
    other = PowerMode(4, 10**9, 10**9, 10**9)
    documents = [document(), document(mode=other, epochs=[])]
    columns = stalls_from(documents)
    assert columns["fetch_stall_s"][0] == pytest.approx(0.1) and columns["compute_s"][0] == pytest.approx(0.2)
    assert np.isnan(columns["fetch_stall_s"][1])
    assert [m.mode for m in measurements_from(documents)] == [MODE, other]


def test_the_peak_is_the_largest_mean_over_one_second():
    at = np.arange(0, 10.01, 0.1)
    power = np.where((at >= 4) & (at < 4.5), 30.0, 10.0)
    assert peak_1s_w(at, power, 0, 10) == pytest.approx(20.0, abs=1.1)
    assert peak_1s_w(at, np.full_like(at, 10.0), 0, 10) == pytest.approx(10.0)
    assert peak_1s_w(at, power, 0, 0.5) is None
