"""The searches that benchmarks compare ours with."""

import pytest

from benchmarks.rivals import random_search, slope_search
from edgetrain.recommendation import TableMeasure

from .conftest import make_board


@pytest.mark.parametrize("limit_w", [2.0, 6.5, 8.0, 10.0, 50.0])
@pytest.mark.parametrize("count", [1, 4, 9, 30])
def test_the_slope_search_ends_within_its_count_and_never_returns_what_it_measured_over_the_limit(limit_w, count):
    board = make_board()
    measure = TableMeasure(board)
    found = slope_search(board, limit_w, measure, count)
    assert measure.calls == len(found.seen) <= count
    assert found.row is None or board.power_w[found.row] <= limit_w


def test_the_random_search_returns_the_fastest_mode_measured_within_the_limit():
    board = make_board()
    found = random_search(board, 8.0, TableMeasure(board), 20, 3)
    within = [row for row in found.seen if board.power_w[row] <= 8.0]
    assert len(found.seen) == 20 and board.time_s[found.row] == board.time_s[within].min()
