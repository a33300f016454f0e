"""Probes over /proc that every Linux machine has: CPU, memory, disks.

Shares are differences between two readings, so the first row of each is NaN. /proc/stat counts in ticks of 10 ms:
at 10 Hz a core's share moves in steps of a tenth, so means over seconds are what counts.
"""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from edgetrain.device.base import FAST_S
from edgetrain.device.kept import KeptFile, numbered, text_of
from edgetrain.errors import ProbeUnavailable
from edgetrain.units import HZ_PER_KHZ, NS_PER_S, US_PER_S

NAN = math.nan
# Not Linux: nothing here will be read, but records can be, so importing must work.
TICKS_PER_S = os.sysconf("SC_CLK_TCK") if sys.platform == "linux" else 100
# Reading a core's clock can wake it: beyond this many cores the whole probe slows down in proportion.
CORES_AT_FULL_RATE = 16
MEMORY_S = 0.5
SECTOR_BYTES = 512  # diskstats counts in these whatever the device's own sectors are
BYTES_PER_KIB = 1024
# More devices than this are a storage array's parts; each costs seven columns.
MAX_DEVICES = 32
MAX_HZ = 20e9


class CpuProbe:
    """Load and clock of each core, run queue, pressure and stolen time."""

    name = "cpu"
    blocking = False

    def __init__(self, root: Path = Path("/"), now_ns: Callable[[], int] = time.monotonic_ns) -> None:
        self._now_ns = now_ns
        self._stat = KeptFile(root / "proc/stat", 65536)
        first = _cpu_lines(self._stat.read_all())
        self._cores = sorted(core for core in first if core >= 0)
        if not self._cores:
            raise ProbeUnavailable(f"{self._stat.path} names no core")
        self.period_s = FAST_S * math.ceil(len(self._cores) / CORES_AT_FULL_RATE)
        cpus = root / "sys/devices/system/cpu"
        self._clocks = _open_all(
            (f"cpu{core}_hz", cpus / f"cpu{core}/cpufreq/scaling_cur_freq") for core in self._cores
        )
        pressure = root / "proc/pressure"
        self._pressure = _open_all((f"pressure_{what}_share", pressure / what) for what in ("cpu", "io", "memory"))
        self.columns: Sequence[str] = (
            *(f"cpu{core}_share" for core in self._cores),
            "cpu_share",
            "iowait_share",
            "steal_share",
            "queue_length",
            *(name for name, _ in self._pressure),
            *(name for name, _ in self._clocks),
        )
        self._before: dict[int, tuple[int, int, int, int]] = {}
        self._pressed: list[float] = [NAN] * len(self._pressure)
        self._at_ns = 0

    def read(self) -> list[float]:
        """Return shares since the previous reading, and clocks now."""
        now_ns = self._now_ns()
        data = self._stat.read_all()
        counts = _cpu_lines(data)
        row = [_share(self._before.get(core), counts.get(core), 0) for core in self._cores]
        whole_before, whole = self._before.get(-1), counts.get(-1)
        row += [_share(whole_before, whole, field) for field in (0, 1, 2)]
        row.append(_queue_length(data))
        elapsed_us = (now_ns - self._at_ns) / NS_PER_S * US_PER_S
        for index, (_, file) in enumerate(self._pressure):
            total_us = _pressure_total_us(file.read())
            share = (total_us - self._pressed[index]) / elapsed_us if elapsed_us > 0 else NAN
            row.append(min(max(share, 0.0), 1.0) if share == share else NAN)
            self._pressed[index] = total_us
        row += [believable_hz(file.number(HZ_PER_KHZ)) for _, file in self._clocks]
        self._before, self._at_ns = counts, now_ns
        return row

    def close(self) -> None:
        """Close the descriptors."""
        for file in (self._stat, *(file for _, file in self._pressure), *(file for _, file in self._clocks)):
            file.close()


class MemoryProbe:
    """What is free, cached, dirty and swapped, of the whole machine."""

    name = "memory"
    period_s = MEMORY_S
    blocking = False
    _FIELDS = ("MemAvailable", "MemFree", "Cached", "Dirty", "AnonPages", "SwapTotal", "SwapFree")
    columns: Sequence[str] = (
        "available_bytes",
        "free_bytes",
        "cached_bytes",
        "dirty_bytes",
        "anonymous_bytes",
        "swap_used_bytes",
    )

    def __init__(self, root: Path = Path("/")) -> None:
        self._file = KeptFile(root / "proc/meminfo")
        if b"MemFree" not in self._file.read():
            raise ProbeUnavailable(f"{self._file.path} names no memory")

    def read(self) -> list[float]:
        """Return bytes now."""
        values = meminfo(self._file.read())
        available, free, cached, dirty, anonymous, swap, swap_free = (values.get(f, NAN) for f in self._FIELDS)
        return [available, free, cached, dirty, anonymous, swap - swap_free]

    def close(self) -> None:
        """Close the descriptor."""
        self._file.close()


class DiskProbe:
    """Reads and writes of every block device that holds something; counters since boot.

    Loop devices count only while something backs them: that is where a lab's slow medium shows.
    """

    name = "disk"
    period_s = FAST_S
    blocking = False
    _PARTS = ("reads", "read_bytes", "read_s", "writes", "write_bytes", "write_s", "busy_s")

    def __init__(self, root: Path = Path("/")) -> None:
        self._file = KeptFile(root / "proc/diskstats", 16384)
        known = _disk_lines(self._file.read_all())
        self.devices = [name for name in block_devices(root) if name.encode() in known]
        if not self.devices:
            self._file.close()
            raise ProbeUnavailable(f"{self._file.path} names no block device that is also in /sys/block")
        self._keys = [name.encode() for name in self.devices]
        self.columns: Sequence[str] = tuple(f"{device}_{part}" for device in self.devices for part in self._PARTS)

    def read(self) -> list[float]:
        """Return the counters of each device; NaN for one that has gone."""
        lines = _disk_lines(self._file.read_all())
        row: list[float] = []
        for key in self._keys:
            fields = lines.get(key)
            try:
                values = [int(field) for field in fields[3:13]] if fields else []
            except ValueError:
                values = []
            if len(values) < 10:
                row += [NAN] * len(self._PARTS)
                continue
            reads, _, sectors_read, read_ms, writes, _, sectors_written, write_ms, _, busy_ms = values
            row += (
                float(reads),
                float(sectors_read * SECTOR_BYTES),
                read_ms / 1e3,
                float(writes),
                float(sectors_written * SECTOR_BYTES),
                write_ms / 1e3,
                busy_ms / 1e3,
            )
        return row

    def close(self) -> None:
        """Close the descriptor."""
        self._file.close()


def block_devices(root: Path = Path("/")) -> list[str]:
    """Return the whole block devices that hold something: no empty loops, no RAM disks, no empty readers."""
    try:
        names = sorted(os.listdir(root / "sys/block"))
    except OSError:
        return []
    names = [name for name in names if not name.startswith(("ram", "sr", "fd", "nbd"))]
    names = [name for name in names if (text_of(root / "sys/block" / name / "size") or "0") != "0"]
    # A desktop has dozens of loop devices, one for each installed snap; no dataset lies in one.
    backing = {name: text_of(root / "sys/block" / name / "loop/backing_file") or "" for name in names}
    return [name for name in names if "/snapd/snaps/" not in backing[name]][:MAX_DEVICES]


def believable_hz(hertz: float) -> float:
    """Return the clock, or NaN where no core can run so fast."""
    return hertz if 0 <= hertz <= MAX_HZ else NAN


def meminfo(data: bytes) -> dict[str, float]:
    """Return /proc/meminfo's fields in bytes."""
    values: dict[str, float] = {}
    for line in data.split(b"\n"):
        name, _, rest = line.partition(b":")
        number = rest.split()
        if number and number[0].isdigit():
            values[name.decode("ascii", "replace")] = float(int(number[0]) * BYTES_PER_KIB)
    return values


def online_cores(root: Path = Path("/")) -> int | None:
    """Return how many cores are online."""
    cores = numbered(root / "sys/devices/system/cpu", "cpu")
    online = [core for core, path in cores if text_of(path / "online") != "0"]
    return len(online) or None


def _open_all(named: Iterable[tuple[str, Path]]) -> list[tuple[str, KeptFile]]:
    """Open what can be opened of (column, path) pairs."""
    opened = []
    for name, path in named:
        try:
            opened.append((name, KeptFile(path, 256)))
        except ProbeUnavailable:
            continue
    return opened


def _cpu_lines(data: bytes) -> dict[int, tuple[int, int, int, int]]:
    """Return (busy, iowait, steal, all) ticks per core, and of the machine under -1."""
    counts: dict[int, tuple[int, int, int, int]] = {}
    for line in data.split(b"\n"):
        if not line.startswith(b"cpu"):
            break
        fields = line.split()
        label = fields[0][3:]
        if label and not label.isdigit():
            continue
        try:
            ticks = [int(field) for field in fields[1:9]]
        except ValueError:
            continue
        if len(ticks) < 8:
            continue
        # Guest time is already inside user time; adding it would count it twice.
        idle, iowait, steal = ticks[3], ticks[4], ticks[7]
        total = sum(ticks)
        counts[int(label) if label else -1] = (total - idle - iowait - steal, iowait, steal, total)
    return counts


def _share(before: tuple[int, ...] | None, after: tuple[int, ...] | None, field: int) -> float:
    """Return the share of the ticks between two readings that one field had; NaN where no tick passed."""
    if before is None or after is None or after[3] <= before[3]:
        return NAN
    # iowait may fall (the kernel says so), and an idle count corrected backwards would give more than all.
    return min(max((after[field] - before[field]) / (after[3] - before[3]), 0.0), 1.0)


def _queue_length(data: bytes) -> float:
    """Return how many tasks are runnable besides the one that reads this."""
    start = data.rfind(b"procs_running ")
    if start < 0:
        return NAN
    number = data[start + 14 : start + 26].split(b"\n", 1)[0]
    return float(max(int(number) - 1, 0)) if number.isdigit() else NAN


def _pressure_total_us(data: bytes) -> float:
    """Return the microseconds that some task waited, since boot."""
    some = data.split(b"\n", 1)[0]
    total = some.rpartition(b"total=")[2]
    return float(total) if total.isdigit() else NAN


def _disk_lines(data: bytes) -> dict[bytes, list[bytes]]:
    lines = {}
    for line in data.split(b"\n"):
        fields = line.split()
        if len(fields) >= 13:
            lines[fields[2]] = fields
    return lines
