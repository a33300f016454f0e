"""What `tune` prints: the answer above, and a power limit that cannot be kept said there too."""

from __future__ import annotations

from dataclasses import replace

from edgetrain.recommendation import (
    GainInterval,
    PowerLimit,
    TuneBaseline,
    TunedSetting,
    TuneResult,
    TuneTrial,
    power_limit,
)
from edgetrain.report import show_tuned
from edgetrain.schema import Origin
from tests.report.printing import printed

SETTING = TunedSetting(2, 2, False, False, None)
SLOW = replace(SETTING, power_mode="3/268.8/420.75/204")


def trial(setting: TunedSetting, power_w: float | None, state: str = "measured") -> TuneTrial:
    return TuneTrial(0, "candidate", setting, state, None, 0.005, power_w, None, 0.1, 32, None, "run", ())


def result(limit: PowerLimit | None) -> TuneResult:
    start = TuneBaseline(SETTING, 0.005, 17.0, 0.085)
    trials, none = (trial(SETTING, 17.0),), GainInterval(0.0, 0.0, 0.0)
    return TuneResult(
        SETTING, none, start, trials, False, "time", 0.005, "", None, (), (), Origin.MEASURED, "tune", limit
    )


def test_a_power_limit_is_judged_by_the_mean_of_all_trials_of_the_answer() -> None:
    trials = [trial(SETTING, 16.0), trial(SETTING, 18.0), trial(SLOW, 11.8), trial(SLOW, 5.0, "doubtful")]
    assert power_limit(trials, SETTING, 15.0) == PowerLimit(15.0, False, 17.0, 11.8, SLOW)
    assert power_limit(trials, SLOW, 15.0).kept
    assert power_limit([trial(SETTING, None)], SETTING, 15.0) == PowerLimit(15.0, True, None, None, None)


def test_where_no_setting_keeps_the_power_limit_the_headline_says_so_with_the_lowest_power() -> None:
    text = printed(show_tuned(result(PowerLimit(1.0, False, 17.0, 11.8, SLOW))))
    assert text.startswith("no setting could be confirmed that keeps the limit of 1 W")
    assert "draws 17 W; the lowest power measured is 11.8 W, with 2 workers, prefetch 2, 3/268.8/420.75/204" in text
    assert "change nothing" not in text
    assert printed(show_tuned(result(PowerLimit(20.0, True, 17.0, 11.8, SLOW)))).startswith("change nothing")
