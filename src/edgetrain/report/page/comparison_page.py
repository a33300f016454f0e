"""The page of several runs beside each other: by network, setting by setting, and whether differences are real."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from markupsafe import Markup

from edgetrain.analysis import Comparison, EpochSummary, Summary
from edgetrain.report.comparison import LABELS, spell_metric
from edgetrain.report.page.bars import Bar, BarPart, legend, stacked_bars
from edgetrain.report.page.epochs import MAX_BARS, TIME_PARTS, seconds_by_part, used_parts
from edgetrain.report.page.provenance import machine_facts
from edgetrain.report.page.shell import render
from edgetrain.report.text import spell_workers, with_pm
from edgetrain.schema import Doubt, Origin, Scalar
from edgetrain.units import MS_PER_S, spell_seconds

CACHE_WORDS = {"keep": "cache kept"}  # cold and warm say it themselves
MAX_ROWS = 400  # epochs in a table
USUAL_BATCH = 16
SMALL_GAIN = 1.05


@dataclass(frozen=True, slots=True)
class PageRow:
    """One run on the page."""

    run: str
    origin: Origin
    batch_size: int | None
    setting: str
    epochs: tuple[EpochSummary, ...]
    minibatches: int
    e2e_s: float | None
    stall_share: float | None
    median_ms: float | None
    p99_ms: float | None
    power_w: float | None
    energy: str
    energy_reason: str | None
    overhead_pct: float | None
    doubts: tuple[Doubt, ...]
    state: str


@dataclass(frozen=True, slots=True)
class PageGroup:
    """The runs of one network on the page."""

    name: str
    rows: list[PageRow]
    times: Markup
    spread: Markup
    cut: int  # epochs that are in the table only
    epoch_rows: list[list[str]]
    rows_cut: int
    verdict: str
    doubts: list[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class PageComparison:
    """Two settings compared by repeated runs."""

    a: str
    b: str
    rows: list[list[str]]


def comparison_page(
    summaries: Sequence[Summary],
    title: str = "Where training time went",
    comparisons: Sequence[tuple[str, str, Comparison]] = (),
) -> str:
    """Return the page of several runs; `comparisons` are settings that were repeated, with what resampling says."""
    groups = [_group(name, runs) for name, runs in _by_network(summaries).items()]
    return render(
        "comparison.html.j2",
        title,
        [],
        count=len(summaries),
        origins=sorted({str(summary.origin) for summary in summaries}),
        machine=machine_facts(summaries[0]) if summaries else [],
        groups=groups,
        comparisons=[_comparison(*each) for each in comparisons],
        legend=Markup(legend(used_parts(summaries))),
    )


def setting_of(summary: Summary) -> str:
    """Return a run's setting in words: what it was asked to vary."""
    workload, loading = summary.workload, summary.loading
    mode = summary.power_mode.asked if summary.power_mode else None
    words = (
        spell_workers(loading.workers if loading else None),
        CACHE_WORDS.get(loading.cache or "", loading.cache or "") if loading else "",
        f"batch {workload.batch_size}" if workload.batch_size not in (None, USUAL_BATCH) else "",
        spell_factors(summary.factors),
        str(mode) if mode and "power_mode" not in summary.factors else "",
    )
    return ", ".join(word for word in words if word) or summary.run


def spell_factors(factors: Mapping[str, Scalar]) -> str:
    """Return the factors of a campaign that a run's own facts do not show already."""
    shown = {key: value for key, value in factors.items() if key not in ("workers", "cache", "network")}
    return ", ".join(f"{key} {value}" for key, value in shown.items())


def _by_network(summaries: Sequence[Summary]) -> dict[str, list[Summary]]:
    groups: dict[str, list[Summary]] = {}
    for summary in summaries:
        groups.setdefault(summary.workload.network or "run", []).append(summary)
    return groups


def _place(summary: Summary) -> tuple[str, int]:
    """Order settings as people read them: by factors, cache state, then workers."""
    loading = summary.loading
    return f"{spell_factors(summary.factors)} {loading.cache if loading else ''}", (loading and loading.workers) or 0


def _group(name: str, summaries: Sequence[Summary]) -> PageGroup:
    summaries = sorted(summaries, key=_place)
    rows = [_row(summary) for summary in summaries]
    settings = Counter(row.setting for row in rows)
    # The end of the id, by which `show` finds the run.
    rows = [
        replace(row, setting=f"{row.setting}, run {row.run[-4:]}") if settings[row.setting] > 1 else row for row in rows
    ]
    bars = [_epoch_bar(row.setting, epoch) for row in rows for epoch in row.epochs]
    most = max(MAX_BARS, 2 * len(rows))
    if len(bars) > most:  # too many to draw: of each run the first epoch, and the mean of the later ones
        bars = [bar for row in rows for bar in _few_bars(row)]
    cells = [_epoch_cells(row.setting, epoch) for row in rows for epoch in row.epochs]
    return PageGroup(
        name,
        rows,
        Markup(stacked_bars(bars[:most], "s", f"{name}: where the time of a minibatch went")) if bars else Markup(""),
        _spread(rows, summaries),
        max(0, len(bars) - most),
        cells[:MAX_ROWS],
        max(0, len(cells) - MAX_ROWS),
        _verdict(rows, list(settings.values())),
        _doubts(rows),
    )


def _epoch_bar(setting: str, epoch: EpochSummary) -> Bar:
    count = max(epoch.minibatches, 1)
    # Per minibatch, so that epochs of different length can be compared.
    parts = seconds_by_part(epoch)
    return Bar(
        f"{setting}, epoch {epoch.epoch}",
        [BarPart(name, words, parts[name] / count) for name, words in TIME_PARTS],
        spell_seconds(epoch.e2e_s / count),
    )


def _few_bars(row: PageRow) -> list[Bar]:
    if not row.epochs:
        return []
    first = _epoch_bar(row.setting, row.epochs[0])
    later = row.epochs[1:]
    if not later:
        return [first]
    count = sum(max(epoch.minibatches, 1) for epoch in later)
    sums = [seconds_by_part(epoch) for epoch in later]
    each = [epoch.e2e_s / max(epoch.minibatches, 1) for epoch in later]
    parts = [BarPart(name, words, sum(one[name] for one in sums) / count) for name, words in TIME_PARTS]
    end = spell_seconds(sum(epoch.e2e_s for epoch in later) / count)
    return [first, Bar(f"{row.setting}, later epochs", parts, end, min(each), max(each))]


def _spread(rows: Sequence[PageRow], summaries: Sequence[Summary]) -> Markup:
    """Return the steady minibatches of each run: median, with a line from the median to the 99th percentile."""
    bars = []
    for row, summary in zip(rows, summaries, strict=True):
        times = summary.minibatch
        if times.median_ms is None or times.p99_ms is None:
            continue
        median_s, p99_s = times.median_ms / MS_PER_S, times.p99_ms / MS_PER_S
        part = BarPart("0", "median", median_s)
        bars.append(Bar(row.setting, [part], f"{spell_seconds(median_s)}, p99 {spell_seconds(p99_s)}", median_s, p99_s))
    if len(bars) < 2:
        return Markup("")
    return Markup(stacked_bars(bars, "s", "Median and 99th percentile of the steady minibatches of each run"))


def _epoch_cells(setting: str, epoch: EpochSummary) -> list[str]:
    return [
        f"{setting}, {epoch.epoch}",
        *(
            spell_seconds(value)
            for value in (
                epoch.e2e_s,
                epoch.fetch_stall_s,
                epoch.fill_s,
                epoch.hidden_wait_s,
                epoch.copy_s,
                epoch.compute_s,
                epoch.overhead_s,
            )
        ),
        with_pm(epoch.energy_j, epoch.energy_pm_j, "J"),
    ]


def _doubts(rows: Sequence[PageRow]) -> list[tuple[str, str]]:
    """Return each kind of doubt once, with the settings it is about and the text of the first."""
    about: dict[str, dict[str, str]] = {}
    for row in rows:
        for doubt in row.doubts:
            about.setdefault(doubt.kind, {}).setdefault(row.setting, doubt.text)
    everywhere = len(rows) if len(rows) > 1 else 0
    found = []
    for named in about.values():
        texts = list(dict.fromkeys(named.values()))
        more = f" (and {len(texts) - 1} like it)" if len(texts) > 1 else ""
        found.append(("every run" if len(named) == everywhere else "; ".join(named), texts[0] + more))
    return found


def _row(summary: Summary) -> PageRow:
    epochs = summary.epochs
    e2e = sum(epoch.e2e_s for epoch in epochs)
    stalls = [epoch.fetch_stall_s for epoch in epochs if epoch.fetch_stall_s is not None]
    joules = [epoch.energy_j for epoch in epochs if epoch.energy_j is not None]
    energy = with_pm(sum(joules), sum((epoch.energy_pm_j or 0.0) ** 2 for epoch in epochs) ** 0.5, "J")
    return PageRow(
        run=summary.run,
        origin=summary.origin,
        batch_size=summary.workload.batch_size,
        setting=setting_of(summary),
        epochs=epochs,
        minibatches=sum(epoch.minibatches for epoch in epochs),
        e2e_s=e2e if epochs else None,
        stall_share=sum(stalls) / e2e if e2e and len(stalls) == len(epochs) else None,
        median_ms=summary.minibatch.median_ms,
        p99_ms=summary.minibatch.p99_ms,
        power_w=summary.power_w.mean,
        energy=energy if joules and len(joules) == len(epochs) else "–",
        energy_reason=summary.energy_reason,
        overhead_pct=summary.overhead_pct,
        doubts=summary.doubts,
        state=summary.state,
    )


def _verdict(rows: Sequence[PageRow], repeats: Sequence[int]) -> str:
    """Return one sentence on what the runs of a network show, from all epochs; chance is not called a finding."""
    known = [
        (row.e2e_s / row.minibatches, row.stall_share, row)
        for row in rows
        if row.e2e_s and row.minibatches and row.stall_share is not None
    ]
    if len(known) < 2 or len({row.batch_size for _, _, row in known}) > 1:
        return ""
    best_s, _, best = min(known, key=lambda each: each[0])
    worst_s, worst_share, worst = max(known, key=lambda each: each[0])
    gain = worst_s / best_s
    if gain < SMALL_GAIN:
        return "No setting tried here changes the time per minibatch by more than 5 %."
    single = ""
    if min(repeats) == 1:
        which = "These are single runs" if max(repeats) == 1 else "Some settings were run once"
        single = f" {which}: repeat them before you rely on small differences."
    return (
        f"The fastest setting tried here ({best.setting}) takes {spell_seconds(best_s)} per minibatch over all epochs, "
        f"the slowest ({worst.setting}, {worst_share:.0%} of its time stalled) {gain:.2g} times as long."
        f"{single}"
    )


def _comparison(a: str, b: str, found: Comparison) -> PageComparison:
    rows = []
    for when, differences in (("later epochs", found.warm), ("the first epoch", found.cold)):
        rows += [
            [f"{LABELS[one.metric]}, {when}", spell_metric(one.a, one.unit), spell_metric(one.b, one.unit), one.words]
            for one in differences
        ]
    return PageComparison(a, b, rows)
