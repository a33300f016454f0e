"""Datasets that lose time for a known cause, and log it themselves: the truth the attribution is judged against.

A sample is a row of four numbers: the seconds of thread CPU, of standing still, and of waiting for a core that making
it took, and its index. The log does not use the kernel's run-queue counter that the rule uses: a spin that took more
wall than CPU time waited for a core, a sleep that overslept did too.
"""

from __future__ import annotations

import hashlib
import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.data import Dataset, IterableDataset, get_worker_info

Log = tuple[float, float, float]  # CPU, blocked, waiting for a core, in seconds
NOTHING: Log = (0.0, 0.0, 0.0)
_BUFFER = bytes(64 * 1024)  # hashed without the interpreter's lock


def sleep(seconds: float) -> Log:
    """Stand still."""
    start, cpu = time.perf_counter(), time.thread_time()
    time.sleep(seconds)
    wall, cpu = time.perf_counter() - start, time.thread_time() - cpu
    return cpu, min(seconds, wall), max(0.0, wall - seconds - cpu)


def spin(seconds: float) -> Log:
    """Compute in pure Python, holding the interpreter's lock."""
    start, cpu = time.perf_counter(), time.thread_time()
    while time.thread_time() - cpu < seconds:
        sum(range(200))
    return _computed(start, cpu)


def hash_(seconds: float) -> Log:
    """Compute in C, without the interpreter's lock."""
    start, cpu = time.perf_counter(), time.thread_time()
    while time.thread_time() - cpu < seconds:
        hashlib.sha256(_BUFFER)
    return _computed(start, cpu)


def _computed(start: float, cpu: float) -> Log:
    wall, used = time.perf_counter() - start, time.thread_time() - cpu
    return used, 0.0, max(0.0, wall - used)


def pipe(seconds: float) -> Log:
    """Wait for a byte from a pipe that another thread writes after a sleep; all it takes to do so is logged.

    The CPU time of that thread too: to start and to wake takes it a tenth of a millisecond.
    """
    start, cpu = time.perf_counter(), time.thread_time()
    reader, writer = os.pipe()
    helped = [0.0]

    def write() -> None:
        os.write(writer, b"x")
        helped[0] = time.thread_time()

    timer = threading.Timer(seconds, write)
    timer.start()
    os.read(reader, 1)
    timer.join()
    os.close(reader)
    os.close(writer)
    wall = time.perf_counter() - start
    used = min(time.thread_time() - cpu + helped[0], wall)
    return used, wall - used, 0.0


def add(*logs: Log) -> Log:
    """Sum logs."""
    return tuple(map(sum, zip(*logs, strict=True)))  # type: ignore[return-value]


class Injected(Dataset[Any]):
    """Loses time by a function of the sample's index, and returns the log."""

    def __init__(self, samples: int, lose: Callable[[int], Log]) -> None:
        self.samples, self.lose = samples, lose

    def __len__(self) -> int:
        return self.samples

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.tensor([*self.lose(index), float(index)], dtype=torch.float64)


class InjectedStream(IterableDataset[Any]):
    """The same, as a stream shared among the workers."""

    def __init__(self, samples: int, lose: Callable[[int], Log]) -> None:
        self.samples, self.lose = samples, lose

    def __len__(self) -> int:
        return self.samples

    def __iter__(self) -> Iterator[torch.Tensor]:
        info = get_worker_info()
        first, step = (0, 1) if info is None else (info.id, info.num_workers)
        for index in range(first, self.samples, step):
            yield torch.tensor([*self.lose(index), float(index)], dtype=torch.float64)


class Pool(Dataset[Any]):
    """Loses time in helper threads while the fetching thread waits for them; one batch a sample."""

    def __init__(self, batches: int, size: int, threads: int, lose: Callable[[int], Log]) -> None:
        self.batches, self.size, self.threads, self.lose = batches, size, threads, lose
        self.pool: ThreadPoolExecutor | None = None

    def __len__(self) -> int:
        return self.batches

    def __getitem__(self, index: int) -> torch.Tensor:
        if self.pool is None:
            self.pool = ThreadPoolExecutor(self.threads)
        logs = list(self.pool.map(self.lose, range(index * self.size, (index + 1) * self.size)))
        return torch.tensor([[*log, float(index)] for log in logs], dtype=torch.float64)


class Huge(Dataset[Any]):
    """Costs nothing to make and much to hand over: one array a sample, one sample a batch."""

    def __init__(self, batches: int, megabytes: int, tensors: bool) -> None:
        self.batches, self.tensors = batches, tensors
        self.array = np.ones(megabytes << 17, np.float64)

    def __len__(self) -> int:
        return self.batches

    def __getitem__(self, index: int) -> Any:
        # A tensor has to be copied into shared memory, an array through a pipe: both by the sender, not the fetch.
        return torch.from_numpy(self.array) if self.tensors else self.array


class Files(Dataset[Any]):
    """Reads whole files (or maps them) and sums their bytes."""

    def __init__(self, paths: list[Path], mapped: bool = False) -> None:
        self.paths, self.mapped = paths, mapped

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> torch.Tensor:
        if self.mapped:
            total = int(np.memmap(self.paths[index], np.uint8, "r").sum())
        else:
            total = int(np.frombuffer(self.paths[index].read_bytes(), np.uint8).sum())
        return torch.tensor([*NOTHING, float(total)], dtype=torch.float64)


def write_files(folder: Path, count: int, size: int) -> list[Path]:
    """Write files of incompressible bytes, once."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{index:05d}.bin" for index in range(count)]
    random = np.random.default_rng(0)
    for path in paths:
        if not path.exists() or path.stat().st_size != size:
            path.write_bytes(random.bytes(size))
    os.sync()
    return paths


def make_cold(paths: list[Path]) -> None:
    """Ask the kernel to forget files."""
    for path in paths:
        fd = os.open(path, os.O_RDONLY)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(fd)
