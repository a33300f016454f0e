"""Campaigns for people: what they will take, what they found, and what is not known of either."""

from __future__ import annotations

from dataclasses import replace

from edgetrain.analysis import campaign_result
from edgetrain.report.campaigns import factor_cells, show_campaign, show_campaign_preview, variability_table
from edgetrain.schema import CampaignPreview, PlanCost, PlannedRow
from tests.report.printing import HOSTILE, assert_plain, printed
from tests.summaries import make_epoch, make_summary

COST = PlanCost(3725.0, 4.5e4, "from what has run", 0)


def preview(*rows: PlannedRow, cost: PlanCost = COST, device: str = "auto") -> CampaignPreview:
    return CampaignPreview("grid-0123abcd", device, rows, sum(not row.done for row in rows), cost)


def test_a_preview_lists_every_run_with_its_state_and_what_is_left() -> None:
    rows = (
        PlannedRow(0, 0, {"workers": 0, "storage": "sd"}, True, False),
        PlannedRow(1, 1, {"workers": 4, "storage": "hdd"}, False, True),
        PlannedRow(2, 0, {}, False, False),
    )
    text = printed(show_campaign_preview(preview(*rows, device="sim:orin-agx")))
    lines = [line.split() for line in text.splitlines()]
    assert lines[1] == ["1", "1", "workers", "0,", "storage", "sd", "done"]
    assert lines[2] == ["2", "2", "workers", "4,", "storage", "hdd", "failed"]
    assert lines[3] == ["3", "1", "as", "given", "to", "do"]
    assert "2 runs to do on sim:orin-agx; time: 1 h 02 min; energy: 45,000 J (from what has run)" in text
    assert_plain(text)


def test_a_cost_nobody_knows_is_not_a_number() -> None:
    unknown = PlanCost(None, None, "the time is not known yet", 1)
    text = printed(show_campaign_preview(preview(PlannedRow(0, 0, {}, False, False), cost=unknown)))
    assert "1 run to do; time: not known before the first run; energy: – (the time is not known yet)" in text
    assert_plain(text)


def result(*summaries):
    done = {str(place): summary.run for place, summary in enumerate(summaries)}
    return campaign_result("grid-0123abcd", len(summaries), done, {}, summaries)


def test_a_campaign_shows_times_by_factor_cold_and_later_apart() -> None:
    found = result(
        *(
            make_summary(
                make_epoch(0, 10.0, 4.0, fill_s=0.5),
                make_epoch(1, 6.0, 1.0, read_bytes=2_000_000),
                factors={"workers": workers, "storage": "sd"},
                run=f"r{workers}",
            )
            for workers in (0, 2)
        )
    )
    text = printed(show_campaign(found, repeats=1))
    heads, cells = factor_cells(found.rows)
    assert heads[:3] == ["workers", "storage", "runs"] and len(heads) == len(cells[0]) == len(cells[1])
    assert cells[0] == ["0", "sd", "1", "10 s", "4 s", "500 ms", "6 s", "1 s", "5 s", "2 MB"]
    assert [line.split()[:2] for line in text.splitlines() if "sd" in line.split()] == [["0", "sd"], ["2", "sd"]]
    assert "varies within" not in text
    assert_plain(text)


def test_runs_of_one_epoch_have_dashes_for_the_later_ones() -> None:
    found = result(make_summary(make_epoch(0, 10.0, 4.0), factors={"workers": 1}))
    _, (cells,) = factor_cells(found.rows)
    assert cells == ["1", "1", "10 s", "4 s", "100 ms", "–", "–", "6 s", "–"]
    assert_plain(printed(show_campaign(found, 1)))


def test_repeats_show_how_much_epochs_vary_and_what_is_not_known_of_that() -> None:
    found = result(*(make_summary(make_epoch(0, 10.0 + run), make_epoch(1, 8.0), run=f"r{run}") for run in range(2)))
    text = printed(show_campaign(found, repeats=2))
    assert "varies within" in text and "0.0%" in text
    (row,) = [line for line in text.splitlines() if line.startswith("as given")]
    assert row.split()[-1] == "–"  # one unit: nothing can be said between units
    assert_plain(text)
    assert "setting" in printed(variability_table(()))


def test_conclusions_stand_below_the_table() -> None:
    found = replace(result(make_summary(make_epoch())), conclusions=("sd is fast enough: compute hides its fetching",))
    assert "sd is fast enough: compute hides its fetching" in printed(show_campaign(found, 1))


def test_a_campaign_without_a_finished_run_is_shown_as_nothing() -> None:
    text = printed(show_campaign(result(), 3))
    assert_plain(text)
    assert "runs" in text


def test_values_of_factors_are_plain_text() -> None:
    rows = (PlannedRow(0, 0, {"note": HOSTILE}, False, False),)
    text = printed(show_campaign_preview(preview(*rows)), 300)
    text += printed(show_campaign(result(make_summary(make_epoch(), factors={"note": HOSTILE})), 2), 600)
    assert_plain(text)
    assert text.count("[bold]x[/bold] [/nosuch]") == 3
