"""Attributes every fetch stall to its cause: blocked, pre-processing, contention for cores, or hand-over.

`digest` calls `attribute` with the record's columns, the rows that are training minibatches, and the stall of each;
the four parts of each minibatch sum to its stall. This first rule splits a stall like the fetch of its own batch.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgetrain.schema import Columns

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Attribution:
    """Seconds of each training minibatch's stall, by cause. Without a verdict the parts mean nothing."""

    blocked_s: Floats
    preprocess_s: Floats
    contention_s: Floats
    handover_s: Floats
    verdict: bool
    doubts: tuple[dict[str, str], ...] = ()


def attribute(minibatches: Columns, workers: Columns, rows: NDArray[np.int64], stall_s: Floats) -> Attribution:
    """Split each stall by cause; without worker columns there is no verdict."""
    nothing = np.zeros(len(rows))
    if not workers or not len(rows):
        return Attribution(nothing, nothing, nothing, nothing, verdict=False)

    def key(columns: Columns, at: NDArray[np.int64] | slice) -> NDArray[np.int64]:
        joined = (columns["loader"][at] << 56) + (columns["generation"][at] << 36) + columns["batch"][at]
        return np.asarray(joined, np.int64)

    made = key(workers, slice(None))
    order = np.argsort(made, kind="stable")
    place = order[np.minimum(np.searchsorted(made[order], key(minibatches, rows)), len(made) - 1)]
    wall = np.maximum(workers["fetched_us"][place] - workers["began_us"][place], 1).astype(float)
    cpu = np.clip(workers["cpu_us"][place] / wall, 0, 1)
    queued = np.clip(workers["queued_us"][place] / wall, 0, 1 - cpu)
    return Attribution(stall_s * (1 - cpu - queued), stall_s * cpu, stall_s * queued, nothing, verdict=True)
