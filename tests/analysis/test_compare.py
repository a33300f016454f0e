"""Comparing calls luck luck: identical settings are rarely called different, a real change is found."""

import numpy as np
import pytest

from edgetrain.analysis.compare import compare
from tests.summaries import make_epoch, make_summary


def group(draw, runs, level=1.0, between=0.03, within=0.02, epochs=4):
    """Make summaries of runs whose time varies between runs and, less, between their epochs."""
    made = []
    for number in range(runs):
        own = level * np.exp(draw.normal(0, between))
        rows = []
        for epoch in range(epochs):
            e2e = 100 * own * np.exp(draw.normal(0, within)) * (1.5 if epoch == 0 else 1)
            rows.append(make_epoch(epoch, e2e, 0.2 * e2e, minibatches=100, fill_s=0.01 * e2e, compute_s=0.7 * e2e))
        made.append(make_summary(*rows, run=f"r{number}"))
    return made


@pytest.mark.parametrize("runs", [3, 5])
def test_identical_settings_are_called_different_in_at_most_two_of_twenty(runs):
    draw = np.random.default_rng(runs)
    called = []
    for _ in range(10):
        pairs = [compare(group(draw, runs), group(draw, runs)).different for _ in range(20)]
        called.append(sum(bool(pair) for pair in pairs))
    assert np.mean(called) <= 2


def test_a_change_well_outside_the_spread_is_found():
    draw = np.random.default_rng(2)
    found = compare(group(draw, 5), group(draw, 5, level=1.3))
    assert found.different is True
    assert found.warm[0].change == pytest.approx(0.3, abs=0.08)


def test_with_fewer_than_three_runs_a_side_nothing_is_called_different():
    draw = np.random.default_rng(1)
    found = compare(group(draw, 2), group(draw, 3, level=2.0))
    assert found.different is None
    assert "needs" in found.warm[0].words and "more" in found.warm[0].words


def test_the_cold_epoch_is_compared_apart():
    draw = np.random.default_rng(3)
    found = compare(group(draw, 3), group(draw, 3))
    assert found.cold[0].a > 1.2 * found.warm[0].a


def test_a_metric_nobody_measured_is_left_out():
    draw = np.random.default_rng(3)
    assert "energy" not in [row.metric for row in compare(group(draw, 3), group(draw, 3)).warm]
