"""LeNet-5 for 28x28 digits, 61,706 parameters with ten classes."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional


class LeNet5(nn.Module):
    """Two convolutions and three full layers; the first convolution pads 28x28 to LeCun's 32x32."""

    def __init__(self, classes: int = 10) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 6, 5, padding=2)
        self.conv2 = nn.Conv2d(6, 16, 5)
        self.fc1 = nn.Linear(16 * 5 * 5, 120)
        self.fc2 = nn.Linear(120, 84)
        self.fc3 = nn.Linear(84, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the class scores of images of shape (batch, 1, 28, 28)."""
        x = functional.max_pool2d(functional.relu(self.conv1(x)), 2)
        x = functional.max_pool2d(functional.relu(self.conv2(x)), 2)
        x = functional.relu(self.fc1(x.flatten(1)))
        return self.fc3(functional.relu(self.fc2(x)))
