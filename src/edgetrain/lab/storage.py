"""A dataset on a slow storage medium: a disk image behind a server that answers when the medium would.

Training sees a file system on a read-only loop device, whose one backing file is served through FUSE with each
read delayed. The page cache above it is the kernel's own, reads show in diskstats and in each process's I/O counts.
Where there is no loop device or no mkfs the folder itself is served, and only diskstats is lost.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import mmap
import os
import random
import shutil
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from edgetrain.documents import from_document, to_document
from edgetrain.errors import LabError
from edgetrain.lab import fuse, loop
from edgetrain.lab.images import build_image
from edgetrain.lab.queueing import DiskRequest, MediumModel
from edgetrain.lab.readers import read_files
from edgetrain.lab.server import IMAGE_NAME
from edgetrain.lab.sessions import LabSession
from edgetrain.lab.tables import IMAGE_BYTES
from edgetrain.schema import ReadsServed
from edgetrain.units import spell_bytes, spell_seconds

_BLOCK_BYTES = 4096
_START_S = 120.0  # pinning a large image reads it once
_SMALL_READ_BYTES = 4096
_LARGE_READ_BYTES = 124 * 1024
_FLOOR_READS = 120
_MOST_TRIM = 0.2  # of a read's cost
_QUICK_S = 0.003  # cost of a read below which the reader's own share of it matters
_FLOOR_FILES = 60
# An image above this share of the free memory is read from its disk each time instead of kept in memory.
_HELD_SHARE = 0.25


def missing() -> dict[str, str]:
    """Return what a slow disk needs and does not find here, each with the reason."""
    lacks = {}
    if os.geteuid() != 0:
        lacks["root"] = "mounting needs root"
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        lacks["fuse"] = "no /dev/fuse" if not os.path.exists("/dev/fuse") else "no permission for /dev/fuse"
    reason = loop.available()
    if reason:
        lacks["loop"] = reason
    if not shutil.which("mkfs.ext4", path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin"):
        lacks["mkfs"] = "no mkfs.ext4 (package e2fsprogs)"
    return lacks


class SlowDisk:
    """One dataset on one slow medium, mounted at the session's `view`."""

    def __init__(
        self,
        session: LabSession,
        dataset: Path,
        lacks: Mapping[str, str],
        say: Callable[[str], None] = lambda text: None,
    ) -> None:
        self.session = session
        if "root" in lacks or "fuse" in lacks:
            raise LabError(f"a slow disk cannot be set up here: {'; '.join(lacks.values())}")
        self.through_loop = "loop" not in lacks and "mkfs" not in lacks
        self.device: str | None = None
        self.floor_s = self.floor_s_per_byte = self.trim_s = 0.0
        session.view.mkdir(exist_ok=True)
        if self.through_loop:
            image = build_image(dataset, say)
            self.held = image.stat().st_size < _HELD_SHARE * _free_memory_bytes()
            session.disk.mkdir(exist_ok=True)
            self._serve(["--image", str(image), "--at", str(session.disk)])
            self.device, descriptor = loop.attach(str(session.disk / IMAGE_NAME))
            try:
                fuse.mount(self.device, str(session.view), "ext4", fuse.MS_RDONLY | fuse.MS_NOATIME, "")
            except OSError as error:
                raise LabError(f"cannot mount {self.device}: {error.strerror}") from error
            finally:
                os.close(descriptor)
        else:
            self.held = False
            self._serve(["--folder", str(dataset), "--at", str(session.view)])

    def _serve(self, arguments: list[str]) -> None:
        command = [sys.executable, "-m", "edgetrain.lab.server", *arguments, "--control", str(self.session.control)]
        if not self.held:
            command.append("--drop")
        # In a session of its own: a Ctrl-C meant for training must not end the disk it reads from.
        server = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
        )
        assert server.stdout and server.stderr
        if server.stdout.readline().strip() != "ready":
            server.wait(5)
            raise LabError(f"the slow disk's server did not start: {server.stderr.read().strip()[-500:]}")
        server.stdout.close()
        server.stderr.close()
        self.server_pid = server.pid

    def served(self) -> ReadsServed:
        """Return what the server has served."""
        return self._ask(None)

    def _ask(self, request: DiskRequest | None) -> ReadsServed:
        """Send the server a request, or nothing; it answers with its counts."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(5)
            connection.connect(str(self.session.control))
            connection.sendall(json.dumps({} if request is None else to_document(request)).encode())
            return from_document(ReadsServed, json.loads(connection.recv(65536)))

    def calibrate(self) -> None:
        """Measure what a read costs through the mechanism alone; reads then take that much less of a delay."""
        if self.device is None:
            return
        self._ask(DiskRequest())
        small_s = _direct_read_s(self.device, _SMALL_READ_BYTES)
        large_s = _direct_read_s(self.device, _LARGE_READ_BYTES)
        self.floor_s_per_byte = max(0.0, (large_s - small_s) / (_LARGE_READ_BYTES - _SMALL_READ_BYTES))
        self.floor_s = max(0.0, small_s - self.floor_s_per_byte * _SMALL_READ_BYTES)
        # Reading a file also passes the file system and fills pages: part of the floor that only the mount shows.
        extra_s = [
            took_s - self.floor_s - self.floor_s_per_byte * size for size, took_s in _cold_file_reads(self.session.view)
        ]
        if extra_s:
            self.floor_s = max(0.0, self.floor_s + _low(extra_s))

    def become(self, medium: MediumModel) -> None:
        """Emulate a medium; refuses one that is faster than the mechanism itself."""
        floor_s = self.floor_s + self.floor_s_per_byte * IMAGE_BYTES
        if floor_s > medium.cost_s(IMAGE_BYTES):
            raise LabError(
                f"{medium.name} would need {spell_seconds(medium.cost_s(IMAGE_BYTES))} for a read of"
                f" {spell_bytes(IMAGE_BYTES)}, the {'mechanism' if self.held else 'disk below it'} takes"
                f" {spell_seconds(floor_s)} here; ask for a slower medium, or leave the storage as it is"
            )
        self._charge(medium, self.floor_s)
        cost_s = medium.cost_s(IMAGE_BYTES)
        if self.device is None or cost_s > _QUICK_S:
            return
        # A reader that waits, wakes and copies into its own memory takes a little longer than the reads that measured
        # the floor. For a fast medium that matters: measure how long one takes, and shorten the delay accordingly.
        files = _some_files(self.session.view)[: 2 * _FLOOR_FILES]
        if files:
            reading = read_files([[path for path, _ in files]])
            over_s = [took_s - medium.cost_s(size) for took_s, (_, size) in zip(reading.times_s, files, strict=True)]
            self.trim_s = min(_MOST_TRIM * cost_s, max(-_MOST_TRIM * cost_s, statistics.median(over_s)))
            self._charge(medium, max(0.0, self.floor_s + self.trim_s))

    def _charge(self, medium: MediumModel, floor_s: float) -> None:
        self._ask(DiskRequest(medium, floor_s, self.floor_s_per_byte))


def _free_memory_bytes() -> int:
    with open("/proc/meminfo") as file:
        for line in file:
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return 0


def _low(times_s: list[float]) -> float:
    """Return the lower quartile: other load on the machine delays some reads, and is not part of the floor."""
    return statistics.quantiles(times_s, n=4)[0] if len(times_s) > 1 else times_s[0]


def _some_files(view: Path) -> list[tuple[str, int]]:
    """Return files of a mounted dataset that are read in one request, and their sizes, in random order."""
    every = (os.path.join(folder, name) for folder, _, names in os.walk(view) for name in names)
    files = [(path, os.stat(path).st_size) for path in itertools.islice(every, 16 * _FLOOR_FILES)]
    random.Random(0).shuffle(files)  # consecutive files lie next to each other and would need no positioning
    return [(path, size) for path, size in files if _SMALL_READ_BYTES <= size <= _LARGE_READ_BYTES]


def _cold_file_reads(view: Path) -> list[tuple[int, float]]:
    """Read some files of a mounted dataset cold; return size and time of each."""
    reads: list[tuple[int, float]] = []
    for path, size in _some_files(view)[:_FLOOR_FILES]:
        with open(path, "rb", buffering=0) as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            start_s = time.perf_counter()
            file.read(_LARGE_READ_BYTES + 1)
            reads.append((size, time.perf_counter() - start_s))
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    return reads


def _direct_read_s(device: str, size_bytes: int) -> float:
    """Return what a read past the page cache takes, at random offsets."""
    descriptor = os.open(device, os.O_RDONLY | os.O_DIRECT | os.O_CLOEXEC)
    buffer = mmap.mmap(-1, size_bytes)
    places = random.Random(size_bytes)
    try:
        blocks = (os.lseek(descriptor, 0, os.SEEK_END) - size_bytes) // _BLOCK_BYTES
        times_s = []
        for _ in range(_FLOOR_READS):
            offset = places.randrange(max(1, blocks)) * _BLOCK_BYTES
            start_s = time.perf_counter()
            os.preadv(descriptor, [buffer], offset)
            times_s.append(time.perf_counter() - start_s)
    finally:
        os.close(descriptor)
        with contextlib.suppress(BufferError):
            buffer.close()
    return _low(times_s)
