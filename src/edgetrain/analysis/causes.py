"""Why the loop stood still, epoch by epoch; for very long runs from blocks of minibatches spread over the run."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from edgetrain.analysis.attribution import attribute
from edgetrain.analysis.breakdown import Parts, break_down
from edgetrain.analysis.samples import mean_of
from edgetrain.schema import Run
from edgetrain.units import spell

MOST_ATTRIBUTED = 150_000  # minibatches attributed one by one; above, blocks of the run stand for it
BLOCKS = 25  # of the long run, evenly spread
BLOCK = 1_000  # minibatches in each
CAUSES = ("blocked_s", "preprocess_s", "contention_s", "handover_s")


@dataclass(frozen=True, slots=True)
class Causes:
    """Seconds of stall by cause for each epoch seen, what was looked at, and doubts."""

    by_epoch: dict[int, dict[str, float]]
    verdict: bool
    doubts: tuple[dict[str, str], ...]
    attributed: int  # minibatches looked at

    def of(self, epoch: int, stall_s: float) -> dict[str, float] | None:
        """Return one epoch's stall by cause, summing to the stall; None where no verdict can be given."""
        if not self.verdict:
            return None
        sums = self.by_epoch.get(epoch)
        if sums is None or sum(sums.values()) <= 0:
            sums = {name: sum(found[name] for found in self.by_epoch.values()) for name in CAUSES}
        total = sum(sums.values())
        if total <= 0:
            return dict.fromkeys(CAUSES, 0.0) if stall_s <= 0 else None
        scaled = {name: stall_s * seconds / total for name, seconds in sums.items()}
        largest = max(scaled, key=lambda name: scaled[name])
        scaled[largest] += stall_s - sum(scaled.values())
        return scaled


def find_causes(run: Run, parts: Parts) -> Causes:
    """Attribute the stalls of a run."""
    looked_at, run = (parts, run) if len(parts) <= MOST_ATTRIBUTED else _blocks(run, parts)
    steal = mean_of(run, "cpu", "steal_share")
    found = attribute(run.minibatches, run.workers, looked_at.rows, looked_at.stall_s, steal)
    by_epoch = {}
    for epoch in np.unique(looked_at.epoch).tolist():
        rows = looked_at.epoch == epoch
        by_epoch[int(epoch)] = {name: float(getattr(found, name)[rows].sum()) for name in CAUSES}
    doubts = found.doubts
    if len(looked_at) < len(parts):
        text = f"causes come from {spell(len(looked_at), '', 6)} of {spell(len(parts), '', 8)} minibatches, in blocks"
        doubts = (*doubts, {"kind": "causes_sampled", "text": text})
    return Causes(by_epoch, found.verdict, doubts, len(looked_at))


def _blocks(run: Run, parts: Parts) -> tuple[Parts, Run]:
    """Return blocks of a long run, each with the worker rows around it."""
    starts = np.linspace(0, len(parts) - BLOCK, BLOCKS).astype(int)
    windows = [(int(parts.begin_us[start]), int(parts.done_us[start + BLOCK - 1])) for start in starts]
    some = replace(
        run,
        minibatches=_inside(_frames(run.minibatches, "asked_us", windows), "asked_us", windows),
        workers=_frames(run.workers, "began_us", windows),
    )
    return break_down(some.minibatches), some


def _frames(columns: Any, instant: str, windows: list[tuple[int, int]]) -> Any:
    """Return the rows of some windows, and such as lie in the same frames where the store offers it."""
    return columns.during(instant, windows) if hasattr(columns, "during") else columns


def _inside(columns: Any, instant: str, windows: list[tuple[int, int]]) -> Any:
    at = columns[instant]
    keep = np.zeros(len(at), bool)
    for start, stop in windows:
        keep |= (at >= start) & (at <= stop)
    return {name: column[keep] for name, column in columns.items()}
