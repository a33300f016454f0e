"""`predict`, `plan_modes` and `evaluate` as a program calls them."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from edgetrain.api.evaluation import evaluate
from edgetrain.api.prediction import plan_modes, predict, profile_until
from edgetrain.api.sensitivities import sensitivity
from edgetrain.errors import UsageError
from edgetrain.prediction import ModeTable
from edgetrain.schema import Estimate, ModeMeasurement, Origin, PowerMode


def test_one_mode_is_three_estimates_with_unit_and_origin(files):
    predictor = predict(files.profiled, modes=files.modes)
    found = predictor.at(files.board.mode(40))
    for estimate, unit in ((found.time_s, "s"), (found.power_w, "W"), (found.energy_j, "J")):
        assert isinstance(estimate, Estimate) and estimate.unit == unit
        assert estimate.lo < estimate.value < estimate.hi and estimate.origin is Origin.PREDICTED
    assert found.energy_j.value == pytest.approx(found.time_mean_s.value * found.power_w.value)
    table = predictor.table()
    assert table.columns.time_ms[40] == pytest.approx(1e3 * found.time_s.value)
    assert table.columns.power_mw_hi[40] == pytest.approx(1e3 * found.power_w.hi)


def test_a_path_a_table_and_measurements_give_the_same(files):
    measurements = files.table.measurements(Origin.MEASURED)
    answers = [
        predict(each, modes=files.board).table().columns.power_mw
        for each in (str(files.profiled), files.profiled, files.table, measurements)
    ]
    for each in answers[1:]:
        assert each == pytest.approx(answers[0], rel=1e-4)


def test_the_modes_of_a_board_are_predicted_by_name_and_stock_modes_by_theirs(files):
    predictor = predict(files.profiled, board="orin-agx")
    table = predictor.table()
    assert table.board == "orin-agx" and table.modes == len(predictor.board) > 10_000
    assert predictor.at("MAXN").mode.cores == 12
    with pytest.raises(UsageError, match="stock modes: "):
        predictor.at("TURBO")


def test_a_table_becomes_a_data_frame(files):
    pandas = pytest.importorskip("pandas")
    frame = predict(files.profiled, modes=files.modes).table().to_pandas()
    assert isinstance(frame, pandas.DataFrame) and len(frame) == 96
    assert {"cores", "cpu_khz", "time_ms", "time_ms_lo", "power_mw_hi", "energy_mj", "extrapolated"} <= set(frame)
    assert "batch_size" not in frame and list(files.table.to_pandas()["cores"]) == files.table.cores.tolist()


def test_a_board_without_gpu_and_memory_clock_is_predicted_from_its_cpu_clock_alone():
    hertz = np.array([0.5e9, 1.0e9, 1.5e9, 2.0e9])
    modes = [PowerMode(cores, int(each)) for cores in (2, 4) for each in hertz]
    seen = [
        ModeMeasurement(mode, 0.2e9 / mode.cpu_hz / mode.cores, 3.0 + mode.cores * mode.cpu_hz / 1e9, Origin.MEASURED)
        for mode in modes
    ]
    predictor = predict(seen[::2], modes=modes)
    found = predictor.at(modes[1])
    assert found.mode.gpu_hz is None and found.time_s.value == pytest.approx(seen[1].time_s, rel=0.3)
    assert "gpu_hz" not in predictor.csv().splitlines()[0]
    planned = plan_modes(candidates=modes, count=3)
    assert all(each.gpu_hz is None and "GPU" not in each.mode for each in planned.modes)


def test_a_profile_that_does_not_give_a_clock_which_the_board_varies_is_refused(files):
    table = files.table
    blind = ModeTable(
        table.cores, table.cpu_hz, np.full(8, np.nan), table.emc_hz, None, table.time_s, None, table.power_w
    )
    with pytest.raises(UsageError, match="does not give the GPU clock"):
        predict(blind, board="orin-agx")


def test_a_plan_says_which_modes_in_which_order_at_what_cost(files):
    plan = plan_modes(candidates=files.modes, count=5)
    assert sorted(each.rank for each in plan.modes) == [1, 2, 3, 4, 5]
    assert plan.cost.training_min is None and plan.cost.switching_min > 0
    known = plan_modes(candidates=files.modes, count=2, profiled=files.profiled)
    assert known.cost.training_min > 0


def test_profiling_goes_on_until_the_error_is_low_enough(files, tmp_path):
    found = profile_until(0.08, candidates=files.modes, truth=files.truth, most=25, output=tmp_path / "got.csv")
    assert found.reached and found.origin == "replayed" and found.steps[-1].time_error <= 0.08
    assert len((tmp_path / "got.csv").read_text().splitlines()) == found.profiled + 1
    with pytest.raises(UsageError, match="--truth"):
        profile_until(0.08, candidates=files.modes)


def test_an_evaluation_has_the_figures_of_every_method(files):
    found = evaluate(files.truth, 6, 2, methods=("physics", "linear"), budgets_w=(7, 9))
    assert found.method == "physics" and found.time.mape.mean < found.baselines["linear"].time.mape.mean
    assert found.coverage90 is not None and found.baselines["linear"].coverage90 is None
    assert found.budgets is not None and found.budgets.limits == 6
    with pytest.raises(UsageError, match="no method"):
        evaluate(files.truth, 6, 2, methods=("magic",))


def test_sensitivity_of_profiled_and_of_predicted_modes(files):
    measured = sensitivity(files.truth)
    assert measured.modes == 96 and measured.origin is Origin.REPLAYED and measured.rules["time"] is not None
    assert sensitivity(files.profiled, modes=files.modes, predicted=True).origin is Origin.PREDICTED


WITHOUT = """
import importlib, sys
for name in ("torch", "torchvision", "sklearn", "pandas"):
    sys.modules[name] = None
for name in ("boards", "hardware", "evaluation", "measuring", "mode_plans", "prediction", "priors", "profiled",
             "recommendation", "sensitivities"):
    importlib.import_module(f"edgetrain.api.{name}")
from edgetrain.api.prediction import predict
from edgetrain.api.recommendation import recommend
path, modes = sys.argv[1:]
assert predict(path, modes=modes).table().modes == 96
assert recommend(path, modes=modes, max_power_w=9).best is not None
"""


def test_nothing_here_needs_torch_scikit_learn_or_pandas(files):
    command = [sys.executable, "-c", WITHOUT, str(files.profiled), str(files.modes)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
