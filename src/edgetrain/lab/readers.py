"""Processes that read given files and time each read, independent of any dataset class: for `lab measure`."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

# Runs without site packages, joins control groups as a loader worker does, and begins at a common instant.
_READER = """
import json, os, sys, time
asked = json.load(sys.stdin)
for path in asked["groups"]:
    open(path.replace("{worker}", asked["worker"]), "w").write("0")
while time.monotonic() < asked["start_s"]:
    time.sleep(0.0005)
times, total, buffer = [], 0, bytearray(asked["chunk"])
began = time.monotonic()
for name in asked["files"]:
    start = time.monotonic()
    with open(name, "rb", buffering=0) as file:
        if asked["drop"]:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            start = time.monotonic()
        while True:
            count = file.readinto(buffer)
            total += count
            if count < len(buffer):
                break
    times.append(time.monotonic() - start)
print(json.dumps({"times": times, "bytes": total, "began": began, "ended": time.monotonic()}))
"""
_LEAD_S = 0.4  # starting four interpreters on two busy cores


@dataclass(frozen=True, slots=True)
class TimedReads:
    """Reads of several processes together."""

    times_s: list[float]  # one per file
    read_bytes: int
    took_s: float  # from the common start to the end of the last

    def quantile_s(self, share: float) -> float:
        """Return a quantile of the time per file."""
        ordered = sorted(self.times_s)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))]

    @property
    def reads_per_s(self) -> float:
        """Return files read per second, all readers together."""
        return len(self.times_s) / self.took_s

    @property
    def bytes_per_s(self) -> float:
        """Return bytes read per second, all readers together."""
        return self.read_bytes / self.took_s


def read_files(
    shares: Sequence[Sequence[str]],
    groups: Sequence[str] = (),
    drop: bool = True,
    chunk_bytes: int = 1 << 20,
) -> TimedReads:
    """Read lists of files, one process each, all starting together; `drop` makes each file cold first.

    Readers enter `groups` before they start (`Lab.joined_files`).
    """
    command = [sys.executable, "-I", "-S", "-c", _READER]
    readers = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in shares]
    start_s = time.monotonic() + _LEAD_S
    for number, (reader, files) in enumerate(zip(readers, shares, strict=True)):
        asked = {
            "files": list(files),
            "groups": list(groups),
            "worker": str(number),
            "start_s": start_s,
            "drop": drop,
            "chunk": chunk_bytes,
        }
        assert reader.stdin
        reader.stdin.write(json.dumps(asked))
        reader.stdin.close()
    answers = []
    for reader in readers:
        assert reader.stdout
        answers.append(json.loads(reader.stdout.read()))
        reader.stdout.close()
        reader.wait()
    times_s = [one for answer in answers for one in answer["times"]]
    took_s = max(answer["ended"] for answer in answers) - min(answer["began"] for answer in answers)
    return TimedReads(times_s, sum(answer["bytes"] for answer in answers), took_s)
