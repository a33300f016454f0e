import numpy as np
import pytest

from edgetrain.prediction.modes.physics import (
    POWER_NAMES,
    POWER_TERMS,
    TIME_NAMES,
    TIME_TERMS,
    Features,
    log_accelerator,
    log_power,
    log_time,
)


def some(seed: int, names: tuple[str, ...]) -> tuple[np.ndarray, Features]:
    rng = np.random.default_rng(seed)
    return 0.6 * rng.standard_normal((4, len(names))), Features(*(-2 * rng.random((4, 9))), batch=rng.random(9) + 0.05)


def by_differences(curve, theta):
    step = 1e-6
    ends = [(curve(theta + step * e), curve(theta - step * e)) for e in np.eye(theta.shape[1])]
    return np.stack([(up - down) / (2 * step) for up, down in ends], axis=-1)


@pytest.mark.parametrize("seed", range(5))
def test_derivatives_of_time_are_those_of_its_values(seed):
    theta, f = some(seed, TIME_NAMES)
    _, slope = log_time(theta, f, True)
    assert slope == pytest.approx(by_differences(lambda t: log_time(t, f)[0], theta), abs=1e-6)


@pytest.mark.parametrize("seed", range(5))
def test_derivatives_of_power_are_those_of_its_values(seed):
    theta, f = some(seed, POWER_NAMES)
    tau, busy = np.full((1, 9), 0.7), np.full((1, 9), -0.3)
    _, slope = log_power(theta, f, tau, busy, True)
    assert slope == pytest.approx(by_differences(lambda t: log_power(t, f, tau, busy)[0], theta), abs=1e-6)


def test_a_common_shift_of_the_terms_scales_time_and_power_and_nothing_else():
    theta, f = some(1, TIME_NAMES)
    moved = theta.copy()
    moved[:, :TIME_TERMS] += 1.7
    assert log_time(moved, f)[0] == pytest.approx(log_time(theta, f)[0] + 1.7)
    phi, f = some(2, POWER_NAMES)
    moved = phi.copy()
    moved[:, :POWER_TERMS] += 0.9
    tau, busy = np.zeros((1, 9)), np.zeros((1, 9))
    assert log_power(moved, f, tau, busy)[0] == pytest.approx(log_power(phi, f, tau, busy)[0] + 0.9)


def test_a_minibatch_is_never_shorter_than_its_accelerator_is_busy():
    theta, f = some(3, TIME_NAMES)
    assert (log_time(theta, f)[0] >= log_accelerator(theta, f) - 1e-12).all()


def test_a_longer_minibatch_never_draws_more_power():
    phi, f = some(4, POWER_NAMES)
    short = log_power(phi, f, np.zeros((1, 9)), np.zeros((1, 9)))[0]
    long = log_power(phi, f, np.ones((1, 9)), -np.ones((1, 9)))[0]
    assert (long <= short).all()
