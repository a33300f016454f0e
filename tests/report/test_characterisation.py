"""The characterisation of a machine, for people."""

from __future__ import annotations

from edgetrain.analysis import MinibatchTimes, StallCauses
from edgetrain.record import LoadingFacts, WorkloadFacts
from edgetrain.report.characterisation import show_characterisation, spell_median
from tests.report.printing import HOSTILE, assert_plain, printed
from tests.summaries import make_epoch, make_summary


def test_each_run_is_a_row_with_its_stall_and_the_main_cause() -> None:
    epoch = make_epoch(0, 10.0, 4.0, stall_by=StallCauses(1.0, 2.5, 0.25, 0.25))
    summary = make_summary(
        epoch, loading=LoadingFacts(workers=2, cache="cold"), minibatch=MinibatchTimes(12.5, 13.0, 20.0, 25.0)
    )
    text = printed(show_characterisation([summary]))
    (row,) = [line.split() for line in text.splitlines() if line.startswith("lenet5")]
    assert row == ["lenet5", "2", "cold", "12.5", "ms", "10", "s", "4", "s", "40%", "pre-processing"]
    assert spell_median(summary) == "12.5 ms"
    assert_plain(text)


def test_what_is_not_known_is_a_dash() -> None:
    bare = make_summary(loading=None, workload=WorkloadFacts())
    unseen = make_summary(make_epoch(0, 10.0, None), loading=LoadingFacts())
    text = printed(show_characterisation([bare, unseen]))
    lines = [line.split() for line in text.splitlines()]
    assert ["?", *["–"] * 7] in lines
    assert ["lenet5", "–", "–", "–", "10", "s", "–", "–", "–"] in lines
    assert_plain(text)


def test_names_are_plain_text() -> None:
    text = printed(show_characterisation([make_summary(make_epoch(), workload=WorkloadFacts(network=HOSTILE))]), 300)
    assert_plain(text)
    assert "[bold]x[/bold] [/nosuch]" in text
