"""Measures how well the limits are kept, with reads and loops that are independent of the lab."""

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
from pathlib import Path

from edgetrain.errors import LabError
from edgetrain.lab import cpu, tables
from edgetrain.lab.cgroups import find
from edgetrain.lab.hold import MEANS_ONLY, NOTHING_TO_LIMIT, USER_SPACE, Lab
from edgetrain.lab.limits import MachineLimits
from edgetrain.lab.memory import SETTLE_S
from edgetrain.lab.queueing import MediumModel
from edgetrain.lab.readers import TimedReads, read_files
from edgetrain.lab.tables import IMAGE_BYTES
from edgetrain.schema import LimitProof
from edgetrain.workload import cached_bytes

TOLERANCE = 0.15
_FILES = 420
_LARGE_BYTES = 96 << 20
_CACHE_BYTES = 48 << 20
_CACHE_ROUNDS = 2
_SHARE = 0.5


def proof(
    limit: str, what: str, unit: str, asked: float, got: float | None, by: str, judged: bool = True
) -> LimitProof:
    """Compare the measured with the requested value; not judged where the mechanism promises no such thing."""
    off = None if got is None or not asked else got / asked - 1
    holds = (off is not None and abs(off) <= TOLERANCE) if judged else None
    return LimitProof(limit, what, unit, asked, got, by, judged, off, holds)


def make_files(folder: Path, files: int = _FILES, seed: int = 0, large_bytes: int = _LARGE_BYTES) -> list[str]:
    """Write files of the papers' mean size, and one large one, `large`."""
    content = random.Random(seed)
    names = []
    for number in range(files):
        path = folder / f"{number % 16:02d}" / f"{number:05d}.bin"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.randbytes(IMAGE_BYTES))
        names.append(str(path.relative_to(folder)))
    with open(folder / "large", "wb") as file:
        for _ in range(large_bytes >> 20):
            file.write(content.randbytes(1 << 20))
    return names


def _reads_for(medium: MediumModel) -> int:
    # About two seconds of reading, enough for a p95; no more files than there are.
    return max(30, min(_FILES, int(2.0 / medium.cost_s(IMAGE_BYTES))))


def prove_medium(lab: Lab, medium: MediumModel, names: Sequence[str], view: Path) -> list[LimitProof]:
    """Measure latency, bandwidth and how readers share the medium."""
    assert lab.got.storage is not None
    by = lab.got.storage.by
    means_only, user_space = by == MEANS_ONLY, by == USER_SPACE
    groups = lab.joined_files()
    paths = [str(view / name) for name in names]
    random.Random(1).shuffle(paths)
    count = _reads_for(medium)

    def read(shares: Sequence[Sequence[str]]) -> TimedReads:
        return _read_waiting(shares, lab.environment()) if user_space else read_files(shares, groups)

    for path in paths:
        os.stat(path)  # the blocks of folders and inodes are read once, before anything is timed
    read_files([paths[:4]], groups)
    one = read([paths[:count]])
    four = read([paths[place : 4 * (count // 4) : 4] for place in range(4)])
    asked_s = medium.cost_s(IMAGE_BYTES)
    asked_one, asked_four = medium.reads_per_s(IMAGE_BYTES, 1), medium.reads_per_s(IMAGE_BYTES, 4)
    rows = [
        ("latency p50, one reader", "ms", asked_s * 1e3, one.quantile_s(0.5) * 1e3, not means_only),
        ("latency p95, one reader", "ms", asked_s * 1e3, one.quantile_s(0.95) * 1e3, not means_only),
        ("reads per second, one reader", "1/s", asked_one, one.reads_per_s, True),
        ("reads per second, 4 readers", "1/s", asked_four, four.reads_per_s, not means_only),
        ("4 readers over 1", "x", asked_four / asked_one, four.reads_per_s / one.reads_per_s, not means_only),
    ]
    proofs = [proof(medium.name, what, unit, asked, got, by, judged) for what, unit, asked, got, judged in rows]
    if not (means_only or user_space):
        large = read_files([[str(view / "large")]], groups)
        got_rate = large.bytes_per_s / 1e6
        proofs.append(proof(medium.name, "bandwidth, one large file", "MB/s", medium.bytes_per_s / 1e6, got_rate, by))
    return proofs


def _read_waiting(shares: Sequence[Sequence[str]], environment: dict[str, str]) -> TimedReads:
    """Read in processes whose reads wait in the user-space queue."""
    code = (
        "import json,sys,time,edgetrain.workload;files=json.load(sys.stdin);t=[]\n"
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
    return TimedReads(times_s, len(times_s) * IMAGE_BYTES, max(took_s))


def prove_cache(names: Sequence[str], folder: Path, cache_bytes: int = _CACHE_BYTES) -> list[LimitProof]:
    """Read far more than the limit and count what the page cache kept."""
    with MachineLimits(ram_bytes=cache_bytes).applied(workers=1) as lab:
        by = (lab.got.ram.by if lab.got.ram else None) or NOTHING_TO_LIMIT
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
            kept += cached_bytes(descriptor, os.fstat(descriptor).st_size)
            os.close(descriptor)
    return [proof("ram", "cacheable bytes", "MB", cache_bytes / 1e6, kept / 1e6, by)]


def prove_cpu(share: float = _SHARE) -> list[LimitProof]:
    """Measure a share of one core, and how much CPU time two busy processes get from one core."""
    proofs = []
    with MachineLimits(cpu_share=share).applied(workers=1) as lab:
        # Measured again, a process in the group against one outside, with the calibrated quota.
        quota, _ = cpu.calibrated_quota(lab.groups, share)
        got, speed = cpu.check_share(lab.groups, quota)
        by = lab.got.cpu_share.by if lab.got.cpu_share else NOTHING_TO_LIMIT
        proofs.append(proof("cpu", f"CPU time at share {share:g}", "cores", share, got, by))
        # A core's own speed varies with its host's load: shown, but the quota does not promise it.
        proofs.append(proof("cpu", f"iterations of a loop at share {share:g}", "x", share, speed, by, judged=False))
    with MachineLimits(cores=1).applied() as lab:
        if lab.got.cores is not None and lab.got.cores.by != NOTHING_TO_LIMIT:
            used = cpu.cores_worth(lab.joined_files())
            proofs.append(proof("cores", "CPU time of two busy processes", "cores", 1.0, used, lab.got.cores.by))
    return proofs


def measure_limits(
    media: Sequence[str] = ("sd", "hdd", "ssd"),
    own_media: str | None = None,
    say: Callable[[str], None] = lambda text: None,
    at: str | None = None,
) -> list[LimitProof]:
    """Measure every limit that this machine can apply; the others are left out, and `say` gets the reason."""
    proofs: list[LimitProof] = []
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
                with MachineLimits(storage=medium).applied(workers=4) as lab:
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
