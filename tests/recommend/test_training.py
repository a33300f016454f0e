import pytest

from edgetrain.errors import UsageError
from edgetrain.predict.base import Estimate
from edgetrain.recommend.training import (
    Between,
    Mode,
    cycle,
    on_battery,
    pay_off,
    product,
    profiling_cost,
    whole_training,
)
from edgetrain.schema import ModeMeasurement, Origin, PowerMode


def about(value: float, share: float = 0.1) -> Estimate:
    return Estimate(value, value / (1 + share), value * (1 + share))


def test_warm_epochs_add_up():
    one, ten = (whole_training(Mode(about(100), about(20)), n) for n in (1, 10))
    assert ten.time_s.value == pytest.approx(10 * one.time_s.value)
    assert ten.energy_j.value == pytest.approx(10 * one.energy_j.value) == pytest.approx(20_000)
    assert ten.energy_j.lo < ten.energy_j.value < ten.energy_j.hi


def test_a_cold_first_epoch_is_paid_once():
    training = whole_training(Mode(about(100), about(20), cold_epoch_s=160, baseload_w=8), 10)
    assert training.cold_extra_s == 60
    assert training.time_s.value == pytest.approx(1060)
    # The extra minute costs between the baseload and the training power.
    assert 20_000 + 60 * 8 <= training.energy_j.value <= 20_000 + 60 * 20
    assert training.baseload_j == pytest.approx(8 * 1060)


def test_what_is_not_known_is_said_and_not_made_up():
    unknown = whole_training(Mode(about(100), about(20)), 3)
    assert unknown.cold_extra_s is None and unknown.baseload_j is None
    assert any("not measured" in note for note in unknown.notes)
    quick = whole_training(Mode(about(100), about(20), cold_epoch_s=90), 3)
    assert quick.cold_extra_s == 0


def test_the_wait_between_jobs_is_counted_and_sleeping_saves_it():
    training = whole_training(Mode(about(600), about(20)), 1)
    idle = cycle(training, 3600, Between("idle", 10, Origin.MEASURED))
    asleep = cycle(training, 3600, Between("wake-on-lan", 1, Origin.PUBLISHED, wake_s=30))
    assert idle.energy_j.value == pytest.approx(600 * 20 + 3000 * 10)
    assert asleep.energy_j.value < idle.energy_j.value
    assert asleep.energy_j.origin is Origin.PREDICTED
    with pytest.raises(UsageError, match="too often"):
        cycle(training, 500, Between("idle", 10, Origin.MEASURED))


def test_a_battery_holds_whole_rounds_and_fewer_at_the_upper_end():
    found = on_battery(50, about(20_000), period_s=3600)
    assert found.rounds == 9 and found.rounds_sure == 8
    assert found.lasts_s == 9 * 3600
    assert on_battery(1, about(20_000)).rounds == 0
    with pytest.raises(UsageError):
        on_battery(0, about(1))


def test_profiling_pays_off_when_the_saving_has_made_up_for_it():
    found = pay_off(600, 12_000, Mode(about(120), about(20)), Mode(about(100), about(21)))
    assert found.epochs_for_time == pytest.approx(600 / 20)
    assert found.epochs_for_energy == pytest.approx(12_000 / (2400 - 2100))
    never = pay_off(600, None, Mode(about(100), about(20)), Mode(about(120), about(21)))
    assert never.epochs_for_time is None and never.epochs_for_energy is None and len(never.notes) == 2


def test_the_cost_of_profiling_is_measured_where_it_was_and_estimated_where_not():
    mode = PowerMode(4, 10**9)
    measured = ModeMeasurement(mode, 0.1, 10.0, Origin.MEASURED, cost_s=20)
    assert profiling_cost([measured]) == (20, 200, False)
    seconds, joules, estimated = profiling_cost([measured, ModeMeasurement(mode, 0.1, 10.0, Origin.REPLAYED)])
    assert estimated and seconds > 24 and joules == pytest.approx(10 * seconds)


def test_relative_errors_add_in_squares():
    both = product(about(10, 0.3), about(5, 0.4))
    assert both.value == 50
    assert both.hi < 50 * 1.3 * 1.4 and both.hi > 50 * 1.4
