from dataclasses import replace

import numpy as np
import pytest

from edgetrain.errors import PredictError
from edgetrain.prediction import (
    bare,
    bounds,
    choose_modes,
    dump_predictor,
    energy,
    fit,
    join,
    load_prior,
    parse_predictor,
)
from tests.prediction.conftest import grid, measured


def wrong(predictions, table):
    return float(np.mean(np.abs(predictions.time_s / table.time_s - 1))), float(
        np.mean(np.abs(predictions.power_w / table.power_w - 1))
    )


def few(table, count=10, prior=None, seed=0):
    rows = choose_modes(bare(table), count, prior=prior or load_prior("orin"), seed=seed)
    return table.take(rows)


@pytest.mark.parametrize("seed", range(3))
def test_ten_modes_of_a_network_that_obeys_the_physics_predict_all_the_others(seed):
    table = measured(grid(), seed)
    time, power = wrong(fit(few(table), load_prior("orin"), board=bare(table)).predict(bare(table)), table)
    assert time < 0.05 and power < 0.04


def test_without_any_prior_it_still_predicts(network):
    found = fit(few(network), None, board=bare(network)).predict(bare(network))
    time, power = wrong(found, network)
    assert time < 0.08 and power < 0.06


def test_scaling_all_times_and_powers_scales_the_predictions_alone(network):
    prior, seen, board = load_prior("orin"), few(network), bare(network)
    one = fit(seen, prior, board=board).predict(board)
    scaled = replace(seen, time_s=7.3 * seen.time_s, power_w=0.21 * seen.power_w)
    other = fit(scaled, prior, board=board).predict(board)
    assert other.time_s == pytest.approx(7.3 * one.time_s, rel=0.01)
    assert other.power_w == pytest.approx(0.21 * one.power_w, rel=0.01)
    assert other.time_log_sd == pytest.approx(one.time_log_sd, rel=0.1)


def test_relabelled_clocks_change_nothing(network):
    prior, seen, board = load_prior("orin"), few(network), bare(network)
    one = fit(seen, prior, board=board).predict(board)

    def relabelled(table):
        return replace(table, cpu_hz=1.3 * table.cpu_hz, gpu_hz=0.8 * table.gpu_hz, emc_hz=0.6 * table.emc_hz)

    other = fit(relabelled(seen), prior, board=relabelled(board)).predict(relabelled(board))
    assert other.time_s == pytest.approx(one.time_s, rel=1e-6)
    assert other.power_w == pytest.approx(one.power_w, rel=1e-6)


def test_one_bad_row_among_twelve_hardly_matters(network):
    prior, board = load_prior("orin"), bare(network)
    seen = few(network, 12)
    clean = wrong(fit(seen, prior, board=board).predict(board), network)
    bad = seen.time_s.copy()
    bad[5] *= 3.0
    time, _ = wrong(fit(replace(seen, time_s=bad), prior, board=board).predict(board), network)
    assert time < clean[0] + 0.04


def test_rows_that_scatter_more_widen_the_intervals():
    prior, board = load_prior("orin"), bare(grid())
    widths = []
    for noise in (0.005, 0.03, 0.1):
        table = measured(grid(), 3, noise)
        found = fit(few(table, 20), prior, board=board).predict(board)
        widths.append((found.time_log_sd.mean(), found.power_log_sd.mean()))
    assert widths[0][0] < widths[1][0] < widths[2][0]
    assert widths[0][1] < widths[1][1] < widths[2][1]


def test_nine_of_ten_values_lie_in_the_interval_when_rows_scatter_as_the_published_ones():
    inside = []
    for seed in range(6):
        table = measured(grid(), seed, 0.012)
        found = fit(few(table, 10), load_prior("orin"), board=bare(table)).predict(bare(table))
        lo, hi = bounds(found.time_s, found.time_log_sd, found.dof)
        inside.append(((table.time_s > lo) & (table.time_s < hi)).mean())
    assert np.mean(inside) > 0.85


@pytest.mark.parametrize("clock", ["cpu_hz", "gpu_hz", "emc_hz"])
def test_a_clock_that_never_varied_leaves_wide_intervals_where_it_differs(network, clock):
    prior, board = load_prior("orin"), bare(network)
    top = network.take(getattr(network, clock) == getattr(network, clock).max())
    rows = choose_modes(bare(top), 8, prior=prior)
    found = fit(top.take(rows), prior, board=board).predict(board)
    elsewhere = getattr(network, clock) == getattr(network, clock).min()
    assert found.time_log_sd[elsewhere].mean() > 1.5 * found.time_log_sd[~elsewhere].min()
    assert found.extrapolated[elsewhere].all()
    assert any("extrapolated" in warning for warning in found.warnings)


def test_the_same_rows_and_seed_give_the_same_predictor(network):
    one, two = (dump_predictor(fit(few(network), load_prior("orin"), 4)) for _ in range(2))
    assert one == two


def test_a_saved_predictor_predicts_as_it_did(network):
    fitted = fit(replace(few(network), time_mean_s=1.05 * few(network).time_s), load_prior("orin"))
    again = parse_predictor(dump_predictor(fitted))
    for column in ("time_s", "time_mean_s", "power_w", "time_log_sd", "power_log_sd"):
        one, two = getattr(fitted.predict(network), column), getattr(again.predict(network), column)
        assert (one == two).all()


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"schema": "edgetrain-predictor-1"}', '{"schema": "other"}'])
def test_what_is_no_saved_predictor_is_refused(text):
    with pytest.raises(PredictError):
        parse_predictor(text)


def test_energy_follows_the_mean_minibatch_where_it_was_profiled(network):
    seen = few(network)
    slower = replace(seen, time_mean_s=1.2 * seen.time_s)
    found = fit(slower, load_prior("orin"), board=bare(network)).predict(bare(network))
    joules, _ = energy(found)
    assert joules == pytest.approx(found.time_mean_s * found.power_w)
    assert np.median(found.time_mean_s / found.time_s) == pytest.approx(1.2, rel=0.05)


def test_too_few_modes_are_refused(network):
    with pytest.raises(PredictError, match="too few"):
        fit(network.take([0]))
    with pytest.raises(PredictError, match="time and power"):
        fit(bare(network))


def test_several_batch_sizes_are_predicted_together():
    base = measured(grid(), 5)
    parts = []
    for batch in (1.0, 8.0, 64.0):
        part = replace(base, batch_size=np.full(len(base), batch), time_s=base.time_s * (0.2 + 0.8 * batch / 64.0))
        parts.append(part)
    table = join(parts)
    found = fit(few(table, 20), load_prior("orin"), board=bare(table)).predict(bare(table))
    assert wrong(found, table)[0] < 0.15


def test_modes_that_leave_out_a_clock_which_others_vary_are_refused(network):
    seen, board = few(network), bare(network)
    some = np.where(np.arange(len(seen)) < 2, np.nan, seen.emc_hz)
    with pytest.raises(PredictError, match="memory clock is not known for 2 of"):
        fit(replace(seen, emc_hz=some), load_prior("orin"))
    fitted = fit(seen, load_prior("orin"), board=board)
    nowhere = replace(board, gpu_hz=np.full(len(board), np.nan))
    with pytest.raises(PredictError, match="differ in GPU clock and these modes do not give it"):
        fitted.predict(nowhere)
    with pytest.raises(PredictError, match="GPU clock"):
        fit(replace(seen, gpu_hz=np.full(len(seen), np.nan)), load_prior("orin"), board=board)
