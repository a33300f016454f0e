"""Which samples of an epoch must be read from the medium: the page cache under reshuffling.

Every epoch reads all files once, in a fresh random order, through a cache that evicts the file not used for longest.
A file read at position u of an epoch (from 0 to 1) was last read at a uniform position v of the epoch before, and
1 - v (1 - u) of the dataset was read since. It is still there if that is below the cached share c, so the chance to
miss is (1 - c) / (1 - u), at most 1; over the epoch that makes 1 - (c + (1 - c) ln(1 - c)), far above 1 - c.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgetrain.analysis import lru_hit_share

PAGE_BYTES = 4096
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class DatasetOnMedium:
    """How a dataset lies on its medium."""

    total_bytes: float
    samples: int
    files: int

    @property
    def packed(self) -> bool:
        """Whether many samples share a file: then what is read are pages, not files."""
        return self.files < 0.5 * self.samples

    @property
    def sample_bytes(self) -> float:
        """Bytes that one sample takes on the medium."""
        return self.total_bytes / max(1, self.samples)

    @property
    def share_pages(self) -> bool:
        """Whether a page holds more than one sample, so that reading one brings others along."""
        return self.packed and self.sample_bytes < PAGE_BYTES

    @property
    def read_bytes(self) -> float:
        """Bytes that are read for one sample: whole pages of a packed file."""
        return max(float(PAGE_BYTES), self.sample_bytes) if self.packed else self.sample_bytes

    @property
    def cached_bytes(self) -> float:
        """Bytes that the whole dataset takes in the page cache: files are rounded up to pages."""
        return self.total_bytes + self.files * PAGE_BYTES / 2


def miss_chances(positions: Floats, cached_share: float, epoch: int, dataset: DatasetOnMedium, taken: float) -> Floats:
    """Return the chance of each sample to miss, by its position in the epoch (0 to 1).

    `cached_share` is the part of the dataset that the page cache can hold; before epoch 0 it is empty. `taken` is the
    part of the dataset that one epoch reads.
    """
    if epoch == 0:
        if not dataset.packed:
            return np.ones_like(positions)
        # Samples that share a page: the first of them to be drawn reads it for the others.
        together = max(1.0, PAGE_BYTES / dataset.sample_bytes)
        return np.asarray((1.0 - positions * taken) ** (together - 1.0))
    if cached_share >= 1.0:
        if taken >= 1.0:
            return np.zeros_like(positions)
        # An epoch that takes part of the dataset meets files that no epoch has read before.
        return np.full_like(positions, (1.0 - taken) ** epoch)
    left = np.maximum(1.0 - positions, 1e-9)
    return np.minimum(1.0, (1.0 - cached_share) / left)


def cached_share_of(read_again: float) -> float:
    """Return the cached share of the dataset with which an epoch reads this share again: `miss_chances`, inverted."""
    if read_again <= 0.0:
        return 1.0
    low, high = 0.0, 1.0
    for _ in range(40):
        middle = (low + high) / 2
        too_little = 1.0 - lru_hit_share(middle) > read_again
        low, high = (middle, high) if too_little else (low, middle)
    return low


def missed(chances: Floats, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Draw which samples miss, with the expected number of them in every stretch (systematic sampling)."""
    total = np.cumsum(chances) + rng.random()
    return np.floor(total) > np.floor(total - chances)
