"""Which samples of an epoch must be read from the medium: the page cache under reshuffling.

Every epoch reads files in a fresh random order through a cache that evicts the file not used for longest. Where it
reads all of them, a file read at position u of an epoch (from 0 to 1) was last read at a uniform position v of the
epoch before, and 1 - v (1 - u) of the dataset was read since. It is still there if that is below the cached share c, so
the chance to miss is (1 - c) / (1 - u), at most 1; over the epoch that makes 1 - (c + (1 - c) ln(1 - c)), far above
1 - c.

Where an epoch takes only a part t of the dataset, a file was last read k epochs before with probability
t (1 - t)^(k-1), at position v of what that epoch took. All but (1 - t (1 - v)) (1 - t)^(k-1) (1 - t u) of the dataset
was read since, and the same condition gives the chance to miss. A dataset that was read before epoch 0 is one more such
epoch, of all files.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from edgetrain.analysis import lru_hit_share

PAGE_BYTES = 4096
NEGLIGIBLE = 1e-9  # share of a dataset
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
    def samples_per_page(self) -> float:
        """Samples that one page of a packed file holds, at least one."""
        return max(1.0, PAGE_BYTES / self.sample_bytes)

    @property
    def read_bytes(self) -> float:
        """Bytes that are read for one sample: whole pages of a packed file."""
        return max(float(PAGE_BYTES), self.sample_bytes) if self.packed else self.sample_bytes

    @property
    def cached_bytes(self) -> float:
        """Bytes that the whole dataset takes in the page cache: files are rounded up to pages."""
        return self.total_bytes + self.files * PAGE_BYTES / 2


def miss_chances(
    positions: Floats, cached_share: float, epoch: int, dataset: DatasetOnMedium, taken: float, unread: float = 1.0
) -> Floats:
    """Return the chance of each sample to miss, by its position in the epoch (0 to 1).

    `cached_share` is the part of the dataset that the page cache can hold, `taken` the part that one epoch reads.
    `unread` is the part that was not in the page cache before epoch 0: 1 where it began empty, 0 where the dataset had
    been read.
    """
    if epoch == 0 and unread >= 1.0:
        if not dataset.packed:
            return np.ones_like(positions)
        # Samples that share a page: the first of them to be drawn reads it for the others.
        together = dataset.samples_per_page
        return np.asarray((1.0 - positions * taken) ** (together - 1.0))
    return _missing(next(islice(_hits(positions, cached_share, taken, unread), epoch, None)))


def later_miss_chances(
    positions: Floats, cached_share: float, epochs: int, taken: float, unread: float = 1.0
) -> Floats:
    """Return the mean of `miss_chances` over this number of epochs after the first."""
    if taken >= 1.0:  # each is like the others
        epochs = 1
    each = islice(_hits(positions, cached_share, taken, unread), 1, 1 + epochs)
    return _missing(np.asarray(sum(each) / epochs))


def _hits(positions: Floats, cached_share: float, taken: float, unread: float) -> Iterator[Floats]:
    """Yield the chance of each sample to be in the page cache, in epoch 0, 1, 2, ..."""
    left = np.maximum(1.0 - positions * taken, NEGLIGIBLE)  # of the dataset, not read by the epoch so far

    def resident(untouched: float, read: float) -> Floats:
        """Return the chance to have been read by one pass over `read` of the dataset, and to be cached still."""
        if untouched < NEGLIGIBLE:
            return np.zeros_like(positions)
        return np.asarray(untouched * np.clip(1.0 - (1.0 - cached_share) / (untouched * left), 0.0, read))

    untouched = 1.0  # of the dataset, by the epochs so far
    again = np.zeros_like(positions)  # last read by one of them
    while True:
        yield again + resident(untouched, 1.0 - unread)
        again = again + resident(untouched, taken)
        untouched *= 1.0 - taken


def _missing(hits: Floats) -> Floats:
    return np.where(hits > 1.0 - NEGLIGIBLE, 0.0, 1.0 - hits)


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
