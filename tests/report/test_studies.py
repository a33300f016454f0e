"""A reproduced paper as text and Markdown."""

import pytest

from edgetrain.analysis import FactorRow
from edgetrain.analysis.factors import EpochTimes
from edgetrain.analysis.findings import Evidence, SectionCost, SectionScale, StudyFinding, StudyReport, Verdict
from edgetrain.report.studies import costs_text, findings_text, study_markdown
from edgetrain.report.text import console
from edgetrain.schema import Origin

TIMES = EpochTimes(10.0, 4.0, 0.5, 6.0, 60.0, 2e6, None)
ROW = FactorRow({"storage": "hdd", "workers": 0}, ("r1",), TIMES, TIMES, TIMES, 0, Origin.EMULATED)


@pytest.fixture
def report() -> StudyReport:
    holds = StudyFinding("A", "workers help", Verdict.HOLDS, (Evidence("hdd", "5 → 1 ms", "6 → 2 ms", True),))
    broken = StudyFinding("B", "RAM helps", Verdict.DOES_NOT, (Evidence("ram", "90 %", "0 %", False),))
    unknown = StudyFinding("C", "size matters", Verdict.CANNOT_SAY, (), "no runs")
    found, sections = (holds, broken, unknown), {"workers": (ROW,), "ram": ()}
    scales = (SectionScale("workers", 2.5, 23.6), SectionScale("ram", 10, 1.0))
    return StudyReport("hipc", "HiPC in the lab", "III-", Origin.EMULATED, 61.0, found, sections, scales, 1)


def text(renderable) -> str:
    screen = console()
    with screen.capture() as captured:
        screen.print(renderable, soft_wrap=True)
    return captured.get()


def test_findings_have_verdict_evidence_and_reason(report):
    shown = text(findings_text(report))
    assert "III-A  workers help: holds" in shown and "yes  hdd: 5 → 1 ms   [paper: 6 → 2 ms]" in shown
    assert "III-B  RAM helps: does not hold" in shown and "NO   ram" in shown
    assert "III-C  size matters: cannot say (no runs)" in shown
    assert report.broken == ("B",)


def test_markdown_has_the_command_a_table_of_verdicts_and_the_runs(report):
    shown = study_markdown(report, "edgetrain reproduce hipc", "Linux 6, 2 cores, 2026-11-19")
    assert shown.startswith(
        "# HiPC in the lab\n\n**Emulated numbers: of 3 statements 1 hold, 1 do not hold, 1 cannot say.**"
    )
    assert shown.index("| III-C size") < shown.index("`edgetrain reproduce hipc` on Linux 6, 2 cores, 2026-11-19; ")
    assert "multiplied by the speed (workers 2.5, ram 10)" in shown and "workers by 23.6" in shown
    assert "| III-B RAM helps | does not hold |" in shown and "| ram | emulated | 90 % | 0 % | **no** |" in shown
    assert "## Runs: workers" in shown and "| hdd | 0 | 1 |" in shown


def test_a_study_without_findings_says_that_nothing_is_judged(report):
    from dataclasses import replace

    assert "These sections are not judged." in study_markdown(replace(report, findings=()), "x", "y")


def test_costs_name_runs_time_and_new_data():
    shown = text(costs_text([SectionCost("ram", 3, 1, 95.0, 10.0, 312_000_000), SectionCost("x", 2, 0, None, 1.0, 0)]))
    assert "ram: 3 runs, 1 done, 95 s left, 312 MB of pictures to make" in shown
    assert "x: 2 runs, 0 done, time not known left" not in shown and "x: 2 runs, 0 done, time not known" in shown


def test_findings_by_published_numbers_and_by_runs_have_a_column_each(report):
    from dataclasses import replace

    found = tuple(
        StudyFinding("3", "workers help", verdict, evidence, reason, "sigmetrics", "50 %", origin, refused)
        for verdict, evidence, reason, origin, refused in (
            (Verdict.HOLDS, (Evidence("hdd", "5 → 1 ms", "–", True),), "", Origin.PUBLISHED, False),
            (Verdict.CANNOT_SAY, (Evidence("hdd", "6 → 1 ms", "–", None),), "fitted", Origin.SIMULATED, True),
        )
    )
    study = replace(report, findings=found, origin=Origin.SIMULATED, numbering="")
    shown = study_markdown(study, "x", "y")
    assert "| finding | published | simulated |" in shown
    assert "| 3 workers help | holds | cannot say (fitted) |" in shown
    assert "**Published numbers: of 1 statements 1 hold, 0 do not hold, 0 cannot say; simulated numbers: of 1" in shown
    assert "## 3: holds (published) / cannot say (simulated)" in shown and "The paper: 50 %." in shown
    assert "| hdd | simulated | 6 → 1 ms | cannot say |" in shown
    lines = text(findings_text(study))
    assert "3  workers help [published]: holds" in lines and "yes  hdd: 5 → 1 ms" in lines
    assert "3  workers help [simulated]: cannot say (fitted)" in lines and "6 → 1 ms" not in lines
    assert "published: the paper's own numbers; simulated: our runs" in lines and "ours published" not in lines
    assert study.broken == ()


def test_what_contradicts_the_paper_in_its_own_numbers_is_not_ours_to_fail():
    ours, theirs = (
        StudyFinding("3", "x", Verdict.DOES_NOT, (), origin=origin) for origin in (Origin.EMULATED, Origin.PUBLISHED)
    )
    report = StudyReport("sigmetrics", "t", "", Origin.SIMULATED, 1.0, (theirs,), {}, (), 0)
    assert report.broken == ()
    assert StudyReport("hipc", "t", "", Origin.EMULATED, 1.0, (ours,), {}, (), 0).broken == ("3",)
