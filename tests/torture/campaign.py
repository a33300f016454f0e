"""Kills a campaign at random instants until it is done: exactly the planned runs, and nothing left on the machine."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PLAN = """
name: kills
network: lenet5
dataset_scale: 0.005
batch_size: 16
compute: paced
compute_ms: 10
epochs: 2
cache: cold
factors:
  workers: {workers}
  storage: [sd, ssd]
  page_cache: {caches}
repeats: {repeats}
"""
FULL = 50
# The executor's own start (interpreter, torch) takes some seconds: kills fall before, within and after a training.
MAX_S = 7.0


def _left(folder: Path) -> list[str]:
    """Return mounts, loop devices and control groups that are the lab's."""
    found = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines() if str(folder) in line]
    for file in Path("/sys/block").glob("loop*/loop/backing_file"):
        with contextlib.suppress(OSError):
            if str(folder) in file.read_text():
                found.append(str(file))
    known = {path.name for path in folder.iterdir() if path.is_dir()} if folder.is_dir() else set()
    for group in Path("/sys/fs/cgroup").glob("**/edgetrain-lab-*"):
        if group.name.removeprefix("edgetrain-lab-").partition("-")[0] in known:
            found.append(str(group))
    return found


def run(count: int, seed: int) -> str:
    """Kill campaigns `count` times in all; a campaign that is done is checked, and the next one begun."""
    source = random.Random(seed)
    started = time.monotonic()
    many = count >= 20  # a sample makes two runs, the full count sixteen
    kills = campaigns = 0
    while kills < count:
        with tempfile.TemporaryDirectory(prefix="edgetrain-kills-") as folder:
            kills += _kill(Path(folder), count - kills, many, source)
        campaigns += 1
    each = f"a {16 if many else 2}-run campaign" + (f" ({campaigns} of them, one after the other)" * (campaigns > 1))
    return (
        f"**Campaign kills**: {kills} kills (-9) at random instants of {each} under lab limits (storage, page cache), "
        f"seed {seed}, {time.monotonic() - started:.0f} s: resumed to exactly the planned runs, none twice, none lost; "
        "no mount, loop device or control group left after `lab down`."
    )


def _kill(folder: Path, most: int, many: bool, source: random.Random) -> int:
    """Kill one campaign until it is done, `most` times at the most; check what it came to; return how often."""
    planned = 16 if many else 2
    workers, caches = ("[0, 1]", "[20MB, 40MB]") if many else ("[1]", "[20MB]")
    plan, state = folder / "plan.yaml", folder / "state"
    plan.write_text(PLAN.format(workers=workers, caches=caches, repeats=2 if many else 1))
    environment = {
        **os.environ,
        "EDGETRAIN_STORE": f"{folder}/store",
        "EDGETRAIN_LAB_STATE": str(state),
        "EDGETRAIN_LAB_IMAGES": f"{folder}/images",
        "EDGETRAIN_CAMPAIGN_LOCK": str(folder),
    }
    command = [sys.executable, "-m", "edgetrain"]
    ids: set[str] = set()
    kills = 0
    while kills < most:
        # Its own process group is not needed: only the campaign itself is killed, as the OOM killer would.
        under_way = subprocess.Popen(
            [*command, "campaign", str(plan)], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            under_way.wait(source.uniform(0.05, MAX_S))
            break  # done: the rest of the kills are for the next one
        except subprocess.TimeoutExpired:
            under_way.send_signal(signal.SIGKILL)
            under_way.wait()
            kills += 1
        if state.is_dir():
            ids |= {path.name for path in state.iterdir() if path.is_dir()}
    done = subprocess.run([*command, "campaign", str(plan), "--json"], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    document = json.loads(done.stdout)
    runs = list(document["done"].values())
    assert document["planned"] == planned == len(runs) == len(set(runs)), document
    finished = []
    for manifest in (folder / "store" / "runs").glob("*/manifest.json"):
        facts = json.loads(manifest.read_text())
        if facts["state"] == "finished" and facts["campaign"] == document["campaign"]:
            finished.append((facts["position"], facts["repeat"]))
    assert len(finished) == len(set(finished)) == planned, f"{len(finished)} finished runs, planned {planned}"
    down = subprocess.run([*command, "lab", "down"], env=environment, capture_output=True, text=True)
    assert down.returncode == 0, down.stderr
    left = _left(state)
    left += [str(path) for path in Path("/sys/fs/cgroup").glob("**/edgetrain-lab-*") if path.name.split("-")[2] in ids]
    assert not left, f"left behind: {left}"
    return kills
