"""Modes are chosen so that all finish together with least energy; who cannot is named, with its time."""

import numpy as np
import pytest

from edgetrain.errors import UsageError
from edgetrain.federated import (
    BoardIdentity,
    DeadlineAssigner,
    FederatedUnit,
    ModeCost,
    RoundCorrection,
    UnitProfile,
    mode_costs,
)
from edgetrain.prediction import ModeTable
from edgetrain.schema import PowerMode

FAST = ModeCost(PowerMode(4, 1_500_000_000), 0.1, 10.0)  # 1 J
MIDDLE = ModeCost(PowerMode(4, 1_000_000_000), 0.15, 5.0)  # 0.75 J
SLOW = ModeCost(PowerMode(2, 500_000_000), 0.4, 1.5)  # 0.6 J
COSTS = (FAST, MIDDLE, SLOW)


def unit(name, correction=None):
    return FederatedUnit(BoardIdentity(name, "auto"), correction or RoundCorrection())


def modes_of(assigned):
    return {each.unit: each.mode for each in assigned.assignments}


def test_the_slowest_board_runs_at_its_fastest_and_the_others_finish_with_it_using_less():
    assigner = DeadlineAssigner(
        {"a": UnitProfile(COSTS, 400), "b": UnitProfile(COSTS, 100), "c": UnitProfile(COSTS, 200)}
    )
    assigned = assigner.assign(1, [unit("a"), unit("b"), unit("c")])
    assert assigned.deadline_s == pytest.approx(40.0)
    assert modes_of(assigned) == {"a": FAST.mode, "b": SLOW.mode, "c": MIDDLE.mode}
    assert all(each.predicted_s <= assigned.deadline_s + 1e-9 for each in assigned.assignments)


def test_idle_power_until_the_deadline_is_charged():
    # 100 minibatches in 40 s: 100 J and 30 s idle at the fast mode, 66 J and no idling at the slow one.
    slow = ModeCost(PowerMode(2, 500_000_000), 0.4, 1.65)
    hurried = ModeCost(PowerMode(2, 500_000_000), 0.2, 3.0)  # 60 J and 20 s idle
    for idle_w, best in ((0.0, hurried), (2.0, slow)):
        assigner = DeadlineAssigner({"a": UnitProfile((FAST, slow, hurried), 100, idle_w)}, 40.0)
        assert assigner.assign(1, [unit("a")]).assignments[0].predicted_s == pytest.approx(100 * best.minibatch_s)


def test_what_was_learned_about_a_unit_changes_its_mode():
    assigner = DeadlineAssigner({"a": UnitProfile(COSTS, 100)}, 15.5)
    assert modes_of(assigner.assign(1, [unit("a")])) == {"a": MIDDLE.mode}
    slower = assigner.assign(2, [unit("a", RoundCorrection().observe(MIDDLE.mode, 15.0, 18.0))])
    assert modes_of(slower) == {"a": FAST.mode}
    assert 10.0 < slower.assignments[0].predicted_s < 11.0
    assert slower.assignments[0].kind_s == pytest.approx(10.0)


def test_a_deadline_that_nobody_can_meet_names_the_unit_and_its_time():
    with pytest.raises(UsageError, match=r"a needs 10.0 s in its fastest mode, more than the deadline of 5 s"):
        DeadlineAssigner({"a": UnitProfile(COSTS, 100)}, 5.0).assign(1, [unit("a")])


def test_a_unit_that_turned_out_too_slow_for_the_deadline_runs_at_its_fastest(caplog):
    assigner = DeadlineAssigner({"a": UnitProfile(COSTS, 100), "b": UnitProfile(COSTS, 100)}, 10.5)
    slower = RoundCorrection().observe(FAST.mode, 10.0, 13.0)
    assigned = assigner.assign(2, [unit("a", slower), unit("b")])
    assert modes_of(assigned) == {"a": FAST.mode, "b": FAST.mode} and assigned.deadline_s == 10.5
    assert assigned.of("a").predicted_s > 10.5 and "a needs 12." in caplog.text


def test_a_unit_without_a_profile_is_named():
    with pytest.raises(UsageError, match="nothing is known about the unit 'b'; profiled units: a"):
        DeadlineAssigner({"a": UnitProfile(COSTS, 100)}).assign(1, [unit("b")])


def test_a_round_without_units_is_empty():
    assert DeadlineAssigner({}).assign(1, []).assignments == ()


def test_a_table_gives_its_mean_times_where_it_has_them():
    ones = np.ones(2)
    table = ModeTable(4 * ones, 1e9 * ones, np.nan * ones, np.nan * ones, None, 0.1 * ones, 0.2 * ones, 5 * ones)
    assert mode_costs(table)[0] == ModeCost(PowerMode(4, 10**9), 0.2, 5.0)
