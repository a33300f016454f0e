"""The page of a campaign: pictures by factor, variability, findings, time and energy."""

from __future__ import annotations

import numpy as np

from edgetrain.analysis import CacheCurve, Evidence, StudyFinding, Verdict, campaign_result, spreads, tabulate
from edgetrain.report.page import CampaignContent, campaign_page
from edgetrain.report.page.factor_plots import factor_plots, factor_value
from edgetrain.schema import Origin
from tests.report.printing import HOSTILE
from tests.report.test_page import Page, outside
from tests.summaries import make_epoch, make_summary


def summaries(repeats: int = 2):
    found = []
    for repeat in range(repeats):
        for workers in (0, 1, 2):
            for storage, slow in (("hdd", 2.0), ("ssd", 1.0)):
                stall = slow * (3 - workers) + 0.1 * repeat
                energy = {"energy_j": 100.0, "energy_pm_j": 2.0}
                found.append(
                    make_summary(
                        make_epoch(0, 6.0 + 2 * stall, 2 * stall, **energy),
                        make_epoch(1, 6.0 + stall, stall, **energy),
                        factors={"workers": workers, "storage": storage},
                        run=f"r{repeat}{workers}{storage}",
                    )
                )
    return found


def content(runs, **more) -> CampaignContent:
    result = campaign_result("grid", len(runs), {}, {}, runs)
    return CampaignContent("grid", {"All": result.rows}, runs, result.conclusions, result.variability, **more)


def test_a_campaign_shows_times_by_factor_with_their_range() -> None:
    text = campaign_page(content(summaries()))
    assert "End-to-end time per epoch by loader workers" in text and "Fetch stall per epoch by loader workers" in text
    assert "workers 0, storage hdd: later epochs" in text and 'class="range"' in text
    assert "2,400 ± 9.8 J" in text and "energy of all epochs" in text
    page = Page(text)
    assert outside(page) == []
    rows = [row for row in page.rows if row and row[0] == "workers 2, storage ssd"]
    assert rows[0][:3] == ["workers 2, storage ssd", "2", "30.3 s"]


def test_settings_that_are_as_fast_as_the_fastest_are_counted_with_it() -> None:
    def page(*later_s: float) -> str:
        made = [
            make_summary(make_epoch(0, 9.0, 2.0), make_epoch(1, each, 1.0), factors={"workers": place}, run=f"r{place}")
            for place, each in enumerate(later_s)
        ]
        return campaign_page(content(made))

    alone = page(12.0, 7.0, 7.5)
    assert "The fastest setting (workers 1) takes 7 s per epoch after the first, the slowest (workers 0) 1.7 " in alone
    assert "The fastest settings (workers 1 and 1 more within 1 %) take 7 s per epoch" in page(12.0, 7.0, 7.05)


def test_lines_are_medians_with_the_shortest_and_longest_epoch() -> None:
    runs = summaries()
    plots = factor_plots(tabulate(runs), {run.run: run for run in runs})
    (e2e, _) = plots
    hdd = next(series for series in e2e.series if series.name == "storage hdd")
    np.testing.assert_allclose(hdd.x, [0, 1, 2])
    np.testing.assert_allclose(hdd.y, [12.05, 10.05, 8.05])
    assert hdd.low is not None and hdd.high is not None
    np.testing.assert_allclose(hdd.high - hdd.low, 0.1)


def test_factors_that_are_words_are_not_an_axis_and_sizes_are() -> None:
    assert factor_value("storage", "hdd") is None and factor_value("page_cache", "500MB") == 5e8
    assert factor_value("page_cache", "much") is None and factor_value("workers", 4) == 4.0
    assert factor_value("pin_memory", True) is None


def test_cache_curves_findings_and_failures_are_shown() -> None:
    curve = CacheCurve("r", (0.0, 5.0, 9.0), np.linspace(0, 9, 10), np.linspace(0, 1, 10), np.arange(9.0), np.ones(9))
    finding = StudyFinding("a", "more workers hide storage", Verdict.HOLDS, (Evidence("stall", "1 s", "2 s", True),))
    text = campaign_page(
        content(summaries(1), curves=[("sd, 500MB", curve)], findings=[finding], failed={"r9": "out of memory"})
    )
    assert "Dataset in the page cache: sd, 500MB" in text and "Reads from the storage medium: sd, 500MB" in text
    assert "1 of 1 findings of the paper hold here." in text and "(paper: 2 s)" in text
    assert "r9: out of memory" in text


def test_only_what_contradicts_a_finding_is_said_to() -> None:
    found = tuple(Evidence(name, "1 s", "–", supports) for name, supports in (("a", True), ("b", False), ("c", None)))
    finding = StudyFinding("3", "workers help", Verdict.DOES_NOT, found, origin=Origin.EMULATED)
    theirs = StudyFinding("3", "workers help", Verdict.HOLDS, (), origin=Origin.PUBLISHED)
    text = campaign_page(content(summaries(1), findings=[finding, theirs]))
    assert text.count("which contradicts it") == 1 and "b: 1 s, which contradicts it" in text
    assert "c: 1 s, which does not decide it" in text
    assert "does not hold here" in text and "3: workers help (published)" in text
    assert "0 of 1 findings of the paper hold here." in text


def test_one_run_and_no_run_are_pages_too() -> None:
    one = campaign_page(content([make_summary(make_epoch())]))
    assert "Too few settings were run for a comparison." in one and "energy: not measured in every epoch" in one
    assert "Too few settings" in campaign_page(content([]))


def test_settings_of_others_are_text() -> None:
    name = HOSTILE + '"><img src=x onerror=alert(1)>'
    runs = [make_summary(make_epoch(), make_epoch(1), factors={name: value}, run=name) for value in (1, 2)]
    page = Page(campaign_page(content(runs, failed={name: name}), name))
    assert outside(page) == [] and "img" not in page.tags and page.tags.count("script") == 2
    assert spreads(runs)
