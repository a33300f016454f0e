"""What this machine lets us see and set besides its sensors: page cache, processes, lab mechanisms, torch, store.

Each check is a Finding: what it is for, whether it works here, why not, and the exact command that would mend it.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from edgetrain.device.base import Device, Finding
from edgetrain.device.kept import text_of
from edgetrain.device.storage import medium_of, same_medium
from edgetrain.sampling.pagecache import PageCounter
from edgetrain.sampling.residency import share
from edgetrain.units import spell_bytes

LEAST_FREE_BYTES = 1 << 30
# Loader workers hand minibatches over in shared memory; a container's usual 64 MB breaks them.
LEAST_SHARED_BYTES = 256 << 20
TORCH_LIMIT_S = 120
_TORCH = """
import json, sys
found = {"python": sys.version.split()[0]}
try:
    import torch
    found.update(torch=torch.__version__, cuda=torch.version.cuda, gpus=[])
    if torch.cuda.is_available():
        found["gpus"] = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
except Exception as error:
    found["error"] = "%s: %s" % (type(error).__name__, error)
try:
    import PIL
    found["pillow"] = PIL.__version__
except Exception:
    found["pillow"] = None
print(json.dumps(found))
"""


def examine(store: Path, dataset: Path | None = None, python: str = sys.executable) -> list[Finding]:
    """Return every finding that is not the device's own."""
    return [
        *_record(store, dataset),
        *_page_cache(dataset or store),
        *_processes(),
        *_lab(),
        *_training(python),
    ]


def overhead(device: Device, readings: int = 20) -> dict[str, Any]:
    """Return what sampling costs here: CPU seconds a second, summed over probes at their own rates."""
    each: dict[str, Any] = {}
    total = 0.0
    for probe in device.probes():
        probe.read()
        began_s, cpu_s = time.perf_counter(), time.process_time()
        for _ in range(readings):
            probe.read()
        wall_s, cpu_s = time.perf_counter() - began_s, time.process_time() - cpu_s
        cost = cpu_s / readings / probe.period_s
        total += cost
        each[probe.name] = {"read_s": wall_s / readings, "period_s": probe.period_s, "cpu_share": cost}
        probe.close()
    return {"cpu_share": total, "per_probe": each}


def _record(store: Path, dataset: Path | None) -> list[Finding]:
    found = [Finding("record", "python", True, f"{platform.python_version()} at {sys.executable}")]
    nearest = store
    while not nearest.exists() and nearest != nearest.parent:
        nearest = nearest.parent
    lies = _spell_medium(nearest)
    if os.access(nearest, os.W_OK) and nearest.is_dir():
        free = shutil.disk_usage(nearest).free
        enough = free >= LEAST_FREE_BYTES
        detail = f"{store} on {lies}, {spell_bytes(free)} free"
        fix = None if enough else "edgetrain run … --store /a/folder/with/room"
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
            detail = "the record and the dataset share one storage medium: our writes are counted beside its reads"
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
        detail = "the kernel keeps no schedstat: contention cannot be told from blocking"
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
        detail = "a virtual machine: stolen time is recorded, and where it is high no stall is attributed"
        found.append(Finding("cpu", "bare metal", None, detail))
    shared = shutil.disk_usage("/dev/shm").total if os.path.isdir("/dev/shm") else 0
    if shared < LEAST_SHARED_BYTES:
        detail = f"/dev/shm holds {spell_bytes(shared)}: loader workers hand minibatches over in it"
        fix = "docker run --shm-size=2g … (or: sudo mount -o remount,size=2G /dev/shm)"
        found.append(Finding("training", "shared memory", False, detail, fix))
    return found


def _lab() -> list[Finding]:
    """Return which mechanisms `edgetrain lab` finds; it says itself what it makes of them."""
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


def _training(python: str) -> list[Finding]:
    """Ask a Python about torch in a process of its own: importing it here would cost a second and 200 MB."""
    said = _ask_torch([python, "-c", _TORCH])
    if said is None:
        return [Finding("training", "torch", None, f"{python} did not answer within {TORCH_LIMIT_S} s")]
    if "error" in said:
        fix = "make setup"
        if os.path.exists("/etc/nv_tegra_release"):
            # On a board pip's torch has no CUDA: NVIDIA's own build is the one to have.
            fix = "install NVIDIA's torch for this JetPack as docs/boards.md shows"
        detail = f"{python} cannot import it ({said['error']})"
        return [Finding("training", "torch", False, detail, fix)]
    gpus = said["gpus"]
    found = [Finding("training", "torch", True, f"{said['torch']} (Python {said['python']})")]
    if gpus:
        found.append(Finding("training", "CUDA", True, f"{said['cuda']}: {', '.join(gpus)}"))
    elif said["cuda"]:
        detail = f"torch is built for CUDA {said['cuda']} but sees no GPU"
        found.append(Finding("training", "CUDA", False, detail, "nvidia-smi   # does the driver see one?"))
    elif any(Path("/dev").glob("nvidia[0-9]*")) or os.path.exists("/dev/nvhost-gpu"):
        detail = "there is a GPU, but this torch is built without CUDA"
        found.append(Finding("training", "CUDA", False, detail, "pip install torch   # the CUDA build"))
    else:
        found.append(Finding("training", "CUDA", None, "no NVIDIA GPU here: training runs on the CPU"))
    if not said["pillow"]:
        detail = "JPEG datasets need Pillow"
        found.append(Finding("training", "Pillow", False, detail, f"{python} -m pip install Pillow"))
    return found


def _ask_torch(command: Sequence[str]) -> dict[str, Any] | None:
    try:
        ran = subprocess.run(command, capture_output=True, text=True, timeout=TORCH_LIMIT_S, check=False)
        lines = ran.stdout.strip().splitlines()
        found: dict[str, Any] = json.loads(lines[-1]) if lines else {"error": ran.stderr.strip()[-300:] or "no answer"}
    except subprocess.TimeoutExpired:
        return None
    except (OSError, ValueError) as error:
        return {"error": str(error)}
    return found


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
