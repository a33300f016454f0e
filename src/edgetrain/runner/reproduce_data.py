"""Light photographs for long epochs: the papers' file sizes and layout, fewer pixels, so that decoding is quicker.

When every time of a board is divided by some speed, decoding must become quicker too, and a core is as fast as it is.
So the pictures have fewer pixels, and a JPEG comment fills each file up to the size it would have had: reading it
costs what it did.
"""

from __future__ import annotations

import csv
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np

from edgetrain.errors import WorkloadError
from edgetrain.units import spell_bytes
from edgetrain.workload.drawing import drawn_size_bytes, jpeg

MEAN_BYTES = 122_000
CLASSES = 203
_DRAWN = 48  # different pictures; the rest repeat their pixels with a comment of their own
_VERSION = 1
_MOST_COMMENT = 65_000


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


def light_pictures(
    root: Path,
    count: int,
    width: int = 400,
    height: int = 300,
    seed: int = 0,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Path:
    """Return a folder in GLD-23k's layout with `count` light pictures, made once."""
    folder = root / f"light-{width}x{height}-{count}-seed{seed}-v{_VERSION}"
    if (folder / "train.csv").exists():
        return folder
    images = folder / "images"
    images.mkdir(parents=True, exist_ok=True)
    free_bytes = shutil.disk_usage(folder).free
    if free_bytes < count * MEAN_BYTES * 1.1:
        raise WorkloadError(
            f"{count} pictures need {spell_bytes(count * MEAN_BYTES)}, {folder} has {spell_bytes(free_bytes)};"
            " make room"
        )
    # A quarter of the bytes in pixels, as the pixels are a quarter of 800x600; never more than the file.
    drawn = [jpeg(seed, index, (width, height), MEAN_BYTES * width * height // 480_000) for index in range(_DRAWN)]
    sizes = np.random.default_rng([seed, 1])
    for index in range(count):
        wanted = int(drawn_size_bytes(sizes, MEAN_BYTES))
        (images / f"{index:06d}.jpg").write_bytes(padded(drawn[index % _DRAWN], wanted, os.urandom(wanted)))
        if index % 200 == 0:
            progress(index, count)
    with (folder / "train.csv.part").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["user_id", "image_id", "class"])
        writer.writerows([index % 233, f"{index:06d}", index % CLASSES] for index in range(count))
    # Dirty pages cannot be dropped from the cache, and the folder counts as made once the list is there.
    os.sync()
    os.replace(folder / "train.csv.part", folder / "train.csv")
    return folder
