"""The slow disk's server: serves a disk image or a folder through FUSE, each read when its medium would be done.

    python -m edgetrain.lab.server --image IMAGE|--folder FOLDER --at MOUNTPOINT --control SOCKET

At first it answers as fast as it can; the medium and the measured floor arrive over the control socket (one JSON
object in, one out), which also returns counts of what was served. It ends when its mount is gone.
Standard library only, one thread: a loop that waits for requests and for the next answer that is due.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import heapq
import json
import mmap
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Mapping
from types import FrameType
from typing import Any

from edgetrain.lab.fuse import FuseMount, file_tree, folder_tree, unmount
from edgetrain.lab.queueing import MediumModel, MediumQueue

IMAGE_NAME = "disk"
_MOST_OPEN = 256
_PR_SET_TIMERSLACK = 29
_MCL_CURRENT = 1
# Waking up costs some tens of microseconds, on a virtual machine sometimes hundreds; the last stretch before an answer
# is due is spent spinning: longer where there are cores to spare.
_SPIN_S = 30e-6 if (os.cpu_count() or 1) < 8 else 300e-6


class SlowReads:
    """Delays the answer to each read until its medium would be done with it."""

    def __init__(self, target: str, image: str | None, folder: str | None, keep: bool) -> None:
        nodes = file_tree(image, IMAGE_NAME) if image else folder_tree(str(folder))
        self.mount = FuseMount(target, nodes, self._on_read)
        self.queue = MediumQueue(None)
        self.keep = keep
        self.reads = 0
        self.read_bytes = 0
        self.late_s = 0.0
        self._due: list[tuple[float, int, int, int, int]] = []
        self._open: dict[int, int] = {}
        self._image: memoryview | None = None
        if image and keep:
            with open(image, "rb") as file:
                self._image = memoryview(mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ))
            # Pinned: dropping the page cache for training must leave the disk below it alone.
            ctypes.CDLL(None).mlockall(_MCL_CURRENT)

    def _on_read(self, unique: int, node: int, offset: int, size: int) -> None:
        due_s = self.queue.admit(time.monotonic(), node, offset, size)
        if due_s <= time.monotonic():
            self._send(unique, node, offset, size)
        else:
            heapq.heappush(self._due, (due_s, unique, node, offset, size))

    def _send(self, unique: int, node: int, offset: int, size: int) -> None:
        try:
            # The disk image is mapped: one copy, page cache to reader, instead of two.
            data = (
                self._image[offset : offset + size] if self._image else os.pread(self._descriptor(node), size, offset)
            )
        except OSError as error:
            self.mount.reply(unique, b"", error.errno or 5)
            return
        self.mount.reply(unique, data)
        self.reads += 1
        self.read_bytes += len(data)
        if not self.keep:
            os.posix_fadvise(self._descriptor(node), offset, size, os.POSIX_FADV_DONTNEED)

    def _descriptor(self, node: int) -> int:
        descriptor = self._open.get(node)
        if descriptor is None:
            if len(self._open) >= _MOST_OPEN:
                os.close(self._open.pop(next(iter(self._open))))
            descriptor = os.open(self.mount.nodes[node - 1].path, os.O_RDONLY | os.O_CLOEXEC)
            self._open[node] = descriptor
        return descriptor

    def serve(self, control: socket.socket) -> None:
        """Answer until the mount is gone."""
        waited = [self.mount.fd, control.fileno()]
        while not self.mount.ended:
            now_s = time.monotonic()
            while self._due and self._due[0][0] <= now_s:
                due_s, unique, node, offset, size = heapq.heappop(self._due)
                self.late_s += now_s - due_s
                self._send(unique, node, offset, size)
                now_s = time.monotonic()
            # select, not epoll: its timeout is in microseconds on every kernel.
            left_s = max(0.0, self._due[0][0] - now_s - _SPIN_S) if self._due else 60.0
            ready = select.select(waited, [], [], left_s)[0]
            if self.mount.fd in ready:
                while self.mount.take() and not self.mount.ended:
                    if self._due and self._due[0][0] <= time.monotonic():
                        break
            if waited[1] in ready:
                self._command(control)

    def _command(self, control: socket.socket) -> None:
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            connection, _ = control.accept()
            with connection:
                connection.settimeout(1.0)
                asked = json.loads(connection.recv(65536))
                if "medium" in asked:
                    medium = read_medium(asked["medium"]) if asked["medium"] else None
                    floor_s, floor_s_per_byte = float(asked["floor_s"]), float(asked["floor_s_per_byte"])
                    self.queue = MediumQueue(medium, floor_s, floor_s_per_byte)
                answer = {"reads": self.reads, "read_bytes": self.read_bytes, "late_s": self.late_s}
                connection.sendall(json.dumps(answer).encode())


def read_medium(document: Mapping[str, Any]) -> MediumModel:
    """Read a medium from the control socket's JSON."""
    return MediumModel(
        str(document["name"]),
        float(document["read_s"]),
        float(document["bytes_per_s"]),
        int(document["at_once"]),
        tuple((int(depth), float(factor)) for depth, factor in document["gain"]),
        str(document["source"]),
    )


def main() -> int:
    """Serve until unmounted."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--image")
    parser.add_argument("--folder")
    parser.add_argument("--at", required=True)
    parser.add_argument("--control", required=True)
    parser.add_argument("--drop", action="store_true", help="do not keep the image in the page cache")
    options = parser.parse_args()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is meant for training; the lab ends the server after it
    ctypes.CDLL(None).prctl(_PR_SET_TIMERSLACK, 1, 0, 0, 0)
    with contextlib.suppress(OSError):
        os.nice(-15)  # a late answer is an error of the emulation, not of the medium
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("-500")
    control = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    control.bind(options.control)
    control.listen(4)
    reads = SlowReads(options.at, options.image, options.folder, keep=not options.drop)

    def leave(number: int, frame: FrameType | None) -> None:
        with contextlib.suppress(OSError):
            unmount(options.at, lazy=True)
        sys.exit(0)

    signal.signal(signal.SIGTERM, leave)
    print("ready", flush=True)
    # Nothing reads our output from here on.
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    reads.serve(control)
    return 0


if __name__ == "__main__":
    sys.exit(main())
