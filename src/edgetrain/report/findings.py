"""The papers' statements tested against somebody's runs, as text and as Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from edgetrain.analysis import Evidence, FindingsReport, StudyFinding, Verdict
from edgetrain.units import spell_count

COLOURS = {Verdict.HOLDS: "green", Verdict.CANNOT_SAY: "yellow", Verdict.DOES_NOT: "red"}
PAPERS = {"hipc": ("HiPC-SRS 2021", "III-"), "sigmetrics": ("SIGMETRICS 2023", "")}  # name and numbering
MAX_NAMED = 5  # runs named one by one


def reason_text(finding: StudyFinding) -> str:
    """Return the reason in brackets, or nothing."""
    return f" ({finding.reason})" if finding.reason else ""


def supports_text(one: Evidence) -> str:
    """Return whether a comparison supports its statement, for a table in Markdown."""
    return "cannot say" if one.supports is None else "yes" if one.supports else "**no**"


def finding_text(finding: StudyFinding, numbering: str, label: bool = False, evidence: bool = True) -> Text:
    """Return one finding: number, statement, verdict, reason, and the comparisons behind it."""
    origin = f" [{finding.origin.value}]" if label and finding.origin is not None else ""
    text = Text(f"\n{numbering}{finding.letter}  {finding.claim}{origin}: ", style="bold")
    text.append(finding.verdict.spoken, style=f"bold {COLOURS[finding.verdict]}")
    text.append(reason_text(finding), style="not bold")
    for one in finding.evidence if evidence else ():
        text.append("\n" + _line(one), style="not bold")
    return text


def show_findings(report: FindingsReport, evidence: bool = False) -> RenderableType:
    """Return the verdicts paper by paper; by default with the one comparison that decides each."""
    parts: list[RenderableType] = [Text(_about(report))]
    for heading, numbering, found in _grouped(report):
        parts.append(Text(f"\n{heading}: {count_text(found)}", style="bold underline"))
        for finding in found:
            parts.append(finding_text(finding, numbering, evidence=evidence))
            if not evidence and not finding.refused and finding.evidence:
                parts.append(Text(_line(deciding(finding)) + _more(finding)))
    parts.append(Text("\nbrackets hold 95 % intervals; times are per minibatch", style="dim"))
    return Group(*parts)


def findings_markdown(report: FindingsReport, command: str) -> str:
    """Return the verdicts and every comparison as Markdown."""
    lines = ["# The papers' findings in these runs", "", f"`{command}`: {_about(report)}", ""]
    for heading, numbering, found in _grouped(report):
        lines += [f"## {heading}", "", count_text(found) + ".", "", "| finding | verdict |", "|---|---|"]
        lines += [
            f"| {numbering}{finding.letter} {finding.claim} | **{finding.verdict.spoken}**{reason_text(finding)} |"
            for finding in found
        ]
        for finding in found:
            if finding.evidence:
                lines += ["", f"### {numbering}{finding.letter}: {finding.verdict.spoken}", ""]
                lines += ["| | numbers | supports it |", "|---|---|---|"]
                lines += [f"| {one.what} | {one.ours} | {supports_text(one)} |" for one in finding.evidence]
        lines.append("")
    return "\n".join(lines)


def deciding(finding: StudyFinding) -> Evidence:
    """Return the comparison that the verdict follows from."""
    wanted = {Verdict.HOLDS: True, Verdict.DOES_NOT: False, Verdict.CANNOT_SAY: None}[finding.verdict]
    return next((one for one in finding.evidence if one.supports is wanted), finding.evidence[0])


def _line(one: Evidence) -> str:
    mark = "?  " if one.supports is None else "yes" if one.supports else "NO "
    paper = f"   [paper: {one.paper}]" if one.paper != "–" else ""
    return f"  {mark}  {one.what}: {one.ours}{paper}"


def _more(finding: StudyFinding) -> str:
    others = len(finding.evidence) - 1
    return f"   (and {others} more)" if others else ""


def _grouped(report: FindingsReport) -> list[tuple[str, str, list[StudyFinding]]]:
    """Return heading, numbering and findings of each paper, those of each origin apart."""
    keys = dict.fromkeys((finding.paper, finding.origin) for finding in report.findings)
    groups = []
    for paper, origin in keys:
        name, numbering = PAPERS.get(paper, (paper, ""))
        found = [finding for finding in report.findings if (finding.paper, finding.origin) == (paper, origin)]
        groups.append((f"{name}, {origin.value if origin else 'no'} runs", numbering, found))
    return groups


def count_text(found: Sequence[StudyFinding]) -> str:
    """Return how many statements hold, do not hold, and cannot be judged."""
    counts = [(verdict, sum(finding.verdict is verdict for finding in found)) for verdict in Verdict]
    spelled = {Verdict.HOLDS: "hold", Verdict.DOES_NOT: "do not hold", Verdict.CANNOT_SAY: "cannot say"}
    return f"of {len(found)} statements " + ", ".join(f"{count} {spelled[verdict]}" for verdict, count in counts)


def _about(report: FindingsReport) -> str:
    where = f"campaign {', '.join(report.campaigns)}" if report.campaigns else "runs without a campaign"
    parts = [f"{spell_count(report.runs, 'run')}; {where}"]
    if report.doubtful:
        verbs = "has doubts and counts" if len(report.doubtful) == 1 else "have doubts and count"
        parts.append(f"{len(report.doubtful)} {verbs}: {_named(report.doubtful)}")
    if report.left_out:
        parts.append(f"{len(report.left_out)} left out: {_named(report.left_out)}")
    return "; ".join(parts)


def _named(runs: Sequence[str]) -> str:
    more = f" and {len(runs) - MAX_NAMED} more" if len(runs) > MAX_NAMED else ""
    return ", ".join(runs[:MAX_NAMED]) + more
