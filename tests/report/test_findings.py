"""The papers' findings in somebody's runs, as text and Markdown."""

from dataclasses import replace

import pytest

from edgetrain.analysis import Bound, Evidence, FindingsReport, StudyFinding, Verdict
from edgetrain.report.findings import deciding, findings_markdown, show_findings
from edgetrain.report.text import console
from edgetrain.schema import Origin

YES = Evidence("hdd", "removed 90 % [80 %, 95 %]", "–", True)
NO = Evidence("ssd", "removed -5 % [-9 %, -1 %]", "–", False)
UNSURE = Evidence("sd", "removed 2 % [-9 %, 9 %]", "–", None)


def finding(letter, verdict, *evidence, paper="sigmetrics", origin=Origin.MEASURED, reason="", refused=False):
    return StudyFinding(letter, f"statement {letter}", verdict, evidence, reason, paper, "n", origin, refused)


@pytest.fixture
def report() -> FindingsReport:
    found = (
        finding("A", Verdict.HOLDS, YES, YES, paper="hipc"),
        finding("1", Verdict.DOES_NOT, YES, NO, reason="1 of 2 comparisons is against it: ssd"),
        finding("2", Verdict.CANNOT_SAY, YES, UNSURE, reason="too close"),
        finding("3", Verdict.CANNOT_SAY, UNSURE, origin=Origin.SIMULATED, reason="a simulated board", refused=True),
    )
    return FindingsReport(("mine-0123abcd",), 9, ("r1",), ("r2: failed",), found)


def text(renderable) -> str:
    screen = console()
    with screen.capture() as captured:
        screen.print(renderable, soft_wrap=True)
    return captured.get()


def test_each_verdict_is_shown_with_the_comparison_that_decides_it(report):
    shown = text(show_findings(report))
    assert "9 runs; campaign mine-0123abcd; 1 has doubts and counts: r1; 1 left out: r2: failed" in shown
    assert "HiPC-SRS 2021, measured runs: of 1 statements 1 hold, 0 do not hold, 0 cannot say" in shown
    assert "III-A  statement A: holds" in shown and "(and 1 more)" in shown
    assert "1  statement 1: does not hold" in shown and "NO   ssd: removed -5 %" in shown
    assert "2  statement 2: cannot say (too close)" in shown and "?    sd: removed 2 %" in shown
    assert "SIGMETRICS 2023, simulated runs" in shown


def test_one_run_and_several_are_counted_in_words(report):
    single = replace(report, runs=1, doubtful=("r1", "r2"))
    assert "1 run; campaign mine-0123abcd; 2 have doubts and count: r1, r2;" in text(show_findings(single))


def test_every_comparison_is_shown_where_that_is_asked_for(report):
    assert text(show_findings(report, evidence=True)).count("yes  hdd") == 4


def test_markdown_has_every_comparison_and_the_command(report):
    shown = findings_markdown(report, "edgetrain findings mine")
    assert "`edgetrain findings mine`: 9 runs" in shown
    assert "| III-A statement A | **holds** |" in shown
    assert "| ssd | removed -5 % [-9 %, -1 %] | **no** |" in shown
    assert "| sd | removed 2 % [-9 %, 9 %] | cannot say |" in shown


def test_the_deciding_comparison_is_one_of_the_verdicts_kind(report):
    assert [deciding(one) for one in report.findings] == [YES, NO, UNSURE, UNSURE]


@pytest.mark.parametrize(
    ("lo", "hi", "kept"), [(0.91, 0.95, True), (0.8, 0.89, False), (0.85, 0.95, None), (0.9, 0.9, True)]
)
def test_a_bound_is_kept_only_where_its_whole_interval_is(lo, hi, kept):
    assert Bound("x", (lo + hi) / 2, lo, hi, least=0.9).kept is kept
    assert Bound("x", -(lo + hi) / 2, -hi, -lo, most=-0.9).kept is kept
