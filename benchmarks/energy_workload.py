"""Two trainings for the energy benchmark: one that never waits, one that stands still at known instants.

Named as `energy_workload:steady` and `energy_workload:paced` to `edgetrain run`, with this folder on PYTHONPATH.
"""

from __future__ import annotations

import os
import time
from typing import Any

import torch
from torch.utils.data import Dataset

from edgetrain.workload.networks import build

SAMPLES = 4_000_000  # more than any run takes
# A planted stall, long against any power sensor's refresh, and the training between two of them.
STALL_S = float(os.environ.get("ENERGY_STALL_S", "2.0"))
TRAIN_S = float(os.environ.get("ENERGY_TRAIN_S", "3.0"))


class Pictures(Dataset[Any]):
    """A few pictures again and again; in the loop's own process it can stand still by the clock."""

    def __init__(self, paced: bool) -> None:
        generator = torch.Generator().manual_seed(0)
        self._pictures = torch.rand(64, 3, 224, 224, generator=generator)
        self._paced, self._last = paced, 0.0

    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        if self._paced:
            now = time.monotonic()
            self._last = self._last or now
            if now - self._last >= TRAIN_S:
                time.sleep(STALL_S)
                self._last = time.monotonic()
        return self._pictures[index % 64], index % 1000


def steady() -> dict[str, Any]:
    return {"network": build("resnet18", 1000), "dataset": Pictures(paced=False), "batch_size": 16}


def paced() -> dict[str, Any]:
    return {"network": build("resnet18", 1000), "dataset": Pictures(paced=True), "batch_size": 16}
