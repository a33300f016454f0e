"""How much CPU other processes use: neither the training nor edgetrain.

This is the machine's busy time less the time of the training's and edgetrain's own processes. It is correct in a
container too, where /proc/stat still counts the whole machine though its processes cannot be seen; where only some of
the cores may be used, only those count. Kernel threads that work for the training (writeback, interrupts in threads)
count as others, so a little load is not reported.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from edgetrain.device import SLOW_S, TICKS_PER_S, KeptFile, ProbeEvent
from edgetrain.errors import ProbeUnavailable
from edgetrain.sampling.tree import ProcessTree
from edgetrain.units import NS_PER_S

# Other load that is reported: a third of a core for three seconds. Below that are the system's own daemons.
OTHER_CORES = 0.33
OTHER_FOR_S = 3.0
REPORT_INTERVAL_S = 60.0
# Naming the processes means reading the stat of every one, at about 12 µs each.
MAX_SCANNED = 2048


class LoadProbe:
    """CPU used by neither the training nor us, as a share of the whole machine."""

    name = "load"
    period_s = SLOW_S
    columns: Sequence[str] = ("other_share", "other_cores")
    blocking = False

    def __init__(
        self,
        tree: ProcessTree,
        also_ours: Collection[int] = (),
        proc: Path = Path("/proc"),
        now_ns: Callable[[], int] = time.monotonic_ns,
        cores: Collection[int] | None = None,
    ) -> None:
        self._tree, self._proc, self._now_ns = tree, proc, now_ns
        self._stat = KeptFile(proc / "stat", 65536)
        self._also_pids = frozenset(also_ours)
        self._also = [
            file for file in (_stat_of(pid, proc) for pid in self._also_pids - set(tree.pids)) if file is not None
        ]
        self._cores = self._stat.read_all().count(b"\ncpu") or 1
        self._labels = _labels_of(cores if cores is not None else os.sched_getaffinity(0), self._cores)
        self._cores = len(self._labels) if self._labels else self._cores
        self._before: tuple[int, float, float] | None = None
        self._busy_since_ns: int | None = None
        self._reported_ns: int | None = None
        self._scanned: dict[int, tuple[str, int]] = {}
        self._events: list[ProbeEvent] = []

    def read(self) -> list[float]:
        """Return the others' share since the previous reading."""
        now_ns = self._now_ns()
        busy_s = _busy_s(self._stat.read_all(), self._labels)
        if busy_s is None:
            return [math.nan, math.nan]
        ours_s = self._tree.cpu_s() + time.process_time() + sum(_own_cpu_s(file.read()) for file in self._also)
        before, self._before = self._before, (now_ns, busy_s, ours_s)
        # Less than before: an own process has ended, and its time is not counted anywhere any more.
        if before is None or now_ns <= before[0] or ours_s < before[2]:
            return [math.nan, math.nan]
        elapsed_s = (now_ns - before[0]) / NS_PER_S
        cores = min(max((busy_s - before[1] - (ours_s - before[2])) / elapsed_s, 0.0), float(self._cores))
        self._watch(cores, now_ns)
        return [cores / self._cores, cores]

    def _watch(self, cores: float, now_ns: int) -> None:
        """Notice load that lasts; the processes are looked up only then, because it means reading every one."""
        if cores < OTHER_CORES:
            self._busy_since_ns = None
            return
        if self._busy_since_ns is None:
            self._busy_since_ns = now_ns
            return
        lasted_s = (now_ns - self._busy_since_ns) / NS_PER_S
        quiet = self._reported_ns is None or (now_ns - self._reported_ns) / NS_PER_S >= REPORT_INTERVAL_S
        if not quiet:
            return
        if lasted_s < OTHER_FOR_S - 1:
            return
        if lasted_s < OTHER_FOR_S and not self._scanned:
            self._scanned = self._scan()
            return
        names = self._busiest(self._scan())
        self._scanned = {}
        self._reported_ns = now_ns
        text = f"other processes use {cores:.1f} of {self._cores} cores{names}"
        self._events.append(ProbeEvent("other_load", text))

    def pop_events(self) -> list[ProbeEvent]:
        """Return other load that lasted."""
        events, self._events = self._events, []
        return events

    def _scan(self) -> dict[int, tuple[str, int]]:
        found: dict[int, tuple[str, int]] = {}
        ours = {os.getpid(), *self._tree.pids, *self._also_pids}
        try:
            pids = [int(name) for name in os.listdir(self._proc) if name.isdecimal()]
        except OSError:
            return found
        for pid in pids[-MAX_SCANNED:]:
            if pid in ours:
                continue
            try:
                with open(self._proc / str(pid) / "stat", "rb", buffering=0) as file:
                    data = file.read(1024)
                head, _, rest = data.rpartition(b")")
                fields = rest.split()
                name = head.partition(b"(")[2].decode("utf-8", "replace")
                found[pid] = (name, int(fields[11]) + int(fields[12]))
            except (OSError, ValueError, IndexError):
                continue
        return found

    def _busiest(self, now: dict[int, tuple[str, int]]) -> str:
        grown = [
            (ticks - self._scanned[pid][1], pid, name) for pid, (name, ticks) in now.items() if pid in self._scanned
        ]
        busiest = [f"{name} ({pid})" for ticks, pid, name in sorted(grown, reverse=True)[:3] if ticks > 0]
        return f", most of it by {', '.join(busiest)}" if busiest else "; their names cannot be seen from here"

    def close(self) -> None:
        """Close the descriptors."""
        for file in (self._stat, *self._also):
            file.close()


def _labels_of(cores: Collection[int], every: int) -> frozenset[bytes]:
    """Return the lines of /proc/stat that count: those of the cores that may be used; empty where all may be used."""
    return frozenset(b"cpu%d" % core for core in cores) if 0 < len(cores) < every else frozenset()


def _busy_s(data: bytes, labels: frozenset[bytes]) -> float | None:
    """Return the seconds that cores were busy with user, nice and system time; None where the file cannot be read."""
    total, seen = 0, False
    for line in data.split(b"\n"):
        if not line.startswith(b"cpu"):
            break
        fields = line.split(None, 4)
        if (fields[0] in labels) if labels else (fields[0] == b"cpu"):
            if len(fields) < 5 or not all(field.isdigit() for field in fields[1:4]):
                return None
            total += int(fields[1]) + int(fields[2]) + int(fields[3])
            seen = True
    return total / TICKS_PER_S if seen else None


def _stat_of(pid: int, proc: Path) -> KeptFile | None:
    try:
        return KeptFile(proc / str(pid) / "stat", 1024)
    except ProbeUnavailable:
        return None


def _own_cpu_s(data: bytes) -> float:
    """Return one process's own CPU seconds, its children left out; 0 once it has ended."""
    fields = data.rpartition(b")")[2].split()
    if len(fields) < 13 or not (fields[11].isdigit() and fields[12].isdigit()):
        return 0.0
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_S
