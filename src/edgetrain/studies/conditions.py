"""The conditions a run was made under: everything that was chosen for it, and the kind of board it ran on.

Which unit of a board made a run is no condition: groups are compared on the units that they share (see `units`).
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import TypeAlias

from edgetrain.analysis import UNIT_FACTORS, Summary, software_of
from edgetrain.record import DeviceFacts, Manifest, Run
from edgetrain.schema import Experiment, PowerMode, Scalar, settings_of
from edgetrain.units import parse_bytes

WHOLE_DEVICE = ("module", "board")  # scopes of a sensor whose energy is the device's; a GPU's or a CPU's alone is not
HOST = "host"  # the name of every machine that is not a board of the catalogue
# How workers load ahead; without workers these settings change nothing.
_OF_WORKERS = ("prefetch", "persistent", "start_method")
# Settings that conditions hold in fields of their own, or that do not change what a minibatch takes.
_REPRESENTED = {
    "network", "preset", "storage", "workers", "batch_size", "power_mode", "dvfs", "dataset",
    "dataset_scale", "picture", "page_cache", "ram", "cores", "speed", "shrink", "cache", "epochs", "minibatches",
    "seed", "baseload_s", "python", "learning_rate", "momentum", "full_fan", *_OF_WORKERS, *UNIT_FACTORS,
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
    minibatches: int | None = None  # after which each epoch was stopped
    software: str | None = None
    command: str | None = None  # of a training script; a plan's placeholders are left open in it
    dataset_bytes: int | None = None  # of a dataset of the user's own, whose path may differ by medium
    power_scope: str | None = None  # what its energy is of: module or board; None: no energy that counts
    loading: tuple[tuple[str, str], ...] = ()  # prefetch depth and the like; without workers there is none
    other: tuple[tuple[str, str], ...] = ()  # factors that no finding is about

    def without(self, *names: str) -> Conditions:
        """Return the conditions with some of them left open."""
        return replace(self, **dict.fromkeys(names))  # type: ignore[arg-type]  # names of fields that may be None

    def by_name(self) -> dict[str, ConditionValue]:
        """Return each condition by its name, in order."""
        return {item.name: getattr(self, item.name) for item in fields(self)}


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
        board=(experiment.preset if experiment else None) or board_name(summary.device),
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
        minibatches=summary.workload.max_minibatches,
        software=software_of(run, summary),
        command=_command(run.manifest, factors),
        dataset_bytes=_own_dataset_bytes(experiment, summary),
        power_scope=summary.power_scope if summary.power_scope in WHOLE_DEVICE else None,
        loading=() if workers == 0 else _loading(summary),
        other=_other(experiment, summary, limits_recorded=asked is not None),
    )


def board_name(device: DeviceFacts) -> str:
    """Return the kind of board; of another machine its model and its GPU or processor, or else its network name."""
    if device.name not in (None, HOST):
        return str(device.name)
    parts = (device.model, device.gpu or device.extra.get("processor"))
    # Without a GPU the model often is the processor's name.
    return ", ".join(dict.fromkeys(str(part) for part in parts if part)) or device.host or device.name or "unknown"


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


def _mode(run: Run) -> tuple[PowerMode | None, bool | None]:
    """Return the power mode and whether the clocks might move below it; with DVFS the mode is the one asked for."""
    known, experiment = run.manifest.power_mode, run.manifest.experiment
    if known is None:
        return None, None
    if known.asked is None or experiment is None:
        return known.held, None
    return (known.asked, True) if experiment.dvfs else (known.held, False)


def _loading(summary: Summary) -> tuple[tuple[str, str], ...]:
    """Return how the workers loaded ahead, as the loader itself says: an imported log or a script was asked nothing."""
    loading, loader = summary.loading, summary.loaders[0] if summary.loaders else None
    known = {
        "prefetch": (loading.prefetch if loading else None, loader.prefetch_factor if loader else None),
        "persistent": (loading.persistent if loading else None, loader.persistent_workers if loader else None),
        "start_method": (loading.start_method if loading else None, loader.start_method if loader else None),
    }
    found = {name: next((value for value in values if value is not None), None) for name, values in known.items()}
    return tuple((name, str(value)) for name, value in found.items() if value is not None)


def _pinned(summary: Summary) -> bool:
    loaders = summary.loaders[:1]
    return bool(summary.loading and summary.loading.pin_memory) or any(one.pin_memory for one in loaders)


def _other(experiment: Experiment | None, summary: Summary, limits_recorded: bool) -> tuple[tuple[str, str], ...]:
    """Return every setting that was chosen and that no finding is about, by name."""
    represented = _REPRESENTED if limits_recorded else _REPRESENTED - {"ram"}  # it is known as a page cache otherwise
    chosen = {name: str(value) for name, value in summary.factors.items()}
    if experiment is not None:
        for part in (experiment.workload, experiment.loading, experiment.limits, experiment):
            kind: type = type(part)
            for declared in settings_of(kind):
                value = getattr(part, declared.name)
                if value != declared.default:
                    chosen[declared.name] = str(value)
    if _pinned(summary):
        chosen["pin_memory"] = str(True)
    return tuple(sorted((name, value) for name, value in chosen.items() if name not in represented))


def _medium(factors: Mapping[str, Scalar], summary: Summary) -> str | None:
    """Return the storage medium: as the plan names it, else as the lab emulates it, else as it was detected."""
    storage = factors.get("storage")
    if isinstance(storage, str):
        return storage
    emulated = summary.limits.asked.storage if summary.limits else None
    return emulated.name if emulated else summary.workload.medium
