"""A dataset on a slow storage medium: a disk image behind a server that answers when the medium would.

Training sees a file system on a read-only loop device, whose one backing file is served through FUSE with each
read delayed. The page cache above it is the kernel's own, reads show in diskstats and in each process's I/O counts.
Where there is no loop device or no mkfs the folder itself is served, and only diskstats is lost.
"""

from __future__ import annotations

import contextlib
import hashlib
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
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgetrain.errors import LabError
from edgetrain.lab import fuse, loop
from edgetrain.lab.queueing import Medium
from edgetrain.lab.readers import read_files
from edgetrain.lab.server import IMAGE_NAME
from edgetrain.lab.sessions import Session
from edgetrain.lab.tables import IMAGE_BYTES
from edgetrain.units import spell_bytes, spell_seconds

_BLOCK_BYTES = 4096
_START_S = 120.0  # pinning a large image reads it once
_SMALL_READ_BYTES = 4096
_LARGE_READ_BYTES = 124 * 1024
_FLOOR_READS = 120
_MOST_TRIM = 0.2  # of a read's cost
_QUICK_S = 0.003  # a read's cost below which a reader's own share of it shows
_FLOOR_FILES = 60
# An image above this share of the free memory is read from its disk each time instead of held.
_HELD_SHARE = 0.25


@dataclass(frozen=True, slots=True)
class Folder:
    """How many files a dataset has, and how large they are on a disk."""

    files: int
    folders: int
    size_bytes: int
    on_disk_bytes: int
    newest_ns: int


def measure_folder(path: Path) -> Folder:
    """Count a dataset's files."""
    files = folders = size_bytes = on_disk_bytes = newest_ns = 0
    for node in fuse.folder_tree(str(path)):
        if node.is_folder:
            folders += 1
            newest_ns = max(newest_ns, os.stat(node.path).st_mtime_ns)
        else:
            files += 1
            size_bytes += node.size_bytes
            on_disk_bytes += -(-node.size_bytes // _BLOCK_BYTES) * _BLOCK_BYTES
            newest_ns = max(newest_ns, node.mtime_s * 10**9)
    return Folder(files, folders, size_bytes, on_disk_bytes, newest_ns)


def images_folder() -> Path:
    """Return where disk images are kept between sessions."""
    own = os.environ.get("EDGETRAIN_LAB_IMAGES")
    return Path(own) if own else Path("/var/cache/edgetrain/lab")


def build_image(dataset: Path, say: Callable[[str], None] = lambda text: None) -> Path:
    """Return a disk image that holds the dataset, made once and kept."""
    about = measure_folder(dataset)
    if about.files == 0:
        raise LabError(f"{dataset} has no files: there is nothing to put on a storage medium")
    key = f"{dataset.resolve()}|{about.files}|{about.size_bytes}|{about.newest_ns}"
    image = images_folder() / f"{hashlib.sha256(key.encode()).hexdigest()[:16]}.ext4"
    if image.exists():
        return image
    images_folder().mkdir(parents=True, exist_ok=True, mode=0o700)
    forget_images()
    inodes = about.files + about.folders + 64
    size_bytes = int(about.on_disk_bytes * 1.02) + (inodes + about.folders) * 512 + about.folders * 16384 + (32 << 20)
    free_bytes = shutil.disk_usage(images_folder()).free
    if size_bytes > free_bytes:
        raise LabError(
            f"the disk image of {dataset} needs {spell_bytes(size_bytes)}, {images_folder()} has"
            f" {spell_bytes(free_bytes)}; free some, or set EDGETRAIN_LAB_IMAGES to another folder"
        )
    say(f"making a disk image of {about.files} files ({spell_bytes(about.size_bytes)}), once")
    temporary = image.with_suffix(f".{os.getpid()}.tmp")
    with open(temporary, "wb") as file:
        file.truncate(size_bytes)
    command = ["mkfs.ext4", "-q", "-F", "-m", "0", "-b", str(_BLOCK_BYTES), "-N", str(inodes + 16)]
    command += [
        "-O",
        "^has_journal,^resize_inode",
        "-E",
        "nodiscard,lazy_itable_init=0",
        "-d",
        str(dataset),
        str(temporary),
    ]
    environment = dict(os.environ, PATH=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode:
        temporary.unlink()
        raise LabError(f"mkfs.ext4 could not make the disk image: {done.stderr.strip() or done.returncode}")
    # Otherwise the kernel is still writing it while it is measured.
    descriptor = os.open(temporary, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)
    image.with_suffix(".of").write_text(str(dataset.resolve()))
    os.replace(temporary, image)
    return image


def forget_images(every: bool = False) -> int:
    """Remove the images of datasets that are gone, or all; return how many."""
    gone = 0
    for image in images_folder().glob("*.ext4"):
        note = image.with_suffix(".of")
        try:
            known = Path(note.read_text()).is_dir()
        except OSError:
            known = False
        if every or not known:
            # An image in use stays readable for its server until that ends.
            image.unlink(missing_ok=True)
            note.unlink(missing_ok=True)
            gone += 1
    return gone


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

    def __init__(self, session: Session, dataset: Path, say: Callable[[str], None] = lambda text: None) -> None:
        self.session = session
        lacks = missing()
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
        # Its own session: a Ctrl-C meant for training must not take the disk from under it.
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

    def ask(self, question: dict[str, Any]) -> dict[str, Any]:
        """Tell the server something; it answers with its counts."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(5)
            connection.connect(str(self.session.control))
            connection.sendall(json.dumps(question).encode())
            answer: dict[str, Any] = json.loads(connection.recv(65536))
        return answer

    def calibrate(self) -> None:
        """Measure what a read costs through the mechanism alone; reads then take that much less of a delay."""
        if self.device is None:
            return
        self.ask({"medium": None})
        small_s = _direct_read_s(self.device, _SMALL_READ_BYTES)
        large_s = _direct_read_s(self.device, _LARGE_READ_BYTES)
        self.floor_s_per_byte = max(0.0, (large_s - small_s) / (_LARGE_READ_BYTES - _SMALL_READ_BYTES))
        self.floor_s = max(0.0, small_s - self.floor_s_per_byte * _SMALL_READ_BYTES)
        # A file's read also passes the file system and fills pages: part of the floor, seen only through the mount.
        extra_s = [
            took_s - self.floor_s - self.floor_s_per_byte * size for size, took_s in _cold_file_reads(self.session.view)
        ]
        if extra_s:
            self.floor_s = max(0.0, self.floor_s + _low(extra_s))

    def become(self, medium: Medium) -> None:
        """Take on a medium; refuses one that is faster than the mechanism itself."""
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
        # A reader that waits, wakes and copies into its own memory takes a little longer than the floor's reads: for a
        # quick medium that shows, so it is seen how long one does take, and the rest comes off the delay.
        files = _some_files(self.session.view)[: 2 * _FLOOR_FILES]
        if files:
            reading = read_files([[path for path, _ in files]])
            over_s = [took_s - medium.cost_s(size) for took_s, (_, size) in zip(reading.times_s, files, strict=True)]
            self.trim_s = min(_MOST_TRIM * cost_s, max(-_MOST_TRIM * cost_s, statistics.median(over_s)))
            self._charge(medium, max(0.0, self.floor_s + self.trim_s))

    def _charge(self, medium: Medium, floor_s: float) -> None:
        self.ask({"medium": medium.as_dict(), "floor_s": floor_s, "floor_s_per_byte": self.floor_s_per_byte})


def _free_memory_bytes() -> int:
    with open("/proc/meminfo") as file:
        for line in file:
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return 0


def _low(times_s: list[float]) -> float:
    """Return the lower quartile: other load on the machine makes some reads late, and is not part of the floor."""
    return statistics.quantiles(times_s, n=4)[0] if len(times_s) > 1 else times_s[0]


def _some_files(view: Path) -> list[tuple[str, int]]:
    """Return files of a mounted dataset that are read in one request, and their sizes, in no order."""
    every = (os.path.join(folder, name) for folder, _, names in os.walk(view) for name in names)
    files = [(path, os.stat(path).st_size) for path in itertools.islice(every, 16 * _FLOOR_FILES)]
    random.Random(0).shuffle(files)  # files written one after the other lie so, and a medium need not move between them
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
    """Return what a read past the page cache takes, at random places."""
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
