"""Proves the limits: what was asked against what is got, measured with reads and loops that know nothing of the lab."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from edgetrain.errors import LabError
from edgetrain.lab import cpu, tables
from edgetrain.lab.bucket import missing_bytes
from edgetrain.lab.cgroups import find
from edgetrain.lab.hold import Lab
from edgetrain.lab.limits import Limits
from edgetrain.lab.memory import SETTLE_S
from edgetrain.lab.queueing import Medium
from edgetrain.lab.readers import Reading, read_files
from edgetrain.lab.tables import IMAGE_BYTES

TOLERANCE = 0.15
_FILES = 420
_LARGE_BYTES = 96 << 20
_CACHE_BYTES = 48 << 20
_CACHE_ROUNDS = 2
_SHARE = 0.5


@dataclass(frozen=True, slots=True)
class Proof:
    """One limit: asked and got, in one unit. `judged` is false where the mechanism promises no such thing."""

    limit: str
    what: str
    unit: str
    asked: float
    got: float | None
    by: str
    judged: bool = True

    @property
    def off(self) -> float | None:
        """Return by which share got differs from asked."""
        return None if self.got is None or not self.asked else self.got / self.asked - 1

    @property
    def holds(self) -> bool | None:
        """Return whether got is within the tolerance; None where that is not promised."""
        if not self.judged:
            return None
        return self.off is not None and abs(self.off) <= TOLERANCE


def make_files(folder: Path, files: int = _FILES, seed: int = 0) -> list[str]:
    """Write files of the papers' mean size, and one large one, `large`."""
    content = random.Random(seed)
    names = []
    for number in range(files):
        path = folder / f"{number % 16:02d}" / f"{number:05d}.bin"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.randbytes(IMAGE_BYTES))
        names.append(str(path.relative_to(folder)))
    with open(folder / "large", "wb") as file:
        for _ in range(_LARGE_BYTES >> 20):
            file.write(content.randbytes(1 << 20))
    return names


def _reads_for(medium: Medium) -> int:
    # About two seconds of reading, enough for a p95, no more files than there are.
    return max(30, min(_FILES, int(2.0 / medium.cost_s(IMAGE_BYTES))))


def prove_medium(lab: Lab, medium: Medium, names: Sequence[str], view: Path) -> list[Proof]:
    """Measure latency, bandwidth and how readers share the medium."""
    by = str(lab.got["storage"]["by"])
    means_only = by.startswith("means only")
    user_space = by.startswith("user space")
    groups = lab.joined_files()
    paths = [str(view / name) for name in names]
    random.Random(1).shuffle(paths)
    count = _reads_for(medium)

    def read(shares: Sequence[Sequence[str]]) -> Reading:
        return _read_waiting(shares, lab.environment()) if user_space else read_files(shares, groups)

    for path in paths:
        os.stat(path)  # the folders' and files' own blocks are read once, not part of what is timed
    read_files([paths[:4]], groups)
    one = read([paths[:count]])
    four = read([paths[place : 4 * (count // 4) : 4] for place in range(4)])
    asked_s = medium.cost_s(IMAGE_BYTES)
    asked_one, asked_four = medium.reads_per_s(IMAGE_BYTES, 1), medium.reads_per_s(IMAGE_BYTES, 4)
    rows = [
        ("latency p50, one reader", "ms", asked_s * 1e3, one.quantile_s(0.5) * 1e3, not means_only),
        ("latency p95, one reader", "ms", asked_s * 1e3, one.quantile_s(0.95) * 1e3, not means_only),
        ("reads a second, one reader", "1/s", asked_one, one.reads_per_s, True),
        ("reads a second, 4 readers", "1/s", asked_four, four.reads_per_s, not means_only),
        ("4 readers over 1", "x", asked_four / asked_one, four.reads_per_s / one.reads_per_s, not means_only),
    ]
    proofs = [Proof(medium.name, what, unit, asked, got, by, judged) for what, unit, asked, got, judged in rows]
    if not (means_only or user_space):
        large = read_files([[str(view / "large")]], groups)
        got_rate = large.bytes_per_s / 1e6
        proofs.append(Proof(medium.name, "bandwidth, one large file", "MB/s", medium.bytes_per_s / 1e6, got_rate, by))
    return proofs


def _read_waiting(shares: Sequence[Sequence[str]], environment: dict[str, str]) -> Reading:
    """Read through the user-space bucket, in processes that entered it."""
    code = (
        "import json,sys,time;from edgetrain.lab import bucket;bucket.install();files=json.load(sys.stdin);t=[]\n"
        "import os\nbegan=time.monotonic()\n"
        "for f in files:\n"
        " d=os.open(f,os.O_RDONLY);os.posix_fadvise(d,0,0,4);os.close(d);s=time.monotonic();open(f,'rb').read()\n"
        " t.append(time.monotonic()-s)\nprint(json.dumps([t,began,time.monotonic()]))"
    )
    started = []
    for files in shares:
        reader = subprocess.Popen(
            [sys.executable, "-c", code],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **environment},
        )
        started.append((reader, json.dumps(list(files))))
    times_s: list[float] = []
    took_s = []
    for reader, asked in started:
        assert reader.stdin
        reader.stdin.write(asked)
        reader.stdin.close()
    for reader, _ in started:
        assert reader.stdout
        seen, began_s, ended_s = json.loads(reader.stdout.read())
        reader.wait()
        times_s += seen
        took_s.append(ended_s - began_s)
    return Reading(times_s, len(times_s) * IMAGE_BYTES, max(took_s))


def prove_cache(names: Sequence[str], folder: Path, cache_bytes: int = _CACHE_BYTES) -> list[Proof]:
    """Read far more than the limit and count what the page cache kept."""
    with Limits(ram_bytes=cache_bytes).applied(workers=1) as lab:
        by = str(lab.got["ram"]["by"])
        paths = [str(folder / name) for name in names]
        for path in paths:
            descriptor = os.open(path, os.O_RDONLY)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(descriptor)
        for seed in range(_CACHE_ROUNDS):
            random.Random(seed).shuffle(paths)
            read_files([paths], lab.joined_files(), drop=False)
            time.sleep(SETTLE_S)
        kept = 0
        for path in paths:
            descriptor = os.open(path, os.O_RDONLY)
            size = os.fstat(descriptor).st_size
            kept += -(-size // 4096) * 4096 - missing_bytes(descriptor, size)
            os.close(descriptor)
    return [Proof("ram", "cacheable bytes", "MB", cache_bytes / 1e6, kept / 1e6, by)]


def prove_cpu(share: float = _SHARE) -> list[Proof]:
    """Measure one core at a share, and one core's worth from two busy processes."""
    proofs = []
    with Limits(cpu_share=share).applied(workers=1) as lab:
        # Measured anew, of a process in the group against one outside, with the quota the calibration gave.
        quota, _ = cpu.calibrated_quota(lab.groups, share)
        (got, speed), by = cpu.check_share(lab.groups, quota), lab.got["cpu_share"]["by"]
        proofs.append(Proof("cpu", f"CPU time at share {share:g}", "cores", share, got, by))
        # A core's own speed wanders with what its host does: told, and not the quota's to promise.
        proofs.append(Proof("cpu", f"turns of a loop at share {share:g}", "x", share, speed, by, judged=False))
    with Limits(cores=1).applied() as lab:
        if lab.got["cores"]["by"] != "nothing to hold":
            held, by = cpu.cores_worth(lab.joined_files()), lab.got["cores"]["by"]
            proofs.append(Proof("cores", "cores' worth of two busy processes", "cores", 1.0, held, by))
    return proofs


def measure(
    media: Sequence[str] = ("sd", "hdd", "ssd"),
    own_media: str | None = None,
    say: Callable[[str], None] = lambda text: None,
    at: str | None = None,
) -> list[Proof]:
    """Prove every limit this machine can hold; what it cannot is left out and said."""
    proofs: list[Proof] = []
    with tempfile.TemporaryDirectory(prefix="edgetrain-measure-", dir=at) as folder:
        if shutil.disk_usage(folder).free < 4 * (_FILES * IMAGE_BYTES + _LARGE_BYTES):
            raise LabError(f"lab measure needs 600 MB of disk in {folder}; name another folder with --at")
        dataset = Path(folder) / "files"
        say(f"writing {_FILES} files of {IMAGE_BYTES} bytes")
        names = make_files(dataset)
        for name in media:
            medium = tables.medium(name, own_media)
            say(f"measuring {name}")
            try:
                with Limits(storage=medium).applied(workers=4) as lab:
                    view = lab.dataset_path(dataset)
                    proofs += prove_medium(lab, medium, names, view)
            except LabError as error:
                say(f"{name}: {error}")
        if find().has("memory"):
            say("measuring the page cache limit")
            proofs += prove_cache(names, dataset)
        else:
            say("no memory control group may be used here: RAM cannot be limited")
        if find().has("cpu"):
            say("measuring the CPU limits")
            proofs += prove_cpu()
        else:
            say("no CPU control group may be used here: cores cannot be slowed")
    return proofs
