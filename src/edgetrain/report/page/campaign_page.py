"""The page of a campaign or of a study: times by factor, caching, variability, findings, time and energy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from markupsafe import Markup

from edgetrain.analysis import CacheCurve, FactorRow, Spread, StudyFinding, Summary, VariabilityReport, label
from edgetrain.report.campaigns import factor_cells
from edgetrain.report.page.bars import Bar, BarPart, legend, stacked_bars
from edgetrain.report.page.epochs import used_parts
from edgetrain.report.page.factor_plots import cache_plots, factor_plots, setting_bars
from edgetrain.report.page.plot import Plot
from edgetrain.report.page.provenance import Facts, machine_facts
from edgetrain.report.page.shell import render
from edgetrain.report.text import with_pm
from edgetrain.report.variability_rows import UNIT_HEADS, unit_rows
from edgetrain.schema import Origin
from edgetrain.units import spell, spell_seconds

SETTINGS_OF_VERDICT = 2
SMALL_GAIN = 1.05
ALIKE = 1.01  # times the fastest: less is no difference to choose a setting by


@dataclass(frozen=True)
class CampaignContent:
    """What a page of a campaign shows; a study has several sections and judged findings."""

    name: str
    sections: Mapping[str, Sequence[FactorRow]]
    summaries: Sequence[Summary]
    conclusions: Sequence[str] = ()
    spreads: Sequence[Spread] = ()
    curves: Sequence[tuple[str, CacheCurve]] = ()
    findings: Sequence[StudyFinding] = ()
    planned: int | None = None
    failed: Mapping[str, str] = field(default_factory=dict)
    units: VariabilityReport | None = None  # None: nothing was repeated


@dataclass(frozen=True, slots=True)
class PageSection:
    """The runs of one part of a campaign, as pictures and a table."""

    name: str
    times: Markup
    plots: list[Plot]
    heads: list[str]
    rows: list[list[str]]
    costs: list[list[str]]


COST_HEADS = ("setting", "runs", "training time", "mean power", "energy", "energy per epoch", "origin")


def campaign_page(content: CampaignContent, title: str | None = None) -> str:
    """Return the page of a campaign."""
    by_run = {summary.run: summary for summary in content.summaries}
    origins = sorted({str(summary.origin) for summary in content.summaries})
    sections = [
        _section(name, rows, by_run, f"s{place}-", origins)
        for place, (name, rows) in enumerate(content.sections.items())
    ]
    curves = [_with_origin(plot, origins) for plot in cache_plots(content.curves)]
    pictures = [plot for section in sections for plot in section.plots] + curves
    return render(
        "campaign.html.j2",
        title or f"Campaign {content.name}",
        pictures,
        content=content,
        origins=origins,
        verdict=_verdict(content),
        tiles=_tiles(content),
        sections=sections,
        legend=Markup(legend(used_parts(content.summaries))),
        curves=curves,
        cost_heads=COST_HEADS,
        variability=_variability(content, by_run),
        spread_rows=[_spread_row(one) for one in _in_order(content.spreads, content)],
        unit_heads=UNIT_HEADS,
        unit_rows=[] if content.units is None else unit_rows(content.units),
        findings=content.findings,
        machine=_machines(content.summaries),
        doubts=_doubts(content.summaries),
    )


def _with_origin(plot: Plot, origins: Sequence[str]) -> Plot:
    return replace(plot, note="; ".join(word for word in (plot.note, " or ".join(origins)) if word))


def _section(
    name: str, rows: Sequence[FactorRow], by_run: Mapping[str, Summary], prefix: str, origins: Sequence[str]
) -> PageSection:
    bars = setting_bars(rows, by_run)
    times = stacked_bars(bars, "s", f"{name}: where the time of an epoch went, by setting") if bars else ""
    heads, cells = factor_cells(rows)
    costs = [_cost_row(row, [by_run[run] for run in row.runs if run in by_run]) for row in rows]
    plots = [_with_origin(plot, origins) for plot in factor_plots(rows, by_run, prefix)]
    return PageSection(name, Markup(times), plots, heads, cells, costs)


def _cost_row(row: FactorRow, summaries: Sequence[Summary]) -> list[str]:
    epochs = [epoch for summary in summaries for epoch in summary.epochs]
    total_s = sum(epoch.e2e_s for epoch in epochs)
    joules = [epoch.energy_j for epoch in epochs if epoch.energy_j is not None]
    pm_j = sum((epoch.energy_pm_j or 0.0) ** 2 for epoch in epochs) ** 0.5
    whole = bool(joules) and len(joules) == len(epochs)
    energy_j = sum(joules)
    return [
        label(row.factors),
        str(len(row.runs)),
        spell_seconds(total_s) if epochs else "–",
        spell(energy_j / total_s, "W") if whole and total_s else "–",
        with_pm(energy_j, pm_j, "J") if whole else "–",
        with_pm(energy_j / len(epochs), pm_j / len(epochs), "J") if whole else "–",
        str(row.origin) if row.origin else "–",
    ]


def _verdict(content: CampaignContent) -> str:
    """Return what the campaign shows in one sentence: how many findings hold, or the fastest and slowest setting."""
    judged = [finding.verdict for finding in content.findings if finding.origin is not Origin.PUBLISHED]
    if judged:
        holds = sum(verdict.value == "holds" for verdict in judged)
        return f"{holds} of {len(judged)} findings of the paper hold here."
    rows = [row for rows in content.sections.values() for row in rows]
    known = [(row.later_epochs or row.first_epoch or row.median_epoch, row.factors) for row in rows]
    if len(known) < SETTINGS_OF_VERDICT:
        return "Too few settings were run for a comparison."
    best, best_factors = min(known, key=lambda each: each[0].e2e_s)
    worst, worst_factors = max(known, key=lambda each: each[0].e2e_s)
    if worst.e2e_s < SMALL_GAIN * best.e2e_s:
        return "No setting tried here changes the time per epoch by more than 5 %."
    alike = sum(each.e2e_s <= ALIKE * best.e2e_s for each, _ in known) - 1
    fastest = f"setting ({label(best_factors)}) takes"
    if alike:
        fastest = f"settings ({label(best_factors)} and {alike} more within 1 %) take"
    epoch = "epoch after the first" if all(row.later_epochs for row in rows) else "epoch"
    return (
        f"The fastest {fastest} {spell_seconds(best.e2e_s)} per {epoch}, "
        f"the slowest ({label(worst_factors)}) {worst.e2e_s / best.e2e_s:.2g} times as long."
    )


def _tiles(content: CampaignContent) -> list[tuple[str, str]]:
    epochs = [epoch for summary in content.summaries for epoch in summary.epochs]
    joules = [epoch.energy_j for epoch in epochs if epoch.energy_j is not None]
    rows = [row for rows in content.sections.values() for row in rows]
    done = len(content.summaries)
    found = [
        (f"{done} of {content.planned}" if content.planned else str(done), "runs recorded"),
        (str(len(rows)), "settings"),
        (str(len(epochs)), "epochs"),
        (spell_seconds(sum(epoch.e2e_s for epoch in epochs)) if epochs else "–", "of training"),
    ]
    if joules and len(joules) == len(epochs):
        pm_j = sum((epoch.energy_pm_j or 0.0) ** 2 for epoch in epochs) ** 0.5
        found.append((with_pm(sum(joules), pm_j, "J"), "energy of all epochs"))
    else:
        found.append(("–", "energy: not measured in every epoch"))
    if content.failed:
        found.append((str(len(content.failed)), "runs failed"))
    return found


def _in_order(spreads: Sequence[Spread], content: CampaignContent) -> list[Spread]:
    """Return spreads in the order of the tables of settings."""
    names = [label(row.factors) for rows in content.sections.values() for row in rows]
    place = {name: number for number, name in enumerate(names)}
    return sorted(spreads, key=lambda one: place.get(label(one.setting), len(place)))


def _variability(content: CampaignContent, by_run: Mapping[str, Summary]) -> Markup:
    """Return the range of the later epochs of each setting, where there are several."""
    bars = []
    for row in (row for rows in content.sections.values() for row in rows):
        runs = [by_run[run] for run in row.runs if run in by_run]
        took = [epoch.e2e_s for summary in runs for epoch in summary.epochs[1:] or summary.epochs]
        if len(took) > 1:
            name, mean_s = label(row.factors), sum(took) / len(took)
            end = f"{spell_seconds(mean_s)}, {spell_seconds(min(took))} to {spell_seconds(max(took))}"
            bars.append(Bar(name, [BarPart("0", "mean epoch", mean_s)], end, min(took), max(took)))
    return Markup(stacked_bars(bars, "s", "Mean, shortest and longest epoch of each setting")) if bars else Markup("")


def _spread_row(one: Spread) -> list[str]:
    shares = ["–" if share is None else f"{share:.1%}" for share in (one.within, one.between, one.spread)]
    return [label(one.setting), str(one.units), str(one.runs), str(one.epochs), spell_seconds(one.mean), *shares]


def _machines(summaries: Sequence[Summary]) -> list[Facts]:
    """Return the facts of each machine once."""
    found: list[Facts] = []
    for summary in summaries:
        facts = machine_facts(summary)
        if facts and facts not in found:
            found.append(facts)
    return found[:8]


def _doubts(summaries: Sequence[Summary]) -> list[tuple[str, str]]:
    about: dict[tuple[str, str], list[str]] = {}
    for summary in summaries:
        for doubt in summary.doubts:
            about.setdefault((doubt.kind, doubt.text), []).append(summary.run)
    kinds: dict[str, list[tuple[str, list[str]]]] = {}
    for (kind, text), named in about.items():
        kinds.setdefault(kind, []).append((text, named))
    found = []
    for kind, texts in kinds.items():
        count = len({run for _, named in texts for run in named})
        where = "every run" if count == len(summaries) and count > 1 else "1 run" if count == 1 else f"{count} runs"
        more = f" (and {len(texts) - 1} like it)" if len(texts) > 1 else ""
        found.append((f"{kind.replace('_', ' ')}, {where}", texts[0][0] + more))
    return found
