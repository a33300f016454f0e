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
    CPU share of the lab                                           durations of the loop's own work at full speed

Run-queue wait is left out on purpose: it comes out of the model again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import median_high

import numpy as np

from edgetrain.analysis import (
    MIN_RECORDED_MINIBATCHES,
    EpochSummary,
    RecordedRows,
    Summary,
    find_loop,
    recorded_rows,
    training_loader,
)
from edgetrain.errors import PredictError
from edgetrain.prediction.pipeline.costs import PipelineCosts
from edgetrain.prediction.pipeline.page_cache import DatasetOnMedium
from edgetrain.prediction.pipeline.recorded_costs import RecordedFetches, recorded_costs
from edgetrain.prediction.pipeline.recorded_storage import (
    COLD_SHARE,
    TrainingMemory,
    cache_bytes,
    dataset_from_reads,
    known_dataset,
    medium_of,
    missed_share,
    resident_memory,
    samples_of,
)
from edgetrain.prediction.pipeline.setting import PipelineSetting
from edgetrain.prediction.pipeline.steps import WARM_UP_STEPS
from edgetrain.record import LoaderFacts, Run
from edgetrain.schema import Experiment
from edgetrain.units import spell_bytes, spell_seconds

MAX_UNEVEN = 0.05  # of the minibatches may have had no fetch or several
WHOLE = 0.9  # of the usual number of minibatches: an epoch with fewer was cut short
# How much longer than later ones the steps of a first epoch take that something else slowed, and the least share of the
# epoch's additional time that its steps account for: slow fetches of a first epoch are the training's own.
DISTURBED_STEPS, DISTURBED_SHARE = 1.5, 0.5
ONE_EPOCH = "one epoch only: what differs between the first epoch and later ones is assumed"
NO_CORES = "the number of cores was not recorded: one is assumed"


@dataclass(frozen=True, slots=True)
class RecordedPipeline:
    """One run as the model sees it."""

    run: str
    setting: PipelineSetting
    costs: PipelineCosts
    epochs: tuple[EpochSummary, ...]  # those that were not cut short
    missed_shares: tuple[float, ...]  # of each epoch, samples that were read from the medium
    other_load: float  # share of the cores taken by other programs
    memory: TrainingMemory
    notes: tuple[str, ...] = ()
    most_cores: float | None = None  # that affinity, a CPU quota or the lab left to the run; None: not limited
    machine_cores: float | None = None
    iterable: bool = False  # the dataset is a stream, of which every worker has a copy
    experiment: Experiment | None = None  # as it was asked for, its preset applied

    @property
    def began_cold(self) -> bool:
        """Whether the first epoch read from the medium."""
        return max(self.missed_shares[:1], default=0.0) > COLD_SHARE


def whole_epochs(epochs: Sequence[EpochSummary]) -> tuple[EpochSummary, ...]:
    """Return the epochs that were not cut short: those with about as many minibatches as is usual in the run."""
    if not epochs:
        return ()
    usual = median_high(epoch.minibatches for epoch in epochs)
    return tuple(epoch for epoch in epochs if epoch.minibatches >= WHOLE * usual)


def later_mean_s(epochs: Sequence[EpochSummary]) -> float | None:
    """Return the mean duration of whole epochs after the first, or of the only one; None where there is none."""
    whole = whole_epochs(epochs)
    later = [epoch.e2e_s for epoch in whole[1:] or whole if epoch.e2e_s > 0]
    return float(np.mean(later)) if later else None


def read_pipeline(run: Run, summary: Summary, memory: TrainingMemory | None = None) -> RecordedPipeline:
    """Read the setting and the costs of a run; PredictError says what is missing.

    `memory` is what system and training hold; without it, it is taken from the resident memory of the training.
    """
    loop = find_loop(run.main)
    rows = recorded_rows(loop)
    every, summary = summary.epochs, replace(summary, epochs=whole_epochs(summary.epochs))
    _check(run, summary, rows)
    loader = training_loader(loop)
    workers = (loader.workers if loader else None) or 0
    batch_size = _batch_size(rows, loader, summary)
    samples = _samples_per_epoch(rows, summary.epochs, batch_size)
    recorded = known_dataset(summary, samples)
    dataset = recorded or dataset_from_reads(rows, summary, samples)
    missed = tuple(missed_share(rows, epoch, batch_size, dataset) for epoch in summary.epochs)
    disturbed = missed[0] <= COLD_SHARE and _disturbed_first(rows, summary.epochs)
    if disturbed:
        summary, missed = replace(summary, epochs=summary.epochs[1:]), missed[1:]
        rows = rows.since(summary.epochs[0].epoch)
    known_cores, cpu_share = _cores(summary), _cpu_share(summary)
    cores = known_cores or 1.0
    others, load = _other_load(run, summary, cores)
    memory = memory or resident_memory(summary)
    costs = recorded_costs(RecordedFetches(run, summary, rows, loader, workers, batch_size, dataset, missed, cpu_share))
    setting = PipelineSetting(
        workers=workers,
        prefetch=(loader.prefetch_factor if loader else None) or 2,
        batch_size=batch_size,
        samples=samples,
        cores=cores,
        persistent=_persistent(run, loader, workers),
        pin_memory=bool(loader and loader.pin_memory),
        dataset=dataset,
        medium=medium_of(run, rows, dataset, samples, missed),
        cache_bytes=cache_bytes(summary, dataset, missed, costs.minibatch_bytes, memory.at(batch_size)),
        threads=run.main.facts.threads or summary.device.threads or 1,
        cpu_speed=cpu_share,
        fixed_step_s=costs.step.step_s.mean() if summary.compute and summary.compute.kind == "paced" else None,
        others=others,
        epochs=len(summary.epochs),
    )
    return RecordedPipeline(
        run=run.id,
        setting=setting,
        costs=costs,
        epochs=summary.epochs,
        missed_shares=missed,
        other_load=load,
        memory=memory,
        notes=tuple(_notes(every, summary, known_cores, dataset if recorded is None else None, samples, disturbed)),
        most_cores=_most_cores(summary),
        machine_cores=float(summary.device.cores) if summary.device.cores else None,
        iterable=bool(loader and loader.iterable),
        experiment=run.manifest.experiment,
    )


def _disturbed_first(rows: RecordedRows, epochs: Sequence[EpochSummary]) -> bool:
    """Return whether something else slowed the steps of the first epoch, and that is why it took longer."""
    if len(epochs) < 2:
        return False
    compute_s = rows.parts.compute_s
    first = np.flatnonzero(rows.epoch == epochs[0].epoch)[WARM_UP_STEPS:]
    later = np.isin(rows.epoch, [epoch.epoch for epoch in epochs[1:]])
    if not len(first) or compute_s[first].mean() <= DISTURBED_STEPS * compute_s[later].mean():
        return False
    longer_s = epochs[0].e2e_s - float(np.median([epoch.e2e_s for epoch in epochs[1:]]))
    computed_s = epochs[0].compute_s - float(np.median([epoch.compute_s for epoch in epochs[1:]]))
    return computed_s > DISTURBED_SHARE * longer_s


def _notes(
    every: Sequence[EpochSummary],
    summary: Summary,
    known_cores: float,
    guessed: DatasetOnMedium | None,
    taken: int,
    disturbed: bool,
) -> Iterator[str]:
    """Yield what the record lacks; `guessed` is a dataset whose size is known from the reads of `taken` samples."""
    whole = whole_epochs(every)
    if disturbed:
        steps_s = [epoch.compute_s / epoch.minibatches for epoch in (whole[0], *summary.epochs)]
        yield (
            f"epoch {whole[0].epoch} left out: its steps took {spell_seconds(steps_s[0])} on average, those of later "
            f"epochs {spell_seconds(float(np.median(steps_s[1:])))}, and reads do not explain that"
        )
    left_out = [epoch for epoch in every if epoch not in whole]
    if left_out:
        shown = ", ".join(f"{epoch.epoch} ({epoch.minibatches} minibatches)" for epoch in left_out)
        plural = "s" if len(left_out) > 1 else ""
        yield f"epoch{plural} {shown} left out: cut short; whole ones have {whole[0].minibatches} minibatches"
    if len(summary.epochs) == 1:
        yield ONE_EPOCH
    if not known_cores:
        yield NO_CORES
    if guessed is not None:
        size = f"{spell_bytes(guessed.total_bytes)} in {guessed.samples} samples"
        part = f", from the {taken} of them that it took" if guessed.samples > taken else ""
        yield (f"dataset taken from what the first epoch read: {size}{part}; record it with --dataset FOLDER to know")


def _persistent(run: Run, loader: LoaderFacts | None, workers: int) -> bool:
    """Return whether workers are kept between epochs; where the run had none, whether they would be."""
    if workers:
        return bool(loader.persistent_workers) if loader else True
    asked = run.manifest.experiment
    if asked is not None and asked.workload.command is None:
        return asked.loading.persistent
    if asked is not None or run.manifest.profiled:
        return False  # torch's default: a script that names no number of workers does not ask for this either
    return bool(run.manifest.loading and run.manifest.loading.persistent)


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
    count = sum(epoch.minibatches for epoch in summary.epochs)
    if count < MIN_RECORDED_MINIBATCHES:
        raise PredictError(
            f"{run.id} has {count} minibatches; at least {MIN_RECORDED_MINIBATCHES} are needed, and two epochs are "
            "better: record a longer run"
        )
    if summary.epochs[0].fetch_stall_s is None:
        raise PredictError(f"{run.id} has no data loader that could be watched: nothing is known about its fetches")
    fetches = int(rows.fetches.sum())
    if abs(fetches - len(rows)) > MAX_UNEVEN * len(rows):
        raise PredictError(
            f"{run.id} has {fetches} fetches for {len(rows)} minibatches; the model describes one fetch per minibatch"
        )
    if np.isnan(rows.fetch_s).mean() > 0.5:
        raise PredictError(
            f"{run.id} has no record of most of its fetches: record it again with edgetrain run or edgetrain profile"
        )


def _batch_size(rows: RecordedRows, loader: LoaderFacts | None, summary: Summary) -> int:
    seen = rows.samples[~np.isnan(rows.samples)]
    if len(seen):
        return max(1, int(np.median(seen)))
    known = (loader.batch_size if loader else None) or summary.workload.batch_size
    if not known:
        raise PredictError(f"{summary.run} does not say how many samples a minibatch holds")
    return known


def _samples_per_epoch(rows: RecordedRows, epochs: Sequence[EpochSummary], batch_size: int) -> int:
    """Return the samples of a usual epoch."""
    samples = samples_of(rows, batch_size)
    return max(1, int(np.median([float(samples[rows.epoch == epoch.epoch].sum()) for epoch in epochs])))


def _cores(summary: Summary) -> float:
    """Return the cores that the training could use; 0 where they are not known."""
    limits, device = summary.limits, summary.device
    if limits is not None and limits.got.cores is not None:
        return float(limits.got.cores.cores)
    held = summary.power_mode.held if summary.power_mode else None
    known = [held.cores if held is not None else device.cores, device.usable_cores]
    return float(min((cores for cores in known if cores), default=0))


def _most_cores(summary: Summary) -> float | None:
    """Return the cores that a run could use in any power mode of its machine; None where nothing limited them."""
    limits, device = summary.limits, summary.device
    found: list[float] = []
    if limits is not None and limits.got.cores is not None:
        # What was got can be less than what was asked for, where the power mode had fewer cores.
        found.append(float(limits.asked.cores or limits.got.cores.cores))
    held = summary.power_mode.held if summary.power_mode else None
    present = held.cores if held is not None else device.cores
    if device.usable_cores and present and device.usable_cores < present:
        found.append(float(device.usable_cores))
    return min(found, default=None)


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
