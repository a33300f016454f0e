"""The characterisation of a machine, for the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from edgetrain.analysis import StallCauses, Summary
from edgetrain.report.text import CAUSES, plain_table
from edgetrain.units import MS_PER_S, spell_seconds


def show_characterisation(summaries: Sequence[Summary]) -> Table:
    """Return one row per run: what a minibatch takes, how much of it is stall, and why."""
    table = plain_table(
        "network", "workers", "cache", "minibatch\nmedian", "epoch", "fetch\nstall", "stall of\nepoch", "main cause"
    )
    for summary in summaries:
        loading = summary.loading
        epoch = summary.epochs[0] if summary.epochs else None
        e2e_s, stall_s = (epoch.e2e_s, epoch.fetch_stall_s) if epoch else (None, None)
        table.add_row(
            summary.workload.network or "?",
            "–" if loading is None or loading.workers is None else str(loading.workers),
            (loading.cache if loading else None) or "–",
            spell_median(summary),
            spell_seconds(e2e_s),
            spell_seconds(stall_s),
            f"{stall_s / e2e_s:.0%}" if stall_s is not None and e2e_s else "–",
            _mostly(epoch.stall_by if epoch else None),
        )
    return table


def spell_median(summary: Summary) -> str:
    """Spell the median time per minibatch."""
    median_ms = summary.minibatch.median_ms
    return "–" if median_ms is None else spell_seconds(median_ms / MS_PER_S)


def _mostly(causes: StallCauses | None) -> str:
    if causes is None:
        return "–"
    words = {name: label.partition(" (")[0] for name, label in CAUSES}
    return words[max(words, key=lambda name: float(getattr(causes, name)))]
