"""Kills processes that use the lab at random instants: the next start, or `lab down`, removes everything."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HOLDER = """
import sys, time
from pathlib import Path
from edgetrain.lab import resolve_limits
from edgetrain.schema import Limits
limits = resolve_limits(Limits(storage="sd", page_cache="20MB", cores=1, cpu_share=0.5))
with limits.applied(workers=2) as lab:
    view = lab.dataset_path(Path(sys.argv[1]))
    print("up", flush=True)
    while True:
        for path in view.rglob("*.bin"):
            path.read_bytes()
        time.sleep(0.05)
"""
FULL = 50
MAX_S = 2.5


def run(count: int, seed: int) -> str:
    """Kill `count` holders, sweeping after each; the last leftovers go by `lab down`."""
    from edgetrain.lab import cgroups, find_sessions, loop, sessions, take_down

    source = random.Random(seed)
    started = time.monotonic()
    were_up = 0
    before = {name: os.environ.get(name) for name in ("EDGETRAIN_LAB_STATE", "EDGETRAIN_LAB_IMAGES")}
    with tempfile.TemporaryDirectory(prefix="edgetrain-lab-kills-") as folder:
        os.environ["EDGETRAIN_LAB_STATE"] = f"{folder}/state"
        os.environ["EDGETRAIN_LAB_IMAGES"] = f"{folder}/images"
        dataset = Path(folder) / "dataset"
        dataset.mkdir()
        for number in range(20):
            (dataset / f"{number}.bin").write_bytes(source.randbytes(100_000))
        ids: set[str] = set()
        try:
            for number in range(count):
                holder = subprocess.Popen(
                    [sys.executable, "-c", HOLDER, str(dataset)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
                )
                time.sleep(source.uniform(0.1, MAX_S))
                holder.send_signal(signal.SIGKILL)
                holder.wait()
                assert holder.stdout
                were_up += b"up" in holder.stdout.read()
                holder.stdout.close()
                ids |= {session.id for session in find_sessions()}
                if number % 2:
                    sessions.sweep()
                else:
                    for session in find_sessions():
                        stayed = take_down(session)
                        assert not stayed, stayed
                # A session is left alone for five seconds while its maker may still be writing who it is.
                for session in find_sessions():
                    assert not session.read().owner, f"not swept: {session}"
            for session in find_sessions():
                take_down(session)
            assert not find_sessions()
            assert not sessions.mounts_under(Path(folder)), "mounts left"
            assert not loop.backed_by(folder), "loop devices left"
            groups = [path for path in cgroups.ours() if cgroups.session_of(path) in ids]
            assert not groups, f"groups left: {groups}"
        finally:
            for session in find_sessions():
                take_down(session)
            for name, value in before.items():
                if value is None:
                    os.environ.pop(name, None)
                else:
                    os.environ[name] = value
    return (
        f"**Lab kills**: {count} kills (-9) of a process holding storage, page cache, cores and CPU share, {were_up} of"
        f" them with everything up, seed {seed}, {time.monotonic() - started:.0f} s: every mount, loop device, server"
        " and control group was found and removed."
    )
