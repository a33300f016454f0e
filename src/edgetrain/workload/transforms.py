"""Transforms in Pillow and torch: random resized crop, flip, normalise, cutout. No torchvision.

Randomness is torch's, so that a loader worker's seed decides it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from edgetrain.workload.catalog import CatalogEntry

CROP_SCALE = (0.08, 1.0)
CROP_RATIO = (3 / 4, 4 / 3)
CUTOUT = 16
MNIST_MEAN, MNIST_STD = 0.1307, 0.3081
CIFAR_MEAN, CIFAR_STD = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)


def _uniform(low: float, high: float) -> float:
    return low + (high - low) * float(torch.rand(()))


def crop_box(width: int, height: int) -> tuple[float, float, float, float]:
    """Draw the window of a random resized crop, as torchvision does: ten tries, then the middle."""
    area = width * height
    for _ in range(10):
        wanted = area * _uniform(*CROP_SCALE)
        ratio = math.exp(_uniform(math.log(CROP_RATIO[0]), math.log(CROP_RATIO[1])))
        w, h = round(math.sqrt(wanted * ratio)), round(math.sqrt(wanted / ratio))
        if 0 < w <= width and 0 < h <= height:
            left = int(torch.randint(width - w + 1, ()))
            top = int(torch.randint(height - h + 1, ()))
            return left, top, left + w, top + h
    if width / height < CROP_RATIO[0]:
        w, h = width, round(width / CROP_RATIO[0])
    elif width / height > CROP_RATIO[1]:
        w, h = round(height * CROP_RATIO[1]), height
    else:
        w, h = width, height
    left, top = (width - w) // 2, (height - h) // 2
    return left, top, left + w, top + h


def cutout_(image: torch.Tensor, side: int = CUTOUT) -> torch.Tensor:
    """Blank a square around a random pixel, in place; at the border it is cut off (DeVries and Taylor)."""
    height, width = image.shape[-2:]
    y, x = int(torch.randint(height, ())), int(torch.randint(width, ()))
    half = side // 2
    image[..., max(0, y - half) : y + half, max(0, x - half) : x + half] = 0
    return image


class PhotographTransform:
    """The papers' recipe for pictures: crop to the network's size, flip, normalise by 0.5, cutout."""

    def __init__(self, side: int, cutout: bool = True) -> None:
        self.side, self.cutout = side, cutout

    def __call__(self, picture: Any) -> torch.Tensor:
        box = crop_box(*picture.size)
        pixels = np.asarray(picture.resize((self.side, self.side), 2, box=box))  # 2: bilinear
        image = torch.from_numpy(pixels.copy()).permute(2, 0, 1).to(torch.float32)
        if float(torch.rand(())) < 0.5:
            image = image.flip(-1)
        image = image.div_(127.5).sub_(1.0).contiguous()  # (x / 255 - 0.5) / 0.5
        return cutout_(image) if self.cutout else image


class SmallImageTransform:
    """For images that come as arrays: pad and crop by 4 and flip where asked, then normalise."""

    def __init__(self, mean: Any, std: Any, augment: bool) -> None:
        self.mean = torch.tensor(mean).reshape(-1, 1, 1)
        self.std = torch.tensor(std).reshape(-1, 1, 1)
        self.augment = augment

    def __call__(self, pixels: np.ndarray[Any, Any]) -> torch.Tensor:
        image = torch.from_numpy(pixels.astype(np.float32)).div_(255)
        image = image.sub_(self.mean).div_(self.std)
        if self.augment:
            height, width = image.shape[-2:]
            y, x = torch.randint(9, (2,)).tolist()
            image = torch.nn.functional.pad(image, (4, 4, 4, 4))[:, y : y + height, x : x + width]
            if float(torch.rand(())) < 0.5:
                image = image.flip(-1)
        return image


def for_workload(known: CatalogEntry) -> Any:
    """Return the transform of a catalogued workload."""
    if known.dataset == "tokens":
        return torch.from_numpy
    if known.dataset == "mnist":
        return SmallImageTransform(MNIST_MEAN, MNIST_STD, augment=False)
    if known.dataset == "cifar10":
        return SmallImageTransform(CIFAR_MEAN, CIFAR_STD, augment=True)
    return PhotographTransform(known.shape[-1], cutout=known.dataset == "gld")
