"""What this process may use of the machine: cores by affinity and CPU quota, memory by control groups of both versions.

A limit of a group holds for all groups below it, so the smallest one on the way to the top counts.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from edgetrain.runner.trial_memory import available_bytes

RAM_SHARE = 0.9  # of the memory that is free, for a training: the rest is for what else grows meanwhile
UNLIMITED_BYTES = 1 << 60  # version 1 writes "no limit" as a number close to 2^63


@dataclass(frozen=True, slots=True)
class Allowance:
    """Cores and memory that a training may use here."""

    cores: int  # CPUs of the affinity mask
    quota_cores: float | None  # cores' worth of CPU time; None: not limited
    memory_bytes: int  # free for a training; the smallest of what is available and what groups allow
    memory_by: str  # what limits it

    @property
    def usable_cores(self) -> int:
        """Cores that can be busy at once, at least one."""
        return max(1, min(self.cores, math.ceil(self.quota_cores or self.cores)))


def read_allowance(root: Path = Path("/"), cores: int | None = None) -> Allowance:
    """Read the limits of this process; `cores` replaces its affinity mask."""
    cpus = len(os.sched_getaffinity(0)) if cores is None else cores
    quotas = [quota for folder in _groups(root, "cpu") if (quota := _quota(folder)) is not None]
    available = available_bytes(root)
    limits = [(available, "the memory available")]
    for folder in _groups(root, "memory"):
        limit = _first_number(folder, ("memory.max", "memory.limit_in_bytes"))
        used = _first_number(folder, ("memory.current", "memory.usage_in_bytes"))
        if limit is not None and limit < UNLIMITED_BYTES:
            left = limit - max(0, (used or 0) - _reclaimable(folder))
            limits.append((max(0, left), f"the memory limit of the control group {folder}"))
    memory_bytes, by = min(limits)
    return Allowance(cpus, min(quotas, default=None), memory_bytes, by)


def _groups(root: Path, controller: str) -> Iterator[Path]:
    """Yield the folder of this process's group of a controller, and all above it."""
    mounts = _mounts(root, controller)
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, names, path = line.split(":", 2)
        version = 2 if names == "" else 1
        if version == 1 and controller not in names.split(","):
            continue
        for kind, mounted, top in mounts:
            if kind != version:
                continue
            # In a container the mount shows only the part of the hierarchy below `top`.
            relative = os.path.relpath(path, top) if path.startswith(top) else "."
            folder = root / mounted.lstrip("/") / relative
            while folder.is_dir() and folder.is_relative_to(root / mounted.lstrip("/")):
                yield folder
                folder = folder.parent
            break


def _mounts(root: Path, controller: str) -> Sequence[tuple[int, str, str]]:
    found = []
    try:
        text = (root / "proc/self/mountinfo").read_text()
    except OSError:
        return ()
    for line in text.splitlines():
        left, _, right = line.partition(" - ")
        fields, kind, options = left.split(), right.split()[0], right.split()[-1]
        if kind == "cgroup2":
            found.append((2, fields[4], fields[3]))
        elif kind == "cgroup" and controller in options.split(","):
            found.append((1, fields[4], fields[3]))
    return found


def _first_number(folder: Path, names: Sequence[str]) -> int | None:
    for name in names:
        try:
            text = (folder / name).read_text().strip()
        except OSError:
            continue
        return int(text) if text.lstrip("-").isdigit() else None  # "max": no limit
    return None


def _reclaimable(folder: Path) -> int:
    """Return the page cache of a group: it is counted as used, and is given up when memory is needed."""
    numbers: dict[str, int] = {}
    try:
        for line in (folder / "memory.stat").read_text().splitlines():
            name, _, value = line.partition(" ")
            numbers[name] = int(value)
    except (OSError, ValueError):
        return 0
    names = ("total_active_file", "total_inactive_file")
    names = names if names[0] in numbers else ("active_file", "inactive_file")
    return sum(numbers.get(name, 0) for name in names)


def _quota(folder: Path) -> float | None:
    try:
        words = (folder / "cpu.max").read_text().split()
        return None if words[0] == "max" else int(words[0]) / int(words[1])
    except (OSError, ValueError, IndexError):
        pass
    quota = _first_number(folder, ("cpu.cfs_quota_us",))
    period = _first_number(folder, ("cpu.cfs_period_us",))
    return quota / period if quota is not None and quota > 0 and period else None
