"""`recommend` and `choose_device` as a program calls them."""

from __future__ import annotations

import pytest

from edgetrain.api.hardware import choose_device
from edgetrain.api.recommendation import MeasuringOptions, TrainingOptions, recommend
from edgetrain.errors import UsageError
from edgetrain.recommendation import explain
from edgetrain.schema import Origin


def test_the_best_mode_within_a_limit_with_the_probability_that_it_holds(files):
    found = recommend(files.profiled, modes=files.modes, max_power_w=9, prior="none")
    assert found.best is not None and found.best.holds["power"] >= 0.95
    assert found.best.power_w.unit == "W" and found.best.power_w.origin is Origin.PREDICTED
    assert found.from_.profiled == 8 and found.from_.modes == 96
    assert found.training is None and found.frontier is None and found.trail is None and found.applied is None
    assert any("runner-up" in sentence for sentence in explain(found))


def test_limits_may_carry_their_unit(files):
    plain = recommend(files.profiled, modes=files.modes, max_power_w=9.0)
    assert recommend(files.profiled, modes=files.modes, max_power_w="9000mW").best == plain.best


def test_a_program_measures_with_its_own_function(files):
    calls = []

    def measure(mode):
        calls.append(mode)
        row = next(row for row in range(len(files.board)) if files.board.mode(row) == mode)
        return files.board.measurement(row, Origin.MEASURED)

    options = MeasuringOptions(confirm=2, measure=measure)
    found = recommend(files.table, modes=files.board, max_power_w=9, measuring=options)
    assert len(calls) == len(found.trail) > 0 and found.confirmed
    assert found.best.power_w.value <= 9
    searched = recommend(modes=files.board, max_power_w=9, measuring=MeasuringOptions(search=6, measure=measure))
    assert searched.confirmed and searched.from_.profiled == 0


def test_questions_about_the_whole_training_are_answered(files):
    training = TrainingOptions(cold_epoch_s="20min", baseload_w=4.0, period_s="24h", between_w=1.5, battery_wh=50)
    found = recommend(
        files.profiled, modes=files.modes, max_power_w=10, minibatches=1000, epochs=5, training=training,
        frontier=("time", "energy"),
    )  # fmt: skip
    assert found.training.cold_extra_s > 0 and found.training.battery.rounds >= found.training.battery.rounds_sure
    assert found.training.energy_j.unit == "J" and found.phases is not None
    assert sum(point.knee for point in found.frontier) == 1 and found.stock == ()
    with pytest.raises(UsageError, match="whole trainings"):
        recommend(files.profiled, modes=files.modes, training=TrainingOptions(battery_wh=50))


def test_a_table_measured_in_full_is_answered_by_its_measurements_in_any_order(files):
    board = files.board
    shuffled = board.take([*range(50, 96), *range(50)])
    found = recommend(shuffled, modes=board, max_power_w=9)
    assert found.best.time_s.value == pytest.approx(board.time_mean_s[board.power_w <= 9].min())
    assert found.from_.prior is None and found.best.time_s.is_exact


def test_boards_are_ranked_for_a_network(tmp_path):
    ranking = choose_device("lenet5", epochs=10, max_price_usd=500, store=tmp_path)
    assert ranking.options[0].board == "nano"
    assert all(option.epoch_s is None for option in ranking.options if option.board == "thor")
    with pytest.raises(UsageError, match="--samples"):
        choose_device("unheard_of", store=tmp_path)
