"""What lies in a dataset's folder: files, samples, classes, and what was found missing."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

QUANTILES = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)


@dataclass(frozen=True, slots=True)
class Layout:
    """A surveyed dataset. `detail` is the reader's own business."""

    kind: str
    root: Path
    files: tuple[str, ...]
    samples: int
    classes: int
    missing: tuple[str, ...] = ()  # named by the dataset's index but not there
    detail: Mapping[str, Any] = field(default_factory=dict)


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
