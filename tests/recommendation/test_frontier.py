import time

import numpy as np
import pytest

from edgetrain.errors import UsageError
from edgetrain.recommendation.pareto import frontier, frontier_with_intervals, knee, stock_losses

from .conftest import make_board, make_predictions, published_modes


def beaten(points: np.ndarray) -> np.ndarray:
    """The definition, in quadratic time."""
    no_worse = (points[:, None, :] <= points[None, :, :]).all(axis=2)
    better = (points[:, None, :] < points[None, :, :]).any(axis=2)
    return (no_worse & better).any(axis=0)


@pytest.mark.parametrize("axes", [2, 3])
@pytest.mark.parametrize("seed", range(8))
def test_a_frontier_is_exactly_what_nothing_beats_with_ties_and_repeats(axes: int, seed: int):
    rng = np.random.default_rng(seed)
    points = rng.integers(0, 12, (300, axes)).astype(float) if seed % 2 else rng.random((300, axes))
    found = frontier(*points.T)
    assert sorted(found) == list(np.flatnonzero(~beaten(points)))
    assert (np.diff(points[found, 0]) >= 0).all()


def test_order_of_the_settings_does_not_change_the_frontier():
    rng = np.random.default_rng(5)
    points = rng.random((500, 3))
    shuffle = rng.permutation(500)
    assert set(shuffle[frontier(*points[shuffle].T)]) == set(frontier(*points.T))


def test_an_axis_that_is_a_product_of_the_others_adds_nothing():
    time_s, power_w = np.random.default_rng(1).random((2, 400)) + 0.1
    assert set(frontier(time_s, power_w)) == set(frontier(time_s, power_w, time_s * power_w))


def test_a_hundred_thousand_points_are_quick_even_when_none_beats_another():
    rng = np.random.default_rng(0)
    sphere = rng.random((3, 100_000))
    sphere /= np.linalg.norm(sphere, axis=0)
    start = time.perf_counter()
    assert len(frontier(*sphere)) == 100_000
    assert len(frontier(sphere[0], 1 - sphere[0])) == 100_000
    # The promise is 0.5 s on a quiet machine (benchmarks/recommend.py); here only a quadratic cost must show.
    assert time.perf_counter() - start < 5


def test_an_unmeasured_setting_is_refused_and_nothing_gives_nothing():
    with pytest.raises(UsageError, match="not measured"):
        frontier(np.array([1.0, np.nan]), np.array([1.0, 2.0]))
    assert len(frontier(np.empty(0), np.empty(0))) == 0
    assert list(frontier(np.array([3.0]), np.array([4.0]))) == [0]


def test_the_knee_does_not_depend_on_units_and_lies_at_the_bend():
    x = np.array([1.0, 1.1, 1.2, 4.0, 16.0])
    y = np.array([16.0, 4.0, 1.2, 1.1, 1.0])
    assert knee(x, y) == 2
    assert knee(x * 1000, y * 0.001) == 2
    assert knee(x[:1], y[:1]) == 0
    with pytest.raises(UsageError, match="the frontier is empty"):
        knee(np.empty(0), np.empty(0))


def test_a_mode_on_the_frontier_loses_nothing_and_a_beaten_one_loses_what_the_definition_says():
    board = make_board()
    on = frontier(board.time_s, board.power_w)
    off = np.setdiff1d(np.arange(len(board)), on)
    stock = {f"on{row}": int(row) for row in on} | {f"off{row}": int(row) for row in off} | {"elsewhere": None}
    for loss in stock_losses(board, board.time_s, board.power_w, board.time_s * board.power_w, stock, "elsewhere"):
        row = stock[loss.name]
        assert loss.factory_default == (loss.name == "elsewhere")
        if row is None:
            assert loss.mode is None and loss.slower_pct is None and loss.more_energy_pct is None
        elif row in on:
            assert loss.slower_pct == 0 and loss.more_power_pct == 0 and loss.better is None
        else:
            best = board.time_s[board.power_w <= board.power_w[row]].min()
            assert loss.slower_pct == pytest.approx(100 * (board.time_s[row] / best - 1))
            assert loss.slower_pct > 0 or loss.more_power_pct > 0


def test_intervals_hold_the_value_and_a_certain_frontier_stays():
    board = make_board()
    unsure = frontier_with_intervals(make_predictions(board), board)
    assert all(p.time_s.lo < p.time_s.value < p.time_s.hi and 0 <= p.stays <= 1 for p in unsure)
    assert sum(p.knee for p in unsure) == 1
    sure = frontier_with_intervals(make_predictions(board, 1e-9, 1e-9, wrong=False), board)
    assert all(p.stays == 1 for p in sure)
    assert {p.row for p in sure} == set(frontier(board.time_s, board.power_w))


@pytest.mark.parametrize(
    ("network", "expected"),
    [("lenet5/MNIST", "emg"), ("resnet18/CIFAR-10", "cdeijg"), ("mobilenet_v3/GLD-23k", "acdeijg")],
)
def test_the_published_modes_of_agx_xavier_have_the_frontier_the_paper_states(network: str, expected: str):
    names, time_s, energy_mwh = published_modes(network)
    on = frontier(energy_mwh, time_s)
    assert "".join(names[row] for row in on) == expected
