"""MNIST in its own idx format: one file of images, one of labels, plain or gzipped."""

from __future__ import annotations

import gzip
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from edgetrain.workload.catalog import CatalogEntry
from edgetrain.workload.datasets.layout import DatasetLayout
from edgetrain.workload.datasets.records import RecordFile
from edgetrain.workload.errors import RequestError

IMAGES_MAGIC = 0x0803  # unsigned bytes, three dimensions
LABELS_MAGIC = 0x0801
IMAGES_HEADER = struct.Struct(">IIII")
LABELS_HEADER = struct.Struct(">II")
_FOLDERS = ("", "raw", "MNIST/raw")  # the last is where torchvision puts them
_IMAGES = ("train-images-idx3-ubyte", "train-images.idx3-ubyte")
_LABELS = ("train-labels-idx1-ubyte", "train-labels.idx1-ubyte")


def _find(root: Path, names: tuple[str, ...]) -> Path | None:
    for folder in _FOLDERS:
        for name in names:
            for ending in ("", ".gz"):
                path = root / folder / (name + ending)
                if path.is_file():
                    return path
    return None


def _whole(path: Path) -> bytes:
    try:
        return gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except (EOFError, gzip.BadGzipFile) as error:
        raise RequestError(f"{path} is not a whole gzip file ({error}); fetch it again") from None


def _head(path: Path, length: int) -> bytes:
    if path.suffix == ".gz":
        return _whole(path)[:length]
    with path.open("rb") as file:
        return file.read(length)


@dataclass(frozen=True)
class MnistLayout(DatasetLayout):
    """`files` are the images, then the labels."""

    height: int = 28
    width: int = 28

    def open(self, transform: Any) -> MnistDigits:
        """Return the reader."""
        return MnistDigits(self, transform)


def survey(root: Path, known: CatalogEntry) -> MnistLayout | None:
    """Find the two files and check that they belong together."""
    images, labels = _find(root, _IMAGES), _find(root, _LABELS)
    if images is None or labels is None:
        return None
    head = _head(images, IMAGES_HEADER.size)
    if len(head) < IMAGES_HEADER.size or IMAGES_HEADER.unpack(head)[0] != IMAGES_MAGIC:
        raise RequestError(f"{images} is not an idx file of images: it begins with {head[:4].hex()}, not 00000803")
    _, count, height, width = IMAGES_HEADER.unpack(head)
    if (1, height, width) != known.shape:
        raise RequestError(
            f"{images} holds images of {width}x{height}, {known.name} takes {known.shape[2]}x{known.shape[1]}"
        )
    marks = _whole(labels)
    if len(marks) < LABELS_HEADER.size or LABELS_HEADER.unpack_from(marks)[0] != LABELS_MAGIC:
        raise RequestError(f"{labels} is not an idx file of labels: it begins with {marks[:4].hex()}, not 00000801")
    if LABELS_HEADER.unpack_from(marks)[1] != count or len(marks) < LABELS_HEADER.size + count:
        raise RequestError(f"{labels} does not hold a label for each of the {count} images of {images}")
    if images.suffix != ".gz" and images.stat().st_size < IMAGES_HEADER.size + count * height * width:
        raise RequestError(f"{images} is shorter than the {count} images its header promises; fetch it again")
    return MnistLayout("mnist", root, (str(images), str(labels)), count, known.classes, height=height, width=width)


class MnistDigits:
    """One image at a time from the file; a gzipped file is unpacked into memory first."""

    def __init__(self, found: MnistLayout, transform: Any) -> None:
        images, labels = map(Path, found.files)
        self.transform = transform
        self.height, self.width = found.height, found.width
        self.labels = np.frombuffer(_whole(labels), np.uint8, found.samples, LABELS_HEADER.size)
        self._memory = _whole(images)[IMAGES_HEADER.size :] if images.suffix == ".gz" else None
        self._records = (
            None if self._memory is not None else RecordFile(str(images), IMAGES_HEADER.size, self.height * self.width)
        )

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[Any, int]:
        if not 0 <= index < len(self):
            raise IndexError(index)
        pixels = self.height * self.width
        if self._records is not None:
            raw = self._records.read(index)
        else:
            assert self._memory is not None
            raw = self._memory[index * pixels : (index + 1) * pixels]
        image = np.frombuffer(raw, np.uint8).reshape(1, self.height, self.width)
        return self.transform(image), int(self.labels[index])
