"""Fewer cores by pinning, slower cores by a calibrated quota. It emulates throughput, not a clock.

A quota of one half does not give a process exactly half of a core: the kernel grants time in slices. So the quota is
corrected once against a reference loop, by the CPU time the loop gets: a core's own speed varies (on a shared host by a
quarter within a second) and would be mistaken for an effect of the quota. How much slower a board's core is than ours
is measured too: this machine's time to decode and augment one photograph, over the published time of the board.
"""

from __future__ import annotations

import contextlib
import os
import statistics
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from edgetrain.documents import from_document_leniently, read_json, to_document
from edgetrain.errors import LabError
from edgetrain.inside.stream import write_json
from edgetrain.lab.cgroups import Groups
from edgetrain.lab.sessions import state_folder

_LOOP_S = 0.8  # many periods of the quota
_MOST_CORRECTION = 1.3
_CHECKS = 5
_SMALLEST_SHARE = 0.02
_REFERENCE = (
    "import sys,time\n"
    "for name in sys.argv[2:]:\n open(name,'w').write('0')\n"
    "start=time.process_time();end=time.perf_counter()+float(sys.argv[1]);count=0\n"
    "while time.perf_counter()<end:\n"
    " for _ in range(200):\n  count+=1\n"
    "print(count,time.process_time()-start)\n"
)

# The papers' photograph through the papers' transform in a real loader worker. All its CPU time is counted (opening,
# decoding, collating, sending), so that other load does not matter; the cost of starting the worker cancels out.
_PREPARE = """
import os, resource, sys, tempfile
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset
from edgetrain.workload import entry, jpeg
from edgetrain.workload.transforms import for_workload
torch.set_num_threads(1)
known = entry("mobilenet_v3")
width, height = int(sys.argv[1]), int(sys.argv[2])
size = known.file_bytes * width * height // 480_000
class Photographs(Dataset):
    def __init__(self, files, count):
        self.files, self.count, self.transform = files, count, for_workload(known)
    def __len__(self):
        return self.count
    def __getitem__(self, index):
        with open(self.files[index % len(self.files)], "rb") as file, Image.open(file) as picture:
            return self.transform(picture.convert("RGB")), 0
def worker_s(files, count):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    for _ in DataLoader(Photographs(files, count), batch_size=16, num_workers=1):
        pass
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
with tempfile.TemporaryDirectory() as folder:
    files = [os.path.join(folder, str(index)) for index in range(16)]
    for index, path in enumerate(files):
        data = jpeg(0, index, (width, height), size)
        with open(path, "wb") as file:
            file.write(data + bytes(max(0, known.file_bytes - len(data))))
    few, many = (min(worker_s(files, count) for _ in range(2)) for count in (32, 288))
print((many - few) / 256)
"""


def pick_cores(asked: int) -> list[int]:
    """Return which cores to use: the last ones, because interrupts prefer the first."""
    have = sorted(os.sched_getaffinity(0))
    return have[-min(asked, len(have)) :]


def _speed(procs_files: list[str], seconds: float) -> tuple[float, float]:
    """Return the reference loop's turns per second of clock time and per second of CPU time."""
    # Writing 0 to a group's procs file moves the writer.
    command = [sys.executable, "-I", "-S", "-c", _REFERENCE, str(seconds), *procs_files]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30 + seconds, check=False)
    if done.returncode:
        raise LabError(f"the reference loop could not enter its group: {done.stderr.strip()[-300:]}")
    turns, cpu_s = done.stdout.split()
    return int(turns) / seconds, int(turns) / max(1e-6, float(cpu_s))


def _calibration(groups: Groups) -> list[str]:
    """Return the files of the group to calibrate in: pinned, as the limited processes will be."""
    controllers = ["cpu"]
    if groups.hierarchies.has("cpuset"):
        groups.hold_cores(pick_cores(1), "calibration")
        controllers.append("cpuset")
    return groups.procs_files(controllers, "calibration")


def calibrated_quota(groups: Groups, share: float, loop_s: float = _LOOP_S) -> tuple[float, float]:
    """Return the quota (in cores) that gives a process `share` of one core, and the share it gave when measured."""
    kept = _read_calibration().quota.get(f"{share:.3f}")
    if kept is not None:
        return kept
    files = _calibration(groups)

    def got(quota: float) -> float:
        groups.hold_quota(quota, "calibration")
        by_clock, by_cpu = _speed(files, loop_s)
        return by_clock / by_cpu

    first = got(share)
    quota = share * min(_MOST_CORRECTION, max(1 / _MOST_CORRECTION, share / first if first else 1.0))
    given = got(quota)
    known = _read_calibration()
    _write_calibration(replace(known, quota={**known.quota, f"{share:.3f}": (quota, given)}))
    return quota, given


def check_share(groups: Groups, quota: float, loop_s: float = 0.4) -> tuple[float, float]:
    """Return the share of a core that this quota gives, and how fast that makes a loop against one on a free core.

    Medians of several pairs, measured now: the kernel guarantees the first; the second also depends on the core's own
    speed.
    """
    files = _calibration(groups)
    groups.hold_quota(quota, "calibration")
    shares, speeds = [], []
    for _ in range(_CHECKS):
        free = _speed([], loop_s / 2)[1]  # per second of CPU time: other load must not look like a slow core
        by_clock, by_cpu = _speed(files, loop_s)
        shares.append(by_clock / by_cpu)
        speeds.append(2 * by_clock / (free + _speed([], loop_s / 2)[1]))
    return statistics.median(shares), statistics.median(speeds)


def cores_worth(files: list[str], loop_s: float = 0.6) -> float:
    """Return the CPU time, in cores, that two busy processes in these groups get together."""
    command = [sys.executable, "-I", "-S", "-c", _REFERENCE, str(loop_s), *files]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    return sum(float(one.communicate()[0].split()[1]) for one in both) / loop_s


def image_s(width: int = 800, height: int = 600) -> float | None:
    """Return this machine's time to decode and augment one photograph on one core; None without torch.

    It runs what a loader worker runs, in a process of its own, because torch is imported in `workload` alone.
    """
    key = f"{width}x{height}"
    kept = _read_calibration().image.get(key)
    if kept is not None:
        return kept
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", _PREPARE, str(width), str(height)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment, check=False)
    if done.returncode:
        return None
    best_s = float(done.stdout)
    known = _read_calibration()
    _write_calibration(replace(known, image={**known.image, key: best_s}))
    return best_s


def share_for(
    board_image_s: float, width: int = 800, height: int = 600, measure: Callable[[int, int], float | None] = image_s
) -> float | None:
    """Return how fast a board's core is, in cores of this machine; None where that cannot be measured.

    With pictures of another size: how fast ours must be for one of these to take that long.
    """
    ours_s = measure(width, height)
    if ours_s is None:
        return None
    return max(_SMALLEST_SHARE, ours_s / board_image_s)


@dataclass(frozen=True, slots=True)
class Calibration:
    """What was measured on this machine once, kept in the state folder."""

    quota: dict[str, tuple[float, float]] = field(default_factory=dict)  # by share: quota in cores, share it gave
    image: dict[str, float] = field(default_factory=dict)  # by picture size: seconds per photograph


def _file() -> Path:
    return state_folder() / "calibration.json"


def _read_calibration() -> Calibration:
    with contextlib.suppress(OSError, ValueError):
        document = read_json(_file().read_text())
        if isinstance(document, dict):
            return from_document_leniently(Calibration, document, [])
    return Calibration()


def _write_calibration(known: Calibration) -> None:
    with contextlib.suppress(OSError):  # measured again next time
        _file().parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_json(str(_file()), to_document(known))
