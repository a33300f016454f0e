"""The dataset of a recorded run, its medium and its page cache, as the record of its reads shows them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgetrain.analysis import COLD_BYTES, EpochSummary, RecordedRows, Summary
from edgetrain.prediction.pipeline.page_cache import DatasetOnMedium, cached_share_of
from edgetrain.prediction.pipeline.recorded_costs import MIN_READ
from edgetrain.record import Run
from edgetrain.schema import StorageModel

Floats = NDArray[np.float64]
RECORDED_MEDIUM = "recorded"  # name of a medium that is known from this run's reads alone
HELD = 1.5  # memory that a training takes from the page cache, relative to its resident memory
UNRECORDED_MEMORY_BYTES = 1.5e9  # of a training whose own memory was not recorded
ALL_CACHED = 0.98  # of a dataset, in the page cache: from here on, reads are not of the dataset
COLD_SHARE = 0.1  # of the samples read in the first epoch: above, the run began with a cold page cache


@dataclass(frozen=True, slots=True)
class TrainingMemory:
    """Memory that system and training hold: it is not left for the page cache."""

    fixed_bytes: float
    per_sample_bytes: float = 0.0  # of a minibatch

    def at(self, batch_size: int) -> float:
        """Return what is held with minibatches of this size."""
        return self.fixed_bytes + self.per_sample_bytes * batch_size


def resident_memory(summary: Summary) -> TrainingMemory:
    """Return what a training holds by its recorded resident memory, where nothing better is known."""
    resident = summary.peak_rss_bytes
    return TrainingMemory(HELD * resident if resident else UNRECORDED_MEMORY_BYTES)


def known_dataset(summary: Summary, taken: int) -> DatasetOnMedium | None:
    """Return the dataset where its size was recorded."""
    about = summary.workload
    if not about.dataset_bytes:
        return None
    samples = about.samples or taken
    return DatasetOnMedium(float(about.dataset_bytes), samples, about.dataset_files or samples)


def dataset_from_reads(rows: RecordedRows, summary: Summary, taken: int) -> DatasetOnMedium | None:
    """Return a dataset as what the samples of the first epoch read, one file per sample; None where they read little.

    Reads at the beginning alone are of the libraries that workers load.
    """
    samples = summary.workload.samples or taken
    read = rows.read_bytes[rows.epoch == summary.epochs[0].epoch]
    if np.nansum(read[len(read) // 2 :]) <= COLD_BYTES * 4:
        return None
    return DatasetOnMedium(float(np.nansum(read)) * samples / taken, samples, samples)


def missed_share(rows: RecordedRows, epoch: EpochSummary, batch_size: int, dataset: DatasetOnMedium | None) -> float:
    """Return the share of an epoch's samples that came from the medium.

    Where the dataset lay in the page cache before it, what it read is something else: libraries, for example.
    """
    chosen = rows.epoch == epoch.epoch
    read = float(np.nansum(rows.read_bytes[chosen]))
    samples = float(samples_of(rows, batch_size)[chosen].sum())
    if dataset is None or not samples or read < COLD_BYTES:
        return 0.0
    share = min(1.0, read / (samples * dataset.read_bytes))
    cached = epoch.cached_share_before
    return share if cached is None or cached < ALL_CACHED else min(share, 1.0 - cached)


def samples_of(rows: RecordedRows, batch_size: int) -> Floats:
    """Return the samples of each minibatch; one that does not say how many it holds counts as a full one."""
    return np.asarray(np.where(np.isnan(rows.samples), batch_size, rows.samples))


def medium_of(
    run: Run, rows: RecordedRows, dataset: DatasetOnMedium | None, samples: int, missed: Sequence[float]
) -> StorageModel | None:
    """Return the medium of a run: the lab's, else what its own cold reads imply; None where little was read.

    `missed` are the shares of each epoch's samples that came from the medium.
    """
    limits = run.manifest.limits
    if limits is not None and limits.asked.storage is not None:
        return limits.asked.storage.faster(limits.asked.speed or 1.0)
    cold = rows.read_bytes > COLD_BYTES
    if dataset is None or sum(missed) < MIN_READ:
        return None
    read = float(np.nansum(rows.read_bytes[cold])) / dataset.read_bytes  # samples
    if read < MIN_READ * samples:
        return None
    blocked_s = rows.blocked_s
    warm = float(np.nanmedian(blocked_s[~cold])) if (~cold).any() else 0.0
    blocked_s = np.maximum(np.nan_to_num(blocked_s[cold]) - warm, 0.0)
    per_sample_s = float(blocked_s.sum()) / max(read, 1.0)
    # Positioning and transfer cannot be separated. One reader: half each, and no limit to requests served at once.
    # Readers that waited together shared the transfer, which can then be no slower than what they received.
    readers = max(1.0, float(blocked_s.sum()) / max(_covered_s(rows.began_s[cold], rows.fetched_s[cold]), 1e-9))
    transfer_s = max(per_sample_s / (2 * readers), 1e-6)
    return StorageModel(
        RECORDED_MEDIUM,
        max(0.0, per_sample_s - transfer_s),
        dataset.read_bytes / transfer_s,
        at_once=8,
        source=f"cold reads of {run.id}",
    )


def _covered_s(began_s: Floats, ended_s: Floats) -> float:
    """Return the time in which at least one of several intervals lies."""
    order = np.argsort(began_s)
    began_s, ended_s = began_s[order], np.maximum.accumulate(ended_s[order])
    free_until = np.concatenate([[-np.inf], ended_s[:-1]])
    return float(np.maximum(ended_s - np.maximum(began_s, free_until), 0.0).sum())


def cache_bytes(
    summary: Summary,
    dataset: DatasetOnMedium | None,
    missed: Sequence[float],
    minibatch_bytes: float,
    held_bytes: float,
) -> float | None:
    """Return the size of the page cache; None where nothing tells it.

    What later epochs read again shows what the cache held, whatever limited it: a container, other programs, memory
    that the accelerator shares. Else it is the RAM less the `held_bytes` of system and training.
    """
    if dataset is None:
        return None
    limited = _limited_cache_bytes(summary)
    read_again = float(np.mean(missed[1:])) if len(missed) > 1 else None
    covered = summary.workload.max_minibatches is None  # each epoch read the whole dataset
    if covered and read_again is not None and (limited is not None or read_again > COLD_SHARE):
        return cached_share_of(read_again) * dataset.cached_bytes + minibatch_bytes
    if limited is not None:
        return limited
    if not summary.device.ram_bytes:
        return None
    left_bytes = max(0.0, summary.device.ram_bytes - held_bytes)
    return max(left_bytes, dataset.cached_bytes) if covered and read_again is not None else left_bytes


def _limited_cache_bytes(summary: Summary) -> float | None:
    """Return the page cache that the lab left; None where it did not limit it."""
    limits = summary.limits
    if limits is None:
        return None
    left = limits.got.ram.page_cache_bytes if limits.got.ram is not None else None
    asked = limits.asked.page_cache_bytes if left is None else left
    return None if asked is None else float(asked)


def present_ram_bytes(summary: Summary) -> float | None:
    """Return the RAM of the machine that the run trained on, or that the lab made of it; None where it is not known."""
    limits = summary.limits
    if limits is None or limits.asked.page_cache_bytes is None:
        return float(summary.device.ram_bytes) if summary.device.ram_bytes else None
    whole = limits.asked.ram_bytes if limits.asked.taken_bytes else None  # else the page cache alone was limited
    return None if whole is None else float(whole)
