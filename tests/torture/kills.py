"""Kills the tool at random instants of a run and reads what it left."""

import contextlib
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil

from edgetrain.analysis import summarize
from edgetrain.record import read_run

FULL = 100
MAX_LOST_S = 5.0
AT_ONCE = 3
MAX_S = 9.0  # from the start of the tool to its kill
COMMAND = (
    *(sys.executable, "-m", "edgetrain", "run", "lenet5", "--workers", "1", "--compute", "paced", "--compute-ms", "3"),
    *("--dataset-scale", "0.14", "--epochs", "40", "--minibatches", "500"),
)


def run(count: int = FULL, seed: int = 0) -> str:
    """Kill -9 the tool `count` times; every record must open and have lost at most five seconds."""
    draw = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "store"
        once = [*COMMAND[:-4], "--epochs", "1", "--minibatches", "1", "--store", str(store)]
        began_s = time.monotonic()
        ready = subprocess.run(once, capture_output=True, text=True, check=False)
        assert ready.returncode == 0, ready.stderr
        # On a busy machine a run takes longer to start, and some kills must fall into training.
        longest_s = max(MAX_S, AT_ONCE * (time.monotonic() - began_s))
        # Every other time the training process is killed with the tool, as a power cut would.
        plan = [(draw.uniform(0.3, longest_s), number % 2 == 0) for number in range(count)]
        with ThreadPoolExecutor(AT_ONCE) as pool:
            found = list(pool.map(lambda one: _kill_once(store, *one), plan))
    lost = [seconds for seconds in found if seconds is not None]
    assert lost, "no kill fell into training: lengthen the delays"
    assert max(lost) <= MAX_LOST_S, f"{max(lost):.1f} s were lost"
    return (
        f"{count} kills of the tool at random instants (seed {seed}), {len(lost)} of them in training: every record "
        f"opened; lost before the kill: median {sorted(lost)[len(lost) // 2]:.2f} s, most {max(lost):.2f} s."
    )


def _kill_once(store: Path, delay_s: float, children_too: bool) -> float | None:
    """Start a run, kill the tool after a while, wait for its children to notice; return the seconds lost."""
    own = Path(tempfile.mkdtemp(dir=store.parent)) / "store"
    own.mkdir()
    (own / "data").symlink_to(store / "data")
    tool = subprocess.Popen(
        [*COMMAND, "--store", str(own)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    time.sleep(delay_s)
    children = psutil.Process(tool.pid).children(recursive=True)
    os.kill(tool.pid, signal.SIGKILL)
    if children_too:
        for child in children:
            with contextlib.suppress(psutil.NoSuchProcess):
                child.kill()
    killed_us = time.monotonic_ns() // 1000
    tool.wait()
    _, left = psutil.wait_procs(children, timeout=20)
    assert not left, f"processes outlived the killed tool: {left}"
    runs = sorted((own / "runs").glob("*")) if (own / "runs").is_dir() else []
    if not runs:
        return None
    record = read_run(runs[0])
    summary = summarize(record)
    assert summary.doubts, "a killed run must say that it never ended"
    if not summary.epochs:
        return None
    return max(0.0, (killed_us - int(record.minibatches()["asked_us"].max())) / 1e6)
