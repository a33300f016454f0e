"""Generates the datasets that are few files: MNIST's digits, CIFAR-10's records, a text's tokens.

They can be learnt from (digits are digits, a class has its colours, words follow words), so that a falling loss
shows that the training works.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Callable

import numpy as np

from edgetrain.inside.stream import write_json
from edgetrain.workload.catalog import CATALOG
from edgetrain.workload.datasets import cifar, mnist
from edgetrain.workload.drawing import texture_bank

CHUNK = 10_000
SHAPES = 40  # drawn forms of one digit
BILINEAR, BICUBIC = 2, 3  # Pillow's own numbers: the names moved between the versions boards have
FOLLOWERS = 64  # words that may follow a word
SAMPLE_BYTES = {"mnist": 28 * 28 + 1, "cifar10": cifar.RECORD_BYTES, "tokens": 2 * CATALOG["lstm"].shape[0]}


def _write(path: Path, *parts: bytes) -> None:
    """Write a file that appears whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}.part-{os.getpid()}")
    with temporary.open("wb") as file:
        for part in parts:
            file.write(part)
    temporary.replace(path)


def _digits(seed: int) -> np.ndarray[Any, Any]:
    """Return forms of the ten digits, turned and sized at random: (10, SHAPES, 28, 28)."""
    from PIL import Image, ImageDraw, ImageFont

    rng = np.random.default_rng([seed, 0xD161])
    forms = np.zeros((10, SHAPES, 28, 28), np.uint8)
    font = ImageFont.load_default()
    for digit in range(10):
        glyph = Image.new("L", (12, 14), 0)
        ImageDraw.Draw(glyph).text((3, 1), str(digit), fill=255, font=font)
        box = glyph.getbbox() or (0, 0, 12, 14)
        glyph = glyph.crop(box)
        for form in range(SHAPES):
            side = int(rng.integers(15, 21))
            big = glyph.resize((max(6, int(side * rng.uniform(0.5, 0.85))), side), BICUBIC)
            page = Image.new("L", (28, 28), 0)
            page.paste(big, ((28 - big.width) // 2, (28 - big.height) // 2))
            turned = page.rotate(float(rng.uniform(-15, 15)), BILINEAR)
            forms[digit, form] = np.asarray(turned)
    return forms


def write_mnist(root: Path, samples: int, seed: int) -> None:
    """Write the two idx files."""
    rng = np.random.default_rng([seed, 0x3157])
    forms = _digits(seed)
    labels = rng.integers(0, 10, samples).astype(np.uint8)
    images = np.empty((samples, 28, 28), np.uint8)
    for first in range(0, samples, CHUNK):
        part = labels[first : first + CHUNK]
        drawn = forms[part, rng.integers(0, SHAPES, len(part))]
        shifts = rng.integers(-2, 3, (len(part), 2))
        for at, (down, right) in enumerate(shifts):
            images[first + at] = np.roll(drawn[at], (down, right), (0, 1))
    header = mnist.IMAGES_HEADER.pack(mnist.IMAGES_MAGIC, samples, 28, 28)
    _write(root / "train-images-idx3-ubyte", header, images.tobytes())
    _write(root / "train-labels-idx1-ubyte", mnist.LABELS_HEADER.pack(mnist.LABELS_MAGIC, samples), labels.tobytes())


def write_cifar(root: Path, samples: int, seed: int) -> None:
    """Write the five binary batches: textures tinted by class."""
    rng = np.random.default_rng([seed, 0xC1FA])
    bank = texture_bank(seed)
    tints = rng.uniform(60, 195, (10, 3))
    for batch, count in enumerate(np.diff(np.linspace(0, samples, 6).astype(int)), start=1):
        records = np.empty((count, cifar.RECORD_BYTES), np.uint8)
        labels = rng.integers(0, 10, count)
        records[:, 0] = labels
        corners = rng.integers(0, bank[0].shape[0] - 32, (count, 2))
        which = rng.integers(0, len(bank), count)
        for row in range(count):
            top, left = corners[row]
            texture = bank[which[row]][top : top + 32, left : left + 32] * 30
            image = np.clip(tints[labels[row]][:, None, None] + texture[None], 0, 255)
            records[row, 1:] = image.astype(np.uint8).reshape(-1)
        _write(root / "cifar-10-batches-bin" / f"data_batch_{batch}.bin", records.tobytes())


def write_tokens(root: Path, samples: int, seed: int) -> None:
    """Write tokens whose frequencies follow Zipf's law and of which each has a few likely followers."""
    known = CATALOG["lstm"]
    rng = np.random.default_rng([seed, 0x70C5])
    count = samples * known.shape[0] + 1
    rank = np.minimum(rng.zipf(1.2, count) - 1, known.classes - 1)
    # Half of the words are chosen by the word before them, the rest by frequency alone.
    led = rng.random(count) < 0.5
    tokens = rank.astype(np.int64)
    tokens[1:][led[1:]] = (tokens[:-1][led[1:]] * 31 + rank[1:][led[1:]] % FOLLOWERS) % known.classes
    _write(root / "train.bin", tokens.astype("<u2").tobytes())
    write_json(str(root / "meta.json"), {"vocabulary": known.classes})


WRITERS: dict[str, Callable[[Path, int, int], None]] = {
    "mnist": write_mnist,
    "cifar10": write_cifar,
    "tokens": write_tokens,
}
