import itertools

import numpy as np
import pytest

from edgetrain.errors import UsageError
from edgetrain.prediction import ModeTable
from edgetrain.recommendation.sensitivity import dominant, elasticities


def grid(exponents=(-0.2, -0.5, 0.0, -0.1), noise: float = 0.0, rows: list[int] | None = None):
    """Modes on a grid and a quantity that is a pure power law of the factors."""
    points = np.array(list(itertools.product((2, 4, 8), (1e9, 2e9), (0.5e9, 1e9), (1e9, 3e9))), dtype=float)
    if rows is not None:
        points = points[rows]
    log_y = np.log(points) @ np.array(exponents) + noise * np.random.default_rng(0).standard_normal(len(points))
    return ModeTable(*points.T), np.exp(log_y)


def by_factor(found, quantity="time"):
    return {e.factor: e for e in found if e.quantity == quantity}


def test_a_power_law_gives_back_its_exponents():
    table, values = grid()
    found = by_factor(elasticities(table, {"time": values}))
    assert [found[f].value for f in ("cores", "cpu_hz", "gpu_hz", "emc_hz")] == pytest.approx(
        [-0.2, -0.5, 0, -0.1], abs=1e-9
    )
    assert all(e.method == "pairs" for e in found.values())


def test_intervals_hold_the_truth_under_noise_and_name_what_rules():
    table, values = grid(noise=0.03)
    found = elasticities(table, {"time": values})
    for factor, truth in zip(("cores", "cpu_hz", "gpu_hz", "emc_hz"), (-0.2, -0.5, 0.0, -0.1), strict=True):
        each = by_factor(found)[factor]
        assert each.lo - 0.03 <= truth <= each.hi + 0.03
    assert dominant(found, "time") == "cpu_hz"


def test_scattered_modes_fall_back_to_a_fit_and_say_so():
    table, values = grid(rows=[0, 5, 10, 15, 17, 20, 23])
    found = by_factor(elasticities(table, {"time": values}))
    assert {e.method for e in found.values()} == {"regression"}
    assert found["cpu_hz"].value == pytest.approx(-0.5, abs=1e-6)


def test_what_never_varied_is_unknown_with_the_reason():
    table, values = grid(rows=[0, 1, 2, 3])  # cores and CPU clock held
    found = by_factor(elasticities(table, {"time": values}))
    assert found["cores"].value is None and "did not vary" in found["cores"].reason


def test_unmeasured_values_are_left_out_and_one_mode_is_refused():
    table, values = grid()
    values[::5] = np.nan
    assert by_factor(elasticities(table, {"time": values}))["cpu_hz"].value == pytest.approx(-0.5)
    with pytest.raises(UsageError, match="only one"):
        elasticities(table.take(slice(0, 1)), {"time": values[:1]})
