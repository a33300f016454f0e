"""The memory of a trial is read rarely, more often near the limit, and exactly before anything is ended for it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from edgetrain.runner.trial_memory import EXACT_EVERY_S, NEAR_EVERY_S, MemoryWatch

LEADER = 4000
GIB_KB = 1 << 20


class Machine:
    """A /proc with the processes of one session, and a clock turned by hand."""

    def __init__(self, root: Path) -> None:
        self.root, self.now_s = root, 0.0
        self.available(64 * GIB_KB)

    def available(self, kb: int) -> None:
        self._write("meminfo", f"MemTotal: {64 * GIB_KB} kB\nMemAvailable: {kb} kB\n")

    def process(self, pid: int, used_kb: int, possible_kb: int | None = None) -> None:
        """Show a process; `possible_kb` counts pages that it shares with others as its own."""
        parent = 1 if pid == LEADER else LEADER
        possible_kb = used_kb if possible_kb is None else possible_kb
        self._write(f"{pid}/stat", f"{pid} (python) S {parent} {LEADER} {LEADER} 0\n")
        self._write(f"{pid}/status", f"Name:\tpython\nRssAnon:\t{possible_kb} kB\nRssShmem:\t0 kB\nVmSwap:\t0 kB\n")
        self._write(
            f"{pid}/smaps_rollup",
            f"00-ff ---p 00000000 00:00 0 [rollup]\nPss: {used_kb + 7} kB\nPss_Anon: {used_kb} kB\nPss_Shmem: 0 kB\n"
            f"SwapPss: 0 kB\nPrivate_Dirty: {used_kb} kB\n",
        )

    def _write(self, name: str, text: str) -> None:
        path = self.root / "proc" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


class CountedWatch(MemoryWatch):
    """Counts its exact readings."""

    count = 0

    def read(self) -> int:
        self.count += 1
        return super().read()


def watch_of(machine: Machine, **settings) -> MemoryWatch:
    return MemoryWatch(LEADER, machine.root, now_s=lambda: machine.now_s, **settings)


def test_exact_readings_take_two_percent_of_the_time_at_most(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.process(LEADER, 8 * GIB_KB)
    tick_s = 0.1  # by which the clock advances whenever it is read: at least once per reading of processes

    def now_s() -> float:
        machine.now_s += tick_s
        return machine.now_s

    watch = CountedWatch(LEADER, machine.root, now_s=now_s, most_bytes=20 << 30)
    while machine.now_s < 1000:
        assert not watch.exceeded()
        machine.now_s += 0.1
    assert 20 < watch.count <= 0.02 * 1000 / tick_s + 1
    assert watch.peak_bytes == 8 << 30 and watch.by_process[LEADER].private_bytes == 8 << 30


def test_near_the_limit_estimates_are_made_more_often(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.process(LEADER, 8 * GIB_KB)
    watch = watch_of(machine, most_bytes=10 << 30)
    assert not watch.exceeded() and watch.poll_s > 5 * NEAR_EVERY_S
    machine.process(LEADER, 9 * GIB_KB)
    machine.now_s += watch.poll_s
    assert not watch.exceeded() and watch.poll_s == NEAR_EVERY_S


def test_processes_above_the_limit_are_stopped_read_again_and_left_stopped(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.process(LEADER, 8 * GIB_KB)
    calls: list[str] = []

    def stop(session: int) -> Sequence[int]:
        calls.append(f"stop {session}")
        return (LEADER,)

    watch = watch_of(machine, most_bytes=10 << 30, stop=stop, go_on=lambda pids: calls.append(f"continue {pids}"))
    assert not watch.exceeded() and calls == []
    machine.process(LEADER, 11 * GIB_KB)  # long before the next exact reading
    machine.now_s += EXACT_EVERY_S / 2
    assert watch.exceeded() and calls == [f"stop {LEADER}"]
    assert watch.peak_bytes == 11 << 30


def test_processes_that_only_seemed_to_be_above_the_limit_go_on(tmp_path: Path) -> None:
    """A fork between two readings counts pages twice; here the reading of stopped processes shows less."""
    machine = Machine(tmp_path)
    machine.process(LEADER, 8 * GIB_KB)
    continued: list[Sequence[int]] = []
    watch = watch_of(machine, most_bytes=10 << 30, stop=lambda session: (LEADER,), go_on=continued.append)
    assert not watch.exceeded()
    machine.process(LEADER, 5 * GIB_KB, possible_kb=11 * GIB_KB)
    machine.now_s += watch.poll_s
    assert not watch.exceeded() and continued == [(LEADER,)]


def test_pages_that_forked_workers_share_are_no_reason_to_stop_them(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    stopped: list[int] = []
    watch = watch_of(machine, most_bytes=10 << 30, stop=lambda session: stopped.append(session) or ())
    for pid in range(LEADER, LEADER + 5):
        machine.process(pid, GIB_KB, possible_kb=5 * GIB_KB)
    assert not watch.exceeded()  # the first reading is exact
    for _ in range(50):
        machine.now_s += watch.poll_s
        assert not watch.exceeded()
    assert len(stopped) <= 1
    assert watch.peak_bytes == 5 << 30


def test_pages_that_workers_copy_are_seen_by_what_the_machine_loses(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    watch = watch_of(machine, most_bytes=10 << 30, stop=lambda session: ())
    for pid in range(LEADER, LEADER + 5):
        machine.process(pid, GIB_KB, possible_kb=5 * GIB_KB)
    watch.exceeded()
    for pid in range(LEADER, LEADER + 5):
        machine.process(pid, 3 * GIB_KB, possible_kb=5 * GIB_KB)  # as many pages, shared no longer
    machine.available(54 * GIB_KB)
    machine.now_s += watch.poll_s
    assert watch.exceeded()


def test_where_an_accelerator_uses_the_same_memory_what_the_machine_lost_counts(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.process(LEADER, GIB_KB)
    watch = watch_of(machine, most_bytes=10 << 30, unified=True, stop=lambda session: ())
    assert not watch.exceeded()
    machine.available(52 * GIB_KB)
    machine.now_s += watch.poll_s
    assert watch.exceeded() and watch.peak_bytes == 12 << 30


def test_the_last_reading_of_a_trial_keeps_what_its_processes_had(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.process(LEADER, GIB_KB)
    watch = watch_of(machine, most_bytes=10 << 30, stop=lambda session: ())
    watch.exceeded()
    machine.process(LEADER, 2 * GIB_KB)
    machine.process(LEADER + 1, 3 * GIB_KB)
    watch.read_last()
    assert watch.peak_bytes == 5 << 30 and watch.by_process[LEADER + 1].private_bytes == 3 << 30
