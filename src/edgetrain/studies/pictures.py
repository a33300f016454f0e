"""Light photographs for long epochs: the papers' file sizes and layout with fewer pixels, so that decoding is faster.

When every time of a board is divided by some speed, decoding must become faster too, and the speed of a core is fixed.
So the pictures have fewer pixels, and JPEG comments fill each file up to its original size: reading it costs the same.
"""

from __future__ import annotations

import csv
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from edgetrain.errors import WorkloadError
from edgetrain.units import spell_bytes
from edgetrain.workload import drawn_size_bytes, jpeg

MEAN_BYTES = 122_000
CLASSES = 203
USERS = 233
_DRAWN = 48  # different pictures; the others repeat their pixels with a comment of their own
_VERSION = 1
_MOST_COMMENT = 65_000
_HEADROOM = 1.1  # sizes vary around their mean
_PAPER_PIXELS = 800 * 600


def padded(picture: bytes, size_bytes: int, fill: bytes) -> bytes:
    """Return a JPEG of the wanted size: comments after its first marker, the picture unchanged."""
    parts = [picture[:2]]
    left = size_bytes - len(picture)
    at = 0
    while left > 4:
        length = min(left - 4, _MOST_COMMENT)
        parts.append(b"\xff\xfe" + (length + 2).to_bytes(2, "big") + fill[at : at + length])
        at += length
        left -= length + 4
    parts.append(picture[2:])
    return b"".join(parts)


@dataclass(frozen=True, slots=True)
class LightPictures:
    """A dataset of `count` light pictures in GLD-23k's layout; its folder follows from these values."""

    count: int
    width: int = 400
    height: int = 300
    seed: int = 0

    @property
    def size_bytes(self) -> int:
        """Return about how large it is."""
        return self.count * MEAN_BYTES

    def folder(self, root: Path) -> Path:
        """Return where it lies, made or not."""
        return root / f"light-{self.width}x{self.height}-{self.count}-seed{self.seed}-v{_VERSION}"

    def is_made(self, root: Path) -> bool:
        """Return whether it is complete."""
        return (self.folder(root) / "train.csv").exists()

    def make(self, root: Path, progress: Callable[[int, int], None] = lambda done, total: None) -> Path:
        """Make it unless it is there; return its folder."""
        folder = self.folder(root)
        if self.is_made(root):
            return folder
        images = folder / "images"
        images.mkdir(parents=True, exist_ok=True)
        free_bytes = shutil.disk_usage(folder).free
        if free_bytes < self.size_bytes * _HEADROOM:
            raise WorkloadError(
                f"{self.count} pictures need {spell_bytes(self.size_bytes)}, {folder} has {spell_bytes(free_bytes)}"
                " left; free some space, or use another --store"
            )
        self._draw(images, progress)
        with (folder / "train.csv.part").open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["user_id", "image_id", "class"])
            writer.writerows([index % USERS, f"{index:06d}", index % CLASSES] for index in range(self.count))
        # Dirty pages cannot be dropped from the cache; and the dataset counts as made once the list is there.
        os.sync()
        os.replace(folder / "train.csv.part", folder / "train.csv")
        return folder

    def _draw(self, images: Path, progress: Callable[[int, int], None]) -> None:
        # As many bytes per pixel as the papers' pictures have; never more than the file.
        pixel_bytes = MEAN_BYTES * self.width * self.height // _PAPER_PIXELS
        drawn = [jpeg(self.seed, index, (self.width, self.height), pixel_bytes) for index in range(_DRAWN)]
        sizes = np.random.default_rng([self.seed, 1])
        for index in range(self.count):
            wanted = int(drawn_size_bytes(sizes, MEAN_BYTES))
            (images / f"{index:06d}.jpg").write_bytes(padded(drawn[index % _DRAWN], wanted, os.urandom(wanted)))
            if index % 200 == 0:
                progress(index, self.count)
