import pytest

from edgetrain.errors import UsageError
from edgetrain.recommendation.goals import Goal, GoalLimits, Work, check_against, parse_confidence, parse_quantity


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("20", "power", 20),
        ("20W", "power", 20),
        ("1500mW", "power", 1.5),
        ("2h", "time", 7200),
        ("90 min", "time", 5400),
        ("50Wh", "energy", 180_000),
        ("3kJ", "energy", 3000),
        (12.5, "power", 12.5),
        ("1e2", "time", 100),
    ],
)
def test_a_limit_is_read_in_the_unit_it_was_written_in(text, kind, value):
    assert parse_quantity(text, kind) == pytest.approx(value)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("20J", "power"),
        ("20W", "time"),
        ("fast", "time"),
        ("-3", "power"),
        ("0", "energy"),
        ("nan", "power"),
        ("1MJ", "energy"),
        ("", "power"),
        ("1e999", "power"),
    ],
)
def test_another_dimension_or_no_number_is_refused(text, kind):
    with pytest.raises(UsageError):
        parse_quantity(text, kind)


def test_limits_that_cannot_be_meant_are_refused():
    with pytest.raises(UsageError, match="max-power-w"):
        GoalLimits(max_power_w=-5)
    with pytest.raises(UsageError, match="max-cores"):
        GoalLimits(max_cores=0)
    with pytest.raises(UsageError, match="max-power-w too"):
        GoalLimits(peak=True)
    with pytest.raises(UsageError, match="check its unit"):
        GoalLimits(max_power_w=10, max_time_s=10, max_energy_j=1e6)
    with pytest.raises(UsageError, match="minimize"):
        Goal("speed")
    with pytest.raises(UsageError, match="confidence"):
        Goal(confidence=0.3)


def test_a_limit_below_idle_power_is_refused_with_both_numbers():
    with pytest.raises(UsageError, match=r"3 W.*7\.5 W"):
        check_against(GoalLimits(max_power_w=3), 11, 50, idle_power_w=7.5)


@pytest.mark.parametrize(("limit", "word"), [(20_000, "mW"), (0.02, "kW"), (60, "has no effect")])
def test_a_limit_far_off_or_idle_is_remarked_on(limit, word):
    assert word in check_against(GoalLimits(max_power_w=limit), 11, 50)[0]
    assert check_against(GoalLimits(max_power_w=20), 11, 50) == []


def test_work_is_what_the_limits_are_about():
    assert Work.of(None, None).minibatches == 1
    assert Work.of(1443, None).minibatches == 1443
    assert Work.of(1443, 10).minibatches == 14430
    with pytest.raises(UsageError, match="--minibatches"):
        Work.of(None, 10)
    assert parse_confidence(95) == parse_confidence(0.95) == 0.95
