"""Pages for people: a run, several runs, a campaign or a table of power modes as one self-contained file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from edgetrain import analysis
from edgetrain.analysis import CacheCurve, Comparison, StudyReport, Summary, cache_curve, campaign_result, label
from edgetrain.api.mode_pages import is_mode_table, mode_table_page
from edgetrain.api.records import RunLike, StoreLike, campaign_ids, open_run, open_store, runs, summarize
from edgetrain.api.verdicts import page_verdict
from edgetrain.errors import UsageError
from edgetrain.record import FolderStore, Run
from edgetrain.report import CampaignContent, campaign_page, comparison_page, run_page, setting_of

MAX_CURVES = 6  # runs of a campaign whose page cache is drawn over time
MAX_COMPARISONS = 6


@dataclass(frozen=True, slots=True)
class PageWritten:
    """A page that was written."""

    path: str
    kind: str  # run | comparison | campaign | modes
    runs: int  # or modes
    size_bytes: int


@dataclass(frozen=True, slots=True)
class ReportPage:
    """A page as text."""

    kind: str
    count: int  # runs, or modes
    html: str


@dataclass(frozen=True, slots=True)
class ModeLimits:
    """What a page of power modes marks: the limits, and the board whose modes are to be predicted."""

    board: str | None = None
    max_power_w: float | str | None = None
    max_time_s: float | str | None = None  # per minibatch


def write_report(
    chosen: Sequence[RunLike] = ("last",),
    path: Path | str = "edgetrain-report.html",
    campaign: str | None = None,
    title: str | None = None,
    store: StoreLike = None,
    limits: ModeLimits | None = None,
) -> PageWritten:
    """Write one self-contained page about a run, several runs, a campaign or a table of power modes.

    A name is a run, a campaign of the store, an imported table or a CSV of power modes; several runs are compared.
    """
    page = report_page(chosen, campaign, title, store, limits)
    target = Path(path)
    try:
        target.write_text(page.html, encoding="utf-8", errors="replace")
        return PageWritten(str(target), page.kind, page.count, target.stat().st_size)
    except OSError as error:
        raise UsageError(f"cannot write {target} ({error.strerror}); choose another path with -o") from error


def report_page(
    chosen: Sequence[RunLike] = ("last",),
    campaign: str | None = None,
    title: str | None = None,
    store: StoreLike = None,
    limits: ModeLimits | None = None,
) -> ReportPage:
    """Return the page that `write_report` writes."""
    place = open_store(store)
    wanted = list(chosen)
    if campaign is not None:
        named = [*(run for run in wanted if run != "last"), campaign]
    else:
        named = list(wanted)
    if not named:
        raise UsageError("which runs? name at least one, or a campaign")
    if len(named) == 1 and isinstance(named[0], str):
        only = named[0]
        if campaign is None and is_mode_table(only, place):
            content = limits or ModeLimits()
            page, count = mode_table_page(only, place, content.board, content.max_power_w, content.max_time_s, title)
            return ReportPage("modes", count, page)
        found = campaign_runs(only, place)
        if found:
            return ReportPage("campaign", len(found), _campaign(only, found, place, title))
        if campaign is not None:
            raise UsageError(f"no run of campaign {campaign!r} is in {place.path}; edgetrain ls lists what there is")
    expanded = [run for name in named for run in _expand(name, place)]
    if len(expanded) == 1:
        return ReportPage("run", 1, _run(expanded[0], place, title))
    summaries = [summarize(run, place) for run in expanded]
    pages = comparison_page(summaries, title or "Where training time went", compare_settings(summaries))
    return ReportPage("comparison", len(summaries), pages)


def _run(run: RunLike, store: FolderStore, title: str | None) -> str:
    opened = run if isinstance(run, Run) else open_run(run.run if isinstance(run, Summary) else run, store)
    summary = run if isinstance(run, Summary) else analysis.summarize(opened)
    return run_page(opened, summary, page_verdict(opened, summary, store), title)


def _expand(name: RunLike, store: FolderStore) -> list[RunLike]:
    """Return the runs of a campaign, or the run itself."""
    found = campaign_runs(name, store) if isinstance(name, str) else []
    return [*found] or [name]


def campaign_runs(name: str, store: FolderStore) -> list[str]:
    """Return the runs of a campaign by its id or the name in its plan; none where there is no such campaign."""
    if name == "last" or Path(name).exists():
        return []
    rows = [row for row in store.runs() if row.campaign]
    ids = campaign_ids(name, {row.campaign for row in rows if row.campaign})
    return [row.run for row in rows if row.campaign in ids]


def _campaign(name: str, found: Sequence[str], store: FolderStore, title: str | None) -> str:
    summaries = [summarize(run, store) for run in found]
    done = {str(place): run for place, run in enumerate(found)}
    result = campaign_result(name, len(found), done, {}, summaries)
    content = CampaignContent(
        name,
        {"All settings": result.rows},
        summaries,
        result.conclusions,
        result.variability,
        _curves(result.rows, summaries, store),
        failed={one.run: one.reason or one.state for one in summaries if one.state == "failed"},
        units=_units(summaries, store, name),
    )
    return campaign_page(content, title)


def _units(summaries: Sequence[Summary], store: FolderStore, name: str) -> analysis.VariabilityReport | None:
    """Return what differs between units; None where each setting ran on one unit."""
    if len({summary.device.serial or summary.device.host for summary in summaries}) < 2:
        return None
    finished = [one for one in summaries if one.state == "finished"]
    made = [analysis.unit_run(store.open(one.run, light=True), one) for one in finished]
    return analysis.variability(made, name)


def _curves(
    rows: Sequence[analysis.FactorRow], summaries: Sequence[Summary], store: FolderStore
) -> list[tuple[str, CacheCurve]]:
    """Return the page cache over time of the first run of each setting, where its share was recorded."""
    by_run = {summary.run: summary for summary in summaries}
    found: list[tuple[str, CacheCurve]] = []
    for row in rows:
        if len(found) >= MAX_CURVES:
            break
        name, summary = label(row.factors), by_run[row.runs[0]]
        if all(epoch.cached_share_after is None for epoch in summary.epochs):
            continue
        curve = cache_curve(open_run(summary.run, store), summary.epochs)
        if curve is not None and len(curve.cached_share):
            found.append((name, curve))
    return found


def compare_settings(summaries: Sequence[Summary]) -> list[tuple[str, str, Comparison]]:
    """Compare the first setting with each other one, network by network; where each has a single run too."""
    groups: dict[tuple[str, str], list[Summary]] = {}
    for summary in summaries:
        if summary.epochs:
            groups.setdefault((summary.workload.network or "run", setting_of(summary)), []).append(summary)
    found = []
    networks: dict[str, list[tuple[str, list[Summary]]]] = {}
    for (network, setting), members in groups.items():
        networks.setdefault(network, []).append((setting, members))
    for network, settings in networks.items():
        (first, base), *others = settings
        for setting, members in others[:MAX_COMPARISONS]:
            prefix = f"{network}: " if len(networks) > 1 else ""
            found.append((prefix + first, setting, analysis.compare(base, members, 0)))
    return found[:MAX_COMPARISONS]


def write_study_page(
    report: StudyReport,
    path: Path | str,
    curves: Sequence[tuple[str, CacheCurve]] = (),
    store: StoreLike = None,
) -> PageWritten:
    """Write the page of a paper's experiments made here."""
    place = open_store(store)
    sections: Mapping[str, Sequence[analysis.FactorRow]] = report.sections
    names = dict.fromkeys(run for rows in sections.values() for row in rows for run in row.runs)
    recorded = {row.run for row in place.runs()}  # a study may also rest on published or simulated numbers
    summaries = [summarize(run, place) for run in names if run in recorded]
    content = CampaignContent(
        report.title or report.paper,
        sections,
        summaries,
        spreads=tuple(analysis.spreads(summaries)),
        curves=curves,
        findings=report.findings,
    )
    target = Path(path)
    try:
        target.write_text(campaign_page(content, f"{report.title}, repeated here"), encoding="utf-8", errors="replace")
        return PageWritten(str(target), "campaign", len(summaries), target.stat().st_size)
    except OSError as error:
        raise UsageError(f"cannot write {target} ({error.strerror}); choose another path") from error


__all__ = [
    "ModeLimits",
    "PageWritten",
    "ReportPage",
    "compare_settings",
    "report_page",
    "runs",
    "write_report",
    "write_study_page",
]
