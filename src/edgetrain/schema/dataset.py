"""What lies in a dataset's folder, or would be generated there."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DatasetFacts:
    """A dataset that a network can read."""

    dataset: str  # its folder
    kind: str  # mnist | cifar10 | gld | folder | tokens
    samples: int
    classes: int
    files: int
    bytes: int
    size_quantiles: dict[str, int]  # of the files, by share: 0.5 is the median
    missing: tuple[str, ...]  # named by its index but not there


@dataclass(frozen=True, slots=True)
class DatasetPreview:
    """A dataset that would be generated."""

    dataset: str
    samples: int
    bytes: int
    ready: bool  # it is there already
