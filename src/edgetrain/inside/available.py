"""The memory that this process may still use: what the machine has free, or less where a control group limits it."""

from __future__ import annotations

import os


def available_bytes(root: str = "/") -> int | None:
    """Return the memory that this process can use; None where nothing says so."""
    found = _left_in_groups(root)
    try:
        with open(os.path.join(root, "proc/meminfo")) as file:
            found += [int(line.split()[1]) * 1024 for line in file if line.startswith("MemAvailable:")]
    except OSError:
        pass
    return min(found, default=None)


def _left_in_groups(root: str) -> list[int]:
    """Return what the memory limits of this process's control groups, of both versions, and of those above leave."""
    found = []
    try:
        with open(os.path.join(root, "proc/self/cgroup")) as file:
            lines = [line.rstrip("\n").split(":", 2) for line in file]
    except OSError:
        return []
    for _, controllers, path in lines:
        if controllers and "memory" not in controllers.split(","):
            continue
        top = "memory" if controllers else ""
        limit, usage = (
            ("memory.limit_in_bytes", "memory.usage_in_bytes") if controllers else ("memory.max", "memory.current")
        )
        parts = [part for part in path.split("/") if part]
        for depth in range(len(parts) + 1):
            folder = os.path.join(root, "sys/fs/cgroup", top, *parts[:depth])
            most = _number(os.path.join(folder, limit))
            if most is not None:  # else it is not there, or "max": no limit
                used = (_number(os.path.join(folder, usage)) or 0) - _file_cache(folder)
                found.append(max(0, most - max(0, used)))
    return found


def _number(path: str) -> int | None:
    try:
        with open(path) as file:
            return int(file.read())
    except (OSError, ValueError):
        return None


def _file_cache(folder: str) -> int:
    """Return the page cache of a group: it is counted as used, and is given up when memory is needed."""
    numbers = {}
    try:
        with open(os.path.join(folder, "memory.stat")) as file:
            for line in file:
                name, _, value = line.partition(" ")
                numbers[name] = int(value)
    except (OSError, ValueError):
        return 0
    below = "total_" if "total_inactive_file" in numbers else ""  # version 1: with the groups below it
    return numbers.get(below + "active_file", 0) + numbers.get(below + "inactive_file", 0)
