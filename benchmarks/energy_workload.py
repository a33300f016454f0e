"""Trainings for the energy benchmarks: one that never waits, others that stand still at known instants.

Named as `energy_workload:steady` and `energy_workload:paced` to `edgetrain run`, with this folder on PYTHONPATH. The
pictures stay on the accelerator and the loader hands out labels alone, so that only what is injected makes the loop
wait; 64 of them a minibatch keep the accelerator busier than the host that feeds it.
"""

from __future__ import annotations

import json
import os
import time
from typing import Any

import torch
from torch import nn
from torch.utils.data import Dataset

from edgetrain.workload.networks import build

BATCH_SIZE = 64
SAMPLES = 2_000_000  # more than any run takes
# An injected stall, long against any power sensor's refresh, and the training between two of them.
STALL_S = float(os.environ.get("ENERGY_STALL_S", "2.0"))
TRAIN_S = float(os.environ.get("ENERGY_TRAIN_S", "3.0"))


class Labels(Dataset[Any]):
    """Labels; in the loop's own process it can stand still by the clock."""

    def __init__(self, paced: bool) -> None:
        self._paced, self._last = paced, 0.0

    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, index: int) -> int:
        if self._paced:
            now = time.monotonic()
            self._last = self._last or now
            if now - self._last >= TRAIN_S:
                time.sleep(STALL_S)
                self._last = time.monotonic()
        return index % 1000


class Step:
    """One step on pictures that are where the network is."""

    def __init__(self) -> None:
        self._pictures: torch.Tensor | None = None

    def __call__(self, network: nn.Module, labels: torch.Tensor) -> torch.Tensor:
        if self._pictures is None or len(self._pictures) != len(labels):
            self._pictures = torch.rand(len(labels), 3, 224, 224, device=next(network.parameters()).device)
        return nn.functional.cross_entropy(network(self._pictures), labels.to(self._pictures.device))


def _workload(paced: bool) -> dict[str, Any]:
    network, step = build("resnet18", 1000), Step()
    return {"network": network, "dataset": Labels(paced), "step": step, "batch_size": BATCH_SIZE}


def steady() -> dict[str, Any]:
    """Train without ever waiting."""
    return _workload(paced=False)


def paced() -> dict[str, Any]:
    """Train for three seconds, stand still for two, again and again; needs workers = 0."""
    return _workload(paced=True)


class LabelsWithStalls(Dataset[Any]):
    """Labels; before each minibatch the loader sleeps as long as a list in the environment says, over and over."""

    def __init__(self) -> None:
        self._stalls_ms = json.loads(os.environ["ENERGY_STALLS_MS"])
        self._calls = 0

    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, index: int) -> int:
        minibatch, first = divmod(self._calls, BATCH_SIZE)
        self._calls += 1
        if first == 0:
            stall_ms = self._stalls_ms[minibatch % len(self._stalls_ms)]
            if stall_ms:
                time.sleep(stall_ms / 1e3)
        return index % 1000


def injected() -> dict[str, Any]:
    """Train the network that the environment names with the stalls it lists."""
    network = build(os.environ.get("ENERGY_NETWORK", "resnet18"), 1000)
    return {"network": network, "dataset": LabelsWithStalls(), "step": Step(), "batch_size": BATCH_SIZE}
