"""The page of several runs: one file that fetches nothing, shows every run, and takes names for text."""

from __future__ import annotations

import html
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from edgetrain.analysis import MinibatchTimes, PowerSummary, StallCauses
from edgetrain.record import DeviceFacts, LoadingFacts, WorkloadFacts
from edgetrain.report.page import comparison_page
from edgetrain.report.page.bars import Bar, BarPart, stacked_bars
from edgetrain.report.page.epochs import MAX_BARS
from edgetrain.schema import Doubt, Origin
from tests.report.printing import HOSTILE
from tests.summaries import make_epoch, make_summary


class Page(HTMLParser):
    """Collects the cells, the links and the scripts of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.links: list[str] = []
        self.tags: list[str] = []
        self._in_cell = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [value or "" for name, value in attrs if name in ("src", "href", "action", "srcset")]
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self._in_cell = True
            self.rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        if tag in ("td", "th"):
            self._in_cell = False

    def handle_data(self, data: str) -> None:
        if self._in_cell:
            self.rows[-1][-1] += data

    def row(self, first: str) -> list[str]:
        (found,) = [row for row in self.rows if row and row[0] == first]
        return found


def outside(page: Page) -> list[str]:
    """Return the links of a page that do not stay in it."""
    return [link for link in page.links if not link.startswith(("#", "data:,"))]


def run(name: str = "r-0001", workers: int = 2, median_ms: float = 100.0, **more):
    size = median_ms / 100.0
    causes = StallCauses(3.0 * size, size, 0.0, 0.0)
    epoch = make_epoch(0, 10.0 * size, 4.0 * size, stall_by=causes, energy_j=100.0, energy_pm_j=3.0)
    known = {
        "run": name,
        "loading": LoadingFacts(workers=workers, cache="cold"),
        "minibatch": MinibatchTimes(median_ms, median_ms, median_ms * 1.5, median_ms * 2),
        "power_w": PowerSummary(20.0, 21.0),
        "energy_reason": None,
        "overhead_pct": 0.5,
        "device": DeviceFacts(model="a workstation", cores=8, ram_bytes=16_000_000_000, torch="2.4"),
    }
    epochs = more.pop("epochs", (epoch, replace(epoch, epoch=1, energy_j=50.0, energy_pm_j=4.0)))
    return make_summary(*epochs, **(known | more))


def test_every_run_is_a_row_with_its_numbers() -> None:
    text = comparison_page([run(), run("r-0002", 4, 50.0)], "Title")
    page = Page(text)
    assert page.row("2 workers, cold")[1:] == [
        "emulated", "120", "20 s", "40%", "100 ms", "200 ms", "21 W", "150 ± 5 J", "0.5 %",
    ]  # fmt: skip
    assert page.row("4 workers, cold, 1")[1:5] == ["5 s", "2 s", "100 ms", "0 s"]
    for fact in ("a workstation", "8", "16 GB", "2.4", "2 runs", "<h1>Title</h1>"):
        assert fact in text
    assert text.count('class="barchart"') == 2
    assert "The fastest setting tried here (4 workers, cold) takes 83.3 ms per minibatch over all epochs, " in text


def test_a_slow_first_epoch_counts_though_the_median_minibatch_does_not_show_it() -> None:
    cold = (make_epoch(0, 40.0, 34.0), make_epoch(1, 10.0, 4.0))
    text = comparison_page([run("r-1", epochs=cold), run("r-2", 4)], "t")
    assert "the slowest (2 workers, cold, 76% of its time stalled) 2.5 times as long" in text


def test_what_was_not_measured_is_a_dash_with_the_reason_below() -> None:
    reason = "this device has no power sensor that can be read"
    bare = run(
        epochs=(make_epoch(0, 10.0, None),),
        minibatch=MinibatchTimes(),
        power_w=PowerSummary(),
        overhead_pct=None,
        energy_reason=reason,
    )
    text = comparison_page([bare], "t")
    page = Page(text)
    assert page.row("2 workers, cold")[3:] == ["10 s", "–", "–", "–", "–", "–", "–"]
    assert page.row("2 workers, cold, 0")[2:6] == ["–", "–", "–", "–"]
    assert text.count(f"Energy is not shown: {reason}.") == 1
    assert not re.search(r"\bNone\b|\bnan\b", re.sub(r"<style>.*?</style>", "", text, flags=re.S))


def test_runs_without_epochs_and_without_facts_are_shown_too() -> None:
    empty = make_summary(run="r-9", loading=None, workload=WorkloadFacts(), state="failed", device=DeviceFacts())
    page = Page(comparison_page([empty], "t"))
    assert page.row("r-9")[1].split() == ["emulated", "failed"] and page.row("r-9")[3] == "–"


def test_a_page_fetches_nothing_and_runs_only_its_own_script() -> None:
    text = comparison_page([run()], "t")
    page = Page(text)
    assert outside(page) == [] and not {"iframe", "img", "object"} & set(page.tags)
    assert page.tags.count("script") == 2  # the data, and the one that draws it
    policy = html.unescape(text)
    assert "default-src 'none'" in policy and "script-src 'sha256-" in policy


def test_names_cannot_become_part_of_the_page() -> None:
    name = HOSTILE + '"><img src=x onerror=alert(1)>'
    hostile = run(
        run=name,
        workload=WorkloadFacts(network=name),
        factors={"note": name},
        doubts=(Doubt("x", name),),
        device=DeviceFacts(model=name),
        energy_reason=name,
    )
    page = Page(comparison_page([hostile, run(workload=WorkloadFacts(network=name))], name))
    assert outside(page) == [] and "img" not in page.tags and page.tags.count("script") == 2


def test_a_doubt_is_said_once_with_the_settings_it_is_about() -> None:
    doubt = Doubt("steal", "the host took 7%")
    text = comparison_page([run(doubts=(doubt,)), run("r-0002", 4, doubts=(doubt,)), run("r-0003", 1)], "t")
    assert text.count(doubt.text) == 1 and "2 workers, cold; 4 workers, cold" in text
    assert "every run" in comparison_page([run(doubts=(doubt,)), run("r-0002", 4, doubts=(doubt,))], "t")


def test_runs_of_one_setting_are_distinguished_and_chance_is_not_called_a_finding() -> None:
    text = comparison_page([run("r-0001"), run("r-0002", median_ms=101.0)], "t")
    assert "single run" not in comparison_page([run("r-0001"), run("r-0002"), run("r-3", 4, 50.0), run("r-4", 4, 51.0)])
    assert "These are single runs" in comparison_page([run("r-0001"), run("r-3", 4, 50.0)])
    assert "</i>compute</li>" in text and "</i>overhead</li>" not in text  # only what occurs
    assert "2 workers, cold, run 0001" in text and "2 workers, cold, run 0002" in text
    assert "No setting tried here changes the time per minibatch by more than 5 %." in text


def test_networks_are_grouped_and_origins_are_named() -> None:
    other = run("r-2", workload=WorkloadFacts(network="vgg11"), origin=Origin.SIMULATED)
    text = comparison_page([run(), other], "t")
    assert "<h2>lenet5</h2>" in text and "<h2>vgg11</h2>" in text
    assert "every value here is emulated or simulated" in text


def test_many_epochs_are_drawn_as_the_first_and_the_mean_of_the_later_ones_with_their_range() -> None:
    epochs = tuple(make_epoch(number, 10.0 + number) for number in range(MAX_BARS + 5))
    text = comparison_page([run(epochs=epochs)], "t")
    assert "2 workers, cold, later epochs" in text and 'class="range"' in text
    assert len([row for row in Page(text).rows if row and row[0].startswith("2 workers, cold, ")]) == MAX_BARS + 5


@pytest.mark.parametrize("longest", [0.0, 1e-9, 0.7, 1.0, 3.3, 1e6])
def test_bars_have_a_scale_whatever_their_length(longest: float) -> None:
    parts = (BarPart("stall", "stall", longest / 2), BarPart("compute", "compute", longest / 2))
    drawn = stacked_bars([Bar("a", parts, "end")], "J", "what it shows")
    ticks = re.findall(r'class="tick"[^>]*>([^<]+)<', drawn)
    assert 2 <= len(ticks) <= 12 and 'aria-label="what it shows"' in drawn
    assert "nan" not in drawn and "inf" not in drawn
