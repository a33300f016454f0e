"""VGG-11 without batch normalisation, 132,863,336 parameters with 1000 classes.

The adaptive pool takes any input of 32x32 or more, so the papers' CIFAR-10 images go in as they are and the
parameters stay those of the published network.
"""

from __future__ import annotations

import torch
from torch import nn

_LAYERS: tuple[int | None, ...] = (64, None, 128, None, 256, 256, None, 512, 512, None, 512, 512, None)


class VGG11(nn.Module):
    """Names as torchvision's `vgg11`: `features.0.weight` to `classifier.6.bias`."""

    def __init__(self, classes: int = 1000) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        channels = 3
        for width in _LAYERS:
            if width is None:
                layers.append(nn.MaxPool2d(2, 2))
                continue
            layers += [nn.Conv2d(channels, width, 3, padding=1), nn.ReLU(inplace=True)]
            channels = width
        self.features = nn.Sequential(*layers)
        self.avgpool = nn.AdaptiveAvgPool2d((7, 7))
        self.classifier = nn.Sequential(
            nn.Linear(512 * 7 * 7, 4096),
            nn.ReLU(inplace=True),
            nn.Dropout(),
            nn.Linear(4096, 4096),
            nn.ReLU(inplace=True),
            nn.Dropout(),
            nn.Linear(4096, classes),
        )
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
                nn.init.zeros_(module.bias)
            elif isinstance(module, nn.Linear):
                nn.init.normal_(module.weight, 0, 0.01)
                nn.init.zeros_(module.bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the class scores of images."""
        return self.classifier(self.avgpool(self.features(x)).flatten(1))
