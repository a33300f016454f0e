"""Workloads with a known cause of waiting, for benchmarks/verdicts.yaml.

`case` reads what to do per sample from the variable EDGETRAIN_VERDICT_CASE (JSON): read a file, sleep, hold a lock that
all workers share, compute, return a number of kB.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import nn
from torch.utils.data import Dataset

_BUFFER = bytes(64 * 1024)  # hashed without the interpreter's lock
SAMPLES = 640
BATCH = 16


class Case(Dataset[Any]):
    """Loses time per sample as asked."""

    def __init__(self, about: dict[str, Any], folder: str | None, samples: int) -> None:
        self.about, self.samples = about, samples
        self.paths: list[str] = []
        if folder is not None and (about.get("pictures") or about.get("files")):
            ending = "*.jpg" if about.get("pictures") else "*.bin"
            self.paths = sorted(str(path) for path in Path(folder).rglob(ending))
            self.samples = len(self.paths)
        self.lock_path = os.path.join(tempfile.gettempdir(), f"edgetrain-verdict-{os.getpid()}.lock")
        kilobytes = about.get("sample_kb", 1)
        self.array = np.ones(kilobytes * 256, np.float32)

    def __len__(self) -> int:
        return self.samples

    def __getitem__(self, index: int) -> Any:
        about = self.about
        if about.get("pictures"):
            with Image.open(self.paths[index]) as picture:
                np.asarray(picture.convert("RGB").resize((96, 96)))
        elif about.get("files"):
            Path(self.paths[index]).read_bytes()
        if about.get("sleep_ms"):
            time.sleep(about["sleep_ms"] / 1e3)
        if about.get("lock_ms"):
            with open(self.lock_path, "w") as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                time.sleep(about["lock_ms"] / 1e3)
        until = time.thread_time() + about.get("cpu_ms", 0) / 1e3
        while time.thread_time() < until:
            hashlib.sha256(_BUFFER)
        if about.get("pickled"):
            return self.array
        return torch.from_numpy(self.array)


def kept_together(samples: list[Any]) -> Any:
    """Collate without copying where arrays are to be pickled."""
    if isinstance(samples[0], np.ndarray):
        return samples
    return torch.stack(samples)


def _about() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(os.environ.get("EDGETRAIN_VERDICT_CASE", "{}"))
    return found


def _mean_loss(network: nn.Module, minibatch: Any) -> torch.Tensor:
    return network(torch.zeros(1, 1)).mean()


def case(dataset: str | None = None) -> dict[str, Any]:
    """Return a dataset that loses time as asked, for a paced step."""
    torch.set_num_threads(1)
    about = _about()
    data = Case(about, dataset, about.get("samples", SAMPLES))
    return {
        "network": nn.Linear(1, 1), "dataset": data, "step": _mean_loss, "batch_size": BATCH,
        "collate": kept_together, **({"dataset_path": dataset} if dataset else {}),
    }  # fmt: skip


class InMemory(Dataset[Any]):
    """The same few tensors again and again."""

    def __init__(self, samples: int, *shape: int) -> None:
        self.samples, self.sample = samples, torch.randn(*shape)

    def __len__(self) -> int:
        return self.samples

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return self.sample, index % 10


def wide_step() -> dict[str, Any]:
    """Return a step whose cost is mostly the same for any batch size: a large layer that is read whole each time."""
    torch.set_num_threads(2)
    network = nn.Sequential(nn.Flatten(), nn.Linear(1024, 4096), nn.ReLU(), nn.Linear(4096, 4096), nn.Linear(4096, 10))
    return {"network": network, "dataset": InMemory(640, 1024), "batch_size": 4}


class KeptMinibatch:
    """Collates into one minibatch that lies ready in memory: making it costs nothing, only moving it does."""

    def __init__(self, sample_kb: int, pinned: bool) -> None:
        self.sample_kb, self.pinned, self.minibatch = sample_kb, pinned, torch.empty(0)

    def __call__(self, samples: list[Any]) -> torch.Tensor:
        if len(self.minibatch) < len(samples):
            self.minibatch = torch.ones(len(samples), self.sample_kb * 256)
            if self.pinned:
                self.minibatch = self.minibatch.pin_memory()
        return self.minibatch[: len(samples)]


def one_layer() -> dict[str, Any]:
    """Return a step that hardly computes anything on a large minibatch."""
    about = _about()

    def step(network: nn.Module, minibatch: torch.Tensor) -> torch.Tensor:
        return network(minibatch[:, :16]).mean()

    return {
        "network": nn.Linear(16, 1), "dataset": InMemory(about.get("samples", 1024), 1), "step": step, "batch_size": 8,
        "collate": KeptMinibatch(about["sample_kb"], about.get("pinned", False)),
    }  # fmt: skip


def kept_lenet() -> dict[str, Any]:
    """Return LeNet on samples that lie in memory."""
    network = nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.AvgPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(), nn.AvgPool2d(2),
        nn.Flatten(), nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10),
    )  # fmt: skip
    return {"network": network, "dataset": InMemory(8000, 1, 28, 28), "batch_size": 4}


def deep_narrow() -> dict[str, Any]:
    """Return two hundred small layers: as many kernels with hardly any work in them."""
    layers = [nn.Sequential(nn.Linear(16, 16), nn.ReLU()) for _ in range(200)]
    network = nn.Sequential(nn.Flatten(), *layers, nn.Linear(16, 10))
    return {"network": network, "dataset": InMemory(2000, 16), "batch_size": 4}


def kept_mobilenet() -> dict[str, Any]:
    """Return MobileNetV3 on samples that lie in memory."""
    from edgetrain.workload import networks

    return {"network": networks.build("mobilenet_v3", 10), "dataset": InMemory(300, 3, 224, 224), "batch_size": 1}
