"""Garbles every kernel file the host's probes read: nothing raises, and no nonsense passes for a reading."""

from __future__ import annotations

import math
import random
import tempfile
import time
from pathlib import Path

from edgetrain.device import Probe
from edgetrain.device.host import HostDevice
from edgetrain.sampling.otherload import LoadProbe
from edgetrain.sampling.tree import ProcessProbe, ProcessTree
from tests.device import host_tree

FULL = 10_000
PID = 100
MAX_HZ, MAX_C = 20e9, 200.0


def run(count: int, seed: int) -> str:
    """Garble `count` times; raise AssertionError where a probe raises or lets nonsense through."""
    draws = random.Random(seed)
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        root = host_tree.build(Path(folder))
        fields = ["S", "1", *["0"] * 9, "5", "6", "7", "8", "20", "0", "3", "0", "0", "0", "100", *["0"] * 5]
        host_tree.write(root, f"proc/{PID}/stat", f"{PID} (train) {' '.join(fields)}\n")
        host_tree.write(root, f"proc/{PID}/io", "rchar: 10\nwchar: 0\nread_bytes: 4096\nwrite_bytes: 0\n")
        host_tree.write(root, f"proc/{PID}/task/{PID}/children", "")
        files = [path for path in root.rglob("*") if path.is_file() and path.name not in ("type", "name", "size")]
        sound = {path: path.read_bytes() for path in files}
        nans = 0
        for _ in range(count):
            probes = _open(root)
            for path in draws.sample(files, draws.randrange(1, 5)):
                path.write_bytes(_garbled(sound[path], draws))
            for probe in probes:
                for _ in range(2):
                    nans += _check(probe)
                probe.close()
            for path, data in sound.items():
                if path.read_bytes() != data:
                    path.write_bytes(data)
    took = time.monotonic() - began
    return (
        f"{count:,} rounds of garbled /proc and /sys files (seed {seed}, {took:.0f} s): no probe "
        f"raised, every share was between 0 and 1, nothing was infinite; {nans:,} readings became NaN."
    )


def _open(root: Path) -> list[Probe]:
    probes = HostDevice(root).probes()
    assert {probe.name for probe in probes} == {"cpu", "memory", "disk", "thermal", "rapl"}
    tree = ProcessTree(PID, root / "proc")
    return [*probes, LoadProbe(tree, (), root / "proc"), ProcessProbe(tree)]


def _garbled(data: bytes, draws: random.Random) -> bytes:
    kind = draws.randrange(6)
    cut = draws.randrange(len(data) + 1)
    if kind == 0:
        return b""
    if kind == 1:
        return data[:cut]
    if kind == 2:
        return draws.randbytes(draws.randrange(1, 300))
    if kind == 3:  # a number grows beyond anything
        return data.replace(b"1", b"1" + b"9" * draws.randrange(1, 25))
    if kind == 4:  # lines lost or twice
        lines = data.splitlines(keepends=True)
        return b"".join(line for line in lines for _ in range(draws.choice((0, 1, 1, 2))))
    changed = bytearray(data)
    for _ in range(draws.randrange(1, 6)):
        if changed:
            changed[draws.randrange(len(changed))] = draws.randrange(256)
    return bytes(changed)


def _check(probe: Probe) -> int:
    row = list(probe.read())
    assert len(row) == len(probe.columns), probe.name
    for column, value in zip(probe.columns, row, strict=True):
        if value != value:
            continue
        assert not math.isinf(value), f"{probe.name}.{column}"
        if column.endswith("_share"):
            assert 0 <= value <= 1, f"{probe.name}.{column} {value}"
        if column.endswith("_c"):
            assert abs(value) <= MAX_C, f"{probe.name}.{column} {value}"
        if column.endswith("_hz"):
            assert 0 <= value <= MAX_HZ, f"{probe.name}.{column} {value}"
    return sum(value != value for value in row)
