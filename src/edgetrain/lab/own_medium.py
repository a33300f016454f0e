"""Measures the storage medium that a folder lies on, as an entry of a table of media."""

from __future__ import annotations

import os
import random
import re
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from edgetrain.errors import LabError, UsageError
from edgetrain.lab.measure import make_files
from edgetrain.lab.queueing import MediumModel
from edgetrain.lab.readers import TimedReads, read_files
from edgetrain.lab.tables import IMAGE_BYTES
from edgetrain.workload import cached_bytes

READERS = 4
FILES, LARGE_BYTES = 420, 96 << 20
STAYS_CACHED = 0.1  # of a file, still in memory after it was given up: its reads say nothing about the medium


def measure_medium(
    name: str,
    folder: str | os.PathLike[str],
    say: Callable[[str], None] = lambda text: None,
    files: int = FILES,
    large_bytes: int = LARGE_BYTES,
) -> MediumModel:
    """Read cold files in random order, with one reader and with four, and one large file."""
    if not re.fullmatch(r"[A-Za-z0-9_.-]+", name):
        raise UsageError(f"{name!r} cannot name a medium; use letters, digits, - and _")
    if not Path(folder).is_dir():
        raise UsageError(f"{folder} is not a folder; give --at a folder on the medium to measure")
    with tempfile.TemporaryDirectory(prefix="edgetrain-measure-", dir=folder) as temporary:
        say(f"writing {files} files of {IMAGE_BYTES} bytes to {folder}")
        paths = [str(Path(temporary) / each) for each in make_files(Path(temporary), files, large_bytes=large_bytes)]
        os.sync()  # what is not written yet cannot be dropped from memory
        _check_cold(paths[0], folder)
        random.Random(1).shuffle(paths)
        say("reading them cold")
        one = read_files([paths])
        several = read_files([paths[place::READERS] for place in range(READERS)])
        large = read_files([[str(Path(temporary) / "large")]])
    source = f"measured by edgetrain lab measure, {time.strftime('%Y-%m-%d')}: {files} files of {IMAGE_BYTES} bytes"
    return medium_from_reads(name, one, several, large, source)


def _check_cold(path: str, folder: str | os.PathLike[str]) -> None:
    """Refuse a folder whose files stay in memory."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        size = os.fstat(descriptor).st_size
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        kept = cached_bytes(descriptor, size)
    finally:
        os.close(descriptor)
    if kept > STAYS_CACHED * size:
        raise LabError(f"files in {folder} stay in memory, so their reads do not show the speed of a storage medium")


def medium_from_reads(
    name: str, one: TimedReads, several: TimedReads, large: TimedReads, source: str = ""
) -> MediumModel:
    """Return the medium that serves these reads: small files by one reader and by four, and one large file."""
    transfer_s = IMAGE_BYTES / large.bytes_per_s
    read_s = max(0.0, 1.0 / one.reads_per_s - transfer_s)
    together = several.reads_per_s / one.reads_per_s
    at_once = max(1, min(READERS, round(together)))
    gain: tuple[tuple[int, float], ...] = ()
    positioning_s = 1.0 / several.reads_per_s - transfer_s
    if at_once == 1 and read_s > 0 and positioning_s > 0 and together > 1.0:
        gain = ((READERS, round(read_s / positioning_s, 3)),)
    return MediumModel(name, read_s, large.bytes_per_s, at_once, gain, source)
