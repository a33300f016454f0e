"""Cached share of the dataset and reads from its medium over a run's time, with the epochs' boundaries."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgetrain.analysis.summary import EpochSummary
from edgetrain.record import Run
from edgetrain.units import S_PER_US

Array = NDArray[np.float64]


@dataclass(frozen=True)
class CacheCurve:
    """What a run's page cache did. Times are seconds since the first minibatch was asked for."""

    run: str
    boundaries_s: tuple[float, ...]  # where each epoch begins, and the end of the last
    share_at_s: Array
    cached_share: Array
    reads_at_s: Array  # middle of each bin
    read_bytes_per_s: Array


def cache_curve(run: Run, epochs: Sequence[EpochSummary], bins: int = 120) -> CacheCurve | None:
    """Return the curve of one run, from residency samples and the workers' own counts; None where neither is there."""
    if not epochs:
        return None
    start_us = epochs[0].begin_us
    end_us = epochs[-1].end_us
    boundaries = [epoch.begin_us for epoch in epochs] + [end_us]
    residency = run.samples("residency")
    if len(residency):
        inside = (residency["at_us"] >= start_us) & (residency["at_us"] <= end_us)
        share_at = (residency["at_us"][inside] - start_us) * S_PER_US
        share = np.asarray(residency["cached_share"][inside], float)
    else:
        share_at = share = np.zeros(0)
    reads_at, rate = _reads(run, start_us, end_us, bins)
    if not len(share) and not len(rate):
        return None
    return CacheCurve(run.id, tuple((one - start_us) * S_PER_US for one in boundaries), share_at, share, reads_at, rate)


def _reads(run: Run, start_us: int, end_us: int, bins: int) -> tuple[Array, Array]:
    """Spread each batch's bytes over the time its fetch took."""
    workers = run.workers()
    if not workers or not np.any(workers["read_bytes"] >= 0) or end_us <= start_us:
        return np.zeros(0), np.zeros(0)
    edges = np.linspace(start_us, end_us, bins + 1)
    amounts = np.maximum(np.asarray(workers["read_bytes"], float), 0)
    middle = (np.asarray(workers["began_us"], float) + np.asarray(workers["fetched_us"], float)) / 2
    total, _ = np.histogram(middle, bins=edges, weights=amounts)
    width_s = (end_us - start_us) / bins * S_PER_US
    return np.asarray((edges[:-1] - start_us) * S_PER_US + width_s / 2, np.float64), total / width_s


def lru_hit_share(cached_share: float) -> float:
    """Return the share of reads that hit in the second epoch when every epoch reads all files once in a new order.

    LRU under reshuffling: h = c + (1 - c) ln(1 - c), far below the cached share c. Later epochs do a little better.
    """
    if cached_share >= 1:
        return 1.0
    if cached_share <= 0:
        return 0.0
    return cached_share + (1 - cached_share) * math.log(1 - cached_share)
