"""The training processes of one run beside each other, for the terminal and for pages."""

from __future__ import annotations

from edgetrain.analysis import Summary
from edgetrain.units import spell, spell_seconds

PROCESS_HEADS = ("process", "rank", "minibatches", "time", "fetch stall", "median ms")


def process_rows(summary: Summary) -> list[list[str]]:
    """Return one row per training process; none where there is only one."""
    if summary.process_spread is None:
        return []
    return [
        [
            "–" if process.pid is None else str(process.pid),
            "–" if process.rank is None else str(process.rank),
            str(process.minibatches),
            spell_seconds(process.e2e_s),
            spell_seconds(process.fetch_stall_s),
            spell(process.minibatch.median_ms),
        ]
        for process in summary.processes
    ]


def spell_process_spread(summary: Summary) -> str:
    """Return how much the processes differ; nothing where there is only one."""
    spread = summary.process_spread
    if spread is None:
        return ""
    apart = f"between the fastest and the slowest: {spell_seconds(spread.e2e_slowest_s - spread.e2e_fastest_s)}"
    if spread.stall_most_s is not None and spread.stall_least_s is not None:
        apart += f", {spell_seconds(spread.stall_most_s - spread.stall_least_s)} of fetch stall"
    return apart
