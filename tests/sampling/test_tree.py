"""The training's processes summed, and the load of others."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from edgetrain.errors import ProbeUnavailable
from edgetrain.sampling.otherload import LoadProbe
from edgetrain.sampling.tree import MAX_PROCESSES, ProcessProbe, ProcessTree

BURN = "import time\nend = time.process_time() + {}\nwhile time.process_time() < end: pass\n"
# A parent that reaps a child which burned CPU and read a file past the cache, then lives on.
PARENT = """
import os, subprocess, sys, time
child = os.fork()
if child == 0:
    end = time.process_time() + 0.3
    while time.process_time() < end: pass
    fd = os.open(sys.argv[1], os.O_RDONLY)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    while os.read(fd, 1 << 20): pass
    os._exit(0)
os.waitpid(child, 0)
print("reaped", flush=True)
time.sleep(30)
"""


@pytest.fixture
def start():
    started: list[subprocess.Popen[str]] = []

    def run(code: str, *arguments: str) -> subprocess.Popen[str]:
        process = subprocess.Popen([sys.executable, "-c", code, *arguments], stdout=subprocess.PIPE, text=True)
        started.append(process)
        return process

    yield run
    for process in started:
        process.kill()
        process.wait()


def test_children_are_found_and_sums_keep_what_the_reaped_did(start, tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.write_bytes(b"x" * 3_000_000)
    with data.open("rb") as file:
        os.fsync(file.fileno())
    parent = start(PARENT, str(data))
    probe = ProcessProbe(ProcessTree(parent.pid))
    before = dict(zip(probe.columns, probe.read(), strict=True))
    assert parent.stdout is not None and parent.stdout.readline() == "reaped\n"
    after = dict(zip(probe.columns, probe.read(), strict=True))
    assert after["cpu_s"] - before["cpu_s"] >= 0.25
    assert after["asked_bytes"] - before["asked_bytes"] >= 3_000_000
    assert after["process_count"] == 1
    probe.close()


def test_a_tree_never_contains_the_one_who_watches() -> None:
    tree = ProcessTree(os.getppid())
    assert os.getpid() not in tree.pids
    tree.close()


def test_grandchildren_belong_to_the_tree(start) -> None:
    code = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import time; time.sleep(30)'])"
    parent = start(code)
    deadline = time.monotonic() + 10
    tree = ProcessTree(parent.pid)
    while len(tree.pids) < 2 and time.monotonic() < deadline:
        time.sleep(0.05)
        tree.search()
    assert len(tree.pids) == 2
    for pid in tree.pids:
        if pid != parent.pid:
            os.kill(pid, 9)
    tree.close()


def test_counters_never_fall_when_processes_come_and_go(start) -> None:
    code = "import subprocess, sys\nfor _ in range(8): subprocess.run([sys.executable, '-S', '-c', 'pass'])"
    parent = start(code)
    probe = ProcessProbe(ProcessTree(parent.pid))
    last = [0.0] * 4
    while parent.poll() is None:
        row = list(probe.read())[:4]
        assert all(new >= old for new, old in zip(row, last, strict=True) if new == new)
        last = [new if new == new else old for new, old in zip(row, last, strict=True)]
    row = probe.read()
    assert all(value != value for value in row)  # nobody left: nothing is read
    probe.close()


def test_a_process_that_is_not_there_cannot_be_watched() -> None:
    gone = subprocess.Popen([sys.executable, "-S", "-c", "pass"])
    gone.wait()
    with pytest.raises(ProbeUnavailable, match=str(gone.pid)):
        ProcessTree(gone.pid)


def _machine(root: Path, busy_ticks: int) -> None:
    (root / "stat").write_text(
        f"cpu  {busy_ticks} 0 0 100000 0 0 0 0\ncpu0 0\ncpu1 0\ncpu2 0\ncpu3 0\nprocs_running 1\n"
    )


def _process(root: Path, pid: int, name: str, ticks: int) -> None:
    (root / str(pid) / "task" / str(pid)).mkdir(parents=True, exist_ok=True)
    fields = ["S", "1", *["0"] * 9, str(ticks), "0", "0", "0", "20", "0", "1", "0", "0", "0", "100", *["0"] * 5]
    (root / str(pid) / "stat").write_text(f"{pid} ({name}) {' '.join(fields)}\n")


def test_load_that_lasts_is_reported_once_a_minute_with_the_processes_that_make_it(tmp_path: Path) -> None:
    now = [0]
    _machine(tmp_path, 0)
    _process(tmp_path, 100, "train", 0)
    _process(tmp_path, 200, "hog (x) y", 0)
    probe = LoadProbe(ProcessTree(100, tmp_path), (), tmp_path, lambda: now[0] * 10**9, range(4))
    probe.read()
    events = []
    for second in range(1, 100):
        now[0] = second
        ours, others = 100 * second, 150 * second  # one core ours, one and a half not
        _process(tmp_path, 100, "train", ours)
        _process(tmp_path, 200, "hog (x) y", others)
        _machine(tmp_path, ours + others)
        share, cores = probe.read()
        events += [(second, event.kind, event.text) for event in probe.pop_events()]
        assert cores == pytest.approx(1.5, abs=0.05) and share == pytest.approx(1.5 / 4, abs=0.02)
    assert [(second, kind) for second, kind, _ in events] == [(4, "other_load"), (64, "other_load")]
    assert "1.5 of 4 cores" in events[0][2] and "hog (x) y (200)" in events[0][2]
    probe.close()


def test_cores_that_are_not_ours_to_use_do_not_count(tmp_path: Path) -> None:
    now = [0]
    _process(tmp_path, 100, "train", 0)

    def machine(ours: int, theirs: int) -> None:
        lines = [f"cpu{core} {ticks} 0 0 1000 0 0 0 0" for core, ticks in enumerate((ours, ours, theirs, theirs))]
        (tmp_path / "stat").write_text("\n".join([f"cpu  {2 * (ours + theirs)} 0 0 4000 0 0 0 0", *lines, "intr 1\n"]))

    machine(0, 0)
    probe = LoadProbe(ProcessTree(100, tmp_path), (), tmp_path, lambda: now[0] * 10**9, {0, 1})
    probe.read()
    now[0] = 1
    machine(50, 100)
    assert probe.read() == [pytest.approx(0.5, abs=0.03), pytest.approx(1.0, abs=0.05)]
    probe.close()


def test_our_own_load_and_short_bursts_are_no_other_load(tmp_path: Path) -> None:
    now, busy = [0], 0
    _machine(tmp_path, 0)
    _process(tmp_path, 100, "train", 0)
    probe = LoadProbe(ProcessTree(100, tmp_path), (), tmp_path, lambda: now[0] * 10**9, range(4))
    probe.read()
    for second in range(1, 30):
        now[0] = second
        busy += 400 if second % 5 == 0 else 100  # ours is always one core; every fifth second another three
        _process(tmp_path, 100, "train", 100 * second)
        _machine(tmp_path, busy)
        probe.read()
    assert probe.pop_events() == []
    probe.close()


def test_the_interval_in_which_the_training_ended_says_nothing_about_others(tmp_path: Path) -> None:
    now = [0]
    _machine(tmp_path, 0)
    _process(tmp_path, 100, "train", 500)
    probe = LoadProbe(ProcessTree(100, tmp_path), (), tmp_path, lambda: now[0] * 10**9, range(4))
    probe.read()
    now[0] = 1
    (tmp_path / "100" / "stat").write_text("")  # as the kernel answers for a process that was reaped
    _machine(tmp_path, 100)
    assert all(math.isnan(value) for value in probe.read())
    probe.close()


def test_of_thousands_of_processes_only_some_are_summed_and_that_is_reported(tmp_path: Path) -> None:
    for pid in range(1000, 3000):
        _process(tmp_path, pid, "many", 7)
    children = tmp_path / "1000" / "task" / "1000" / "children"
    children.write_text(" ".join(str(pid) for pid in range(1001, 3000)))
    began = time.perf_counter()
    tree = ProcessTree(1000, tmp_path)
    probe = ProcessProbe(tree)
    row = dict(zip(probe.columns, probe.read(), strict=True))
    assert time.perf_counter() - began < 2
    assert row["process_count"] == MAX_PROCESSES
    assert probe.period_s > 0.5  # read less often, so that it costs no more
    assert [event.kind for event in probe.pop_events()] == ["doubt"] and probe.pop_events() == []
    probe.close()


def test_on_this_machine_a_hog_of_ours_is_ours(start) -> None:
    hog = start(BURN.format(2.0))
    tree = ProcessTree(hog.pid)
    probe = LoadProbe(tree)
    probe.read()
    before_s, began = tree.cpu_s(), time.monotonic()
    time.sleep(1.0)
    share, cores = probe.read()
    assert tree.cpu_s() > before_s
    assert 0 <= share <= 1 and cores <= (os.cpu_count() or 1)
    assert time.monotonic() - began < 5
    probe.close()
    tree.close()
