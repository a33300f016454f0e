"""A network deep enough to keep a fast GPU's host busy for longer than fetching takes, on the papers' pictures.

Named as `lab_gpu_workload:deep` to `edgetrain run`, with this folder on PYTHONPATH.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from edgetrain.workload import entry, open_dataset, survey
from edgetrain.workload.networks.resnet import BasicBlock
from edgetrain.workload.transforms import for_workload

BLOCKS = (4, 12, 54, 5)  # of 64, 128, 256 and 512 channels: 150 convolutions


def deep(dataset: str) -> dict[str, Any]:
    """Return the network and the pictures in a folder."""
    layers: list[nn.Module] = [nn.Conv2d(3, 64, 7, stride=2, padding=3), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(2)]
    channels = 64
    for width, count in zip((64, 128, 256, 512), BLOCKS, strict=True):
        for _ in range(count):
            layers.append(BasicBlock(channels, width, 1 if channels == width else 2, nn.BatchNorm2d))
            channels = width
    known = entry("mobilenet_v3")
    pictures = open_dataset(survey(dataset, known), for_workload(known))
    torch.manual_seed(0)
    network = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, known.classes))
    return {"network": network, "dataset": pictures, "batch_size": 8}
