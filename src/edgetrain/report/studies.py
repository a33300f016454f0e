"""A reproduced paper: each finding with its verdict and the numbers behind it, as text and as Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from edgetrain.analysis import Evidence, SectionCost, StudyFinding, StudyReport
from edgetrain.report.campaigns import rows_markdown
from edgetrain.report.findings import count_text, finding_text, reason_text, supports_text
from edgetrain.schema import Origin
from edgetrain.units import spell_bytes, spell_count, spell_seconds

_ORIGINS = {
    Origin.EMULATED: (
        "Our numbers are emulated: really run, with storage, page cache, cores and CPU share limited by the kernel and",
        "a paced accelerator. Times in the tables of runs are as run; in the findings they are per minibatch at the",
        "board's pace, and stalls are without the pipeline's fill.",
    ),
    Origin.SIMULATED: (
        "Simulated numbers are ours: a model of the boards in virtual time, whose step times, powers and media were",
        'fitted to the paper\'s own figures. Where a take-away follows from them, its verdict is "cannot say" and the',
        "simulated numbers are only shown. Published numbers are the paper's own, judged by the same rules.",
    ),
}


def findings_text(report: StudyReport) -> RenderableType:
    """Return each finding with its verdict and our numbers beside the paper's."""
    several = len({finding.origin for finding in report.findings}) > 1
    parts: list[RenderableType] = []
    for finding in _by_letter(report.findings):
        parts.append(finding_text(finding, report.numbering, label=several, evidence=_judged(finding)))
    if report.findings:
        ours = f"ours {report.origin.value}"
        if any(finding.origin is Origin.PUBLISHED for finding in report.findings):
            ours = f"published: the paper's own numbers; {report.origin.value}: our runs"
        parts.append(Text(f"per minibatch, at the board's pace; {ours}", style="dim"))
    return Group(*parts)


def study_markdown(report: StudyReport, command: str, made: str) -> str:
    """Return the report as Markdown; `made` is the machine and the date."""
    lines = [
        f"# {report.title}",
        "",
        *_verdicts(report),
        "",
        f"`{command}` on {made}; the runs took {spell_seconds(report.took_s)}.",
        "",
        *_ORIGINS.get(report.origin, ()),
        *_scaled(report),
    ]
    for letter in dict.fromkeys(finding.letter for finding in report.findings):
        found = [finding for finding in report.findings if finding.letter == letter]
        lines += _finding_markdown(report, found)
    for section, rows in report.sections.items():
        lines += ["", f"## Runs: {section}", "", *rows_markdown(rows)]
    return "\n".join(lines) + "\n"


def costs_text(costs: Sequence[SectionCost]) -> RenderableType:
    """Return how many runs each section has, how long they take, and what must be made first."""
    lines = []
    for cost in costs:
        left = f"{spell_seconds(cost.left_s)} left" if cost.left_s is not None else "time not known"
        new = f", {spell_bytes(cost.new_bytes)} of pictures to make" if cost.new_bytes else ""
        lines.append(f"{cost.section}: {spell_count(cost.runs, 'run')}, {cost.done} done, {left}{new}")
    return Text("\n".join(lines))


def _scaled(report: StudyReport) -> list[str]:
    """Return by what times and sizes were divided, in words."""
    speeds = ", ".join(f"{scale.section} {scale.speed:g}" for scale in report.scales if scale.speed != 1)
    shrunk = ", ".join(f"{scale.section} by {scale.shrink:.3g}" for scale in report.scales if scale.shrink != 1)
    lines = [f"At the board's pace: multiplied by the speed ({speeds})."] if speeds else []
    return [*lines, *([f"Dataset and page cache were divided by the same factor: {shrunk}."] if shrunk else [])]


def _verdicts(report: StudyReport) -> list[str]:
    """Return the verdicts in one sentence, then as a table: a row per finding, a column per origin."""
    if not report.findings:
        return ["**These sections are not judged.**"]
    origins = list(dict.fromkeys(finding.origin for finding in report.findings))
    sentence = "; ".join(
        f"{(origin or report.origin).value} numbers: "
        + count_text([finding for finding in report.findings if finding.origin is origin])
        for origin in origins
    )
    heads = [(origin or report.origin).value for origin in origins] if len(origins) > 1 else ["verdict"]
    sentence = sentence[0].upper() + sentence[1:]
    rows = [f"**{sentence}.**", "", f"| finding | {' | '.join(heads)} |", "|---|" + "---|" * len(heads)]
    for letter in dict.fromkeys(finding.letter for finding in report.findings):
        found = {finding.origin: finding for finding in report.findings if finding.letter == letter}
        claim = next(iter(found.values())).claim
        cells = [
            f"{found[origin].verdict.spoken}{reason_text(found[origin])}" if origin in found else "–"
            for origin in origins
        ]
        rows.append(f"| {report.numbering}{letter} {claim} | {' | '.join(cells)} |")
    return rows


def _finding_markdown(report: StudyReport, found: Sequence[StudyFinding]) -> list[str]:
    verdicts = " / ".join(
        finding.verdict.spoken + (f" ({finding.origin.value})" if len(found) > 1 and finding.origin else "")
        for finding in found
    )
    lines = ["", f"## {report.numbering}{found[0].letter}: {verdicts}", ""]
    if found[0].found:
        lines += [f"The paper: {found[0].found}.", ""]
    compared = [(finding, one) for finding in found for one in finding.evidence]
    if not compared:
        return [*lines, "No run is about this."]
    paper = any(one.paper != "–" for _, one in compared)
    lines += [
        f"| | origin | numbers |{' the paper |' if paper else ''} supports it |",
        "|---|---|---|---|" + ("---|" if paper else ""),
    ]
    return lines + [_row(finding.origin or report.origin, one, paper) for finding, one in compared]


def _row(origin: Origin, one: Evidence, paper: bool) -> str:
    cells = [one.what, origin.value, one.ours, *([one.paper] if paper else []), supports_text(one)]
    return f"| {' | '.join(cells)} |"


def _by_letter(findings: Sequence[StudyFinding]) -> list[StudyFinding]:
    """Return findings with those of one letter beside each other."""
    letters = list(dict.fromkeys(finding.letter for finding in findings))
    return sorted(findings, key=lambda finding: letters.index(finding.letter))


def _judged(finding: StudyFinding) -> bool:
    """Whether its comparisons count: those of a simulated board may only be shown."""
    return not finding.refused
