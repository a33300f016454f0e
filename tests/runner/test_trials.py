"""When a trial is over, what its processes use, and that nothing of it is left."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from edgetrain.inside import overrides, writes
from edgetrain.record import Manifest, Process, Run
from edgetrain.record.table import ArrayTable
from edgetrain.runner import TrialRule, trials
from edgetrain.runner.trial_memory import MemoryWatch, session_memory
from edgetrain.runner.trials import descendants, judge_rows, kill_session, last_lines

RULE = TrialRule(warm_up=8, minibatches=32, seconds=2.0, most_seconds=10.0, fewest=8)


def run_of(count: int, each_s: float, loader: int = 0, phase: int = 1) -> Run:
    rows = ArrayTable(
        {
            "loader": np.full(count, loader),
            "phase": np.full(count, phase),
            "asked_us": (np.arange(count) * each_s * 1e6).astype(np.int64),
        }
    )
    return Run("run", Manifest(), (Process(minibatches=rows),))


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        (run_of(8 + 32, 0.1), "enough"),
        (run_of(8 + 31, 0.1), "by itself"),  # too few minibatches
        (run_of(8 + 100, 0.01), "by itself"),  # too short
        (run_of(8 + 300, 0.01), "enough"),
        (run_of(8 + 12, 1.0), "enough"),  # a slow loop ends with fewer
        (run_of(8 + 7, 2.0), "by itself"),
        (run_of(200, 0.1, phase=2), "by itself"),  # evaluation does not count
        (run_of(60, 0.1, loader=-1), "no loader"),
        (Run("run", Manifest()), "by itself"),
    ],
)
def test_a_trial_is_over_when_enough_steady_minibatches_were_seen(run: Run, expected: str) -> None:
    assert judge_rows(run, RULE) == expected


def test_every_training_process_must_have_enough() -> None:
    both = Run("run", Manifest(), (*run_of(100, 0.1).processes, *run_of(20, 0.1).processes))
    assert judge_rows(both, RULE) == "by itself"


def test_a_session_is_measured_and_killed_with_everything_in_it() -> None:
    code = "import os, time; data = bytearray(os.urandom(40 << 20)); os.fork(); time.sleep(60)"
    leader = subprocess.Popen([sys.executable, "-c", code], start_new_session=True)
    try:
        watch = MemoryWatch(leader.pid)
        until_s = time.monotonic() + 20
        while len(session_memory(leader.pid)) < 2 and time.monotonic() < until_s:
            time.sleep(0.05)
        watch.read()
        assert 40 << 20 < watch.read() < 120 << 20  # shared pages count once
        assert len(watch.by_process) == 2 and watch.peak_bytes > 40 << 20
    finally:
        kill_session(leader.pid)
    assert leader.wait() == -9
    until_s = time.monotonic() + 5
    while session_memory(leader.pid) and time.monotonic() < until_s:
        time.sleep(0.05)
    assert session_memory(leader.pid) == []


def test_a_program_that_a_trial_started_in_a_session_of_its_own_is_killed_too() -> None:
    code = (
        "import subprocess, sys, time\n"
        "asleep = [sys.executable, '-S', '-c', 'import time; time.sleep(60)']\n"
        "child = subprocess.Popen(asleep, start_new_session=True)\n"
        "print(child.pid, flush=True)\ntime.sleep(60)"
    )
    leader = subprocess.Popen(
        [sys.executable, "-S", "-c", code], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    assert leader.stdout is not None
    child = int(leader.stdout.readline())
    assert descendants(leader.pid) == {child}
    kill_session(leader.pid)
    assert leader.wait() == -9
    until_s = time.monotonic() + 5
    while not gone(child) and time.monotonic() < until_s:
        time.sleep(0.02)
    assert gone(child)
    leader.stdout.close()


def gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def test_the_hook_reads_the_variables_that_a_trial_sets() -> None:
    assert (trials.LOADER_ARGUMENTS, trials.LIST_WRITES) == (overrides.VARIABLE, writes.VARIABLE)


def test_the_end_of_a_log_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("a\nb\n\nc\nd\n")
    assert last_lines(tmp_path / "log") == "c / d"
    assert last_lines(tmp_path / "nosuch") == ""
