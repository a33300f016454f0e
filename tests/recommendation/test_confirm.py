import numpy as np
import pytest

from edgetrain.errors import DeviceError
from edgetrain.recommendation.assessment import Candidates
from edgetrain.recommendation.budgets import TableMeasure
from edgetrain.recommendation.conditioning import condition
from edgetrain.recommendation.confirmation import confirm, expected_shortfall, next_to_confirm
from edgetrain.recommendation.goals import Goal, GoalLimits
from edgetrain.schema import PowerMode

from .conftest import make_board, make_predictions


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("limit_w", [6.6, 7.5, 9.0, 11.0])
def test_what_was_seen_over_the_limit_is_never_returned_and_what_is_confirmed_keeps_it(seed, limit_w):
    board = make_board(seed=seed)
    # Spreads that admit to a third of the truth: confirming has to survive a predictor that is too sure.
    predictions = make_predictions(board, 0.15, 0.10, seed)
    predictions.power_log_sd[:] /= 3
    measure = TableMeasure(board)
    result = confirm(Candidates.of(board, predictions), Goal("time", GoalLimits(max_power_w=limit_w)), measure, 3)
    assert measure.calls == len(result.trail) <= 3
    over = {step.row for step in result.trail if not step.within}
    best = result.choice.best
    if best is not None:
        assert best.row not in over
        if result.confirmed:
            assert board.power_w[best.row] <= limit_w
            seen = [s.row for s in result.trail if s.within]
            assert board.time_s[best.row] == min(board.time_s[row] for row in seen)


def test_confirming_does_not_lose_against_not_confirming():
    """Penalties over boards and limits: three confirmations must bring the answer nearer to the optimum."""
    alone, confirmed = [], []
    for seed in range(10):
        board = make_board(seed=seed)
        candidates = Candidates.of(board, make_predictions(board, seed=seed))
        for limit in (7.0, 8.0, 9.0, 10.0):
            optimum = board.time_s[board.power_w <= limit].min()
            goal = Goal("time", GoalLimits(max_power_w=limit))
            for count, into in ((0, alone), (3, confirmed)):
                best = confirm(candidates, goal, TableMeasure(board), count).choice.best
                into.append(1.0 if best is None else board.time_s[best.row] / optimum - 1)
    assert np.mean(confirmed) < 0.6 * np.mean(alone)


def test_profiled_modes_within_the_limit_are_an_answer_already(board, predictions):
    seen = {row: board.measurement(row) for row in range(0, len(board), 7)}
    limit = 8.0
    result = confirm(
        Candidates.of(board, predictions, seen), Goal("time", GoalLimits(max_power_w=limit)), TableMeasure(board), 2
    )
    known = min(board.time_s[row] for row in seen if board.power_w[row] <= limit)
    assert result.confirmed and board.time_s[result.choice.best.row] <= known


def test_a_mode_the_board_refuses_is_neither_returned_nor_tried_again(board, predictions):
    asked: list[PowerMode] = []

    def refuses(mode: PowerMode):
        asked.append(mode)
        raise DeviceError("the board did not hold the clocks")

    result = confirm(Candidates.of(board, predictions), Goal("time", GoalLimits(max_power_w=9)), refuses, 3)
    assert len(set(asked)) == 3
    assert result.choice.best is None or result.choice.best.mode not in asked
    assert all(step.time_s is None and step.power_w is None for step in result.trail)


def test_nothing_is_measured_when_nothing_could_be_gained(board, predictions):
    everything = {row: board.measurement(row) for row in range(len(board))}
    candidates = Candidates.of(board, predictions, everything)
    assert next_to_confirm(candidates, Goal("time", GoalLimits(max_power_w=9))) is None


def test_a_miss_moves_neighbours_more_than_strangers_and_narrows_them(board, predictions):
    row = 40
    truth = board.measurement(row)
    learned = condition(predictions, board, {row: truth})
    shift = np.abs(np.log(learned.power_w / predictions.power_w))
    distance = np.abs(np.log(board.gpu_hz / board.gpu_hz[row])) + np.abs(np.log(board.cpu_hz / board.cpu_hz[row]))
    assert shift[row] == shift.max()
    assert shift[distance < 0.1].mean() > shift[distance > 1.0].mean()
    assert learned.power_log_sd[row] < predictions.power_log_sd[row]
    assert abs(learned.power_w[row] - truth.power_w) < abs(predictions.power_w[row] - truth.power_w)


def test_learning_does_not_depend_on_the_unit_of_clocks_or_powers():
    board = make_board()
    scaled = make_board(2.0, 3.0)
    first = condition(make_predictions(board), board, {7: board.measurement(7)})
    second = condition(make_predictions(scaled), scaled, {7: scaled.measurement(7)})
    assert np.allclose(second.power_w, 3.0 * first.power_w)
    assert np.allclose(second.time_s, 2.0 * first.time_s)


@pytest.mark.parametrize("dof", [2.5, 6.0, 60.0])
def test_the_expected_shortfall_is_the_mean_of_what_it_says(dof):
    draws = np.random.default_rng(0).standard_t(dof, 400_000)
    for z in (-1.5, 0.0, 0.7, 3.0):
        expected = np.maximum(z - draws, 0).mean()
        assert expected_shortfall(np.array([z]), dof)[0] == pytest.approx(expected, rel=0.03, abs=0.01)
