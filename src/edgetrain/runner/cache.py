"""Makes a dataset's files cold or warm in the page cache, and checks by residency that they are.

Each file is given up with posix_fadvise, which needs no root and which the kernel may decline (dirty, mapped or locked
pages; some filesystems): hence the check. Root also has the directory entries and inodes dropped (drop_caches 2), which
fadvise leaves; and, where files are still cached after that, everything (drop_caches 3). Not at once: that would also
drop the pages of the libraries the loaders are about to run, and count them as reads of the dataset.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from edgetrain.record import CacheCheck, CacheState
from edgetrain.sampling import share
from edgetrain.schema import Doubt

COLD_SHARE = 0.02  # still cached; a few pages that somebody reads meanwhile do not make a run warm
WARM_SHARE = 0.98
CHUNK_BYTES = 1 << 20
PROGRESS_EVERY = 200  # files
DROP = Path("/proc/sys/vm/drop_caches")
JOIN = "EDGETRAIN_WORKER_CGROUP"

FileProgress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class CacheOutcome:
    """The state of the page cache as the manifest keeps it, and a doubt where it is not as asked."""

    state: CacheState
    doubt: Doubt | None = None


def bring_cache_to(
    asked: str, files: Sequence[str], progress: FileProgress, join: str | None = None, drop: Path = DROP
) -> CacheOutcome:
    """Bring the files into the state asked for, and check. `join` names control groups for the warming process."""
    if asked == "cold":
        method = make_cold(files, progress, drop)
        if not _is_cold(files) and _drop(drop, "3"):
            method = "posix_fadvise and drop_caches 3"
    elif asked == "warm":
        method = make_warm(files, progress, join)
    else:
        method = "left as it was"
    found = share(list(files)) if files else None
    cached = None if found is None else found.share
    doubt: Doubt | None = None
    if asked != "keep" and cached is None:
        reason = "its files are not known; name their folder with --dataset" if found is None else found.reason
        doubt = Doubt("cache_not_checked", f"whether the dataset is {asked} cannot be checked: {reason}")
    elif asked == "cold" and cached is not None and cached > COLD_SHARE:
        doubt = Doubt("cache_not_cold", f"{cached:.0%} of the dataset was still cached after cooling by {method}")
    elif asked == "warm" and cached is not None and cached < WARM_SHARE:
        doubt = Doubt("cache_not_warm", f"only {cached:.0%} of the dataset stayed cached after reading all of it")
    pm, counted_by = (None, "none") if found is None else (found.pm, found.method)
    check = CacheCheck(cached, pm, method, counted_by)
    state = CacheState(asked, cold_check=check) if asked == "cold" else CacheState(asked, check)
    return CacheOutcome(state, doubt)


def make_cold(files: Sequence[str], progress: FileProgress, drop: Path = DROP) -> str:
    """Give up the files' pages; return how."""
    # Dirty pages cannot be dropped, and a dataset that was just generated has them.
    os.sync()
    for number, file in enumerate(files):
        try:
            fd = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        except OSError:
            pass
        finally:
            os.close(fd)
        if number % PROGRESS_EVERY == 0:
            progress(number, len(files))
    return "posix_fadvise and drop_caches 2" if _drop(drop, "2") else "posix_fadvise"


def _drop(drop: Path, what: str) -> bool:
    try:
        drop.write_text(what + "\n")
    except OSError:
        return False
    return True


def _is_cold(files: Sequence[str]) -> bool:
    seen = share(list(files)).share if files else None
    return seen is not None and seen <= COLD_SHARE


def make_warm(files: Sequence[str], progress: FileProgress, join: str | None = None) -> str:
    """Read every file; return how. Under a RAM limit the reader must be charged for the pages like a loader worker."""
    if join:
        command = [sys.executable, "-c", f"import {__name__} as reader; reader.enter_and_read()"]
        reader = subprocess.run(command, input="\0".join(files), text=True, env={**os.environ, JOIN: join})
        return "read by a process in the loaders' control group" if reader.returncode == 0 else "not read"
    for number, file in enumerate(files):
        _read(file)
        if number % PROGRESS_EVERY == 0:
            progress(number, len(files))
    return "read"


def _read(file: str) -> None:
    try:
        with open(file, "rb", buffering=0) as opened:
            while opened.read(CHUNK_BYTES):
                pass
    except OSError:
        pass


def enter_and_read() -> None:
    """Enter the loaders' control groups, then read the files named on stdin."""
    for group in filter(None, os.environ.get(JOIN, "").split(os.pathsep)):
        Path(group.replace("{worker}", "own")).write_text(str(os.getpid()))
    for file in sys.stdin.read().split("\0"):
        _read(file)
