"""The costs of a recorded run: fetches, cold reads, hand-over, start of workers, and how they follow the batch size."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from edgetrain.analysis import COLD_BYTES, MIN_RECORDED_MINIBATCHES, RecordedRows, Summary
from edgetrain.prediction.pipeline.costs import (
    COLD_CPU_S,
    FETCH_FIXED_S,
    FORK_S,
    WORKER_START_CPU_S,
    CostByBatchSize,
    HandOver,
    PipelineCosts,
    assumed_hand_over,
    fit_batch_sizes,
)
from edgetrain.prediction.pipeline.epoch import request_sizes
from edgetrain.prediction.pipeline.page_cache import DatasetOnMedium
from edgetrain.prediction.pipeline.steps import step_costs
from edgetrain.record import LoaderFacts, Run
from edgetrain.units import S_PER_US

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
MIN_SEEN = 8  # rows that a median is taken of
MIN_READ = 0.1  # of an epoch's samples, read from the medium: below, a run says nothing about it
FIRST_EPOCH = 1.05  # fetch CPU time of a first epoch, relative to later ones (measured: 1.05 to 1.1)
MAX_LATENCY_S = 0.02  # a wake-up that takes longer was not the hand-over's
ASSUMED_MINIBATCH_BYTES = 4e6  # where nothing is known


@dataclass(frozen=True, slots=True)
class RecordedFetches:
    """The rows of a run and what is known about its loader and dataset."""

    run: Run
    summary: Summary
    rows: RecordedRows
    loader: LoaderFacts | None
    workers: int
    batch_size: int
    dataset: DatasetOnMedium | None
    missed: tuple[float, ...]  # of each epoch, the share of samples read from the medium
    cpu_share: float = 1.0  # speed of each core, as the lab limited it

    @property
    def cold(self) -> Bools:
        """Which fetches read from the medium."""
        return np.asarray(self.rows.read_bytes > COLD_BYTES)

    @property
    def first(self) -> Bools:
        """Which minibatches are of the first epoch."""
        return np.asarray(self.rows.epoch == self.rows.epoch.min())

    def settled(self) -> Bools:
        """Return which minibatches are full and not among the first of an epoch, while the pipeline fills."""
        rows = self.rows
        chosen = np.ones(len(rows), bool) if np.isnan(rows.samples).all() else rows.samples == self.batch_size
        for start in np.flatnonzero(rows.parts.first).tolist():
            chosen[start : start + max(1, 2 * self.workers)] = False
        return np.asarray(chosen if chosen.any() else np.ones(len(rows), bool))


@dataclass(frozen=True, slots=True)
class FetchCosts:
    """What making a minibatch costs."""

    cpu_s: Floats
    wait_s: Floats
    collate_s: float
    cold_cpu_s: float
    first_epoch: float
    assumed: frozenset[str]
    helper_share: float = 0.0


def recorded_costs(record: RecordedFetches) -> PipelineCosts:
    """Return the costs that a run's record shows, and the names of those that it does not."""
    run, settled = record.run, record.settled()
    fetch = _fetch_costs(record, settled)
    assumed = set(fetch.assumed)
    minibatch_bytes = _minibatch_bytes(record)
    if minibatch_bytes is None:
        assumed.add("minibatch bytes")
        minibatch_bytes = ASSUMED_MINIBATCH_BYTES
    hand_over = _hand_over(record, settled) if record.workers else _probed_hand_over(record, minibatch_bytes)
    if hand_over is None:
        assumed.add("hand-over")
        hand_over = assumed_hand_over(minibatch_bytes)
    pinned = bool(record.loader and record.loader.pin_memory)
    step, release_s = step_costs(run, record.summary, record.rows, settled, pinned, record.cpu_share)
    if record.workers and release_s is not None:
        hand_over = replace(hand_over, release_s=release_s)
    fetch_by_batch, step_by_batch = _batch_scaling(run, record.batch_size)
    if fetch_by_batch is None:
        assumed.add("batch size")
    fork_s, start_s = _worker_start(record.rows, record.workers)
    return PipelineCosts(
        batch_size=record.batch_size,
        fetch_cpu_s=fetch.cpu_s,
        fetch_wait_s=fetch.wait_s,
        fetch_fixed_s=FETCH_FIXED_S,
        cold_cpu_s=fetch.cold_cpu_s,
        collate_s=fetch.collate_s,
        hand_over=hand_over,
        step=step,
        first_epoch=fetch.first_epoch,
        fork_s=fork_s,
        worker_start_s=start_s,
        tail_s=_tail_s(record),
        minibatch_bytes=minibatch_bytes,
        fetch_by_batch=fetch_by_batch,
        step_by_batch=step_by_batch,
        requests_per_sample=_requests_per_sample(record),
        in_loop=record.workers == 0,
        helper_share=fetch.helper_share,
        assumed=frozenset(assumed),
    )


# Fetches


def _fetch_costs(record: RecordedFetches, settled: Bools) -> FetchCosts:
    """Return what a fetch without reads costs: of later epochs where there are some, else of what there is."""
    rows, cold, first = record.rows, record.cold, record.first
    chosen = settled & ~cold & ~first
    if chosen.sum() < MIN_RECORDED_MINIBATCHES:
        chosen = settled & ~cold
    only_cold = chosen.sum() < MIN_RECORDED_MINIBATCHES
    chosen = settled if only_cold else chosen
    cpu_s = _cpu_s(rows, chosen, record.cpu_share)
    waited_s = np.where(np.isnan(rows.cpu_s), 0.0, np.maximum(_rest_s(rows, cpu_s, record.cpu_share), 0.0))[chosen]
    collated = rows.collate_s[chosen] * record.cpu_share
    collate_s = float(np.nanmean(collated)) if (~np.isnan(collated)).any() else 0.0
    assumed_cold_s = COLD_CPU_S * len(request_sizes(record.dataset))
    if only_cold:
        warm_s = np.maximum(cpu_s[chosen] - assumed_cold_s * record.batch_size, 0.2 * cpu_s[chosen])
        assumed = frozenset({"warm fetch"})
        return FetchCosts(warm_s, np.zeros_like(waited_s), collate_s, assumed_cold_s, FIRST_EPOCH, assumed)
    fetch_s = cpu_s[chosen]
    cold_cpu_s = _cold_cpu_s(record, cpu_s, settled & cold, float(fetch_s.mean()))
    warm_first = settled & first & ~cold & ~np.isnan(rows.cpu_s)
    first_epoch = FIRST_EPOCH
    if not (chosen & first).any() and warm_first.sum() >= MIN_SEEN:
        first_epoch = float(np.clip(cpu_s[warm_first].mean() / fetch_s.mean(), 0.8, 1.5))
    assumed = frozenset({"cold read"}) if cold_cpu_s is None else frozenset()
    if cold_cpu_s is None:
        cold_cpu_s = assumed_cold_s
    helper_share = _helper_share(rows, chosen, waited_s)
    return FetchCosts(fetch_s, waited_s, collate_s, cold_cpu_s, first_epoch, assumed, helper_share)


def _cpu_s(rows: RecordedRows, chosen: Bools, cpu_share: float) -> Floats:
    """Return the CPU time of each fetch in its own thread; the loop waits for its helper threads.

    A fetch whose counters were not read takes the value of one that was; where none was read, its duration at full
    speed.
    """
    cpu_s = rows.cpu_s
    seen = chosen & ~np.isnan(cpu_s)
    if not seen.any():
        return np.nan_to_num(rows.fetch_s) * cpu_share
    drawn = np.random.default_rng(0).choice(cpu_s[seen], len(cpu_s))
    return np.where(np.isnan(cpu_s), drawn, cpu_s)


def _helper_share(rows: RecordedRows, chosen: Bools, waited_s: Floats) -> float:
    """Return the share of the waiting of the loop's own fetches that was for its helper threads, at most."""
    helped_s = float(np.nan_to_num(rows.helpers_s)[chosen & rows.own].sum())
    total_s = float(waited_s.sum())
    return min(1.0, helped_s / total_s) if total_s > 0 else 0.0


def _rest_s(rows: RecordedRows, cpu_s: Floats, cpu_share: float) -> Floats:
    """Return the time of each fetch in which it neither computed nor waited for a core."""
    return rows.fetch_s - cpu_s - _queued_s(rows.queued_s, cpu_s, cpu_share) - np.nan_to_num(rows.stolen_s)


def _queued_s(queued_s: Floats, cpu_s: Floats, cpu_share: float) -> Floats:
    """Return how long each waited for a core, with the pauses that a CPU quota makes: not all kernels count them."""
    return np.maximum(np.nan_to_num(queued_s), cpu_s * (1.0 / cpu_share - 1.0))


def _cold_cpu_s(record: RecordedFetches, cpu_s: Floats, cold: Bools, warm_s: float) -> float | None:
    """Return the CPU time that reading one sample from the medium adds; None where too few fetches read."""
    dataset = record.dataset
    if dataset is None or cold.sum() < MIN_SEEN:
        return None
    missed = float(record.rows.read_bytes[cold].sum()) / dataset.read_bytes
    extra_s = float(cpu_s[cold].sum()) - warm_s * FIRST_EPOCH * float(cold.sum())
    return max(0.0, extra_s / max(1.0, missed))


def _requests_per_sample(record: RecordedFetches) -> float | None:
    """Return how many requests one sample took, where the lab's own medium counted them."""
    limits = record.summary.limits
    if limits is None or limits.asked.storage is None:
        return None
    for epoch, share in zip(record.summary.epochs, record.missed, strict=True):
        samples = epoch.minibatches * record.batch_size * share
        if share > MIN_READ and epoch.read_requests and samples:
            return float(np.clip(epoch.read_requests / samples, 1.0, 64.0))
    return None


# Hand-over


def _minibatch_bytes(record: RecordedFetches) -> float | None:
    if record.loader is not None and record.loader.minibatch_bytes:
        return record.loader.minibatch_bytes
    probed = record.run.manifest.hand_over
    return None if probed is None else float(probed.minibatch_bytes)


def _hand_over(record: RecordedFetches, settled: Bools) -> HandOver | None:
    """Return what shipping and receiving cost in a run with workers, at full speed of the cores."""
    rows, cpu_share = record.rows, record.cpu_share
    seen = settled & ~np.isnan(rows.pickled_s) & ~rows.own
    if seen.sum() < MIN_SEEN:
        return None
    ship = rows.ship_cpu_s[seen]
    if np.isnan(ship).all():
        ship = (rows.pickled_s - rows.fetched_s)[seen] * cpu_share
    wall_s = (rows.ready_s - np.fmax(rows.asked_s, rows.pickled_s))[seen]
    usual_s = float(np.median(wall_s))
    cpu_s = rows.loop_cpu_s[seen]
    looked = ~np.isnan(cpu_s)
    if looked.sum() < MIN_SEEN:
        return HandOver(float(np.nanmean(ship)), usual_s * cpu_share, 0.0, 0.0)
    waits = (wall_s - cpu_s - _queued_s(rows.loop_queued_s[seen], cpu_s, cpu_share))[looked]
    latency_s = float(np.clip(np.median(waits), 0.0, MAX_LATENCY_S))
    return HandOver(float(np.nanmean(ship)), min(float(np.median(cpu_s[looked])), usual_s), latency_s, 0.0)


def _probed_hand_over(record: RecordedFetches, minibatch_bytes: float) -> HandOver | None:
    """Return what the probe after a run without workers measured; the sender's part stays assumed."""
    probed = record.run.manifest.hand_over
    if probed is None or probed.receive_s <= 0:
        return None
    latency_s = min(max(0.0, probed.receive_s - probed.receive_cpu_s), MAX_LATENCY_S)
    release_s = probed.release_s * record.cpu_share
    return HandOver(assumed_hand_over(minibatch_bytes).ship_s, probed.receive_cpu_s, latency_s, release_s)


def _worker_start(rows: RecordedRows, workers: int) -> tuple[float, float]:
    """Return what starting a worker takes of the loop's time, and of the worker's before its first fetch."""
    first = rows.epoch == rows.epoch.min()
    began = [rows.began_s[first & (rows.worker == worker)] for worker in range(workers)]
    if not workers or any(not len(each) or np.isnan(each[0]) for each in began):
        return FORK_S, WORKER_START_CPU_S
    took = [float(each[0] - rows.asked_s[0]) for each in began]
    fork_s = (took[-1] - took[0]) / (workers - 1) if workers > 1 else FORK_S
    fork_s = float(np.clip(fork_s, 0.0, 0.1))
    return fork_s, float(np.clip(min(took) - fork_s, 0.0, 20.0))


def _tail_s(record: RecordedFetches) -> float:
    """Return the time between the last step of an epoch and its end, as the median over epochs."""
    rows, tails = record.rows, []
    for epoch in record.summary.epochs:
        done = rows.done_s[rows.epoch == epoch.epoch]
        if len(done):
            tails.append(max(0.0, epoch.end_us * S_PER_US - float(done[-1])))
    return float(np.median(tails)) if tails else 0.0


# Batch size


def _batch_scaling(run: Run, batch_size: int) -> tuple[CostByBatchSize | None, CostByBatchSize | None]:
    """Return how fetch and step follow the batch size, where `run --probe-batch` measured it."""
    probed = sorted(run.manifest.batch_sizes, key=lambda each: each.batch_size)
    own = next((each for each in probed if each.batch_size == batch_size), None)
    if own is None or len(probed) < 2 or any(each.fetch_cpu_s <= 0 for each in probed):
        return None, None
    sizes = [each.batch_size for each in probed]
    fetch = fit_batch_sizes(sizes, [each.fetch_cpu_s for each in probed], batch_size)
    steps_s = [each.step_s for each in probed if each.step_s]
    if len(steps_s) < len(probed):
        return fetch, None
    return fetch, fit_batch_sizes(sizes, steps_s, batch_size)
