import json
from dataclasses import replace

import numpy as np
import pytest

from edgetrain.documents import to_document
from edgetrain.errors import UsageError
from edgetrain.prediction import ModeTable, load_prior, read_table
from edgetrain.recommendation import (
    Goal,
    GoalLimits,
    TableMeasure,
    evaluate_budgets,
    judge_answer,
    search,
    summarize_answers,
)
from edgetrain.schema import PowerMode

from .conftest import make_board, shared_folder


def small_table() -> ModeTable:
    """Two cores counts, the faster mode always drawing more: the optimum at any limit is known by heart."""
    n = 6
    return ModeTable(
        np.full(n, 4.0), np.linspace(1e9, 2e9, n), np.full(n, 1e9), np.full(n, 2e9), None,
        np.linspace(0.6, 0.1, n), None, np.linspace(10.0, 20.0, n),
    )  # fmt: skip


def test_penalties_follow_the_rules_of_the_check():
    table = small_table()
    assert judge_answer(table, 0, 15.0, 1, 10).penalty_pct == pytest.approx(100 * (0.5 / 0.4 - 1))
    broken = judge_answer(table, 0, 15.0, 5, 10)
    assert broken.broken and broken.penalty_pct == 0 and broken.over_w == pytest.approx(5)
    silent = judge_answer(table, 0, 15.0, None, 10)
    assert silent.penalty_pct == 100 and not silent.broken
    assert judge_answer(table, 0, 9.0, None, 10).averaged is False
    assert judge_answer(table, 0, 20.5, 5, 10).averaged is False
    summed = summarize_answers(
        [judge_answer(table, 0, 15.0, 1, 10), broken, silent, judge_answer(table, 0, 9.0, None, 10)]
    )
    assert summed.limits == 3 and len(summed.per_budget) == 4
    assert summed.broken == pytest.approx(1 / 3) and summed.no_answer == pytest.approx(1 / 3)
    assert summed.penalty_pct.mean == pytest.approx((25 + 0 + 100) / 3)


def test_a_table_is_a_measure_that_counts_and_refuses_strangers():
    table = small_table()
    measure = TableMeasure(table)
    assert measure(table.mode(2)).power_w == table.power_w[2]
    assert measure.calls == 1
    with pytest.raises(UsageError, match="no mode"):
        measure(PowerMode(3, 1, 1, 1))


@pytest.fixture(scope="module")
def evaluated():
    board = make_board(1.0, 3.0, cores=(2, 4, 6, 8))
    return board, {
        confirm: evaluate_budgets(board, 8, 2, 18, 36, confirm, 0.95, prior=None) for confirm in (0, 3)
    }  # fmt: skip


def test_budgets_give_every_figure_asked_for_as_json(evaluated):
    _, results = evaluated
    for result in results.values():
        document = to_document(result)
        assert {"penalty_pct", "broken", "broken_1w", "over_w_max", "no_answer", "profiles_mean"} <= set(document)
        assert len(document["per_budget"]) == 2 * 19
        json.dumps(document)


def test_confirmed_limits_are_never_broken_and_nearer_to_the_optimum(evaluated):
    _, results = evaluated
    assert results[3].broken == 0
    assert results[3].penalty_pct.mean <= results[0].penalty_pct.mean
    assert results[0].profiles_mean == 8 and 8 < results[3].profiles_mean <= 11


def test_scaling_power_and_limits_alike_changes_no_pick():
    def picks(scale: float):
        board = make_board(1.0, scale)
        return [
            evaluate_budgets(board, 6, [0], limit * scale, limit * scale, 2, prior=None).per_budget[0].row
            for limit in (7.0, 9.0)
        ]

    assert picks(1.0) == picks(4.0)


@pytest.mark.parametrize(
    "changed", [{"profile": 1}, {"profile": 999}, {"lo_w": 20, "hi_w": 10}, {"lo_w": 0, "hi_w": 5}, {"confirm": -1}]
)
def test_impossible_evaluations_are_refused(changed):
    arguments = {"profile": 6, "seeds": 1, "lo_w": 7.0, "hi_w": 9.0, "confirm": 0} | changed
    with pytest.raises(UsageError):
        evaluate_budgets(make_board(), prior=None, **arguments)


def test_a_table_of_several_batch_sizes_is_refused():
    board = make_board()
    mixed = replace(board, batch_size=np.where(board.cores > 2, 16.0, 4.0))
    with pytest.raises(UsageError, match="batch_size"):
        evaluate_budgets(mixed, 6, 1, 7, 9, prior=None)


def test_limits_beyond_the_table_are_refused_when_none_can_be_averaged():
    with pytest.raises(UsageError, match="widen"):
        evaluate_budgets(make_board(), 6, 1, 100, 110, prior=None)


@pytest.mark.parametrize("limit_w", [6.5, 8.0, 10.0])
def test_a_search_keeps_its_count_and_its_limit_and_beats_random_modes(limit_w):
    board = make_board()
    optimum = board.time_s[board.power_w <= limit_w].min()
    measure = TableMeasure(board)
    found = search(board, Goal("time", GoalLimits(max_power_w=limit_w)), measure, 9)
    assert measure.calls <= 9
    assert found.choice.best is not None and board.power_w[found.choice.best.row] <= limit_w
    penalty = board.time_s[found.choice.best.row] / optimum - 1
    theirs = []
    for seed in range(5):
        rows = np.random.default_rng(seed).permutation(len(board))[:9]
        within = rows[board.power_w[rows] <= limit_w]
        theirs.append(board.time_s[within].min() / optimum - 1 if len(within) else 1.0)
    assert penalty <= np.mean(theirs)


def test_a_search_over_nothing_or_with_nothing_is_refused():
    board = make_board()
    with pytest.raises(UsageError, match="one mode"):
        search(board.take(slice(0, 1)), Goal(), TableMeasure(board), 5)
    with pytest.raises(UsageError, match="at least 2"):
        search(board, Goal(), TableMeasure(board), 1)


def test_on_a_published_table_three_confirmations_break_no_limit_and_cost_little():
    """One seed of one network; benchmarks/recommend.py has all of them."""
    table = read_table(shared_folder() / "orin_agx_lstm_train.csv", need_results=True)
    result = evaluate_budgets(table, 10, [1], 12, 40, 3, 0.95, load_prior("orin", without=("lstm",)))
    assert result.broken == 0
    assert result.penalty_pct.mean <= 6.0
