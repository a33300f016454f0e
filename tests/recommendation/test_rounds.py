"""Planning federated rounds: everyone in time, least energy, and honest answers where that cannot be."""

from __future__ import annotations

import time
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from benchmarks.rounds import EPOCHS, at_maxn, draw_truth, make_fleet, run_plan
from benchmarks.rounds import SHARED as RACK_SLOWDOWN
from edgetrain.errors import UsageError
from edgetrain.prediction import ModeTable
from edgetrain.recommendation import (
    ALL_DEFAULT,
    ALL_MAXN,
    LITTLE_MARGIN,
    PLAN,
    RACE_TO_IDLE,
    SITS_OUT,
    TRAINS,
    KindSpread,
    Margins,
    RecordedRounds,
    RoundDevice,
    RoundModes,
    RoundRules,
    SharedSlowdown,
    allowed_lateness,
    draw_rounds,
    plan_round,
    simulate_rounds,
)
from edgetrain.schema import Origin, PowerMode

GHZ = 1_000_000_000
SPREAD = KindSpread(unit_time=0.02, run_time=0.01, unit_power=0.02, run_power=0.01)


def kind(speed: float = 1.0, power: bool = True, rest_w: float | None = 2.0) -> RoundModes:
    """Ten clocks: time falls with the clock, power grows with its cube."""
    clocks = np.linspace(0.2, 2.0, 10)
    modes = ModeTable.of_modes([PowerMode(4, int(clock * GHZ)) for clock in clocks])
    return RoundModes(
        f"kind {speed:g}",
        modes,
        0.1 / (speed * clocks),
        4.0 + 2.0 * clocks**3 if power else None,
        Origin.REPLAYED,
        top=9,
        default=6,
        rest_w=rest_w,
        top_idle_w=None if rest_w is None else rest_w + 2.0,
        default_idle_w=None if rest_w is None else rest_w + 1.0,
    )


SLOW, FAST = kind(1.0), kind(3.0)


def device(name: str, modes: RoundModes = FAST, samples: int = 1600, **more: object) -> RoundDevice:
    return RoundDevice(name, "board", modes, samples, download_s=0.5, upload_s=1.0, spread=SPREAD, **more)


def fleet(count: int, seed: int = 0) -> tuple[RoundDevice, ...]:
    draw = np.random.default_rng(seed)
    return tuple(
        device(f"d{place}", (SLOW, FAST)[place % 2], int(draw.integers(800, 3200)), group=f"rack={place // 10}")
        for place in range(count)
    )


SHARED = SharedSlowdown(0.02, 1.05, 1.3)


def test_everyone_has_the_margin_and_the_plan_needs_less_than_the_other_policies():
    plan = plan_round(fleet(50), RoundRules(shared=SHARED))
    assert all(one.status == TRAINS and one.latest_s <= plan.deadline_s * 1.000001 for one in plan.assignments)
    assert plan.energy(PLAN).energy_j < plan.energy(RACE_TO_IDLE).energy_j < plan.energy(ALL_MAXN).energy_j
    assert plan.energy(RACE_TO_IDLE).plan_saves > 0
    assert plan.energy(ALL_DEFAULT).energy_j is not None


def test_the_energies_of_the_devices_add_up_to_the_plan():
    plan = plan_round(fleet(20), RoundRules())
    assert sum(one.energy_j for one in plan.assignments) == pytest.approx(plan.energy(PLAN).energy_j)


def test_as_early_as_possible_is_when_the_slowest_can_finish():
    plan = plan_round([device("quick"), device("slow", SLOW)], RoundRules())
    slow = plan.assignments[1]
    assert plan.deadline_s == pytest.approx(slow.needs_s) == pytest.approx(slow.latest_s)
    assert plan.stragglers == ("slow",) and slow.mode.cpu_hz == 2 * GHZ
    assert plan.assignments[0].mode.cpu_hz < 2 * GHZ


def test_more_time_never_adds_energy_to_what_waiting_costs():
    devices = fleet(10)
    added = []
    for deadline in (14.0, 18.0, 30.0, 400.0):
        plan = plan_round(devices, RoundRules(deadline_s=deadline))
        added.append(plan.energy(PLAN).energy_j - 10 * 2.0 * deadline)
    assert all(after <= before * 1.000001 for before, after in pairwise(added))
    assert added[-1] < added[0]


def test_simulated_rounds_keep_the_allowed_lateness():
    devices, rules = fleet(300), RoundRules(shared=SHARED)
    found = simulate_rounds(plan_round(devices, rules), devices, rules, 200, seed=5)
    assert found.worst_late_share <= 0.05
    saved = {one.name: one.plan_saves for one in found.energies}
    assert saved[ALL_MAXN] > saved[RACE_TO_IDLE] > 0


def test_a_margin_from_runs_alone_would_be_late_too_often():
    devices = tuple(replace(one, spread=replace(SPREAD, unit_time=0.0)) for one in fleet(300))
    plan = plan_round(devices, RoundRules())
    found = simulate_rounds(plan, fleet(300), RoundRules(shared=SHARED), 200, seed=5)
    assert found.worst_late_share > 0.05


def test_late_devices_of_a_rack_come_together():
    draws = draw_rounds(fleet(20), RoundRules(shared=SharedSlowdown(0.1, 1.2, 1.3)), 400, 1)
    slow = draws.run_time > 1.1
    assert (slow[:, :10].sum(axis=1) % 10 == 0).all() and slow.any()
    assert (slow[:, 0] != slow[:, 10]).any()


def test_recorded_rounds_stay_whole_and_give_each_unit_its_factor():
    ratios = np.ones((50, 2)) * (1.0, 1.2)
    ratios[7] *= 1.5
    recorded = RecordedRounds(("d0", "d1"), ratios)
    assert recorded.factor("d1") == pytest.approx(1.2) and recorded.factor("d9") is None
    draws = draw_rounds(fleet(2), RoundRules(recorded=recorded), 300, 1)
    assert np.array_equal(draws.run_time[:, 0] > 1.4, draws.run_time[:, 1] > 1.4) and (draws.run_time > 1.4).any()
    plan = plan_round(fleet(2), RoundRules(recorded=recorded, deadline_s=300.0))
    assert "few_recorded" not in {doubt.kind for doubt in plan.doubts}
    few = RecordedRounds(("d0",), ratios[:3, :1])
    plan = plan_round(fleet(2), RoundRules(recorded=few, deadline_s=300.0))
    assert "few_recorded" in {doubt.kind for doubt in plan.doubts}


def test_the_margin_of_an_unknown_unit_grows_with_the_fleet_and_vanishes_when_it_is_known():
    rules = RoundRules()
    assert Margins(rules, 1000).lasting(0.03, 0.0) > Margins(rules, 2).lasting(0.03, 0.0) > 1.0
    assert Margins(rules, 1000).lasting(0.0, 0.0) == 1.0
    unknown, known = (plan_round([device("a", SLOW, time_factor=f)], RoundRules()) for f in (None, 1.0))
    assert known.deadline_s < unknown.deadline_s


def test_no_device_exceeds_the_share_by_chance():
    chance = allowed_lateness(0.05, 200, 1000)
    late = np.random.default_rng(0).binomial(200, chance, (200, 1000)).max(axis=1)
    assert 0.005 < chance < 0.05 and (late > 10).mean() < 0.1


def test_a_deadline_nobody_can_meet_says_who_needs_how_long():
    with pytest.raises(UsageError, match="no device can finish within 1 s: slow needs") as caught:
        plan_round([device("quick"), device("slow", SLOW)], RoundRules(deadline_s=1.0))
    assert caught.value.devices == ("slow", "quick") and caught.value.needs_s[0] > caught.value.needs_s[1] > 1.0
    with pytest.raises(UsageError, match="no device can finish"):
        plan_round([device("quick")], RoundRules(deadline_s=1.0, sit_out=True))


def test_a_slow_device_trains_fewer_epochs_or_sits_out_only_where_that_is_allowed():
    devices = [device("quick"), device("slow", SLOW)]
    deadline = 10.0
    with pytest.raises(UsageError, match="1 of 2 devices cannot finish within 10 s: slow needs"):
        plan_round(devices, RoundRules(deadline, epochs=3))
    fewer = plan_round(devices, RoundRules(deadline, epochs=3, least_epochs=1)).assignments[1]
    assert fewer.status == TRAINS and fewer.epochs == 1
    out = plan_round(devices, RoundRules(deadline, epochs=3, sit_out=True)).assignments[1]
    assert out.status == SITS_OUT and out.mode is None and out.energy_j == pytest.approx(2.0 * deadline)


def test_the_round_waits_for_as_many_devices_as_asked():
    devices = [device("quick"), device("slow", SLOW)]
    plan = plan_round(devices, RoundRules(sit_out=True, least_devices=1))
    assert plan.deadline_s == pytest.approx(plan.assignments[0].needs_s)
    assert [one.status for one in plan.assignments] == [TRAINS, SITS_OUT]


def test_a_device_without_margin_runs_at_its_fastest_and_is_named():
    needs = plan_round([device("a", SLOW)], RoundRules()).deadline_s
    plan = plan_round([device("a", SLOW)], RoundRules(deadline_s=0.97 * needs))
    assert plan.assignments[0].status == LITTLE_MARGIN and plan.stragglers == ("a",)
    assert "little_margin" in {doubt.kind for doubt in plan.doubts}


def test_unknown_power_is_null_and_never_guessed():
    plan = plan_round([device("known"), device("dark", kind(2.0, power=False))], RoundRules())
    dark = plan.assignments[1]
    assert dark.power_w is None and dark.energy_j is None and dark.mode.cpu_hz == 2 * GHZ
    assert plan.energy(PLAN).energy_j is None and plan.energy(PLAN).known_devices == 1
    assert "power_unknown" in {doubt.kind for doubt in plan.doubts}
    idle = plan_round([device("a", kind(2.0, rest_w=None))], RoundRules(deadline_s=100.0))
    assert idle.energy(PLAN).energy_j is None and "idle_unknown" in {doubt.kind for doubt in idle.doubts}
    with pytest.raises(UsageError, match="power of kind 2 is not known"):
        plan_round([device("dark", kind(2.0, power=False), max_power_w=5.0)], RoundRules())


def test_a_power_limit_binds_and_one_below_all_modes_is_refused():
    plan = plan_round([device("a", max_power_w=6.0)], RoundRules())
    assert plan.assignments[0].power_w <= 6.0
    with pytest.raises(UsageError, match="no mode of at most 3 W"):
        plan_round([device("a", max_power_w=3.0)], RoundRules())


def test_a_device_that_never_answers_neither_holds_up_nor_counts():
    devices = [device("quick"), device("dead", SLOW, answers=0.0)]
    plan = plan_round(devices, RoundRules())
    assert plan.deadline_s == plan.assignments[0].needs_s and plan.assignments[1].reason == "never answers"
    found = simulate_rounds(plan, devices, RoundRules(), 20)
    assert found.devices[1].answered == 0 and found.devices[1].late_share is None
    # It was expected to answer, but does not: the round ends at its deadline all the same.
    plan = plan_round([device("quick"), device("dead", SLOW)], RoundRules())
    found = simulate_rounds(plan, devices, RoundRules(), 20)
    assert found.devices[1].finish_s is None and "never_answered" in {doubt.kind for doubt in found.doubts}
    assert found.worst_device == "quick" and found.no_answer == pytest.approx(0.5)


def test_wrong_devices_and_rules_are_refused():
    with pytest.raises(UsageError, match="a second device is named 'a'"):
        plan_round([device("a"), device("a")], RoundRules())
    with pytest.raises(UsageError, match="at least one device"):
        plan_round([], RoundRules())
    with pytest.raises(UsageError, match="no device takes part"):
        plan_round([device("a", takes_part=False)], RoundRules())
    for wrong in ({"late": 0.0}, {"deadline_s": -1.0}, {"rounds": 0}, {"epochs": 1, "least_epochs": 2}):
        with pytest.raises(UsageError):
            RoundRules(**wrong)
    for wrong in ({"samples": 0}, {"answers": 1.5}, {"time_factor": 0.0}):
        with pytest.raises(UsageError):
            device("a", **wrong)
    with pytest.raises(UsageError, match="chance from 0 to 1"):
        SharedSlowdown(0.1, 1.3, 1.1)


def test_boards_the_planner_does_not_see_keep_the_deadline_and_need_less_energy():
    # A small sample of benchmarks/rounds.py: units, modes and runs have factors of their own.
    rounds = 100
    devices = make_fleet("lenet5", 60, 1)
    truth = draw_truth(devices, "lenet5", rounds, 2, boards=1)
    finish_s, _ = at_maxn(devices, draw_truth(devices, "lenet5", 300, 3, boards=1))
    deadline_s = float(np.quantile(finish_s, 0.99, axis=0).max())
    plan = plan_round(devices, RoundRules(deadline_s, EPOCHS, rounds=rounds, shared=RACK_SLOWDOWN))
    found = run_plan(devices, plan, truth)
    assert found.worst_late <= 0.05
    assert found.saves(ALL_MAXN) > found.saves(RACE_TO_IDLE) > 0


def test_ten_thousand_devices_are_planned_within_seconds():
    began = time.process_time()
    plan = plan_round(fleet(10_000), RoundRules(shared=SHARED))
    assert len(plan.assignments) == 10_000 and time.process_time() - began < 10
