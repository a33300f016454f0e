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

from edgetrain.analysis import EpochSummary, RecordedRows, Summary, find_loop, recorded_rows
from edgetrain.errors import PredictError
from edgetrain.prediction.pipeline.costs import PipelineCosts
from edgetrain.prediction.pipeline.page_cache import DatasetOnMedium
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

COLD_SHARE = 0.1  # of the samples read in the first epoch: above, the run began with a cold page cache
MOST_UNEVEN = 0.05  # of the minibatches may have had no fetch or several
ONE_EPOCH = "one epoch only: what differs between the first epoch and later ones is assumed"


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
    rows = recorded_rows(find_loop(run.main))
    _check(run, summary, rows)
    loader = _loader(run)
    workers = (loader.workers if loader else None) or 0
    batch_size = _batch_size(rows, loader, summary)
    dataset = _dataset(run, rows, summary)
    missed = tuple(_missed_share(rows, epoch, dataset) for epoch in summary.epochs)
    others, load = _other_load(run, summary)
    costs = recorded_costs(RecordedFetches(run, summary, rows, loader, workers, batch_size, dataset, missed))
    notes = () if len(summary.epochs) > 1 else (ONE_EPOCH,)
    setting = PipelineSetting(
        workers=workers,
        prefetch=(loader.prefetch_factor if loader else None) or 2,
        batch_size=batch_size,
        samples=_samples_per_epoch(rows),
        cores=_cores(summary),
        persistent=bool(loader.persistent_workers) if loader and workers else True,
        pin_memory=bool(loader and loader.pin_memory),
        dataset=dataset,
        medium=_medium(run, rows, dataset),
        cache_bytes=_cache_bytes(run, summary, dataset),
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


def _loader(run: Run) -> LoaderFacts | None:
    """Return the loader that was trained from: the one with the most minibatches."""
    loaders = run.main.facts.loaders
    if not loaders:
        return None
    numbers = run.main.minibatches.get("loader")
    if numbers is None or not len(numbers):
        return loaders[0]
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


def _samples_per_epoch(rows: RecordedRows) -> int:
    per_epoch = [float(np.nansum(rows.samples[rows.epoch == epoch])) for epoch in np.unique(rows.epoch)]
    return max(1, int(np.median(per_epoch)))


def _cores(summary: Summary) -> float:
    limits = summary.limits
    if limits is not None and limits.got.cores is not None:
        return float(limits.got.cores.cores)
    held = summary.power_mode.held if summary.power_mode else None
    return float(held.cores if held is not None else summary.device.cores or 1)


def _cpu_share(summary: Summary) -> float:
    limits = summary.limits
    return limits.got.cpu_share.share if limits is not None and limits.got.cpu_share is not None else 1.0


def _other_load(run: Run, summary: Summary) -> tuple[float, float]:
    """Return the runnable threads of other programs while the run trained, and their share of the cores."""
    load, epochs = run.samples("load"), summary.epochs
    if not len(load) or "other_cores" not in load:
        return 0.0, 0.0
    inside = (load["at_us"] >= epochs[0].begin_us) & (load["at_us"] <= epochs[-1].end_us)
    read = load["other_cores"][inside]
    read = read[np.isfinite(read)]
    cores = float(read.mean()) if len(read) else 0.0
    return cores, cores / max(1.0, float(summary.device.cores or 1))


# Storage


def _dataset(run: Run, rows: RecordedRows, summary: Summary) -> DatasetOnMedium | None:
    about, taken = summary.workload, _samples_per_epoch(rows)
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
    size = 4096.0 if dataset.packed else dataset.sample_bytes
    return min(1.0, read / (samples * size))


def _medium(run: Run, rows: RecordedRows, dataset: DatasetOnMedium | None) -> StorageModel | None:
    """Return the medium of the run: the lab's, else what its own cold reads imply; None where nothing was read."""
    limits = run.manifest.limits
    if limits is not None and limits.asked.storage is not None:
        medium, speed = limits.asked.storage, limits.asked.speed or 1.0
        return replace(medium, read_s=medium.read_s / speed, bytes_per_s=medium.bytes_per_s * speed)
    cold = rows.read_bytes > COLD_BYTES
    missed = 0.0 if dataset is None else float(np.nansum(rows.read_bytes[cold])) / dataset.sample_bytes
    if dataset is None or missed < LEAST_READ * _samples_per_epoch(rows):
        return None
    blocked_s = rows.blocked_s
    warm = float(np.nanmedian(blocked_s[~cold])) if (~cold).any() else 0.0
    per_sample_s = max(float(np.nansum(blocked_s[cold])) - warm * cold.sum(), 0.0) / max(missed, 1.0)
    # Positioning and transfer cannot be separated; half each, and no limit to requests served at once.
    rate = dataset.sample_bytes / max(per_sample_s / 2, 1e-6)
    return StorageModel("recorded", float(per_sample_s / 2), float(rate), at_once=8, source=f"cold reads of {run.id}")


def _cache_bytes(run: Run, summary: Summary, dataset: DatasetOnMedium | None) -> float | None:
    """Return the size of the page cache where it can be the limit; None where the dataset fits."""
    limits = summary.limits
    if limits is not None and limits.asked.page_cache_bytes is not None:
        return float(limits.asked.page_cache_bytes)
    ram_bytes = summary.device.ram_bytes
    if dataset is None or not ram_bytes:
        return None
    held = (summary.peak_rss_bytes or 0) * 1.5
    return None if dataset.cached_bytes < 0.8 * (ram_bytes - held) else max(0.0, ram_bytes - held)
