"""Where the seconds and the joules of each epoch went, as stacked bars; many epochs share a bar."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from edgetrain.analysis import EpochSummary, Summary
from edgetrain.report.page.bars import Bar, BarPart
from edgetrain.schema import PowerSource
from edgetrain.units import spell, spell_seconds

MAX_BARS = 24  # epochs drawn one by one; of more, neighbours share a bar
TIME_PARTS = (
    ("blocked", "blocked"),
    ("preprocess", "pre-processing"),
    ("contention", "contention"),
    ("handover", "hand-over"),
    ("stall", "stall of unknown cause"),
    ("copy", "copy"),
    ("compute", "compute"),
    ("overhead", "overhead"),
)
ENERGY_PARTS = (("baseload", "idle baseload"), ("stall", "added by stalls"), ("compute", "added by training"))
SCOPES = {
    "module": "module only, without the carrier board",
    "board": "the whole board at its input",
    "gpu": "the GPU only, without the host",
    "cpu package": "the CPU package only",
}


def seconds_by_part(epoch: EpochSummary) -> dict[str, float]:
    """Return the seconds of an epoch by part; they add up to its end-to-end time."""
    causes = epoch.stall_by
    stall = epoch.fetch_stall_s or 0.0
    split = (
        {"blocked": 0.0, "preprocess": 0.0, "contention": 0.0, "handover": 0.0, "stall": stall}
        if causes is None
        else {
            "blocked": causes.blocked_s,
            "preprocess": causes.preprocess_s,
            "contention": causes.contention_s,
            "handover": causes.handover_s,
            "stall": 0.0,
        }
    )
    return {**split, "copy": epoch.copy_s or 0.0, "compute": epoch.compute_s, "overhead": epoch.overhead_s}


def used_parts(summaries: Sequence[Summary]) -> list[tuple[str, str]]:
    """Return the parts of the time that occur, with their names."""
    parts = [seconds_by_part(epoch) for summary in summaries for epoch in summary.epochs]
    return [(name, words) for name, words in TIME_PARTS if any(one[name] > 0 for one in parts)]


@dataclass(frozen=True, slots=True)
class EpochBars:
    """Bars of some epochs, and how many epochs one of them covers."""

    bars: tuple[Bar, ...]
    each: int  # epochs in one bar
    shown: tuple[tuple[str, str], ...]  # colours that occur, and their names


def time_bars(epochs: Sequence[EpochSummary]) -> EpochBars:
    """Return where the time of each epoch went; a bar of several is their mean, with the shortest and longest."""
    groups = grouped(epochs)
    bars: list[Bar] = []
    used: set[str] = set()
    for group in groups:
        parts = [seconds_by_part(epoch) for epoch in group]
        means = {name: sum(part[name] for part in parts) / len(group) for name, _ in TIME_PARTS}
        used |= {name for name, value in means.items() if value > 0}
        took = [epoch.e2e_s for epoch in group]
        total_s = sum(took)
        several = len(group) > 1
        stalls = [epoch.fetch_stall_s for epoch in group if epoch.fetch_stall_s is not None]
        share = f", {sum(stalls) / total_s:.0%} stalled" if len(stalls) == len(group) and total_s > 0 else ""
        bars.append(
            Bar(
                _name(group),
                [BarPart(name, words, means[name]) for name, words in TIME_PARTS],
                spell_seconds(sum(took) / len(took)) + share,
                min(took) if several else None,
                max(took) if several else None,
            )
        )
    shown = tuple((name, words) for name, words in TIME_PARTS if name in used)
    return EpochBars(tuple(bars), max((len(group) for group in groups), default=0), shown)


def grouped(epochs: Sequence[EpochSummary], most: int = MAX_BARS) -> list[Sequence[EpochSummary]]:
    """Return epochs in at most `most` groups of neighbours; the first epoch, which may be cold, stays alone."""
    if len(epochs) <= most:
        return [[epoch] for epoch in epochs]
    rest = epochs[1:]
    size = -(-len(rest) // (most - 1))
    return [epochs[:1], *(rest[at : at + size] for at in range(0, len(rest), size))]


def _name(group: Sequence[EpochSummary]) -> str:
    first, last = group[0].epoch, group[-1].epoch
    return f"epoch {first}" if first == last else f"epochs {first} to {last}"


def energy_bars(summary: Summary) -> EpochBars:
    """Return where the joules of each epoch went: idle baseload, and what training added."""
    bars, used = [], set()
    for group in grouped([epoch for epoch in summary.epochs if epoch.energy_j is not None]):
        joules = [epoch.energy_j or 0.0 for epoch in group]
        base = [epoch.baseload_j for epoch in group if epoch.baseload_j is not None]
        mean_j, base_j = sum(joules) / len(group), sum(base) / len(group) if len(base) == len(group) else 0.0
        pm_j = (sum((epoch.energy_pm_j or 0.0) ** 2 for epoch in group) ** 0.5) / len(group)
        parts = {"baseload": min(base_j, mean_j), "stall": 0.0, "compute": max(0.0, mean_j - base_j)}
        used |= {name for name, value in parts.items() if value > 0}
        low, high = (min(joules), max(joules)) if len(group) > 1 else (mean_j - pm_j, mean_j + pm_j)
        end = f"{spell(mean_j)} ± {spell(pm_j, 'J', 2)}"
        bars.append(Bar(_name(group), [BarPart(n, w, parts[n]) for n, w in ENERGY_PARTS], end, low, high))
    each = max((len(group) for group in grouped(summary.epochs)), default=0)
    return EpochBars(tuple(bars), each, tuple((name, words) for name, words in ENERGY_PARTS if name in used))


def cause_bar(summary: Summary) -> EpochBars | None:
    """Return the energy of the whole run by cause, as one bar; None where it was not split."""
    split = summary.energy_by
    if split is None:
        return None
    values = {"baseload": split.baseload_j, "stall": max(0.0, split.stall_j), "compute": max(0.0, split.compute_j)}
    total = sum(values.values())
    bar = Bar(
        "whole run",
        [BarPart(name, words, values[name]) for name, words in ENERGY_PARTS],
        f"{spell(total)} ± {spell(split.pm_j, 'J', 2)}",
        total - split.pm_j,
        total + split.pm_j,
    )
    return EpochBars((bar,), 1, ENERGY_PARTS)


def define_total(source: PowerSource | None) -> str:
    """Say what the total power of a run is of: `total = VDD_IN, module only`."""
    if source is None:
        return ""
    names = " + ".join(name.removesuffix("_w") for name in source.columns)
    defined = "" if names == "total" else f" = {names}"
    return f"total{defined}: {SCOPES.get(source.scope, source.scope)}"
