"""What every predictor keeps: our own, one read back from a file, and the baselines."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from edgetrain.prediction import (
    ModeTable,
    Predictor,
    bare,
    choose_modes,
    dump_predictor,
    fit,
    gaussian_process,
    linear_model,
    load_prior,
    parse_predictor,
    transferred_network,
)
from tests.prediction.conftest import grid, measured

Maker = Callable[[ModeTable, ModeTable], Predictor]


def _gaussian_process(profiled: ModeTable, board: ModeTable) -> Predictor:
    pytest.importorskip("sklearn")
    return gaussian_process().fit(profiled, board, 0)


def _network(profiled: ModeTable, board: ModeTable) -> Predictor:
    pytest.importorskip("torch")
    return transferred_network(measured(grid(), 7).take(slice(0, 441, 3))).fit(profiled, board, 0)


MAKERS: dict[str, Maker] = {
    "physics": lambda profiled, board: fit(profiled, load_prior("orin"), board=board),
    "physics without prior": lambda profiled, board: fit(profiled, None, board=board),
    "saved": lambda profiled, board: parse_predictor(dump_predictor(fit(profiled, load_prior("orin"), board=board))),
    "linear": lambda profiled, board: linear_model().fit(profiled, board, 0),
    "gaussian process": _gaussian_process,
    "network": _network,
}


@pytest.fixture(params=MAKERS, scope="module")
def make(request: pytest.FixtureRequest) -> Maker:
    return MAKERS[request.param]


@pytest.fixture(scope="module")
def profiled() -> ModeTable:
    table = measured(grid(), 3)
    return table.take(choose_modes(bare(table), 8, prior=load_prior("orin")))


@pytest.fixture(scope="module")
def predictor(make: Maker, profiled: ModeTable) -> Predictor:
    return make(profiled, grid())


def test_there_is_one_finite_positive_prediction_per_mode_in_the_order_of_the_table(predictor: Predictor):
    board = grid()
    found = predictor.predict(board)
    for column in (found.time_s, found.power_w, found.time_log_sd, found.power_log_sd):
        assert column.shape == (len(board),)
        assert np.isfinite(column).all() and (column > 0).all()
    assert found.extrapolated.shape == (len(board),) and found.extrapolated.dtype == bool
    assert found.dof > 0 and -1 <= found.correlation <= 1
    backwards = predictor.predict(board.take(np.arange(len(board))[::-1]))
    assert backwards.time_s[::-1] == pytest.approx(found.time_s, rel=1e-6)


def test_a_part_of_the_modes_gets_the_same_predictions_as_all_of_them(predictor: Predictor):
    whole, rows = predictor.predict(grid()), [3, 77, 200]
    part = predictor.predict(grid().take(rows))
    assert part.time_s == pytest.approx(whole.time_s[rows], rel=1e-5)
    assert part.power_w == pytest.approx(whole.power_w[rows], rel=1e-5)


def test_predicting_twice_gives_the_same_and_changes_neither_modes_nor_profile(
    predictor: Predictor, profiled: ModeTable
):
    board, before = grid(), profiled.time_s.copy()
    one, two = predictor.predict(board), predictor.predict(board)
    assert (one.time_s == two.time_s).all() and (one.power_w == two.power_w).all()
    assert (profiled.time_s == before).all() and board.time_s is None


def test_predictions_have_the_scale_of_what_was_profiled(make: Maker, predictor: Predictor, profiled: ModeTable):
    scaled = replace(profiled, time_s=3.0 * profiled.time_s, power_w=0.5 * profiled.power_w)
    one, other = predictor.predict(grid()), make(scaled, grid()).predict(grid())
    assert np.median(other.time_s / one.time_s) == pytest.approx(3.0, rel=0.1)
    assert np.median(other.power_w / one.power_w) == pytest.approx(0.5, rel=0.1)


def test_results_in_the_modes_to_predict_are_not_used(predictor: Predictor):
    board = grid()
    wrong = replace(board, time_s=np.full(len(board), 99.0), power_w=np.full(len(board), 99.0))
    assert (predictor.predict(wrong).time_s == predictor.predict(board).time_s).all()


def test_clocks_that_the_board_does_not_have_are_ignored(make: Maker, profiled: ModeTable):
    def without(table: ModeTable) -> ModeTable:
        return replace(table, emc_hz=np.full(len(table), np.nan))

    def constant(table: ModeTable) -> ModeTable:
        return replace(table, emc_hz=np.full(len(table), 2.1e9))

    missing = make(without(profiled), without(grid())).predict(without(grid()))
    fixed = make(constant(profiled), constant(grid())).predict(constant(grid()))
    assert np.isfinite(missing.time_s).all() and np.isfinite(missing.power_w).all()
    if make in (MAKERS["physics"], MAKERS["physics without prior"], MAKERS["saved"]):
        assert missing.time_s == pytest.approx(fixed.time_s) and missing.power_w == pytest.approx(fixed.power_w)
