"""The share of a dataset that lies in the page cache: counted exactly, or estimated from a sample with its ±.

    share("/data/gld23k", sample=1000)     Residency(share=0.52, pm=0.03, method="cachestat", …)
    share(Inventory.of(folder), sample=None)    every page of every file

A sample is one draw from each of n equal stretches of the dataset (so it spreads over all of it), in proportion to
size. The ± is 1.96 standard errors from successive differences, which can only be too wide, times the
finite-population factor, and never less than the rule of three (nothing seen in n draws: up to 3/n could be there).
"""

from __future__ import annotations

import bisect
import itertools
import math
import os
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from edgetrain.sampling.pagecache import PAGE_BYTES, PageCounter, PagesHidden

DEFAULT_SAMPLE = 1000
# One draw checks no more than this: a dataset may be a single file of 100 GB.
CHUNK_PAGES = 1024
CHUNK_BYTES = CHUNK_PAGES * PAGE_BYTES
# Above this ratio of largest to mean size in a sample, all sizes are looked up and draws follow size.
UNEVEN = 10.0
# Sizes of so few files are looked up at once (2 µs each); of more, only those drawn and those with a rare ending.
CHEAP_TO_MEASURE = 2000
RARE_SHARE = 0.01
Z95 = 1.96
RULE_OF_THREE = 3.0
# Never waits on a pipe that lies in the dataset's folder.
_OPEN = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0)


@dataclass(frozen=True, slots=True)
class Residency:
    """What share of the pages is cached; None where this user may see nothing, with `reason`."""

    share: float | None
    pm: float | None  # half width of the 95 % interval; 0 for an exact count
    method: str  # cachestat | mincore | both joined by + | none
    files: int  # checked
    pages: int  # checked
    reason: str | None = None
    blind: int = 0  # files that could not be seen


@dataclass(slots=True)
class Inventory:
    """The dataset's files; sizes are looked up when first needed, because on a cold disk that costs reads."""

    paths: list[str]
    _ends: list[int] | None = field(default=None, repr=False)  # running sum of pages
    _odd_pages: int | None = field(default=None, repr=False)

    @classmethod
    def of(cls, where: str | os.PathLike[str] | Iterable[str | os.PathLike[str]]) -> Inventory:
        """List a folder and all below it (links followed, loops not), or take a file, or take files as given."""
        if not isinstance(where, (str, os.PathLike)):
            return cls([os.fspath(path) for path in where])
        top = os.fspath(where)
        return cls(_listed(top)) if os.path.isdir(top) else cls([top])

    def worth_not_measuring(self) -> bool:
        """Return whether looking up the unknown sizes would cost more than the estimate."""
        return self._ends is None and len(self.paths) > CHEAP_TO_MEASURE

    def odd_pages(self) -> int:
        """Return the largest size among rare endings: where a giant (an archive, a table) hides among pictures."""
        if self._odd_pages is None:
            kinds: dict[str, list[str]] = {}
            for path in self.paths:
                kinds.setdefault(path.rpartition(".")[2], []).append(path)
            most = RARE_SHARE * len(self.paths)
            odd = (path for paths in kinds.values() if len(paths) <= most for path in paths)
            self._odd_pages = max((_pages(_size(path)) for path in odd), default=0)
        return self._odd_pages

    def ends(self) -> list[int]:
        """Return the running sum of the files' pages, in their order."""
        if self._ends is None:
            total, ends = 0, []
            for path in self.paths:
                total += _pages(_size(path))
                ends.append(total)
            self._ends = ends
        return self._ends


def share(
    dataset: Inventory | str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    sample: int | None = DEFAULT_SAMPLE,
    seed: int | None = None,
    counter: PageCounter | None = None,
) -> Residency:
    """Return the cached share of a folder, of files, or of an inventory; `sample=None` counts exactly."""
    inventory = dataset if isinstance(dataset, Inventory) else Inventory.of(dataset)
    counter = counter or PageCounter()
    if sample is not None and sample < 2:
        raise ValueError(f"a sample needs at least 2 draws, not {sample}")
    if sample is None:
        return _exact(inventory, counter)
    draws = random.Random(seed)
    if inventory.worth_not_measuring() and len(inventory.paths) > sample:
        estimate = _by_files(inventory, sample, draws, counter)
        if estimate is not None:
            return estimate
    return _by_pages(inventory, sample, draws, counter)


def _exact(inventory: Inventory, counter: PageCounter) -> Residency:
    seen = _Count(counter)
    for path in inventory.paths:
        seen.count(path, 0, None)
    return seen.result(seen.cached / seen.pages if seen.pages else None, 0.0)


def _by_files(inventory: Inventory, sample: int, draws: random.Random, counter: PageCounter) -> Residency | None:
    """Estimate from whole files, sizes seen only of those drawn; None where sizes are too uneven for that.

    The estimate is a ratio (cached pages over pages), so larger files weigh more, as they should. One giant among
    thousands of small files with the same ending can be missed; calling `Inventory.ends` first prevents that.
    """
    paths, count = inventory.paths, len(inventory.paths)
    seen = _Count(counter)
    pairs: list[tuple[int, int]] = []
    for stretch in range(sample):
        first, after = stretch * count // sample, (stretch + 1) * count // sample
        found = seen.count(paths[draws.randrange(first, after)], 0, None)
        if found is not None:
            pairs.append(found)
    if len(pairs) < 2 or not seen.pages:
        return seen.result(None, None)
    mean_pages = seen.pages / len(pairs)
    if max(inventory.odd_pages(), *(pages for _, pages in pairs)) > UNEVEN * mean_pages:
        return None
    ratio = seen.cached / seen.pages
    residuals = [(cached - ratio * pages) / mean_pages for cached, pages in pairs]
    return seen.result(ratio, _plus_minus(residuals, left_out=1 - sample / count))


def _by_pages(inventory: Inventory, sample: int, draws: random.Random, counter: PageCounter) -> Residency:
    """Estimate from chunks drawn in proportion to their size."""
    ends = inventory.ends()
    total = ends[-1] if ends else 0
    if total <= sample or _chunks(ends) <= sample:
        return _exact(inventory, counter)
    seen = _Count(counter)
    shares: list[float] = []
    smallest = CHUNK_PAGES
    for stretch in range(sample):
        page = draws.randrange(stretch * total // sample, (stretch + 1) * total // sample)
        index = bisect.bisect_right(ends, page)
        within = page - (ends[index - 1] if index else 0)
        offset = within // CHUNK_PAGES * CHUNK_BYTES
        found = seen.count(inventory.paths[index], offset, CHUNK_BYTES)
        if found is not None:
            shares.append(found[0] / found[1])
            smallest = min(smallest, found[1])
    if len(shares) < 2:
        return seen.result(None, None)
    mean = sum(shares) / len(shares)
    # Of its stretch a draw sees at least the smallest chunk; taking that for all can only widen the ±.
    return seen.result(mean, _plus_minus(shares, left_out=max(1 - smallest * sample / total, 0.0)))


def _plus_minus(values: Sequence[float], left_out: float) -> float:
    """Return the half width of the 95 % interval of the mean of one draw per stretch."""
    count = len(values)
    squares = sum((after - before) ** 2 for before, after in itertools.pairwise(values))
    variance = squares / (2 * (count - 1)) / count * left_out
    return max(Z95 * math.sqrt(variance), RULE_OF_THREE / count * left_out)


class _Count:
    """Adds up the pages that were counted."""

    def __init__(self, counter: PageCounter) -> None:
        self._counter = counter
        self.cached = self.pages = self.files = self.blind = self.gone = 0
        self._why: str | None = None

    def count(self, path: str, offset: int, most: int | None) -> tuple[int, int] | None:
        """Return (cached, all) pages of a file, or of a stretch of it; None where there is nothing to see."""
        try:
            fd = os.open(path, _OPEN)
        except OSError as error:
            # A file that vanished has no pages; one that we may not open has some that we cannot see.
            if isinstance(error, FileNotFoundError):
                self.gone += 1
            else:
                self.blind += 1
                self._why = self._why or f"{path}: {error.strerror}"
            return None
        try:
            size = os.lseek(fd, 0, os.SEEK_END) - offset
            length = size if most is None else min(size, most)
            if length <= 0:
                return None
            self._counter.enter(path.rpartition("/")[0], fd)
            cached = self._counter.count(fd, offset, length, path)
        except PagesHidden as blind:
            self.blind += 1
            self._why = self._why or f"{path}: {blind}"
            return None
        except OSError as error:
            self.blind += 1
            self._why = self._why or f"{path}: {error.strerror}"
            return None
        finally:
            os.close(fd)
        pages = _pages(length)
        self.cached += cached
        self.pages += pages
        self.files += 1
        return cached, pages

    def result(self, estimate: float | None, pm: float | None) -> Residency:
        reason = self._why if self.blind else None
        if estimate is None:
            reason = reason or ("no file of the dataset is left" if self.gone else "the dataset holds no bytes")
            return Residency(None, None, "none", self.files, self.pages, reason, self.blind)
        # What could not be seen may be cached or not: the ± must cover both.
        unseen = self.blind / (self.blind + self.files)
        method = "+".join(sorted(self._counter.used)) or "none"
        wide = min((pm or 0.0) + unseen, 1.0)
        return Residency(estimate, wide, method, self.files, self.pages, reason, self.blind)


def _pages(size: int) -> int:
    """Return the pages that hold this many bytes, the last one counted whole: otherwise files seem 102 % cached."""
    return (size + PAGE_BYTES - 1) // PAGE_BYTES


def _chunks(ends: Sequence[int]) -> int:
    return sum((after - before + CHUNK_PAGES - 1) // CHUNK_PAGES for before, after in itertools.pairwise((0, *ends)))


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def _listed(top: str) -> list[str]:
    """Return every file under a folder, folder by folder, in the order of names."""
    found: list[str] = []
    waiting = [top]
    entered: set[tuple[int, int]] = set()
    while waiting:
        folder = waiting.pop()
        try:
            with os.scandir(folder) as entries:
                files, folders = [], []
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
                    elif entry.is_file():
                        files.append(entry.path)
                    elif entry.is_symlink() and entry.is_dir():
                        about = entry.stat()
                        if (about.st_dev, about.st_ino) not in entered:
                            entered.add((about.st_dev, about.st_ino))
                            folders.append(entry.path)
        except OSError:
            continue
        files.sort()
        found += files
        waiting += sorted(folders, reverse=True)
    return found
