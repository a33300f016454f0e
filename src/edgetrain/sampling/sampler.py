"""Reads every probe on a schedule that does not drift, beside training, at a cost it measures and records."""

from __future__ import annotations

import dataclasses
import heapq
import os
import threading
import time
from array import array
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from edgetrain.device import Probe
from edgetrain.inside.stream import append_event, now_us, write_json
from edgetrain.sampling.limiter import RateLimiter
from edgetrain.sampling.monitor import ClockMonitor
from edgetrain.sampling.schedule import ProbeAccount, Report, ScheduledProbe
from edgetrain.units import S_PER_US, US_PER_S

FLUSH_INTERVAL_S = 1.0
ACCOUNT_INTERVAL_S = 5.0  # how often sampler.json is rewritten
# How long the end waits for a slow disk and for probes that block.
CLOSING_LIMIT_S = 2.0
# Recorded latenesses: above this, every second one is dropped.
MAX_LATENESSES = 20_000
# The share of readings that may be missed, and the lateness, before a run gets a doubt about its telemetry.
DOUBT_MISSED_SHARE = 0.05
DOUBT_LATE_P99_S = 0.1


class Monitor(Protocol):
    """What ends sampling, and asks for a reading of the slow probes; `monitor.StopMonitor` is one."""

    @property
    def ended(self) -> str | None:
        """Why sampling ends; None: it goes on."""

    def wait(self, seconds: float) -> None:
        """Sleep, or return earlier when sampling ends."""

    def pop_request(self) -> bool:
        """Return whether an epoch ended since the last call."""


@dataclass(frozen=True, slots=True)
class SamplerAccount:
    """What sampling cost and how well it kept its schedule; `sampler.json` in the run's folder."""

    state: str  # running | ended: REASON. `running` in a run that has ended: the sampler was killed
    pid: int
    written_us: int  # when this was written
    flushed_us: int | None  # up to when samples are on disk for certain
    cpu_s: float
    wall_s: float
    start_cpu_s: float  # importing and opening: once
    cpu_share: float | None  # of one core, after the start
    read_wall_share: float | None
    late_p50_s: float | None
    late_p99_s: float | None
    missed: int
    reads_failed: Mapping[str, int]  # by stream and column
    written_bytes: int
    slower: int  # the rate limiter's slowdown
    per_probe: Mapping[str, ProbeAccount]


class Sampler:
    """Fast probes on this thread, each probe that may block on a thread of its own, files written by another.

    A slow disk under the record, a long count of the page cache or a sensor that waits thus delays no other reading.
    """

    def __init__(
        self, run: Path, probes: Iterable[Probe], monitor: Monitor, limiter: RateLimiter | None = None
    ) -> None:
        self._monitor = monitor
        self._limiter = limiter or RateLimiter()
        self._began_us = now_us()
        self._start_cpu_s = time.process_time()
        self._events = os.fspath(run / "events-sampler.jsonl")
        self._account_path = os.fspath(run / "sampler.json")
        names: set[str] = set()
        scheduled = [self._schedule(run, probe, _unique_name(probe.name, names)) for probe in probes]
        self._fast = [each for each in scheduled if not each.probe.blocking]
        self._blocking = [_BlockingProbe(each, self.report) for each in scheduled if each.probe.blocking]
        self._all = scheduled
        self._late = array("f")
        self._late_every = 1
        self._late_seen = 0
        self._clock = ClockMonitor()
        self._json_bytes = 0
        self._flushed_us: int | None = None
        self._stop = threading.Event()
        self._state = "running"

    def _schedule(self, run: Path, probe: Probe, name: str) -> ScheduledProbe:
        measures_power = any(column.endswith(("_w", "_j")) for column in probe.columns)
        rate = self._limiter.add(probe.period_s, measures_power, probe.blocking)
        return ScheduledProbe(probe, run, self._began_us + 1000, rate, name)

    def run(self) -> None:
        """Sample until the monitor ends it, then write everything down."""
        writer = threading.Thread(target=self._write_files, name="writer", daemon=True)
        self._write_account()
        writer.start()
        for each in self._blocking:
            each.start()
        try:
            self._read_fast()
        finally:
            self._stop.set()
            # The last value of every counter, and of the cache, belongs in the record.
            for each in self._blocking:
                each.stop()
            for scheduled in self._fast:
                scheduled.read_last()
            until_s = time.monotonic() + CLOSING_LIMIT_S
            for thread in (writer, *self._blocking):
                thread.join(max(0.0, until_s - time.monotonic()))
            self._doubt_itself()
            for scheduled in self._all:
                scheduled.close()
            self._flushed_us = now_us()
            self._state = f"ended: {self._monitor.ended or 'an error'}"
            self._write_account()

    def report(self, kind: str, text: str, **facts: object) -> None:
        """Append one event."""
        append_event(self._events, kind, text, by="sampler", **facts)

    def _read_fast(self) -> None:
        heap = [(each.due_us, order, each) for order, each in enumerate(self._fast)]
        heapq.heapify(heap)
        check_due_us = now_us()
        while self._monitor.ended is None:
            due_us = min(heap[0][0] if heap else check_due_us, check_due_us)
            now = now_us()
            if now < due_us:
                self._monitor.wait((due_us - now) * S_PER_US)
                if self._monitor.pop_request():
                    for blocking in self._blocking:
                        blocking.request()
                continue
            self._note_late(now - due_us)
            while heap and heap[0][0] <= now:
                _, order, scheduled = heapq.heappop(heap)
                scheduled.read(self.report)
                heapq.heappush(heap, (scheduled.due_us, order, scheduled))
            if check_due_us <= now:
                check_due_us += ((now - check_due_us) // US_PER_S + 1) * US_PER_S
                for doubt, text in self._clock.check():
                    self.report("doubt", text, doubt=doubt)
                self._limiter.update(time.monotonic(), time.process_time())

    def _write_files(self) -> None:
        account_s = time.monotonic()
        while not self._stop.wait(FLUSH_INTERVAL_S):
            began_us = now_us()
            for scheduled in self._all:
                try:
                    scheduled.writer.flush()
                except Exception as error:  # one bad stream must not stop the others
                    scheduled.why = f"{type(error).__name__}: {error}"
            self._flushed_us = began_us
            if time.monotonic() - account_s >= ACCOUNT_INTERVAL_S:
                account_s = time.monotonic()
                self._write_account()

    def _note_late(self, late_us: int) -> None:
        self._late_seen += 1
        if self._late_seen % self._late_every:
            return
        self._late.append(late_us * S_PER_US)
        if len(self._late) > MAX_LATENESSES:
            self._late = self._late[::2]
            self._late_every *= 2

    def _doubt_itself(self) -> None:
        account = self.account()
        reads = sum(each.reads for each in self._fast)
        late_s = account.late_p99_s or 0.0
        if account.missed > DOUBT_MISSED_SHARE * (reads + account.missed) or late_s > DOUBT_LATE_P99_S:
            text = f"the sampler fell behind: {account.missed} of {reads + account.missed} readings missed, "
            text += f"the latest 1 % more than {late_s * 1e3:.0f} ms late"
            self.report("doubt", text, doubt="sampler_fell_behind")
        broken = [each.writer.failed for each in self._all if each.writer.failed]
        if broken:
            self.report("doubt", f"telemetry could not be written: {broken[0]}", doubt="telemetry_lost")

    def account(self) -> SamplerAccount:
        """Return what sampling cost so far and how well it kept its schedule."""
        late = sorted(self._late)
        wall_s = (now_us() - self._began_us) * S_PER_US
        cpu_s = time.process_time()
        busy_s = sum(each.busy_us for each in self._all) * S_PER_US
        return SamplerAccount(
            state=self._state,
            pid=os.getpid(),
            written_us=now_us(),
            flushed_us=self._flushed_us,
            cpu_s=cpu_s,
            wall_s=wall_s,
            start_cpu_s=self._start_cpu_s,
            cpu_share=(cpu_s - self._start_cpu_s) / wall_s if wall_s > 0 else None,
            read_wall_share=busy_s / wall_s if wall_s > 0 else None,
            late_p50_s=late[len(late) // 2] if late else None,
            late_p99_s=late[min(int(len(late) * 0.99), len(late) - 1)] if late else None,
            missed=sum(each.missed for each in self._fast),
            reads_failed={
                f"{each.name}.{column}": count for each in self._all for column, count in each.failed.items()
            },
            written_bytes=sum(each.writer.written_bytes for each in self._all) + self._json_bytes,
            slower=self._limiter.slowdown,
            per_probe={each.name: each.account() for each in self._all},
        )

    def _write_account(self) -> None:
        try:
            write_json(self._account_path, dataclasses.asdict(self.account()))
            self._json_bytes += os.stat(self._account_path).st_size
        except OSError:
            # No space left: the streams report that themselves, and the last account stays readable.
            return


class _BlockingProbe(threading.Thread):
    """Reads one probe that may block: when due, when requested, and once more at the end."""

    def __init__(self, scheduled: ScheduledProbe, report: Report) -> None:
        super().__init__(name=scheduled.name, daemon=True)
        self._scheduled, self._report = scheduled, report
        self._wake = threading.Condition()
        self._requested = self._ending = False

    def request(self) -> None:
        """Read now."""
        with self._wake:
            self._requested = True
            self._wake.notify()

    def stop(self) -> None:
        """Read once more and end."""
        with self._wake:
            self._requested = self._ending = True
            self._wake.notify()

    def run(self) -> None:
        """Read until stopped."""
        while True:
            with self._wake:
                wait_s = (self._scheduled.due_us - now_us()) * S_PER_US
                if not self._requested and wait_s > 0:
                    self._wake.wait(wait_s)
                requested, self._requested = self._requested, False
                ending = self._ending
            if requested or self._scheduled.due_us <= now_us():
                self._scheduled.read(self._report)
            if ending:
                return


def _unique_name(name: str, taken: set[str]) -> str:
    """Return a stream name that is not taken: two boards' monitors may both be called `rails`."""
    chosen, count = name, 2
    while chosen in taken:
        chosen, count = f"{name}{count}", count + 1
    taken.add(chosen)
    return chosen
