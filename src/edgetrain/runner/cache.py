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

from edgetrain.sampling import share

COLD_SHARE = 0.02  # still cached; a few pages that somebody reads meanwhile do not make a run warm
WARM_SHARE = 0.98
CHUNK_BYTES = 1 << 20
TELL_EVERY = 200  # files
DROP = Path("/proc/sys/vm/drop_caches")
JOIN = "EDGETRAIN_WORKER_CGROUP"

Tell = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class CacheCheck:
    """What was done, and what share of the dataset was cached after it."""

    asked: str
    method: str
    share_before: float | None  # before the run, that is: after cooling or warming
    share_pm: float | None
    counted_by: str
    doubt: tuple[str, str] | None = None

    def document(self) -> dict[str, object]:
        """Return it as the manifest keeps it."""
        check = {
            "share_before": self.share_before,
            "share_pm": self.share_pm,
            "method": self.method,
            "counted_by": self.counted_by,
        }
        return {"asked": self.asked, "cold_check" if self.asked == "cold" else "check": check}


def settle(asked: str, files: Sequence[str], tell: Tell, join: str | None = None, drop: Path = DROP) -> CacheCheck:
    """Bring the files into the state asked for and look. `join` names control groups whoever warms must enter."""
    if asked == "cold":
        method = make_cold(files, tell, drop)
        if not _is_cold(files) and _drop(drop, "3"):
            method = "posix_fadvise and drop_caches 3"
    elif asked == "warm":
        method = make_warm(files, tell, join)
    else:
        method = "left as it was"
    found = share(list(files)) if files else None
    seen = None if found is None else found.share
    doubt: tuple[str, str] | None = None
    if asked != "keep" and seen is None:
        reason = "no files are known, say where they lie with --dataset" if found is None else found.reason
        doubt = "cache_not_checked", f"whether the dataset is {asked} cannot be seen: {reason}"
    elif asked == "cold" and seen is not None and seen > COLD_SHARE:
        doubt = "cache_not_cold", f"{seen:.0%} of the dataset was still cached after cooling by {method}"
    elif asked == "warm" and seen is not None and seen < WARM_SHARE:
        doubt = "cache_not_warm", f"only {seen:.0%} of the dataset stayed cached after reading all of it"
    counted_by = "none" if found is None else found.method
    return CacheCheck(asked, method, seen, None if found is None else found.pm, counted_by, doubt)


def make_cold(files: Sequence[str], tell: Tell, drop: Path = DROP) -> str:
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
        if number % TELL_EVERY == 0:
            tell(number, len(files))
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


def make_warm(files: Sequence[str], tell: Tell, join: str | None = None) -> str:
    """Read every file; return how. Under a RAM limit the reader must be charged for the pages like a loader worker."""
    if join:
        command = [sys.executable, "-c", f"import {__name__} as reader; reader.enter_and_read()"]
        reader = subprocess.run(command, input="\0".join(files), text=True, env={**os.environ, JOIN: join})
        return "read by a process in the loaders' control group" if reader.returncode == 0 else "not read"
    for number, file in enumerate(files):
        _read(file)
        if number % TELL_EVERY == 0:
            tell(number, len(files))
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
