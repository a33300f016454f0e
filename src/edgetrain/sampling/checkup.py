"""Checks what can be read and set besides the sensors: page cache, processes, lab mechanisms, torch, store.

Each check is a Finding: what it is for, whether it works here, why not, and the exact command that would fix it.
"""

from __future__ import annotations

import os
import platform
import shutil
import sys
import time
from pathlib import Path

from edgetrain.device import Device, medium_of, same_medium, text_of
from edgetrain.sampling.pagecache import PageCounter
from edgetrain.sampling.residency import share
from edgetrain.sampling.torch_check import torch_findings
from edgetrain.schema import Finding, ProbeCost, SamplingCost
from edgetrain.units import spell_bytes

MIN_FREE_BYTES = 1 << 30
# On kernel 5.10 each register of a power monitor waits for the next average (0.43 s): twenty rows would take a minute.
COST_LIMIT_S = 2.0
# Loader workers hand minibatches over in shared memory; a container's usual 64 MB breaks them.
MIN_SHARED_BYTES = 256 << 20


def examine(store: Path, dataset: Path | None = None, python: str = sys.executable) -> list[Finding]:
    """Return every finding that is not the device's own."""
    return [
        *_record(store, dataset),
        *_page_cache(dataset or store),
        *_processes(),
        *_lab(),
        *torch_findings(python),
    ]


def sampling_cost(device: Device, readings: int = 20, limit_s: float = COST_LIMIT_S) -> SamplingCost:
    """Return what sampling costs here, summed over probes at their own intervals; at most `limit_s` for each probe."""
    each: dict[str, ProbeCost] = {}
    for probe in device.probes():
        probe.read()
        began_s, cpu_s, count = time.perf_counter(), time.process_time(), 0
        while count < readings and (count == 0 or time.perf_counter() - began_s < limit_s):
            probe.read()
            count += 1
        wall_s, cpu_s = time.perf_counter() - began_s, time.process_time() - cpu_s
        each[probe.name] = ProbeCost(wall_s / count, probe.period_s, cpu_s / count / probe.period_s)
        probe.close()
    return SamplingCost(sum(cost.cpu_share for cost in each.values()), each)


def _record(store: Path, dataset: Path | None) -> list[Finding]:
    found = [Finding("record", "python", True, f"{platform.python_version()} at {sys.executable}")]
    nearest = store
    while not nearest.exists() and nearest != nearest.parent:
        nearest = nearest.parent
    lies = _spell_medium(nearest)
    if os.access(nearest, os.W_OK) and nearest.is_dir():
        free = shutil.disk_usage(nearest).free
        enough = free >= MIN_FREE_BYTES
        detail = f"{store} on {lies}, {spell_bytes(free)} free"
        fix = None if enough else "edgetrain run … --store /a/folder/with/space"
        found.append(Finding("record", "store", enough, detail, fix))
    else:
        why = "cannot be written by this user" if nearest.is_dir() else "is a file, and a store is a folder"
        detail = f"{nearest} {why}"
        found.append(Finding("record", "store", False, detail, "export EDGETRAIN_STORE=/a/folder/of/yours"))
    if dataset is not None and not dataset.exists():
        found.append(Finding("storage", "dataset", False, f"{dataset} does not exist"))
    elif dataset is not None:
        found.append(Finding("storage", "dataset", True, f"{dataset} on {_spell_medium(dataset)}"))
        if same_medium(dataset, nearest):
            detail = "the record and the dataset share one storage medium: edgetrain's writes compete with its reads"
            found.append(Finding("record", "separate medium", False, detail, "edgetrain run … --store /another/disk"))
    return found


def _page_cache(place: Path) -> list[Finding]:
    counter = PageCounter()
    how = "cachestat" if counter.has_cachestat else "mincore (this kernel has no cachestat: slower, same answer)"
    found = []
    if place.is_dir() and any(os.scandir(place)):
        seen = share(place, 64, counter=counter)
        if seen.share is None and seen.blind:
            detail = f"{seen.reason}; the kernel shows a file's pages only to its owner, its writers and root"
            fix = f"sudo chown -R $USER {place}"
            found.append(Finding("storage", "share of the dataset in the page cache", False, detail, fix))
            how = ""
    if how:
        found.append(Finding("storage", "share of the dataset in the page cache", True, how))
    drop = Path("/proc/sys/vm/drop_caches")
    if os.access(drop, os.W_OK):
        found.append(Finding("storage", "cold runs", True, "posix_fadvise per file, and drop_caches"))
    else:
        detail = "posix_fadvise per file works without root; directory entries stay warm, drop_caches needs root"
        found.append(Finding("storage", "cold runs", True, detail, "sudo edgetrain run … --cache cold"))
    return found


def _processes() -> list[Finding]:
    found = []
    if _reads("/proc/self/schedstat"):
        found.append(Finding("cpu", "run-queue wait of loader workers", True, "/proc/PID/schedstat"))
    else:
        detail = "the kernel has no schedstat: contention cannot be distinguished from blocking"
        found.append(Finding("cpu", "run-queue wait of loader workers", False, detail))
    if _reads("/proc/self/io"):
        found.append(Finding("storage", "bytes read by each process", True, "/proc/PID/io"))
    else:
        detail = "the kernel has no task I/O accounting (CONFIG_TASK_IO_ACCOUNTING)"
        found.append(Finding("storage", "bytes read by each process", False, detail))
    if not os.path.exists(f"/proc/self/task/{os.getpid()}/children"):
        detail = "the kernel has no CONFIG_PROC_CHILDREN: only the training's main process is summed"
        found.append(Finding("cpu", "the training's process tree", False, detail))
    if " hypervisor" in (text_of(Path("/proc/cpuinfo")) or ""):
        detail = (
            "yes: CPU time that the host takes (steal) is recorded; above 5 % of it the causes of a stall carry a "
            "doubt, above 15 % none are given"
        )
        found.append(Finding("cpu", "virtual machine", None, detail))
    shared = shutil.disk_usage("/dev/shm").total if os.path.isdir("/dev/shm") else 0
    if shared < MIN_SHARED_BYTES:
        detail = f"/dev/shm holds {spell_bytes(shared)}: loader workers hand minibatches over in it"
        fix = "docker run --shm-size=2g … (or: sudo mount -o remount,size=2G /dev/shm)"
        found.append(Finding("training", "shared memory", False, detail, fix))
    return found


def _lab() -> list[Finding]:
    """Return which mechanisms `edgetrain lab` finds."""
    root = os.geteuid() == 0
    found = [_cgroups(root)]
    fuse = os.path.exists("/dev/fuse") and os.access("/dev/fuse", os.R_OK | os.W_OK)
    detail = "/dev/fuse" if fuse else "no /dev/fuse that this user may open"
    found.append(Finding("lab", "FUSE", fuse, detail, None if fuse else "sudo modprobe fuse"))
    loop = os.path.exists("/dev/loop-control")
    works = loop and root
    detail = "/dev/loop-control" if works else ("needs root" if loop else "the kernel has no loop devices")
    fix = "sudo edgetrain lab up …" if loop and not root else None
    found.append(Finding("lab", "loop devices (slow storage with a real page cache)", works, detail, fix))
    return found


def _cgroups(root: bool) -> Finding:
    v2 = Path("/sys/fs/cgroup/cgroup.controllers")
    if v2.exists():
        controllers = text_of(v2) or "none"
        return Finding("lab", "control groups", root, f"version 2: {controllers}", None if root else _SUDO_LAB)
    try:
        names = sorted(path.name for path in Path("/sys/fs/cgroup").iterdir() if path.is_dir())
    except OSError:
        names = []
    wanted = [name for name in ("blkio", "cpu", "cpuset", "memory") if name in names]
    if not wanted:
        return Finding("lab", "control groups", False, "none mounted at /sys/fs/cgroup")
    return Finding("lab", "control groups", root, f"version 1: {', '.join(wanted)}", None if root else _SUDO_LAB)


_SUDO_LAB = "sudo edgetrain lab up …"


def _spell_medium(path: Path) -> str:
    try:
        lies = medium_of(path)
    except OSError as error:
        return f"unknown ({error.strerror})"
    return ", ".join(part for part in (lies.filesystem, lies.device, lies.medium) if part) or "unknown"


def _reads(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            return bool(file.read(64))
    except OSError:
        return False
