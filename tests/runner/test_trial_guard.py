"""Nothing of a trial outlives edgetrain, however that ends, and no temporary folder is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from edgetrain.runner import TrialGuard

WITHIN_S = 20.0
# Starts a guard and, where it is asked to, a trial that has started another session; says which processes these are.
TOOL = """
import subprocess, sys, time
from pathlib import Path
from edgetrain.runner import TrialGuard
guard = TrialGuard()
Path(guard.folder, "socket").write_text("x")
pids = [guard.process.pid]
if sys.argv[1:] == ["trial"]:
    code = (
        "import subprocess, time; child = subprocess.Popen(['sleep', '60'], start_new_session=True);"
        "print(child.pid, flush=True); time.sleep(60)"
    )
    trial = subprocess.Popen(
        [sys.executable, "-S", "-c", code], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    pids += [trial.pid, int(trial.stdout.readline())]
    guard.watch(trial.pid)
print(guard.folder, *pids, flush=True)
time.sleep(60)
"""


def runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def wait_until(done: Callable[[], bool]) -> bool:
    until_s = time.monotonic() + WITHIN_S
    while not done() and time.monotonic() < until_s:
        time.sleep(0.02)
    return done()


@pytest.mark.parametrize(
    ("number", "words"),
    [(signal.SIGKILL, ["trial"]), (signal.SIGKILL, []), (signal.SIGTERM, []), (signal.SIGINT, [])],
    ids=["killed in a trial", "killed between trials", "SIGTERM between trials", "SIGINT between trials"],
)
def test_where_edgetrain_is_ended_nothing_of_a_trial_runs_on_and_the_folder_is_removed(
    tmp_path: Path, number: int, words: list[str]
) -> None:
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    tool = subprocess.Popen(
        [sys.executable, "-c", TOOL, *words],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert tool.stdout is not None
    folder, *pids = tool.stdout.readline().split()
    assert Path(folder).parent == tmp_path and all(map(runs, map(int, pids)))
    os.kill(tool.pid, number)
    tool.wait()
    tool.stdout.close()
    assert wait_until(lambda: not any(map(runs, map(int, pids))) and not os.path.exists(folder))


def test_a_guard_that_is_closed_ends_removes_the_folder_and_leaves_a_released_process_alone() -> None:
    guard = TrialGuard()
    child = subprocess.Popen(["sleep", "60"], start_new_session=True)
    try:
        guard.watch(child.pid)
        guard.release()
        guard.close()
        guard.close()
        assert guard.process.returncode == 0 and not os.path.exists(guard.folder)
        assert child.poll() is None
    finally:
        child.kill()
        child.wait()


def test_the_folder_is_removed_even_if_the_guard_was_killed() -> None:
    guard = TrialGuard()
    guard.process.kill()
    guard.process.wait()
    guard.watch(1 << 22)
    guard.close()
    assert not os.path.exists(guard.folder)
