"""What the judgement of a finding needs of a run: the conditions it was made under, and its epochs.

Times are at the board's pace: an emulated run at speed s has its times multiplied by s.
"""

from __future__ import annotations

from dataclasses import dataclass

from edgetrain.analysis import ClockUse, EpochSummary, Summary, clock_use, unit_run
from edgetrain.record import Run
from edgetrain.schema import Experiment, Origin
from edgetrain.studies.conditions import WHOLE_DEVICE, Conditions, conditions_of
from edgetrain.units import parse_bytes

COLD_SHARE = 0.1  # of the dataset in the page cache before the first epoch, at most, for it to count as cold
NO_MEDIUM = "an imported log does not say on which storage medium its dataset was"


@dataclass(frozen=True, slots=True)
class ObservedEpoch:
    """One epoch, as sums over its minibatches; None where it was not measured."""

    minibatches: float
    e2e_s: float | None
    stall_s: float | None  # without the pipeline's fill
    compute_s: float | None  # copy included
    energy_j: float | None = None  # of the whole module or board
    baseload_j: float | None = None
    read_share: float | None = None  # bytes read from the medium, of those of the dataset; of a whole epoch
    cached_share: float | None = None  # of the dataset, before the epoch; after an epoch that was a whole one
    blocked_share: float | None = None  # of the stall, the pipeline's fill included
    wait_s: float | None = None  # stall, and the waiting that earlier steps covered; None: as the stall


@dataclass(frozen=True, slots=True)
class ObservedRun:
    """One run. `cold` is its first epoch where that began with a cold page cache."""

    run: str
    origin: Origin
    conditions: Conditions
    cold: ObservedEpoch | None
    later: tuple[ObservedEpoch, ...]  # every epoch but the first
    unit: str = "unknown"  # serial of the board
    paced: bool = False  # steps took the time they were given
    dataset_bytes: float | None = None  # at the board's scale
    ram_bytes: int | None = None
    parameters: int | None = None
    clocks: ClockUse | None = None
    whole: bool = True  # its epochs cover the dataset, so that a later one can find in the page cache what it reads
    started_s: float | None = None  # on the wall clock
    took_s: float | None = None  # from its start to the end of its last epoch, as run
    power_scope: str | None = None  # what its sensor measures, whether that counts or not
    not_cold: str = ""  # why its first epoch is not compared as a cold one, though it may have been


def observe(run: Run, summary: Summary) -> ObservedRun:
    """Return what findings need of a recorded run."""
    speed = (summary.limits.asked.speed if summary.limits else None) or 1.0
    shrink = run.manifest.experiment.shrink if run.manifest.experiment else 1.0
    workload, conditions = summary.workload, conditions_of(run, summary)
    whole, made = _whole_epochs(summary), unit_run(run, summary)
    epochs = [
        _epoch(epoch, speed, workload.dataset_bytes if whole[at] else None, at == 0 or whole[at - 1], summary)
        for at, epoch in enumerate(summary.epochs)
    ]
    unknown_medium = summary.imported is not None and conditions.medium is None
    return ObservedRun(
        run=summary.run,
        origin=summary.origin,
        conditions=conditions,
        cold=epochs[0] if epochs and _began_cold(summary) and not unknown_medium else None,
        later=tuple(epochs[1:]),
        unit=made.unit or summary.device.name or "unknown",
        paced=summary.compute is not None and summary.compute.kind == "paced",
        dataset_bytes=None if workload.dataset_bytes is None else workload.dataset_bytes * shrink,
        ram_bytes=_ram_bytes(run.manifest.experiment, summary),
        parameters=summary.parameters or workload.parameters,
        clocks=clock_use(run, summary.epochs),
        whole=all(whole[:-1] or whole),  # of the last epoch nothing is found in the page cache any more
        started_s=made.started_s,
        took_s=made.took_s if epochs else None,
        power_scope=summary.power_scope,
        not_cold=NO_MEDIUM if unknown_medium else "",
    )


def _whole_epochs(summary: Summary) -> list[bool]:
    """Return, epoch by epoch, whether it went over the whole dataset."""
    workload = summary.workload
    loader = summary.loaders[0] if summary.loaders else None
    batch_size = workload.batch_size or (loader.batch_size if loader else None)
    whole = workload.minibatches_per_epoch or 0
    if workload.samples and batch_size:
        whole = workload.samples // batch_size  # the last, smaller minibatch may be left out
    elif workload.max_minibatches is not None:
        return [False] * len(summary.epochs)  # how much of the dataset that is cannot be known
    return [epoch.minibatches >= whole for epoch in summary.epochs]


def _ram_bytes(experiment: Experiment | None, summary: Summary) -> int | None:
    chosen = experiment.limits.ram if experiment else None
    return summary.device.ram_bytes if chosen is None else parse_bytes(chosen)


def _began_cold(summary: Summary) -> bool:
    """Return whether the page cache was cold: as measured, else as asked for."""
    share = summary.epochs[0].cached_share_before
    if share is not None:
        return share <= COLD_SHARE
    return summary.loading is not None and summary.loading.cache == "cold"


def _epoch(
    epoch: EpochSummary, speed: float, dataset_bytes: int | None, after_whole: bool, summary: Summary
) -> ObservedEpoch:
    """Return one epoch; `dataset_bytes` is None where it did not read all of it."""
    stall_s, read_bytes, causes = epoch.fetch_stall_s, epoch.read_bytes, epoch.stall_by
    device = summary.power_scope in WHOLE_DEVICE
    return ObservedEpoch(
        minibatches=float(epoch.minibatches),
        e2e_s=epoch.e2e_s * speed,
        stall_s=None if stall_s is None else max(0.0, stall_s - (epoch.fill_s or 0.0)) * speed,
        # Without a loader to watch, what the loop did to get its data is in its compute time.
        compute_s=None if stall_s is None else (epoch.compute_s + (epoch.copy_s or 0.0)) * speed,
        energy_j=epoch.energy_j if device else None,
        baseload_j=epoch.baseload_j if device else None,
        read_share=read_bytes / dataset_bytes if read_bytes is not None and dataset_bytes else None,
        cached_share=epoch.cached_share_before if after_whole else None,
        blocked_share=causes.blocked_s / stall_s if causes is not None and stall_s else None,
        wait_s=None if stall_s is None else (stall_s + (epoch.hidden_wait_s or 0.0)) * speed,
    )
