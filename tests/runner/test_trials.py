"""When a trial is over, what its processes use, and that nothing of it is left."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from edgetrain.errors import TrialError, WorkloadError
from edgetrain.inside import overrides, writes
from edgetrain.record import FolderStore, LoaderFacts, Manifest, Process, ProcessFacts, Run
from edgetrain.record.table import ArrayTable
from edgetrain.runner import RAM_SHARE, TrialPlace, TrialRule, read_allowance, trials
from edgetrain.runner.trial_memory import MemoryWatch, session_memory
from edgetrain.runner.trial_processes import Survivor, cleans_up, descendants, family, kill_session
from edgetrain.runner.trial_turns import find_turns
from edgetrain.runner.trial_watch import count_rows, count_untrained, judge_rows
from edgetrain.runner.trials import ProcessesLeft, TrialCommand, last_lines, remove_made, with_memory_now
from edgetrain.schema import Experiment, Workload

PLACE = TrialPlace(FolderStore("store"))
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


@pytest.mark.parametrize(
    ("run", "count"),
    [
        (run_of(20, 0.1, phase=0), 20),
        (run_of(20, 0.1, phase=2), 0),  # evaluation
        (Run("run", Manifest(), (*run_of(20, 0.1, phase=0).processes, *run_of(1, 0.1, loader=-1).processes)), 0),
        (Run("run", Manifest()), 0),
    ],
)
def test_minibatches_without_a_training_step_are_counted_until_one_is_seen(run: Run, count: int) -> None:
    assert count_untrained(run) == count


def test_every_training_process_must_have_enough() -> None:
    both = Run("run", Manifest(), (*run_of(100, 0.1).processes, *run_of(20, 0.1).processes))
    assert judge_rows(both, RULE) == "by itself"


def test_minibatches_that_a_loader_had_fetched_ahead_do_not_count() -> None:
    facts = ProcessFacts(loaders=(LoaderFacts(loader=0, workers=8, prefetch_factor=4),))

    def fetched(count: int) -> Run:
        rows = run_of(count, 0.1).processes[0].minibatches
        return Run("run", Manifest(), (Process(facts=facts, minibatches=rows),))

    assert judge_rows(fetched(32 + 31), RULE) == "by itself"
    assert judge_rows(fetched(32 + 32), RULE) == "enough"
    assert count_rows(fetched(40), RULE) == (40, 32 + RULE.fewest)
    assert count_rows(Run("run", Manifest()), RULE) == (0, 8 + RULE.fewest)


def in_groups(groups: int, of: int, each_s: float) -> Run:
    """Return a loop that fetches some minibatches at once and then trains on one after the other."""
    loader = ([0] * of + [-1] * (of - 1)) * groups
    phase = ([0] * (of - 1) + [1] * of) * groups
    asked_us = np.cumsum(np.full(len(loader), of * each_s * 1e6 / (2 * of - 1))).astype(np.int64)
    rows = ArrayTable({"loader": np.array(loader), "phase": np.array(phase), "asked_us": asked_us})
    return Run("run", Manifest(), (Process(minibatches=rows),))


def test_minibatches_that_are_fetched_together_and_trained_one_after_the_other_all_count() -> None:
    run = in_groups(groups=12, of=4, each_s=0.1)
    assert len(find_turns(run.processes[0].minibatches)) == 48
    assert count_rows(run, RULE)[0] == 48 and judge_rows(run, RULE) == "enough"
    assert judge_rows(in_groups(groups=9, of=4, each_s=0.1), RULE) == "by itself"


@pytest.mark.parametrize(
    ("loader", "phase", "count"),
    [
        ([0, 1, 0, 1], [0, 1, 0, 1], 2),  # zip of two loaders
        ([0, -1, 0, -1], [1, 1, 1, 1], 2),  # two backward passes per minibatch
        ([0, 0, 0], [0, 1, 1], 2),  # one was skipped
        ([0, 0, 1, 1, 0], [1, 1, 2, 3, 1], 3),  # evaluation in between
        ([-1, -1, 0], [1, 1, 1], 1),  # steps before the first fetch
    ],
)
def test_what_a_loop_takes_before_it_trains_is_one_minibatch(loader: list[int], phase: list[int], count: int) -> None:
    rows = ArrayTable(
        {"loader": np.array(loader), "phase": np.array(phase), "asked_us": np.arange(len(loader), dtype=np.int64)}
    )
    assert len(find_turns(rows)) == count


def passing(count: int, each_s: float, length: int) -> Run:
    """Return a loop over passes of one length, each by a loader of its own."""
    rows = ArrayTable(
        {
            "loader": np.arange(count) // length,
            "generation": np.zeros(count, np.int64),
            "phase": np.ones(count, np.int64),
            "asked_us": (np.arange(count) * each_s * 1e6).astype(np.int64),
        }
    )
    loaders = tuple(LoaderFacts(loader=number, workers=0, length=length) for number in range(count // length + 1))
    return Run("run", Manifest(), (Process(facts=ProcessFacts(loaders=loaders), minibatches=rows),))


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        (passing(50, 0.06, 60), "by itself"),  # the next pass begins soon
        (passing(61, 0.06, 60), "by itself"),  # it has begun, and its first minibatch is not over
        (passing(62, 0.06, 60), "enough"),
        (passing(50, 0.06, 600), "enough"),  # a long pass is not waited for
        (passing(230, 0.06, 60), "enough"),
    ],
)
def test_a_trial_goes_on_to_the_start_of_the_next_pass_where_passes_are_short(run: Run, expected: str) -> None:
    assert judge_rows(run, RULE) == expected


def test_a_pass_that_never_comes_does_not_keep_a_trial_from_ending() -> None:
    assert judge_rows(passing(8 + 170, 0.06, 200), TrialRule(pass_seconds=15.0, most_seconds=10.0)) == "enough"


def test_a_session_is_measured_and_killed_with_everything_in_it() -> None:
    code = "import os, time; data = bytearray(os.urandom(40 << 20)); os.fork(); time.sleep(60)"
    leader = subprocess.Popen([sys.executable, "-c", code], start_new_session=True)
    try:
        watch = MemoryWatch(leader.pid)
        until_s = time.monotonic() + 20
        while len(session_memory(leader.pid)) < 2 and time.monotonic() < until_s:
            time.sleep(0.05)
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


def test_shared_memory_of_a_killed_trial_is_removed(tmp_path: Path) -> None:
    """Python's resource tracker removes it once nobody holds its pipe; killed with the others, it would not."""
    code = (
        "from multiprocessing import shared_memory\n"
        "import time\n"
        "block = shared_memory.SharedMemory(create=True, size=4096)\n"
        "print(block.name, flush=True)\ntime.sleep(60)"
    )
    leader = subprocess.Popen(
        [sys.executable, "-S", "-c", code], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    assert leader.stdout is not None
    segment = Path("/dev/shm") / leader.stdout.readline().strip().lstrip("/")
    assert segment.exists()
    until_s = time.monotonic() + 20
    while not any(cleans_up(one.pid) for one in family(leader.pid)) and time.monotonic() < until_s:
        time.sleep(0.02)  # the tracker is forked before it becomes a program of its own
    assert any(cleans_up(one.pid) for one in family(leader.pid))
    kill_session(leader.pid)
    assert leader.wait() == -9
    assert not segment.exists() and not any(not one.ended for one in family(leader.pid))
    leader.stdout.close()


def test_a_program_that_starts_others_all_the_time_leaves_none(tmp_path: Path) -> None:
    started = tmp_path / "started"
    code = (
        "import os, subprocess, sys, time\n"
        f"log = open({str(started)!r}, 'a', buffering=1)\n"
        "while True:\n"
        "    child = subprocess.Popen(['sleep', '60'], start_new_session=True)\n"
        "    log.write(f'{child.pid}\\n')\n"
    )
    leader = subprocess.Popen([sys.executable, "-S", "-c", code], start_new_session=True)
    until_s = time.monotonic() + 20
    while (not started.exists() or len(started.read_text()) < 40) and time.monotonic() < until_s:
        time.sleep(0.02)
    kill_session(leader.pid)
    assert leader.wait() == -9
    children = [int(pid) for pid in started.read_text().split()]
    until_s = time.monotonic() + 5
    while not all(map(gone, children)) and time.monotonic() < until_s:
        time.sleep(0.02)
    assert len(children) > 5 and all(map(gone, children))


def test_what_a_trial_started_is_killed_although_its_first_process_has_ended() -> None:
    code = "import subprocess; print(subprocess.Popen(['sleep', '60'], stdout=subprocess.DEVNULL).pid, flush=True)"
    leader = subprocess.Popen(
        [sys.executable, "-S", "-c", code], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    assert leader.stdout is not None
    child = int(leader.stdout.read())
    assert leader.wait() == 0 and not gone(child)
    trainee = TrialCommand(Experiment(Workload("train", command=("python",))), Path("run"), 1, None, PLACE, None)
    trainee._process = leader
    trainee.stop()
    assert gone(child)
    leader.stdout.close()


def test_a_process_that_has_the_id_of_an_ended_leader_is_not_taken_for_it(tmp_path: Path) -> None:
    for pid, parent, session in ((40, 1, 7), (41, 40, 7), (42, 1, 40)):
        folder = tmp_path / "proc" / str(pid)
        folder.mkdir(parents=True)
        (folder / "stat").write_text(f"{pid} (a) b) S {parent} {session} {session} 0\n")
    assert [one.pid for one in family(40, tmp_path)] == [42]
    assert [one.pid for one in family(7, tmp_path)] == [40, 41]


@pytest.mark.skipif(os.geteuid() != 0, reason="starts a process of another user")
def test_processes_that_may_not_be_killed_are_returned_at_once() -> None:
    ours = subprocess.Popen(["sleep", "60"], start_new_session=True)
    code = (
        "import os, sys, time; from edgetrain.runner.trial_processes import kill_session; os.setuid(65534);"
        "began = time.monotonic(); print(kill_session(int(sys.argv[1]))); print(time.monotonic() - began < 10)"
    )
    command = [sys.executable, "-c", code, str(ours.pid)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
        assert done.stdout.split("\n")[:2] == [f"(Survivor(pid={ours.pid}, name='sleep'),)", "True"]
        assert ours.poll() is None
    finally:
        ours.kill()
        ours.wait()


def test_processes_that_are_left_stop_the_search_and_are_named() -> None:
    error = ProcessesLeft((Survivor(12, "python"), Survivor(14, "tool")))
    assert "12 (python), 14 (tool)" in str(error) and str(error).endswith("sudo kill -9 12 14")
    assert not isinstance(error, WorkloadError | TrialError)  # which a search would take for a failed setting


def test_the_memory_limit_of_a_trial_is_what_is_available_now(tmp_path: Path) -> None:
    free = int(RAM_SHARE * read_allowance().memory_bytes)
    assert with_memory_now(replace(PLACE, most_bytes=1 << 20)).most_bytes == 1 << 20
    lowered = with_memory_now(replace(PLACE, most_bytes=1 << 60)).most_bytes
    assert lowered is not None and lowered < 2 * free
    assert with_memory_now(PLACE).most_bytes is None


def gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def test_the_hook_reads_the_variables_that_a_trial_sets() -> None:
    assert (trials.LOADER_ARGUMENTS, trials.LIST_WRITES) == (overrides.VARIABLE, writes.VARIABLE)
    assert trials.STOP_AT_WRITES == writes.STOP != trials.LIST_ONLY
    assert trials.WRITABLE == writes.FOLDERS


def test_the_end_of_a_log_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("a\nb\n\nc\nd\n")
    assert last_lines(tmp_path / "log") == "c / d"
    assert last_lines(tmp_path / "nosuch") == ""


def test_folders_that_a_trial_made_are_removed_unless_something_lies_in_them(tmp_path):
    (tmp_path / "runs" / "1").mkdir(parents=True)
    (tmp_path / "kept" / "1").mkdir(parents=True)
    (tmp_path / "kept" / "notes.txt").write_text("mine")
    remove_made([str(tmp_path / name) for name in ("runs", "runs/1", "kept", "kept/1", "gone")])
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]
    assert [path.name for path in (tmp_path / "kept").iterdir()] == ["notes.txt"]
