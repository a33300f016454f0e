"""A workload for scoring what-if answers: pictures decoded by Pillow, a small network on one CPU thread.

edgetrain run whatif_workloads:small_cnn --dataset FOLDER --compute cpu
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import nn
from torch.utils.data import Dataset

SIDE = 96  # pixels of the network's input
WIDTH = 18  # channels of its first layer: a step of 16 takes 50 to 80 ms on one thread


class Pictures(Dataset[Any]):
    """The JPEGs below a folder, decoded and resized."""

    def __init__(self, folder: str) -> None:
        self.paths = sorted(str(path) for path in Path(folder).rglob("*.jpg"))

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        with Image.open(self.paths[index]) as picture:
            pixels = np.asarray(picture.convert("RGB").resize((SIDE, SIDE), Image.Resampling.BILINEAR))
        return torch.from_numpy(pixels.copy()).permute(2, 0, 1).float().div_(255), index % 10


def small_cnn(dataset: str) -> dict[str, Any]:
    """Return a small convolutional network that computes on one thread, and its pictures."""
    torch.set_num_threads(1)
    width = WIDTH
    network = nn.Sequential(
        nn.Conv2d(3, width, 3, 2, 1), nn.ReLU(),
        nn.Conv2d(width, 2 * width, 3, 2, 1), nn.ReLU(),
        nn.Conv2d(2 * width, 2 * width, 3, 1, 1), nn.ReLU(),
        nn.Conv2d(2 * width, 4 * width, 3, 2, 1), nn.ReLU(),
        nn.Conv2d(4 * width, 4 * width, 3, 1, 1), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4 * width, 10),
    )  # fmt: skip
    return {"network": network, "dataset": Pictures(dataset), "dataset_path": dataset}
