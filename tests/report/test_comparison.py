"""A comparison for people: both sides, what differs, and whether that is chance."""

from __future__ import annotations

from edgetrain.analysis import Comparison, Difference, MinibatchTimes, PowerSummary, compare
from edgetrain.report.comparison import LABELS, show_comparison
from tests.report.printing import HOSTILE, assert_plain, printed
from tests.summaries import make_epoch, make_summary


def side(name: str, scale: float = 1.0, epochs: int = 3, **more: object) -> list:
    """Return three runs of one setting."""
    return [
        make_summary(
            *(make_epoch(number, scale * (10 + 0.01 * run), scale * 2.0, energy_j=50.0) for number in range(epochs)),
            run=f"{name}{run}",
            minibatch=MinibatchTimes(100.0 * scale, 101.0 * scale),
            power_w=PowerSummary(20.0, 20.5),
            **more,
        )
        for run in range(3)
    ]


def test_both_sides_and_every_metric_are_shown_with_units_and_a_verdict() -> None:
    text = printed(show_comparison(compare(side("a"), side("b", 2.0))))
    assert "A: a0, a1, a2" in text and "B: b0, b1, b2" in text
    warm, cold = text.split("the first epoch")
    assert "epochs after the first" in warm
    for metric in ("e2e", "fetch_stall", "compute", "energy"):
        assert LABELS[metric] in warm and LABELS[metric] in cold
    assert LABELS["steady"] in warm and LABELS["steady_power"] in warm and LABELS["steady_power"] not in cold
    assert "167 ms" in warm and "334 ms" in warm  # 10 s over 60 minibatches, and twice that
    assert "833 mJ" in warm or "0.833 J" in warm
    assert "20 W" in warm and "they differ" in warm and "no difference can be shown" in warm
    assert_plain(text)


def test_with_one_epoch_there_is_one_table_without_a_title() -> None:
    text = printed(show_comparison(compare(side("a", epochs=1), side("b", epochs=1))))
    assert "first" not in text and "end to end" in text


def test_too_few_runs_say_how_many_more_it_takes() -> None:
    text = printed(show_comparison(compare(side("a")[:1], side("b", 1.1)[:1])))
    assert "+10.0%" in text and "2 more runs per side" in text and "they differ" not in text


def test_every_metric_has_a_label() -> None:
    found = compare(side("a"), side("b"))
    assert {row.metric for row in (*found.warm, *found.cold)} == set(LABELS)


def test_names_of_runs_are_plain_text() -> None:
    row = Difference("e2e", "s per minibatch, end to end", 0.1, 0.1, 0.0, None, None, None, HOSTILE)
    text = printed(show_comparison(Comparison((HOSTILE,), ("b",), (row,), ())), 300)
    assert_plain(text)
    assert text.count("[bold]x[/bold] [/nosuch]") == 2
