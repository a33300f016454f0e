"""What lies in a dataset's folder: files, samples, classes, and what was found missing."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Iterable

QUANTILES = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)


@dataclass(frozen=True)
class DatasetLayout:
    """A surveyed dataset. Each format has a layout of its own, which knows its reader."""

    kind: str  # mnist | cifar10 | gld | folder | tokens
    root: Path
    files: tuple[str, ...]
    samples: int
    classes: int
    missing: tuple[str, ...] = ()  # named by the dataset's index but not there

    def open(self, transform: Any) -> Any:
        """Return the map-style dataset that reads it."""
        raise NotImplementedError(f"a layout of kind {self.kind!r} has no reader")


def file_sizes(files: Iterable[str]) -> list[int]:
    """Return the files' sizes in bytes; a file that has gone meanwhile is left out."""
    sizes = []
    for file in files:
        try:
            sizes.append(os.stat(file).st_size)
        except OSError:
            continue
    return sizes


def size_quantiles(sizes: Iterable[int]) -> dict[str, int]:
    """Return nearest-rank quantiles of the sizes, keyed `0.5` and so on; empty where there are none."""
    ordered = sorted(sizes)
    if not ordered:
        return {}
    last = len(ordered) - 1
    return {f"{share:g}": ordered[round(share * last)] for share in QUANTILES}
