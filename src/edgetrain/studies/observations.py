"""What the judgement of a finding needs of a run: the conditions it was made under, and its epochs.

Times are at the board's pace: an emulated run at speed s has its times multiplied by s.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import TypeAlias

from edgetrain.analysis import ClockUse, EpochSummary, Summary, clock_use, software_of, unit_run
from edgetrain.record import Manifest, Run
from edgetrain.schema import Experiment, Origin, PowerMode, Scalar, settings_of
from edgetrain.units import parse_bytes

COLD_SHARE = 0.1  # of the dataset in the page cache before the first epoch, at most, for it to count as cold
# Settings that conditions hold in fields of their own, or that do not change what a minibatch takes.
_REPRESENTED = {
    "network", "preset", "storage", "workers", "batch_size", "power_mode", "dvfs", "dataset",
    "dataset_scale", "picture", "page_cache", "ram", "cores", "speed", "shrink", "cache", "epochs", "minibatches",
    "seed", "baseload_s", "python", "learning_rate", "momentum", "full_fan",
}  # fmt: skip


ConditionValue: TypeAlias = "str | float | tuple[tuple[str, str], ...] | None"


@dataclass(frozen=True, slots=True)
class Conditions:
    """Everything that was chosen for a run, and what it ran on. None: not known, or not limited."""

    board: str
    network: str
    batch_size: int | None = None
    medium: str | None = None
    workers: int | None = None
    cores: int | None = None
    cpu_hz: int | None = None
    gpu_hz: int | None = None
    emc_hz: int | None = None
    dvfs: bool | None = None
    dataset_scale: float | None = None
    page_cache_bytes: int | None = None  # what it was limited to
    software: str | None = None
    command: str | None = None  # of a training script; a plan's placeholders are left open in it
    dataset_bytes: int | None = None  # of a dataset of the user's own, whose path may differ by medium
    other: tuple[tuple[str, str], ...] = ()  # factors that no finding is about

    def without(self, *names: str) -> Conditions:
        """Return the conditions with some of them left open."""
        return replace(self, **dict.fromkeys(names))  # type: ignore[arg-type]  # names of fields that may be None

    def by_name(self) -> dict[str, ConditionValue]:
        """Return each condition by its name, in order."""
        return {item.name: getattr(self, item.name) for item in fields(self)}


@dataclass(frozen=True, slots=True)
class ObservedEpoch:
    """One epoch, as sums over its minibatches; None where it was not measured."""

    minibatches: float
    e2e_s: float | None
    stall_s: float | None  # without the pipeline's fill
    compute_s: float | None  # copy included
    energy_j: float | None = None
    baseload_j: float | None = None
    read_share: float | None = None  # bytes read from the medium, of those of the dataset
    cached_share: float | None = None  # of the dataset, before the epoch
    blocked_s: float | None = None  # of the stall
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


def observe(run: Run, summary: Summary) -> ObservedRun:
    """Return what findings need of a recorded run."""
    speed = (summary.limits.asked.speed if summary.limits else None) or 1.0
    shrink = run.manifest.experiment.shrink if run.manifest.experiment else 1.0
    workload = summary.workload
    epochs = [_epoch(epoch, speed, workload.dataset_bytes) for epoch in summary.epochs]
    return ObservedRun(
        run=summary.run,
        origin=summary.origin,
        conditions=conditions_of(run, summary),
        cold=epochs[0] if epochs and _began_cold(summary) else None,
        later=tuple(epochs[1:]),
        unit=unit_run(run, summary).unit or summary.device.name or "unknown",
        paced=summary.compute is not None and summary.compute.kind == "paced",
        dataset_bytes=None if workload.dataset_bytes is None else workload.dataset_bytes * shrink,
        ram_bytes=_ram_bytes(run.manifest.experiment, summary),
        parameters=summary.parameters or workload.parameters,
        clocks=clock_use(run, summary.epochs),
    )


def conditions_of(run: Run, summary: Summary) -> Conditions:
    """Return the conditions of a run: as read back from the board where they were, else as asked."""
    factors, asked = summary.factors, summary.limits.asked if summary.limits else None
    experiment = run.manifest.experiment
    mode, dvfs = _mode(run)
    loader = summary.loaders[0] if summary.loaders else None
    workers = summary.loading.workers if summary.loading else None
    workers = loader.workers if workers is None and loader else workers
    cache_bytes = (asked.page_cache_bytes or asked.ram_bytes) if asked else _chosen_cache_bytes(experiment)
    return Conditions(
        board=(experiment.preset if experiment else None) or summary.device.name or "unknown",
        network=summary.workload.network or "unknown",
        batch_size=summary.workload.batch_size or (loader.batch_size if loader else None),
        medium=_medium(factors, summary),
        workers=workers,
        cores=asked.cores if asked and asked.cores else (mode.cores if mode else None),
        cpu_hz=mode.cpu_hz if mode else None,
        gpu_hz=mode.gpu_hz if mode else None,
        emc_hz=mode.emc_hz if mode else None,
        dvfs=dvfs,
        dataset_scale=summary.workload.dataset_scale,
        page_cache_bytes=None if cache_bytes is None else int(cache_bytes * (experiment.shrink if experiment else 1.0)),
        software=software_of(run, summary),
        command=_command(run.manifest, factors),
        dataset_bytes=_own_dataset_bytes(experiment, summary),
        other=_other(experiment, factors, limits_recorded=asked is not None),
    )


def _command(manifest: Manifest, factors: Mapping[str, Scalar]) -> str | None:
    """Return the training script's command line; a factor's value is left open in it, as in the plan.

    The factor is a condition of its own: with its value left in the command, no two runs would differ in it only.
    """
    words = manifest.experiment.workload.command if manifest.experiment else None
    words = words or (manifest.command if manifest.profiled else None)
    if not words:
        return None
    line = shlex.join(words)
    for name, value in factors.items():
        line = _left_open(line, name, str(value))
    return line


def _left_open(line: str, name: str, value: str) -> str:
    """Replace a factor's value in a command line by its name in braces."""
    if not value:
        return line
    # A whole word, or what follows `=` or a one-letter option: batch size 16 is not the 16 of vgg16.
    found = rf"(?:(?<![\w.])|(?<=\s-[A-Za-z])){re.escape(value)}(?![\w.])"
    return re.sub(found, lambda match: "{" + name + "}", line)


def _own_dataset_bytes(experiment: Experiment | None, summary: Summary) -> int | None:
    """Return the size of the user's own dataset; that of a generated one follows from network and `dataset_scale`."""
    generated = experiment is not None and experiment.workload.dataset is None and experiment.workload.command is None
    return None if generated or "dataset_scale" in summary.factors else summary.workload.dataset_bytes


def _chosen_cache_bytes(experiment: Experiment | None) -> int | None:
    """Return the page cache that a simulated board was given, which records no lab limits."""
    chosen = experiment.limits.page_cache if experiment else None
    return None if chosen is None else parse_bytes(chosen)


def _ram_bytes(experiment: Experiment | None, summary: Summary) -> int | None:
    chosen = experiment.limits.ram if experiment else None
    return summary.device.ram_bytes if chosen is None else parse_bytes(chosen)


def _mode(run: Run) -> tuple[PowerMode | None, bool | None]:
    """Return the power mode and whether the clocks might move below it; with DVFS the mode is the one asked for."""
    known, experiment = run.manifest.power_mode, run.manifest.experiment
    if known is None:
        return None, None
    if known.asked is None or experiment is None:
        return known.held, None
    return (known.asked, True) if experiment.dvfs else (known.held, False)


def _other(
    experiment: Experiment | None, factors: Mapping[str, Scalar], limits_recorded: bool
) -> tuple[tuple[str, str], ...]:
    """Return every setting that was chosen and that no finding is about, by name."""
    represented = _REPRESENTED if limits_recorded else _REPRESENTED - {"ram"}  # it is known as a page cache otherwise
    chosen = {name: str(value) for name, value in factors.items()}
    if experiment is not None:
        for part in (experiment.workload, experiment.loading, experiment.limits, experiment):
            kind: type = type(part)
            for declared in settings_of(kind):
                value = getattr(part, declared.name)
                if value != declared.default:
                    chosen[declared.name] = str(value)
    return tuple(sorted((name, value) for name, value in chosen.items() if name not in represented))


def _medium(factors: Mapping[str, Scalar], summary: Summary) -> str | None:
    """Return the storage medium: as the plan names it, else as the lab emulates it, else as it was detected."""
    storage = factors.get("storage")
    if isinstance(storage, str):
        return storage
    emulated = summary.limits.asked.storage if summary.limits else None
    return emulated.name if emulated else summary.workload.medium


def _began_cold(summary: Summary) -> bool:
    """Return whether the page cache was cold: as measured, else as asked for."""
    share = summary.epochs[0].cached_share_before
    if share is not None:
        return share <= COLD_SHARE
    return summary.loading is not None and summary.loading.cache == "cold"


def _epoch(epoch: EpochSummary, speed: float, dataset_bytes: int | None) -> ObservedEpoch:
    stall_s, read_bytes = epoch.fetch_stall_s, epoch.read_bytes
    return ObservedEpoch(
        minibatches=float(epoch.minibatches),
        e2e_s=epoch.e2e_s * speed,
        stall_s=None if stall_s is None else max(0.0, stall_s - (epoch.fill_s or 0.0)) * speed,
        compute_s=(epoch.compute_s + (epoch.copy_s or 0.0)) * speed,
        energy_j=epoch.energy_j,
        baseload_j=epoch.baseload_j,
        read_share=read_bytes / dataset_bytes if read_bytes is not None and dataset_bytes else None,
        cached_share=epoch.cached_share_before,
        blocked_s=None if epoch.stall_by is None else epoch.stall_by.blocked_s * speed,
        wait_s=None if stall_s is None else (stall_s + (epoch.hidden_wait_s or 0.0)) * speed,
    )
