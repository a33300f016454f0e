"""Why the loop waited, epoch by epoch; for very long runs from blocks of minibatches spread over the run."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgetrain.analysis.attribution import attribute
from edgetrain.analysis.parts import Parts
from edgetrain.analysis.summary import StallCauses
from edgetrain.record import Table, Windows
from edgetrain.schema import Doubt
from edgetrain.units import spell

MAX_ATTRIBUTED = 150_000  # minibatches attributed one by one; above, blocks of the run represent it
BLOCKS = 25  # of the long run, evenly spread
BLOCK = 1_000  # minibatches in each
CAUSES = ("blocked_s", "preprocess_s", "contention_s", "handover_s")


@dataclass(frozen=True, slots=True)
class Causes:
    """Seconds of stall by cause for each epoch seen, how many minibatches were attributed, and doubts."""

    by_epoch: dict[int, dict[str, float]]
    verdict: bool
    doubts: tuple[Doubt, ...]
    attributed: int

    def of(self, epoch: int, stall_s: float) -> StallCauses | None:
        """Return one epoch's stall by cause, summing to the stall; None where no verdict can be given."""
        if not self.verdict:
            return None
        sums = self.by_epoch.get(epoch)
        if sums is None or sum(sums.values()) <= 0:
            sums = {name: sum(found[name] for found in self.by_epoch.values()) for name in CAUSES}
        total = sum(sums.values())
        if total <= 0:
            return StallCauses(0.0, 0.0, 0.0, 0.0) if stall_s <= 0 else None
        scaled = {name: stall_s * seconds / total for name, seconds in sums.items()}
        largest = max(scaled, key=lambda name: scaled[name])
        scaled[largest] += stall_s - sum(scaled.values())
        return StallCauses(**scaled)


def find_causes(minibatches: Table, workers: Table, parts: Parts, steal_share: float | None) -> Causes:
    """Attribute the stalls of one training process, wait by wait."""
    rows, stall_s, epoch = parts.wait_rows, parts.wait_stall_s, parts.wait_epoch
    attributed = len(parts)
    if len(rows) > MAX_ATTRIBUTED:
        chosen, minibatches, workers = _blocks(minibatches, workers, parts)
        rows, stall_s, epoch = np.arange(len(chosen)), stall_s[chosen], epoch[chosen]
        attributed = min(len(chosen), attributed)
    batches = minibatches.get("batch")
    delivered = np.ones(len(rows), bool) if batches is None else batches[rows] >= 0
    found = attribute(minibatches, workers, rows[delivered], stall_s[delivered], steal_share)
    by_epoch = {}
    for number in np.unique(epoch).tolist():
        of_epoch = epoch[delivered] == number
        sums = {name: float(getattr(found, name)[of_epoch].sum()) for name in CAUSES}
        # Starting and stopping workers: no batch was made meanwhile.
        sums["handover_s"] += float(stall_s[~delivered & (epoch == number)].sum())
        by_epoch[int(number)] = sums
    doubts = found.doubts
    if attributed < len(parts):
        text = f"causes come from {spell(attributed, '', 6)} of {spell(len(parts), '', 8)} minibatches, in blocks"
        doubts = (*doubts, Doubt("causes_sampled", text))
    return Causes(by_epoch, found.verdict, doubts, attributed)


def _blocks(minibatches: Table, workers: Table, parts: Parts) -> tuple[NDArray[np.int64], Table, Table]:
    """Return blocks of waits of a long run: which they are, their rows, and the worker rows around them."""
    starts = np.linspace(0, len(parts.asked_us) - BLOCK, BLOCKS).astype(int)
    windows: Windows = [(int(parts.asked_us[at]), int(parts.asked_us[at + BLOCK - 1])) for at in starts]
    some = minibatches.during("asked_us", windows)
    # Rows that are waits of minibatches: those of evaluation, and ends of passes, are left out.
    place = np.searchsorted(parts.asked_us, some["asked_us"])
    same = parts.asked_us[np.minimum(place, len(parts.asked_us) - 1)] == some["asked_us"]
    return place[same], some.take(np.flatnonzero(same)), workers.near("began_us", windows)
