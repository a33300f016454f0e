"""MobileNetV3-Large, 5,483,032 parameters with 1000 classes; names as torchvision's `mobilenet_v3_large`."""

from __future__ import annotations

from functools import partial

import torch
from torch import nn

# kernel, expanded width, output width, squeeze-and-excitation, hard-swish, stride: table 1 of Howard et al. 2019
_BLOCKS = (
    (3, 16, 16, False, False, 1),
    (3, 64, 24, False, False, 2),
    (3, 72, 24, False, False, 1),
    (5, 72, 40, True, False, 2),
    (5, 120, 40, True, False, 1),
    (5, 120, 40, True, False, 1),
    (3, 240, 80, False, True, 2),
    (3, 200, 80, False, True, 1),
    (3, 184, 80, False, True, 1),
    (3, 184, 80, False, True, 1),
    (3, 480, 112, True, True, 1),
    (3, 672, 112, True, True, 1),
    (5, 672, 160, True, True, 2),
    (5, 960, 160, True, True, 1),
    (5, 960, 160, True, True, 1),
)

_norm = partial(nn.BatchNorm2d, eps=0.001, momentum=0.01)


def _divisible(value: float) -> int:
    """Round to a multiple of 8, never down by more than a tenth, as the authors' code does."""
    rounded = max(8, int(value + 4) // 8 * 8)
    return rounded + 8 if rounded < 0.9 * value else rounded


def _conv(
    channels: int, width: int, kernel: int, stride: int = 1, groups: int = 1, swish: bool | None = None
) -> nn.Sequential:
    """Convolution, normalisation and activation (None: none)."""
    padding = (kernel - 1) // 2
    layers: list[nn.Module] = [
        nn.Conv2d(channels, width, kernel, stride, padding, groups=groups, bias=False),
        _norm(width),
    ]
    if swish is not None:
        layers.append(nn.Hardswish(inplace=True) if swish else nn.ReLU(inplace=True))
    return nn.Sequential(*layers)


class SqueezeExcitation(nn.Module):
    """Weighs the channels by what the whole picture shows."""

    def __init__(self, channels: int, squeezed: int) -> None:
        super().__init__()
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc1 = nn.Conv2d(channels, squeezed, 1)
        self.fc2 = nn.Conv2d(squeezed, channels, 1)
        self.activation = nn.ReLU()
        self.scale_activation = nn.Hardsigmoid()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the weighted input."""
        weights = self.fc2(self.activation(self.fc1(self.avgpool(x))))
        return x * self.scale_activation(weights)


class InvertedResidual(nn.Module):
    """Expand, filter each channel, weigh, project; with a shortcut where the shapes allow."""

    def __init__(
        self, channels: int, kernel: int, expanded: int, width: int, excite: bool, swish: bool, stride: int
    ) -> None:
        super().__init__()
        self.shortcut = stride == 1 and channels == width
        layers: list[nn.Module] = []
        if expanded != channels:
            layers.append(_conv(channels, expanded, 1, swish=swish))
        layers.append(_conv(expanded, expanded, kernel, stride, groups=expanded, swish=swish))
        if excite:
            layers.append(SqueezeExcitation(expanded, _divisible(expanded // 4)))
        layers.append(_conv(expanded, width, 1))
        self.block = nn.Sequential(*layers)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the block's output."""
        return x + self.block(x) if self.shortcut else self.block(x)


class MobileNetV3Large(nn.Module):
    """The papers' network for Google Landmarks."""

    def __init__(self, classes: int = 1000) -> None:
        super().__init__()
        layers: list[nn.Module] = [_conv(3, 16, 3, stride=2, swish=True)]
        channels = 16
        for kernel, expanded, width, excite, swish, stride in _BLOCKS:
            layers.append(InvertedResidual(channels, kernel, expanded, width, excite, swish, stride))
            channels = width
        layers.append(_conv(channels, 6 * channels, 1, swish=True))
        self.features = nn.Sequential(*layers)
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Sequential(
            nn.Linear(6 * channels, 1280),
            nn.Hardswish(inplace=True),
            nn.Dropout(0.2, inplace=True),
            nn.Linear(1280, classes),
        )
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out")
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
            elif isinstance(module, nn.Linear):
                nn.init.normal_(module.weight, 0, 0.01)
                nn.init.zeros_(module.bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the class scores of images."""
        return self.classifier(self.avgpool(self.features(x)).flatten(1))
