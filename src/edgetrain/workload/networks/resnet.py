"""ResNet-18 (11,689,512 parameters with 1000 classes) and the papers' CIFAR-10 variant with GroupNorm."""

from __future__ import annotations

from typing import Callable

import torch
from torch import nn
from torch.nn import functional

GROUPS = 32  # Wu and He's default for GroupNorm

Norm = Callable[[int], nn.Module]


def _group_norm(channels: int) -> nn.Module:
    return nn.GroupNorm(GROUPS, channels)


class BasicBlock(nn.Module):
    """Two 3x3 convolutions and a shortcut."""

    def __init__(self, channels: int, width: int, stride: int, norm: Norm) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, width, 3, stride=stride, padding=1, bias=False)
        self.bn1 = norm(width)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.bn2 = norm(width)
        self.downsample: nn.Module | None = None
        if stride != 1 or channels != width:
            self.downsample = nn.Sequential(nn.Conv2d(channels, width, 1, stride=stride, bias=False), norm(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the block's output."""
        shortcut = x if self.downsample is None else self.downsample(x)
        x = functional.relu(self.bn1(self.conv1(x)), inplace=True)
        return functional.relu(self.bn2(self.conv2(x)) + shortcut, inplace=True)


class _ResNet(nn.Module):
    """What both variants share: four stages of two blocks, pool, full layer. Names as torchvision's."""

    def __init__(self, classes: int, stem: nn.Conv2d, norm: Norm, pool: bool) -> None:
        super().__init__()
        self.conv1 = stem
        self.bn1 = norm(64)
        self.maxpool: nn.Module = nn.MaxPool2d(3, stride=2, padding=1) if pool else nn.Identity()
        channels = 64
        for stage, width in enumerate((64, 128, 256, 512), start=1):
            stride = 1 if stage == 1 else 2
            blocks = BasicBlock(channels, width, stride, norm), BasicBlock(width, width, 1, norm)
            setattr(self, f"layer{stage}", nn.Sequential(*blocks))
            channels = width
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(512, classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the class scores of images."""
        x = self.maxpool(functional.relu(self.bn1(self.conv1(x)), inplace=True))
        for stage in range(1, 5):
            x = getattr(self, f"layer{stage}")(x)
        return self.fc(self.avgpool(x).flatten(1))


class ResNet18(_ResNet):
    """As published: 7x7 stem of stride 2, max pool, BatchNorm."""

    def __init__(self, classes: int = 1000) -> None:
        stem = nn.Conv2d(3, 64, 7, stride=2, padding=3, bias=False)
        super().__init__(classes, stem, nn.BatchNorm2d, pool=True)


class ResNet18CifarGN(_ResNet):
    """The papers' CIFAR-10 variant: 3x3 stem, no max pool, GroupNorm (BatchNorm suits federated training badly)."""

    def __init__(self, classes: int = 10) -> None:
        super().__init__(classes, nn.Conv2d(3, 64, 3, padding=1, bias=False), _group_norm, pool=False)
