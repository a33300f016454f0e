"""The page of one run: verdict, where seconds and joules went, timeline, distributions, remedies, doubts."""

from __future__ import annotations

from markupsafe import Markup

from edgetrain.analysis import EpochSummary, Summary, find_loops, slowest
from edgetrain.record import Run
from edgetrain.report.machine import machine_cells
from edgetrain.report.page.bars import legend, stacked_bars
from edgetrain.report.page.distributions import distributions, slowest_minibatches
from edgetrain.report.page.epochs import EpochBars, cause_bar, define_total, energy_bars, time_bars
from edgetrain.report.page.provenance import all_doubts, provenance
from edgetrain.report.page.shell import render, spell_share
from edgetrain.report.page.timeline import GROUP, timeline
from edgetrain.report.page.verdict import PageVerdict, plain_verdict
from edgetrain.report.processes import PROCESS_HEADS, process_rows, spell_process_spread
from edgetrain.report.text import spell_workers, with_pm
from edgetrain.units import spell, spell_bytes, spell_seconds

FIRST_ROWS, LAST_ROWS, SLOWEST_ROWS = 60, 20, 20  # epochs in the table of a run that has more
EPOCH_HEADS = (
    "epoch", "minibatches", "end to end", "fetch stall", "of which fill", "blocked", "pre-processing", "contention",
    "hand-over", "hidden wait", "copy", "compute", "overhead", "read", "cached before → after", "energy", "loss",
)  # fmt: skip


def run_page(run: Run, summary: Summary, verdict: PageVerdict | None = None, title: str | None = None) -> str:
    """Return the page of one run. `verdict` is what `diagnose` says; without it the page says what takes the time."""
    parts = slowest(find_loops(run)).parts
    pictures = timeline(run, summary, parts)
    histograms = distributions(parts, str(summary.origin))
    zero_us = summary.epochs[0].begin_us if summary.epochs else 0
    times, joules, causes = time_bars(summary.epochs), energy_bars(summary), cause_bar(summary)
    heads, rows = machine_cells(_few(summary.epochs))
    return render(
        "run.html.j2",
        title or _title(summary),
        [*pictures, *histograms],
        summary=summary,
        subtitle=_subtitle(summary),
        verdict=verdict or plain_verdict(summary),
        tiles=_tiles(summary),
        times=_bars(times, "s", "Where the time of each epoch went"),
        times_each=times.each,
        joules=_bars(joules, "J", "Energy of each epoch: idle baseload, and what training added"),
        joules_each=joules.each,
        causes=_bars(causes, "J", "Energy of the whole run by cause") if causes else "",
        total=define_total(run.manifest.power),
        timeline=pictures,
        group=GROUP,
        histograms=histograms,
        slowest=slowest_minibatches(parts, zero_us),
        epoch_heads=EPOCH_HEADS,
        epoch_rows=[_epoch_row(epoch) for epoch in _few(summary.epochs)],
        epochs_left_out=len(summary.epochs) - len(_few(summary.epochs)),
        machine_heads=[head.replace("\n", " ") for head in heads],
        machine_rows=rows,
        process_heads=PROCESS_HEADS,
        process_rows=process_rows(summary),
        process_spread=spell_process_spread(summary),
        doubts=all_doubts(summary, run.lost),
        provenance=provenance(run, summary),
    )


def _title(summary: Summary) -> str:
    return f"Where the training time of {summary.workload.network or summary.run} went"


def _subtitle(summary: Summary) -> str:
    loading, device = summary.loading, summary.device
    facts = [
        f"batch {summary.workload.batch_size}" if summary.workload.batch_size else "",
        spell_workers(loading.workers if loading else None),
        f"cache {loading.cache}" if loading and loading.cache else "",
        device.model or device.name or "",
    ]
    return " · ".join([summary.run, *(fact for fact in facts if fact)])


def _tiles(summary: Summary) -> list[tuple[str, str]]:
    """Return the figures that people look for first, each with what it is."""
    epochs, minibatch, power = summary.epochs, summary.minibatch, summary.power_w
    total_s = sum(epoch.e2e_s for epoch in epochs)
    stalls = [epoch.fetch_stall_s for epoch in epochs]
    stalled = None if not total_s or None in stalls else sum(stall or 0.0 for stall in stalls) / total_s
    joules = [epoch.energy_j for epoch in epochs if epoch.energy_j is not None]
    pm_j = sum((epoch.energy_pm_j or 0.0) ** 2 for epoch in epochs) ** 0.5
    energy = with_pm(sum(joules), pm_j, "J") if joules and len(joules) == len(epochs) else "–"
    count = "1 epoch" if len(epochs) == 1 else f"{len(epochs)} epochs"
    found = [
        (spell_seconds(total_s) if epochs else "–", f"end to end, {count}"),
        (spell_share(stalled), "of the time stalled"),
        (f"{spell(minibatch.median_ms)} ms" if minibatch.median_ms else "–", "per minibatch, steady median"),
        (f"{spell(minibatch.p99_ms)} ms" if minibatch.p99_ms else "–", "per minibatch, p99"),
        (spell(summary.samples_per_s), "samples per second"),
        (energy, "energy of all epochs" if joules else "energy: not measured"),
        (spell(power.mean, "W"), "mean power, steady" if power.mean is not None else "power: not measured"),
    ]  # fmt: skip
    if power.peak_1s is not None:
        found.append((spell(power.peak_1s, "W"), "highest power over one second"))
    return found


def _bars(found: EpochBars, unit: str, alt: str) -> Markup:
    if not found.bars:
        return Markup("")
    return Markup(legend(found.shown) + stacked_bars(found.bars, unit, alt))


def _few(epochs: tuple[EpochSummary, ...]) -> list[EpochSummary]:
    """Return the epochs of a table: all, or the first, the last and the slowest."""
    if len(epochs) <= FIRST_ROWS + LAST_ROWS + SLOWEST_ROWS:
        return list(epochs)
    middle = epochs[FIRST_ROWS:-LAST_ROWS]
    slow = sorted(sorted(middle, key=lambda epoch: -epoch.e2e_s)[:SLOWEST_ROWS], key=lambda epoch: epoch.epoch)
    return [*epochs[:FIRST_ROWS], *slow, *epochs[-LAST_ROWS:]]


def _epoch_row(epoch: EpochSummary) -> list[str]:
    causes = epoch.stall_by
    return [
        str(epoch.epoch),
        str(epoch.minibatches),
        *(spell_seconds(value) for value in (epoch.e2e_s, epoch.fetch_stall_s, epoch.fill_s)),
        *(
            spell_seconds(getattr(causes, name) if causes else None)
            for name in ("blocked_s", "preprocess_s", "contention_s", "handover_s")
        ),
        *(spell_seconds(value) for value in (epoch.hidden_wait_s, epoch.copy_s, epoch.compute_s, epoch.overhead_s)),
        spell_bytes(epoch.read_bytes),
        f"{spell_share(epoch.cached_share_before)} → {spell_share(epoch.cached_share_after)}",
        with_pm(epoch.energy_j, epoch.energy_pm_j, "J"),
        spell(epoch.loss),
    ]
