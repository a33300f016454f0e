"""The planner of rounds serves a federated strategy: its modes and margins, with what was learned about each unit."""

import numpy as np
import pytest

from edgetrain.errors import UsageError
from edgetrain.federated import BoardIdentity, FederatedUnit, RoundCorrection, RoundPlanAssigner
from edgetrain.prediction import ModeTable
from edgetrain.recommendation import RoundDevice, RoundModes, RoundRules
from edgetrain.schema import Origin, PowerMode

FAST, SLOW = (
    PowerMode(4, 1_500_000_000, 900_000_000, 1_600_000_000),
    PowerMode(2, 700_000_000, 400_000_000, 1_600_000_000),
)


def device(name, samples=1600):
    modes = RoundModes(
        "nano",
        ModeTable.of_modes([FAST, SLOW]),
        np.array([0.1, 0.18]),
        np.array([10.0, 4.0]),
        Origin.PUBLISHED,
        0,
        rest_w=1.0,
    )
    return RoundDevice(name, "nano", modes, samples)


def unit(name, correction=None):
    return FederatedUnit(BoardIdentity(name, "auto"), correction or RoundCorrection())


def test_each_unit_gets_the_plans_mode_and_its_predictions():
    assigner = RoundPlanAssigner([device("a"), device("b", 800)], RoundRules(deadline_s=11.0))
    assigned = assigner.assign(1, [unit("a"), unit("b")])
    assert assigned.deadline_s == 11.0
    a, b = assigned.of("a"), assigned.of("b")
    assert (a.mode, b.mode) == (FAST, SLOW)
    assert a.predicted_s == pytest.approx(10.0) and b.predicted_s == pytest.approx(9.0)
    assert a.kind_j == pytest.approx(100.0) and b.minibatches == 50


def test_what_was_learned_about_a_mode_and_the_unit_reaches_the_plan():
    slower = RoundCorrection().observe(SLOW, 9.0, 11.7)
    assigned = RoundPlanAssigner([device("b", 800)], RoundRules(deadline_s=11.0)).assign(2, [unit("b", slower)])
    assert assigned.of("b").mode == FAST
    assert assigned.of("b").predicted_s == pytest.approx(5.0 * slower.factor(FAST))
    assert assigned.of("b").kind_s == pytest.approx(5.0)


def test_a_unit_that_cannot_finish_sits_out_where_the_rules_allow_it():
    assigner = RoundPlanAssigner([device("a", 16000), device("b")], RoundRules(deadline_s=20.0, sit_out=True))
    assigned = assigner.assign(1, [unit("a"), unit("b")])
    assert assigned.of("a") is None and assigned.of("b") is not None


def test_a_unit_that_turned_out_too_slow_runs_at_its_fastest_instead_of_ending_the_training_of_all():
    slower = RoundCorrection()
    for _ in range(9):
        slower = slower.observe(FAST, 10.0, 14.0)
    assigner = RoundPlanAssigner([device("a"), device("b", 800)], RoundRules(deadline_s=11.0))
    assigned = assigner.assign(2, [unit("a", slower), unit("b")])
    assert (assigned.of("a").mode, assigned.of("b").mode) == (FAST, SLOW)
    assert assigned.of("a").predicted_s == pytest.approx(14.0, rel=0.02)
    assert assigner.assign(2, [unit("a", slower)]).deadline_s == 11.0
    with pytest.raises(UsageError, match="no device can finish within 5 s"):
        RoundPlanAssigner([device("a")], RoundRules(deadline_s=5.0)).assign(1, [unit("a")])


def test_a_unit_that_the_round_does_not_have_is_named():
    with pytest.raises(UsageError, match="the round has no device 'c'; known: a"):
        RoundPlanAssigner([device("a")], RoundRules()).assign(1, [unit("c")])


def test_fewer_local_epochs_cannot_be_asked_of_a_client():
    with pytest.raises(UsageError, match="decided by the client app"):
        RoundPlanAssigner([device("a")], RoundRules(epochs=3, least_epochs=1))
