"""The networks of the papers in plain torch: published parameter counts, torchvision's state-dict names.

torchvision is never imported: it must match torch's build exactly, which it rarely does on a board.
"""

from __future__ import annotations

from typing import Callable

import torch
from torch import nn

from edgetrain.workload.catalog import CATALOG, entry
from edgetrain.workload.errors import RequestError
from edgetrain.workload.networks.lenet import LeNet5
from edgetrain.workload.networks.lstm import LanguageLSTM
from edgetrain.workload.networks.mobilenet import MobileNetV3Large
from edgetrain.workload.networks.resnet import ResNet18, ResNet18CifarGN
from edgetrain.workload.networks.vgg import VGG11

__all__ = ["build", "example", "input_shape", "parameters"]

_BUILDERS: dict[str, Callable[[int], nn.Module]] = {
    "lenet5": LeNet5,
    "mobilenet_v3": MobileNetV3Large,
    "resnet18": ResNet18,
    "resnet18_cifar_gn": ResNet18CifarGN,
    "vgg11": VGG11,
    "lstm": LanguageLSTM,
}


def build(name: str, classes: int | None = None) -> nn.Module:
    """Return a freshly initialised network; `classes` defaults to its dataset's (for `lstm`, the vocabulary)."""
    known = entry(name)
    if classes is not None and classes < 1:
        raise RequestError(f"a network needs at least one class, not {classes}")
    return _BUILDERS[known.name](classes or known.classes)


def input_shape(name: str) -> tuple[int, ...]:
    """Return the shape of one sample: channels, height and width, or the length of a token window."""
    return entry(name).shape


def example(name: str, batch_size: int, classes: int | None = None) -> tuple[torch.Tensor, torch.Tensor]:
    """Return inputs and targets of the right shape, for counting memory and for tests."""
    known = entry(name)
    count = classes or known.classes
    if known.dataset == "tokens":
        window = torch.randint(count, (batch_size, *known.shape))
        return window, torch.randint(count, (batch_size, *known.shape))
    return torch.randn(batch_size, *known.shape), torch.randint(count, (batch_size,))


def parameters(network: nn.Module) -> int:
    """Count the parameters, shared ones once."""
    return sum(parameter.numel() for parameter in network.parameters())


assert set(_BUILDERS) == set(CATALOG), "the catalogue and the builders name different networks"
