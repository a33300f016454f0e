import pytest

from edgetrain.errors import UsageError
from edgetrain.recommendation.training import (
    EpochCost,
    IdleState,
    battery_life,
    cost_of_measuring,
    energy_of,
    job_cycle,
    payback,
    training_cost,
)
from edgetrain.schema import Estimate, ModeMeasurement, Origin, PowerMode


def about(value: float, share: float = 0.1, unit: str = "s") -> Estimate:
    return Estimate(value, value / (1 + share), value * (1 + share), unit, Origin.PREDICTED)


def test_warm_epochs_add_up():
    one, ten = (training_cost(EpochCost(about(100), about(20)), n) for n in (1, 10))
    assert ten.time_s.value == pytest.approx(10 * one.time_s.value)
    assert ten.energy_j.value == pytest.approx(10 * one.energy_j.value) == pytest.approx(20_000)
    assert ten.energy_j.lo < ten.energy_j.value < ten.energy_j.hi


def test_a_cold_first_epoch_is_paid_once():
    training = training_cost(EpochCost(about(100), about(20), cold_epoch_s=160, baseload_w=8), 10)
    assert training.cold_extra_s == 60
    assert training.time_s.value == pytest.approx(1060)
    # The extra minute costs between the baseload and the training power.
    assert 20_000 + 60 * 8 <= training.energy_j.value <= 20_000 + 60 * 20
    assert training.baseload_j == pytest.approx(8 * 1060)


def test_what_is_not_known_is_said_and_not_made_up():
    unknown = training_cost(EpochCost(about(100), about(20)), 3)
    assert unknown.cold_extra_s is None and unknown.baseload_j is None
    assert any("not measured" in note for note in unknown.notes)
    quick = training_cost(EpochCost(about(100), about(20), cold_epoch_s=90), 3)
    assert quick.cold_extra_s == 0


def test_the_wait_between_jobs_is_counted_and_sleeping_saves_it():
    training = training_cost(EpochCost(about(600), about(20)), 1)
    idle = job_cycle(training, 3600, IdleState("idle", 10, Origin.MEASURED))
    asleep = job_cycle(training, 3600, IdleState("wake-on-lan", 1, Origin.PUBLISHED, wake_s=30))
    assert idle.energy_j.value == pytest.approx(600 * 20 + 3000 * 10)
    assert asleep.energy_j.value < idle.energy_j.value
    assert asleep.energy_j.origin is Origin.PREDICTED
    with pytest.raises(UsageError, match="too often"):
        job_cycle(training, 500, IdleState("idle", 10, Origin.MEASURED))


def test_a_battery_holds_whole_rounds_and_fewer_at_the_upper_end():
    found = battery_life(50, about(20_000), period_s=3600)
    assert found.rounds == 9 and found.rounds_sure == 8
    assert found.lasts_s == 9 * 3600
    assert battery_life(1, about(20_000)).rounds == 0
    with pytest.raises(UsageError):
        battery_life(0, about(1))


def test_profiling_pays_off_when_the_saving_has_made_up_for_it():
    found = payback(600, 12_000, EpochCost(about(120), about(20)), EpochCost(about(100), about(21)))
    assert found.epochs_for_time == pytest.approx(600 / 20)
    assert found.epochs_for_energy == pytest.approx(12_000 / (2400 - 2100))
    never = payback(600, None, EpochCost(about(100), about(20)), EpochCost(about(120), about(21)))
    assert never.epochs_for_time is None and never.epochs_for_energy is None and len(never.notes) == 2


def test_the_cost_of_profiling_is_measured_where_it_was_and_estimated_where_not():
    mode = PowerMode(4, 10**9)
    measured = ModeMeasurement(mode, 0.1, 10.0, Origin.MEASURED, cost_s=20)
    assert cost_of_measuring([measured]) == (20, 200)
    seconds, joules = cost_of_measuring([measured, ModeMeasurement(mode, 0.1, 10.0, Origin.REPLAYED)])
    assert seconds > 24 and joules == pytest.approx(10 * seconds)


def test_relative_errors_add_in_squares():
    both = energy_of(about(10, 0.3), about(5, 0.4))
    assert both.value == 50
    assert both.hi < 50 * 1.3 * 1.4 and both.hi > 50 * 1.4
