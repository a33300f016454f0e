"""The factors of a unit are learned from its rounds: fully in a mode that was tried, carefully in the others."""

import math
import random

import pytest

from edgetrain.federated import RoundCorrection
from edgetrain.schema import PowerMode

MODES = [PowerMode(cores, 10**9) for cores in range(1, 7)]
OTHER = PowerMode(8, 10**9)


def after(*rounds):
    correction = RoundCorrection()
    for mode, ratio in rounds:
        correction = correction.observe(mode, 10.0, 10.0 * ratio)
    return correction


def test_nothing_observed_corrects_nothing():
    assert RoundCorrection().factors([None, OTHER]) == [1.0, 1.0]
    assert RoundCorrection().unit_factor == 1.0


def test_one_round_corrects_its_own_mode_almost_fully_and_the_others_by_a_quarter():
    correction = after((MODES[0], 1.3))
    assert 1.25 < correction.factor(MODES[0]) < 1.3
    assert 1.05 < correction.factor(OTHER) < 1.1


def test_a_unit_that_is_slow_in_every_mode_is_slow_in_the_next_one_too():
    correction = after(*((mode, 1.06) for mode in MODES))
    assert correction.factor(OTHER) == pytest.approx(1.045, abs=0.01)
    assert correction.unit_factor == correction.factor(OTHER)


def test_a_mode_that_was_predicted_wrongly_says_little_about_the_unit():
    correction = after((MODES[0], 1.4), (MODES[1], 1.0), (MODES[2], 1.0), (MODES[3], 1.0))
    assert correction.factor(OTHER) < 1.06
    assert correction.factor(MODES[0]) > 1.33


def test_the_noise_of_rounds_averages_out():
    chance = random.Random(3)
    correction = after(*((MODES[0], 0.94 * math.exp(chance.gauss(0, 0.03))) for _ in range(40)))
    assert correction.factor(MODES[0]) == pytest.approx(0.94, abs=0.015)


@pytest.mark.parametrize("predicted, observed", [(0.0, 1.0), (1.0, 0.0), (-1.0, 1.0), (math.nan, 1.0), (1.0, math.inf)])
def test_impossible_numbers_teach_nothing(predicted, observed):
    assert RoundCorrection().observe(OTHER, predicted, observed) == RoundCorrection()


def test_a_board_that_hung_does_not_ruin_its_factors():
    correction = RoundCorrection().observe(OTHER, 1.0, 1e6)
    assert correction.factor(OTHER) < 4.1 and correction.unit_factor < 1.5


def test_the_order_of_rounds_does_not_matter():
    there, back = after((MODES[0], 1.1), (MODES[1], 0.9)), after((MODES[1], 0.9), (MODES[0], 1.1))
    assert there.factors(MODES) == pytest.approx(back.factors(MODES))


def test_a_mode_is_the_same_under_another_name():
    named = PowerMode(4, 10**9, name="MAXN")
    assert after((named, 1.2)).factor(PowerMode(4, 10**9)) > 1.15
