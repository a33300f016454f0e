import time

import numpy as np
import pytest

from edgetrain.errors import UsageError
from edgetrain.prediction import bare, choose_modes, load_prior, plan_modes
from tests.prediction.conftest import grid


def test_the_top_mode_comes_first_and_no_mode_twice():
    board = grid()
    rows = choose_modes(board, 30, prior=load_prior("orin"))
    assert len(set(rows)) == 30
    first = board.mode(rows[0])
    assert (first.cores, first.cpu_hz) == (int(board.cores.max()), int(board.cpu_hz.max()))


def test_every_further_mode_leaves_less_uncertainty():
    plan = plan_modes(grid(), 15, prior=load_prior("orin"))
    assert (np.diff(plan.time_sd) <= 1e-9).all() and (np.diff(plan.power_sd) <= 1e-9).all()


def test_chosen_modes_vary_every_clock():
    board = grid()
    chosen = board.take(choose_modes(board, 6, prior=load_prior("orin")))
    for column in (chosen.cores, chosen.cpu_hz, chosen.gpu_hz, chosen.emc_hz):
        assert np.ptp(column) > 0


def test_what_is_already_profiled_is_not_asked_again(network):
    rows = choose_modes(bare(network), 6, prior=load_prior("orin"))
    seen = network.take(rows)
    more = choose_modes(bare(network), 3, seen, load_prior("orin"))
    assert not set(more) & set(rows)
    after_one = choose_modes(bare(network), 1, network.take(rows[:1]), load_prior("orin"))
    assert after_one != rows[:1]


def test_when_a_clock_never_varied_the_next_mode_varies_it(network):
    top = network.take(network.gpu_hz == network.gpu_hz.max())
    seen = top.take(choose_modes(bare(top), 6, prior=load_prior("orin")))
    (row,) = choose_modes(bare(network), 1, seen, load_prior("orin"))
    assert network.gpu_hz[row] < network.gpu_hz.max()


def test_the_plan_is_the_same_for_the_same_seed_and_whatever_the_labels_of_the_clocks():
    from dataclasses import replace

    board = grid()
    relabelled = replace(board, gpu_hz=0.7 * board.gpu_hz, cpu_hz=1.2 * board.cpu_hz)
    one, two = (choose_modes(b, 8, prior=load_prior("orin"), seed=3) for b in (board, relabelled))
    assert one == two == choose_modes(board, 8, prior=load_prior("orin"), seed=3)


@pytest.mark.parametrize("count", [0, -1, 442])
def test_an_impossible_count_is_refused(count):
    with pytest.raises(UsageError):
        choose_modes(grid(), count)


def test_planning_the_next_mode_of_a_large_board_takes_seconds_not_minutes(network):
    from tests.prediction.large import large_board

    board = large_board(18_096)
    begun = time.process_time()
    choose_modes(board, 1, network.take(choose_modes(bare(network), 8, prior=load_prior("orin"))), load_prior("orin"))
    assert time.process_time() - begun < 8.0
