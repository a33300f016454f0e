"""Datasets and loops the tests of this folder train with; importable, so that spawned workers find them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info

from edgetrain.inside import session


class Numbers(Dataset[Any]):
    """Sample i is i, after a short sleep."""

    def __init__(self, count: int = 24, sleep_s: float = 0.0005) -> None:
        self.count, self.sleep_s = count, sleep_s

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> torch.Tensor:
        if self.sleep_s:
            time.sleep(self.sleep_s)
        info = get_worker_info()
        assert info is None or type(info.dataset) is type(self)
        return torch.tensor([index])


class ManyAtOnce(Numbers):
    """Hands out whole batches."""

    def __getitems__(self, indices: list[int]) -> list[torch.Tensor]:
        return [self[index] for index in indices]


class Counted(IterableDataset[Any]):
    """The numbers, shared among the workers."""

    def __init__(self, count: int = 24) -> None:
        self.count = count

    def __iter__(self) -> Iterator[torch.Tensor]:
        info = get_worker_info()
        first, step = (0, 1) if info is None else (info.id, info.num_workers)
        for index in range(first, self.count, step):
            yield torch.tensor([index])


class Fails(Numbers):
    """Raises at one sample."""

    def __getitem__(self, index: int) -> torch.Tensor:
        if index == 13:
            raise ArithmeticError("sample 13 is broken")
        return super().__getitem__(index)


class Straggles(Numbers):
    """Costs next to nothing, but every tenth batch of one stands still for 20 ms."""

    def __init__(self, count: int = 200) -> None:
        super().__init__(count, sleep_s=0.0)

    def __getitem__(self, index: int) -> torch.Tensor:
        if index % 10 == 0:
            time.sleep(0.02)
        return super().__getitem__(index)


def stack(samples: list[torch.Tensor]) -> torch.Tensor:
    """A collate function of the user's."""
    time.sleep(0.001)
    return torch.stack(samples)


def some(samples: list[torch.Tensor]) -> torch.Tensor:
    """A collate function that leaves every second sample out."""
    return torch.stack(samples[::2])


def train(run: Path, loader: DataLoader[Any], epochs: int = 2, step_s: float = 0.0, timing: str = "async") -> list[int]:
    """Record a loop over a loader; return the samples it saw."""
    recording = session.begin(run, timing)
    seen: list[int] = []
    try:
        for epoch in range(epochs):
            recording.epoch(epoch)
            for batch in loader:
                recording.copying()
                recording.copied()
                if step_s:
                    time.sleep(step_s)
                seen += batch.flatten().tolist()
                recording.launched()
            recording.epoch_done(epoch, 1.0 / (epoch + 1))
    finally:
        recording.end()
    return seen
