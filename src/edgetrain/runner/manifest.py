"""What the manifest says about a run before and after it: workload, machine, storage, doubts known here."""

from __future__ import annotations

import json
import os
import platform
import shutil
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

from edgetrain.device import Device, medium_of, same_medium
from edgetrain.record import (
    CacheState,
    Clock,
    ClockAnchor,
    ComputeFacts,
    DeviceFacts,
    LoadingFacts,
    Manifest,
    ProcessFacts,
    RunnerFacts,
    WorkloadFacts,
)
from edgetrain.runner.allowance import read_allowance
from edgetrain.runner.anchors import anchor, spell_wall
from edgetrain.schema import Doubt, Experiment, Origin
from edgetrain.version import __version__
from edgetrain.workload import file_sizes, size_quantiles

MAX_NAMED = 5  # damaged files named in one doubt
NO_POWER = "this device has no power sensor that can be read; see edgetrain doctor"


def first_manifest(experiment: Experiment, device: Device, command: Sequence[str]) -> Manifest:
    """Return the manifest of a run that begins now."""
    began = anchor()
    workload, loading = experiment.workload, experiment.loading
    power = device.total_power()
    profiled = workload.command is not None
    return Manifest(
        state="running",
        origin=origin_of(experiment, device),
        started_wall=spell_wall(began.wall_s),
        clock=Clock(began),
        command=tuple(command),
        profiled=profiled,
        version=__version__,
        runner=RunnerFacts(os.getpid(), _first_line("/proc/sys/kernel/random/boot_id")),
        workload=WorkloadFacts(network=workload.network, dataset=workload.dataset)
        if profiled
        else WorkloadFacts(
            network=workload.network,
            dataset=workload.dataset,
            dataset_scale=workload.dataset_scale,
            batch_size=workload.batch_size,
            optimizer=workload.optimizer,
            learning_rate=workload.learning_rate,
            momentum=workload.momentum if workload.optimizer == "sgd" else None,
            classes=workload.classes,
            max_minibatches=experiment.minibatches,
        ),
        loading=None
        if profiled
        else LoadingFacts(
            loading.workers,
            loading.prefetch if loading.workers else None,
            loading.pin_memory,
            loading.persistent,
            loading.start_method,
            loading.cache,
        ),
        timing=experiment.timing,
        compute=None if profiled else ComputeFacts(experiment.compute, None, experiment.compute_ms),
        device=device_facts(device),
        power=power,
        power_reason=None if power else NO_POWER,
        cache=CacheState(loading.cache),
        seed=None if profiled else experiment.seed,
        epochs=None if profiled else experiment.epochs,
        experiment=experiment,
        campaign=experiment.campaign,
        factors=dict(experiment.factors),
        repeat=experiment.repeat,
        position=experiment.position,
    )


def origin_of(experiment: Experiment, device: Device) -> Origin:
    """Return what the values of a run will be: measured, or a weaker origin where hardware is emulated or simulated."""
    if device.spec.kind == "simulated":
        return Origin.SIMULATED
    emulated = experiment.compute == "paced" or bool(experiment.limits) or experiment.preset is not None
    return Origin.EMULATED if emulated else Origin.MEASURED


def device_facts(device: Device) -> DeviceFacts:
    """Return the device as the manifest keeps it."""
    spec = asdict(device.spec)
    spec["extra"] = dict(spec.get("extra") or ())
    spec["kernel"] = spec.get("kernel") or platform.release()
    if device.spec.kind == "simulated":
        return DeviceFacts(**spec, governor="schedutil")
    return DeviceFacts(
        **spec,
        usable_cores=read_allowance().usable_cores,
        governor=_first_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        fan=_fan(),
        python=platform.python_version(),
    )


def with_dataset(workload: WorkloadFacts, path: str, files: Sequence[str]) -> WorkloadFacts:
    """Return the workload with the size and storage of its dataset."""
    sizes = file_sizes(files)
    where = medium_of(Path(path))
    return replace(
        workload,
        dataset=path,
        dataset_files=len(sizes),
        dataset_bytes=sum(sizes),
        size_quantiles=size_quantiles(sizes),
        medium=where.medium,
        filesystem=where.filesystem,
        storage_device=where.device,
    )


def with_process(manifest: Manifest, facts: ProcessFacts) -> Manifest:
    """Return the manifest of a user's command with what its training process recorded about itself."""
    # The loader whose minibatches were trained on; of several equal ones the first.
    loader = max(facts.loaders, key=lambda one: (one.trained or 0, one.delivered or 0), default=None)
    workload = replace(manifest.workload, parameters=facts.parameters)
    loading = LoadingFacts(cache=manifest.cache.asked if manifest.cache else None)
    if loader is not None:
        workload = replace(
            workload,
            batch_size=loader.batch_size,
            samples=loader.samples,
            minibatches_per_epoch=loader.length,
        )
        loading = replace(
            loading,
            workers=loader.workers,
            prefetch=loader.prefetch_factor,
            pin_memory=loader.pin_memory,
            persistent=loader.persistent_workers,
            start_method=loader.start_method,
        )
    return replace(
        manifest,
        workload=workload,
        loading=loading,
        compute=ComputeFacts("cuda" if facts.gpu else "cpu", facts.gpu),
        device=replace(manifest.device, python=facts.python, torch=facts.torch, cuda=facts.cuda, threads=facts.threads),
    )


def early_doubts(experiment: Experiment, run: Path, dataset: str | None, medium: str | None) -> list[Doubt]:
    """Return the doubts that are known before training begins."""
    doubts: list[Doubt] = []
    cores = len(os.sched_getaffinity(0))
    workers = experiment.loading.workers if experiment.workload.command is None else 0
    if workers > cores:
        text = f"{workers} loader workers on {cores} cores: they compete with each other and with the training loop"
        doubts.append(Doubt("workers_exceed_cores", text))
    # A warm dataset is read from the page cache, and a dataset in RAM (tmpfs) has no medium: nothing to compete for.
    read_from_it = experiment.loading.cache != "warm" and medium not in ("ram", None)
    if dataset and read_from_it and same_medium(run, Path(dataset)):
        text = (
            f"the record is written to the dataset's medium ({medium}): edgetrain's writes compete with its reads; "
            "give --store on another medium"
        )
        doubts.append(Doubt("record_on_dataset_medium", text))
    return doubts


def damaged_files(run: Path) -> list[str]:
    """Return the files that could not be decoded, each once."""
    names: dict[str, None] = {}
    for path in sorted(run.glob("events-files-*.jsonl")):
        try:
            lines = path.read_text(errors="replace").splitlines()
        except OSError:
            continue
        for line in lines:
            try:
                names[json.loads(line)["file"]] = None
            except (ValueError, KeyError, TypeError):
                continue
    return list(names)


def damaged_files_doubt(names: Sequence[str]) -> Doubt:
    """Return the doubt about files that could not be decoded."""
    shown = ", ".join(names[:MAX_NAMED]) + (" …" if len(names) > MAX_NAMED else "")
    text = f"{len(names)} files could not be decoded and their neighbours were used instead: {shown}"
    return Doubt("bad_files", text)


def free_bytes(folder: Path) -> int | None:
    """Return the free space where the record goes; None where that folder has gone."""
    try:
        return shutil.disk_usage(folder).free
    except OSError:
        return None


def current_command() -> tuple[str, ...]:
    """Return the command line of this process."""
    return (Path(sys.argv[0]).name if sys.argv else "edgetrain", *sys.argv[1:])


def oom_kills() -> int | None:
    """Return how often the kernel's OOM killer has struck since boot."""
    try:
        for line in Path("/proc/vmstat").read_text().splitlines():
            if line.startswith("oom_kill "):
                return int(line.split()[1])
    except (OSError, ValueError):
        pass
    return None


def out_of_memory(before: int | None, after: int | None) -> str | None:
    """Return the advice to print if the OOM killer ended a process between two counts; None if it did not, or if the
    kernel does not count it."""
    if before is None or after is None or after <= before:
        return None
    return "; the kernel ran out of memory and killed it: lower --batch-size or --workers, or close other programs"


def end_clock(manifest: Manifest) -> Clock:
    """Return the run's clock with its end."""
    now: ClockAnchor = anchor()
    return Clock(now, now) if manifest.clock is None else replace(manifest.clock, end=now)


def _first_line(path: str) -> str | None:
    try:
        with open(path) as file:
            return file.readline().strip() or None
    except OSError:
        return None


def _fan() -> int | None:
    """Return the fan's setting (pwm, 0 to 255) where a board shows one."""
    for path in sorted(Path("/sys/class/hwmon").glob("hwmon*/pwm1")):
        text = _first_line(str(path))
        if text and text.isdigit():
            return int(text)
    return None
