"""What of a run's record feeds what of the pipeline model: its setting, its costs, and what was not recorded.

    recorded                                                       used for
    CPU time of each fetch, samples                                fetch CPU time; fetches without reads first
    CPU time of the loop's helper threads during a fetch           of its waiting, what workers would not wait for
    duration - CPU - run-queue wait - stolen, without reads        other waiting, kept as a sleep
    CPU time of fetches that read, less that of others             CPU time of a cold read
    collate; sender's CPU time; ready - max(asked, sent)           collate, shipping, receiving
    done - copied, copying - ready, launched - copied, copied      step, release, launch, copy
    next asked - done                                              the loop's own time
    samples, bytes and files of the dataset; lab limits            reads and page cache
    load of other processes                                        runnable threads beside the training

Run-queue wait is left out on purpose: it comes out of the model again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from edgetrain.analysis import EpochSummary, RecordedRows, Summary, TrainingLoop, find_loop, recorded_rows
from edgetrain.errors import PredictError
from edgetrain.prediction.pipeline.costs import PipelineCosts
from edgetrain.prediction.pipeline.page_cache import DatasetOnMedium, cached_share_of
from edgetrain.prediction.pipeline.recorded_costs import (
    COLD_BYTES,
    LEAST_READ,
    MIN_MINIBATCHES,
    RecordedFetches,
    recorded_costs,
)
from edgetrain.prediction.pipeline.setting import PipelineSetting
from edgetrain.record import LoaderFacts, Run
from edgetrain.schema import StorageModel

Floats = NDArray[np.float64]
RECORDED_MEDIUM = "recorded"  # name of a medium that is known from this run's reads alone
HELD = 1.5  # memory that a training takes from the page cache, relative to its resident memory
COLD_SHARE = 0.1  # of the samples read in the first epoch: above, the run began with a cold page cache
MOST_UNEVEN = 0.05  # of the minibatches may have had no fetch or several
ONE_EPOCH = "one epoch only: what differs between the first epoch and later ones is assumed"
NO_CORES = "the number of cores was not recorded: one is assumed"


@dataclass(frozen=True, slots=True)
class RecordedPipeline:
    """One run as the model sees it."""

    run: str
    setting: PipelineSetting
    costs: PipelineCosts
    epochs: tuple[EpochSummary, ...]
    missed_shares: tuple[float, ...]  # of each epoch, samples that were read from the medium
    other_load: float  # share of the cores taken by other programs
    notes: tuple[str, ...] = ()

    @property
    def began_cold(self) -> bool:
        """Whether the first epoch read from the medium."""
        return max(self.missed_shares[:1], default=0.0) > COLD_SHARE


def later_mean_s(epochs: Sequence[EpochSummary]) -> float | None:
    """Return the mean duration of the epochs after the first, or of the only one; None where there is none."""
    later = [epoch.e2e_s for epoch in epochs[1:] or epochs if epoch.e2e_s > 0]
    return float(np.mean(later)) if later else None


def read_pipeline(run: Run, summary: Summary) -> RecordedPipeline:
    """Read the setting and the costs of a run; PredictError says what is missing."""
    loop = find_loop(run.main)
    rows = recorded_rows(loop)
    _check(run, summary, rows)
    loader = _loader(loop)
    workers = (loader.workers if loader else None) or 0
    batch_size = _batch_size(rows, loader, summary)
    samples = _samples_per_epoch(rows, batch_size)
    dataset = _dataset(rows, summary, samples)
    missed = tuple(_missed_share(rows, epoch, dataset) for epoch in summary.epochs)
    known_cores = _cores(summary)
    cores = known_cores or 1.0
    others, load = _other_load(run, summary, cores)
    costs = recorded_costs(RecordedFetches(run, summary, rows, loader, workers, batch_size, dataset, missed))
    missing = ((len(summary.epochs) == 1, ONE_EPOCH), (not known_cores, NO_CORES))
    notes = tuple(text for is_missing, text in missing if is_missing)
    setting = PipelineSetting(
        workers=workers,
        prefetch=(loader.prefetch_factor if loader else None) or 2,
        batch_size=batch_size,
        samples=samples,
        cores=cores,
        persistent=bool(loader.persistent_workers) if loader and workers else True,
        pin_memory=bool(loader and loader.pin_memory),
        dataset=dataset,
        medium=_medium(run, rows, dataset, samples),
        cache_bytes=_cache_bytes(summary, dataset, missed, costs.minibatch_bytes),
        threads=run.main.facts.threads or summary.device.threads or 1,
        cpu_speed=_cpu_share(summary),
        fixed_step_s=costs.step.step_s.mean() if summary.compute and summary.compute.kind == "paced" else None,
        others=others,
    )
    return RecordedPipeline(run.id, setting, costs, summary.epochs, missed, load, notes)


def _check(run: Run, summary: Summary, rows: RecordedRows) -> None:
    """Refuse runs that the model cannot start from."""
    if summary.imported is not None:
        raise PredictError(f"{run.id} was imported from a log, which has no data of loader workers; record a run of it")
    trained = [process for process in run.training if len(process.minibatches)]
    if len(trained) > 1:
        raise PredictError(
            f"{run.id} trained in {len(trained)} processes; the model describes one process: record one with a "
            "single process"
        )
    if not len(rows) or not summary.epochs:
        raise PredictError(f"{run.id} holds no training minibatches; edgetrain show {run.id} says why")
    if len(rows) < MIN_MINIBATCHES:
        raise PredictError(
            f"{run.id} has {len(rows)} minibatches; at least {MIN_MINIBATCHES} are needed, and two epochs are better: "
            "record a longer run"
        )
    if summary.epochs[0].fetch_stall_s is None:
        raise PredictError(f"{run.id} has no data loader that could be watched: nothing is known about its fetches")
    fetches = len(rows.parts.asked_us)
    if abs(fetches - len(rows)) > MOST_UNEVEN * len(rows):
        raise PredictError(
            f"{run.id} has {fetches} fetches for {len(rows)} minibatches; the model describes one fetch per minibatch"
        )
    if np.isnan(rows.fetch_s).mean() > 0.5:
        raise PredictError(
            f"{run.id} has no record of most of its fetches: record it again with edgetrain run or edgetrain profile"
        )


def _loader(loop: TrainingLoop) -> LoaderFacts | None:
    """Return the loader that was trained from: the one with the most minibatches of the loop."""
    loaders = loop.process.facts.loaders
    numbers = loop.process.minibatches.get("loader")
    if not loaders or numbers is None:
        return loaders[0] if loaders else None
    numbers = numbers[loop.parts.rows]
    values, counts = np.unique(numbers[numbers >= 0], return_counts=True)
    most = int(values[np.argmax(counts)]) if len(values) else 0
    return next((each for each in loaders if each.loader == most), loaders[0])


def _batch_size(rows: RecordedRows, loader: LoaderFacts | None, summary: Summary) -> int:
    seen = rows.samples[~np.isnan(rows.samples)]
    if len(seen):
        return max(1, int(np.median(seen)))
    known = (loader.batch_size if loader else None) or summary.workload.batch_size
    if not known:
        raise PredictError(f"{summary.run} does not say how many samples a minibatch holds")
    return known


def _samples_per_epoch(rows: RecordedRows, batch_size: int) -> int:
    """Return the samples of a usual epoch; a minibatch that does not say how many it holds counts as a full one."""
    samples = np.where(np.isnan(rows.samples), batch_size, rows.samples)
    per_epoch = [float(samples[rows.epoch == epoch].sum()) for epoch in np.unique(rows.epoch)]
    return max(1, int(np.median(per_epoch)))


def _cores(summary: Summary) -> float:
    """Return the cores that the training could use; 0 where they are not known."""
    limits, device = summary.limits, summary.device
    if limits is not None and limits.got.cores is not None:
        return float(limits.got.cores.cores)
    held = summary.power_mode.held if summary.power_mode else None
    known = [held.cores if held is not None else device.cores, device.usable_cores]
    return float(min((cores for cores in known if cores), default=0))


def _cpu_share(summary: Summary) -> float:
    limits = summary.limits
    return limits.got.cpu_share.share if limits is not None and limits.got.cpu_share is not None else 1.0


def _other_load(run: Run, summary: Summary, cores: float) -> tuple[float, float]:
    """Return the runnable threads of other programs on the training's cores, and their share of the machine's.

    They were counted on all cores; a training that may use some of them meets its part.
    """
    load, epochs = run.samples("load"), summary.epochs
    if not len(load) or "other_cores" not in load:
        return 0.0, 0.0
    inside = (load["at_us"] >= epochs[0].begin_us) & (load["at_us"] <= epochs[-1].end_us)
    read = load["other_cores"][inside]
    read = read[np.isfinite(read)]
    busy, machine = float(read.mean()) if len(read) else 0.0, float(summary.device.cores or 1)
    return busy * min(1.0, cores / machine), busy / machine


# Storage


def _dataset(rows: RecordedRows, summary: Summary, taken: int) -> DatasetOnMedium | None:
    about = summary.workload
    samples = about.samples or taken
    if about.dataset_bytes:
        return DatasetOnMedium(float(about.dataset_bytes), samples, about.dataset_files or samples)
    read = rows.read_bytes[rows.epoch == rows.epoch.min()]
    if np.nansum(read[len(read) // 2 :]) > COLD_BYTES * 4:
        # A script whose dataset is not known: what the samples of its first epoch read, as one file per sample. Reads
        # at the beginning alone are of the libraries that workers load.
        return DatasetOnMedium(float(np.nansum(read)) * samples / taken, samples, samples)
    return None


def _missed_share(rows: RecordedRows, epoch: EpochSummary, dataset: DatasetOnMedium | None) -> float:
    """Return the share of an epoch's samples that came from the medium."""
    chosen = rows.epoch == epoch.epoch
    read, samples = float(np.nansum(rows.read_bytes[chosen])), float(np.nansum(rows.samples[chosen]))
    if dataset is None or not samples or read < COLD_BYTES:
        return 0.0
    return min(1.0, read / (samples * dataset.read_bytes))


def _medium(run: Run, rows: RecordedRows, dataset: DatasetOnMedium | None, samples: int) -> StorageModel | None:
    """Return the medium of the run: the lab's, else what its own cold reads imply; None where little was read."""
    limits = run.manifest.limits
    if limits is not None and limits.asked.storage is not None:
        medium, speed = limits.asked.storage, limits.asked.speed or 1.0
        return replace(medium, read_s=medium.read_s / speed, bytes_per_s=medium.bytes_per_s * speed)
    cold = rows.read_bytes > COLD_BYTES
    if dataset is None:
        return None
    missed = float(np.nansum(rows.read_bytes[cold])) / dataset.read_bytes
    if missed < LEAST_READ * samples:
        return None
    blocked_s = rows.blocked_s
    warm = float(np.nanmedian(blocked_s[~cold])) if (~cold).any() else 0.0
    blocked_s = np.maximum(np.nan_to_num(blocked_s[cold]) - warm, 0.0)
    per_sample_s = float(blocked_s.sum()) / max(missed, 1.0)
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


def _cache_bytes(
    summary: Summary, dataset: DatasetOnMedium | None, missed: Sequence[float], minibatch_bytes: float
) -> float | None:
    """Return the size of the page cache; None where nothing tells it.

    What later epochs read again shows what the cache held, whatever limited it: a container, other programs, memory
    that the accelerator shares.
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
    left_bytes = max(0.0, summary.device.ram_bytes - HELD * (summary.peak_rss_bytes or 0))
    return max(left_bytes, dataset.cached_bytes) if covered and read_again is not None else left_bytes


def _limited_cache_bytes(summary: Summary) -> float | None:
    """Return the page cache that the lab left; None where it did not limit it."""
    limits = summary.limits
    if limits is None:
        return None
    left = limits.got.ram.page_cache_bytes if limits.got.ram is not None else None
    asked = limits.asked.page_cache_bytes if left is None else left
    return None if asked is None else float(asked)
