"""Cores and memory that a training may use: affinity, CPU quota and memory limits of both cgroup versions."""

from __future__ import annotations

import os
from pathlib import Path

from edgetrain.runner import read_allowance

GIB = 1 << 30


def machine(root: Path, groups: str, mounts: str, files: dict[str, str]) -> Path:
    texts = {
        "proc/meminfo": "MemTotal: 33554432 kB\nMemAvailable: 16777216 kB\n",
        "proc/self/cgroup": groups,
        "proc/self/mountinfo": mounts,
        **files,
    }
    for name, text in texts.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


V2 = "30 24 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n"
V1 = (
    "31 24 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
    "32 24 0:28 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
)


def test_the_smallest_limit_on_the_way_to_the_top_counts(tmp_path: Path) -> None:
    root = machine(
        tmp_path,
        "0::/job/step\n",
        V2,
        {
            "sys/fs/cgroup/job/memory.max": str(4 * GIB),
            "sys/fs/cgroup/job/memory.current": str(2 * GIB),
            "sys/fs/cgroup/job/memory.stat": f"anon {GIB}\nactive_file {GIB // 2}\ninactive_file {GIB // 2}\n",
            "sys/fs/cgroup/job/cpu.max": "250000 100000\n",
            "sys/fs/cgroup/job/step/memory.max": "max\n",
            "sys/fs/cgroup/job/step/cpu.max": "max 100000\n",
        },
    )
    found = read_allowance(root, cores=8)
    assert (found.cores, found.quota_cores, found.usable_cores) == (8, 2.5, 3)
    assert found.memory_bytes == 3 * GIB  # page cache is given up when memory is needed
    assert "/job" in found.memory_by


def test_limits_of_version_1_are_read_and_its_large_number_is_no_limit(tmp_path: Path) -> None:
    files = {
        "sys/fs/cgroup/memory/job/memory.limit_in_bytes": str(2 * GIB),
        "sys/fs/cgroup/memory/job/memory.usage_in_bytes": str(GIB),
        "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712",
        "sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us": "50000",
        "sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us": "100000",
        "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "-1",
    }
    found = read_allowance(machine(tmp_path, "5:memory:/job\n4:cpu,cpuacct:/job\n", V1, files), cores=4)
    assert (found.quota_cores, found.usable_cores, found.memory_bytes) == (0.5, 1, GIB)


def test_without_groups_what_is_available_counts(tmp_path: Path) -> None:
    found = read_allowance(machine(tmp_path, "", "", {}), cores=4)
    assert (found.quota_cores, found.usable_cores, found.memory_bytes) == (None, 4, 16 * GIB)


def test_the_limits_of_this_process_can_be_read() -> None:
    found = read_allowance()
    assert found.cores == len(os.sched_getaffinity(0)) and found.memory_bytes > 0
    assert 1 <= found.usable_cores <= found.cores
