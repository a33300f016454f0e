import numpy as np
import pytest

from edgetrain.prediction.intervals import expected_error, interval_score
from edgetrain.student import probability_below, quantile


@pytest.mark.parametrize(("dof", "q95"), [(1, 6.314), (4, 2.132), (10, 1.812), (1000, 1.645)])
def test_quantiles_are_those_of_the_tables(dof, q95):
    assert quantile(0.95, dof) == pytest.approx(q95, abs=0.002)


@pytest.mark.parametrize("dof", [2.0, 4.0, 30.0])
def test_a_quantile_undoes_a_probability(dof):
    for probability in (0.01, 0.3, 0.5, 0.9, 0.999):
        assert probability_below(quantile(probability, dof), dof) == pytest.approx(probability, abs=1e-4)


def test_the_expected_error_is_the_mean_of_what_is_drawn():
    drawn = np.abs(np.random.default_rng(0).standard_t(4, 200_000)).mean()
    assert expected_error(np.full(10, 0.02), 4.0) == pytest.approx(0.02 * drawn, rel=0.03)


def test_an_interval_that_misses_scores_worse_than_one_that_is_wider():
    truth = np.ones(1)
    assert interval_score(truth, 0.8 * truth, 1.2 * truth) < interval_score(truth, 0.8 * truth, 0.9 * truth)
