from dataclasses import replace

import numpy as np
import pytest

from edgetrain.errors import UsageError
from edgetrain.prediction import ModeTable, compare_methods, gaussian_process, linear_model, load_prior, physics


def test_the_figures_are_means_of_what_each_seed_found(network):
    prior = load_prior("orin")
    found = compare_methods(network, 8, 3, prior).methods["physics"]
    for errors in (found.time, found.power, found.energy):
        for figure in (errors.mape, errors.median, errors.p95):
            assert len(figure.per_seed) == 3
            assert figure.mean == pytest.approx(np.mean(figure.per_seed))
    assert 0 <= found.coverage90.time <= 100 and found.width90.power > 0 and len(found.score90.per_seed.energy) == 3
    assert found.fit_s > 0


def test_a_method_sees_the_modes_it_profiled_and_nothing_else(network):
    prior = load_prior("orin")
    seen = []

    def spy(profiled, board, seed):
        seen.append((profiled, board))
        return physics(prior).fit(profiled, board, seed)

    found = compare_methods(network, 6, 2, prior, [replace(physics(prior), fit=spy)])
    for (profiled, board), rows in zip(seen, found.profiled_rows, strict=True):
        assert len(profiled) == 6 and board.time_s is None and board.power_w is None
        assert (profiled.time_s == network.time_s[list(rows)]).all()


def test_what_lies_outside_a_seeds_quarter_cannot_be_profiled(network):
    rows = compare_methods(network, 20, 4, load_prior("orin")).profiled_rows
    for seed, chosen in enumerate(rows):
        allowed = np.random.default_rng(seed).choice(len(network), -(-len(network) // 4), replace=False)
        assert set(chosen) <= set(allowed.tolist())


def test_ours_beats_the_straight_line_and_the_plain_process(network):
    methods = [physics(load_prior("orin")), linear_model(), gaussian_process()]
    found = compare_methods(network, 10, 2, load_prior("orin"), methods).methods
    ours = found["physics"].time.mape.mean
    assert 2 * ours < found["linear"].time.mape.mean
    assert 2 * ours < found["gaussian_process"].time.mape.mean
    assert found["linear"].coverage90 is None


def test_the_linear_model_is_the_papers_on_its_published_modes():
    """ResNet on AGX Xavier, modes a to j, from e, f, i, j: the recomputed mean over the six others is 7.4 %."""
    cores = np.array([4, 8, 8, 8, 8, 2, 8, 8, 8, 8], dtype=float)
    cpu = np.array([1200, 1200, 1200, 1200, 2100, 2100, 2265, 2265, 2265, 2265]) * 1e6
    gpu = np.array([670, 670, 900, 900, 900, 900, 1377, 1377, 1377, 1377]) * 1e6
    emc = np.array([1333, 1333, 1333, 1600, 1600, 1600, 2133, 1066, 1333, 1600]) * 1e6
    epoch_s = np.array([668.2, 660.2, 518.6, 509.8, 491.7, 514.2, 345.2, 466.2, 395.9, 371.7])
    energy_j = 3.6 * np.array([2190, 2204, 2140, 2219, 2325, 2289, 2949, 2961, 2802, 2868])
    table = ModeTable(cores, cpu, gpu, emc, time_s=epoch_s, power_w=energy_j / epoch_s)
    seen, unseen = [4, 5, 8, 9], [0, 1, 2, 3, 6, 7]
    found = linear_model().fit(table.take(seen), table, 0).predict(table)
    assert found.time_s[seen] == pytest.approx(epoch_s[seen], rel=1e-6)
    assert 100 * np.mean(np.abs(found.time_s / epoch_s - 1)[unseen]) == pytest.approx(7.4, abs=0.3)


@pytest.mark.parametrize(("profile", "seeds"), [(1, 2), (441, 2), (5, 0)])
def test_impossible_evaluations_are_refused(network, profile, seeds):
    with pytest.raises(UsageError):
        compare_methods(network, profile, seeds, load_prior("orin"))


@pytest.mark.parametrize(("name", "time", "power"), [("lstm", 4.0, 2.6), ("mobnet", 6.0, 3.2)])
def test_published_tables_are_predicted_from_ten_modes_without_their_own_network(published, name, time, power):
    table = published(f"orin_agx_{name}_train")
    found = compare_methods(table, 10, 2, load_prior("orin", without=(name,))).methods["physics"]
    assert found.time.mape.mean < time
    assert found.power.mape.mean < power
