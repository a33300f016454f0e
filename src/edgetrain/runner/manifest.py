"""What the manifest says about a run before and after it: workload, machine, storage, doubts that are known here."""

from __future__ import annotations

import json
import os
import platform
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from edgetrain import __version__
from edgetrain.device import Device
from edgetrain.device.storage import medium_of, same_medium
from edgetrain.runner.anchors import anchor, spell_wall
from edgetrain.schema import SCHEMA, Experiment, Origin
from edgetrain.workload.datasets.layout import file_sizes, size_quantiles

MOST_NAMED = 5  # bad files in a doubt's sentence


def first_manifest(experiment: Experiment, device: Device, command: Sequence[str]) -> dict[str, Any]:
    """Return the manifest of a run that begins now."""
    began = anchor()
    workload, loading = experiment.workload, experiment.loading
    power = device.total_power()
    return {
        "schema": SCHEMA,
        "state": "running",
        "origin": _origin(experiment),
        "started_wall": spell_wall(began["wall_s"]),
        "clock": {"start": began, "end": None},
        "command": list(command),
        "version": __version__,
        "runner": {"pid": os.getpid(), "boot": _first_line("/proc/sys/kernel/random/boot_id")},
        "workload": {
            "network": workload.network,
            "dataset": workload.dataset,
            "dataset_scale": workload.dataset_scale,
            "batch_size": workload.batch_size or None,
            "optimizer": workload.optimizer,
            "learning_rate": workload.learning_rate,
            "momentum": workload.momentum if workload.optimizer == "sgd" else None,
            "classes": workload.classes,
            "max_minibatches": experiment.max_minibatches,
        },
        "loading": {**asdict(loading), "prefetch": loading.prefetch if loading.workers else None},
        "timing": experiment.timing,
        "compute": {"kind": experiment.compute, "name": None, "ms": experiment.compute_ms},
        "device": describe_device(device),
        "power": None if power is None else power.document(),
        "power_reason": None if power else "this device has no power sensor that can be read; see edgetrain doctor",
        "baseload": None,
        "cache": {"asked": loading.cache},
        "limits": None,
        "power_mode": None,
        "seed": experiment.seed,
        "epochs": experiment.epochs,
        "experiment": experiment.document(),
        "campaign": experiment.campaign,
        "factors": dict(experiment.factors),
        "repeat": experiment.repeat,
        "position": experiment.position,
        "doubts": [],
        "losses": [],
    }


def _origin(experiment: Experiment) -> str:
    emulated = experiment.compute == "paced" or experiment.limits or experiment.preset
    return str(Origin.EMULATED if emulated else Origin.MEASURED)


def describe_device(device: Device) -> dict[str, Any]:
    """Return the device as the manifest keeps it."""
    spec = asdict(device.spec)
    spec["extra"] = dict(spec.get("extra") or ())
    return {
        **spec,
        "kernel": spec.get("kernel") or platform.release(),
        "governor": _first_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        "fan": _fan(),
        "python": platform.python_version(),
        "torch": None,
        "cuda": None,
    }


def describe_dataset(path: str, files: Sequence[str]) -> dict[str, Any]:
    """Return size and storage of a dataset."""
    sizes = file_sizes(files)
    where = medium_of(Path(path))
    return {
        "dataset": path,
        "dataset_files": len(sizes),
        "dataset_bytes": sum(sizes),
        "size_quantiles": size_quantiles(sizes),
        "medium": where.medium,
        "filesystem": where.filesystem,
        "storage_device": where.device,
    }


def known_doubts(experiment: Experiment, run: Path, dataset: str | None, medium: str | None) -> list[dict[str, str]]:
    """Return the doubts that are known before training begins."""
    doubts: list[dict[str, str]] = []
    cores = len(os.sched_getaffinity(0))
    workers = experiment.loading.workers
    if workers > cores:
        text = f"{workers} loader workers on {cores} cores: they compete with each other and with the loop"
        doubts.append({"kind": "workers_exceed_cores", "text": text})
    # A warm dataset is not read from its medium, and memory has no head to move.
    read_from_it = experiment.loading.cache != "warm" and medium not in ("ram", None)
    if dataset and read_from_it and same_medium(run, Path(dataset)):
        text = f"the record lies on the dataset's medium ({medium}): our writes compete with its reads"
        doubts.append({"kind": "record_on_dataset_medium", "text": text})
    return doubts


def bad_files(run: Path) -> list[str]:
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


def bad_files_doubt(names: Sequence[str]) -> dict[str, str]:
    """Return the doubt about files that could not be decoded."""
    shown = ", ".join(names[:MOST_NAMED]) + (" …" if len(names) > MOST_NAMED else "")
    text = f"{len(names)} files could not be decoded and their neighbours were used instead: {shown}"
    return {"kind": "bad_files", "text": text}


def free_bytes(folder: Path) -> int | None:
    """Return what is left where the record goes; None where that place has gone."""
    try:
        return shutil.disk_usage(folder).free
    except OSError:
        return None


def ours() -> list[str]:
    """Return the exact command, as far as we can see it."""
    return [Path(sys.argv[0]).name if sys.argv else "edgetrain", *sys.argv[1:]]


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
    """Return what to say where the OOM killer struck between two counts; None where it did not, or nobody counts."""
    if before is None or after is None or after <= before:
        return None
    return "; the kernel ran out of memory and killed it: lower --batch-size or --workers, or close other programs"


def merged(manifest: Mapping[str, Any], key: str, more: Mapping[str, Any]) -> dict[str, Any]:
    """Return a manifest in which one section has more facts."""
    return {**manifest, key: {**(manifest.get(key) or {}), **more}}


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
