"""Reads every probe on a clock without drift, beside training, at a cost it measures and writes down."""

from __future__ import annotations

import heapq
import os
import threading
import time
from array import array
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from edgetrain.device.base import Probe
from edgetrain.inside.stream import append_event, now_us, write_json
from edgetrain.sampling.lane import Lane
from edgetrain.sampling.vigil import ClockWatch, Vigil
from edgetrain.units import S_PER_US, US_PER_S

FLUSH_S = 1.0
ACCOUNT_S = 5.0  # how often it is said, and looked at, what sampling costs
# How long the end waits for a slow disk and for a last count of the page cache.
LAST_WORD_S = 2.0
# Kept latenesses: above this, every second one is forgotten.
MOST_LATE = 20_000
# The share of readings that may be missed, and the lateness, before a run is told to doubt its telemetry.
DOUBT_MISSED_SHARE = 0.05
DOUBT_LATE_P99_S = 0.1
# What all of sampling may take of a core. Above it, what is read several times a second and does not tell power is
# read less often, up to so many times.
MOST_CPU_SHARE_OF_ALL = 0.008
MOST_SLOWER = 5
OFTEN_S = 0.5


class Sampler:
    """Fast probes on this thread, dear ones on one of their own, files written by a third.

    A slow disk under the record or a long count of the page cache thus delays no reading.
    """

    def __init__(self, run: Path, fast: Iterable[Probe], dear: Sequence[Probe], vigil: Vigil) -> None:
        self._run, self._vigil = run, vigil
        self._began_us = now_us()
        self._start_cpu_s = time.process_time()  # importing and opening: paid once
        self._late_seen = 0
        self._events = os.fspath(run / "events-sampler.jsonl")
        self._account_at = os.fspath(run / "sampler.json")
        start_us = self._began_us + 1000
        names: set[str] = set()
        self._fast = [Lane(probe, run, start_us, _new_name(probe.name, names)) for probe in fast]
        self._dear = [Lane(probe, run, start_us, _new_name(probe.name, names)) for probe in dear]
        self._late = array("f")
        self._late_every = 1
        self._clock = ClockWatch()
        self._thrift = Thrift([lane for lane in self._fast if not lane.powers and lane.probe.period_s < OFTEN_S])
        self._json_bytes = 0
        self._stop = threading.Event()
        self._dear_now = threading.Condition()
        self._dear_asked = False
        self._state = "running"

    def run(self) -> None:
        """Sample until there is nothing left to sample for, then write everything down."""
        writer = threading.Thread(target=self._write_on, name="writer", daemon=True)
        dear = threading.Thread(target=self._read_dear, name="dear", daemon=True)
        self._write_account()
        writer.start()
        dear.start()
        try:
            self._read_fast()
        finally:
            self._stop.set()
            self.ask_dear()
            # The last word on every counter, and on the cache, belongs to the record.
            for lane in self._fast:
                lane.take_last()
            writer.join(LAST_WORD_S)
            dear.join(LAST_WORD_S)
            self._doubt_ourselves()
            for lane in (*self._fast, *self._dear):
                lane.close()
            self._state = f"ended: {self._vigil.ended or 'an error'}"
            self._write_account()

    def tell(self, kind: str, text: str, **facts: Any) -> None:
        """Append one event."""
        append_event(self._events, kind, text, by="sampler", **facts)

    def ask_dear(self) -> None:
        """Have the dear probes read now (an epoch has ended)."""
        with self._dear_now:
            self._dear_asked = True
            self._dear_now.notify()

    def _read_fast(self) -> None:
        heap = [(lane.due_us, order, lane) for order, lane in enumerate(self._fast)]
        heapq.heapify(heap)
        epochs = EpochWatch(self._run)
        clock_due_us = now_us()
        while self._vigil.ended is None:
            due_us = min(heap[0][0] if heap else clock_due_us, clock_due_us)
            now = now_us()
            if now < due_us:
                self._vigil.wait((due_us - now) * S_PER_US)
                if self._vigil.take_asked():
                    self.ask_dear()
                continue
            self._note_late(now - due_us)
            while heap and heap[0][0] <= now:
                _, order, lane = heapq.heappop(heap)
                lane.take(self.tell)
                heapq.heappush(heap, (lane.due_us, order, lane))
            if clock_due_us <= now:
                clock_due_us += ((now - clock_due_us) // US_PER_S + 1) * US_PER_S
                for doubt, text in self._clock.check():
                    self.tell("doubt", text, doubt=doubt)
                self._thrift.mind(time.monotonic(), time.process_time())
                if epochs.changed():
                    self.ask_dear()

    def _read_dear(self) -> None:
        """Read the dear probes when due, when asked, and once more at the end."""
        while True:
            ending = self._stop.is_set()
            with self._dear_now:
                asked, self._dear_asked = self._dear_asked, False
            for lane in self._dear:
                if asked or lane.due_us <= now_us():
                    lane.take(self.tell)
            if ending:
                return
            due_us = min((lane.due_us for lane in self._dear), default=now_us() + 60 * US_PER_S)
            with self._dear_now:
                if not self._dear_asked:
                    self._dear_now.wait(max((due_us - now_us()) * S_PER_US, 0.0))

    def _write_on(self) -> None:
        account_s = time.monotonic()
        while not self._stop.wait(FLUSH_S):
            for lane in (*self._fast, *self._dear):
                try:
                    lane.writer.flush()
                except Exception as error:  # one stream's bad row must not stop the others
                    lane.why = f"{type(error).__name__}: {error}"
            if time.monotonic() - account_s >= ACCOUNT_S:
                account_s = time.monotonic()
                self._write_account()

    def _note_late(self, late_us: int) -> None:
        self._late_seen += 1
        if self._late_seen % self._late_every:
            return
        self._late.append(late_us * S_PER_US)
        if len(self._late) > MOST_LATE:
            self._late = self._late[::2]
            self._late_every *= 2

    def _doubt_ourselves(self) -> None:
        account = self.account()
        reads = sum(lane.reads for lane in self._fast)
        late_s = account["late_p99_s"] or 0.0
        if account["missed"] > DOUBT_MISSED_SHARE * (reads + account["missed"]) or late_s > DOUBT_LATE_P99_S:
            text = f"the sampler fell behind: {account['missed']} of {reads + account['missed']} readings missed, "
            text += f"the latest hundredth more than {late_s * 1e3:.0f} ms late"
            self.tell("doubt", text, doubt="sampler_fell_behind")
        broken = [lane.writer.failed for lane in (*self._fast, *self._dear) if lane.writer.failed]
        if broken:
            self.tell("doubt", f"telemetry could not be written: {broken[0]}", doubt="telemetry_lost")

    def account(self) -> dict[str, Any]:
        """Return what the sampling cost and how well it kept time."""
        lanes = (*self._fast, *self._dear)
        late = sorted(self._late)
        wall_s = (now_us() - self._began_us) * S_PER_US
        cpu_s = time.process_time()
        failed = {f"{lane.name}.{column}": count for lane in lanes for column, count in lane.failed.items()}
        return {
            "state": self._state,
            "pid": os.getpid(),
            "cpu_s": cpu_s,
            "wall_s": wall_s,
            "start_cpu_s": self._start_cpu_s,
            "cpu_share": (cpu_s - self._start_cpu_s) / wall_s if wall_s > 0 else None,
            "read_wall_share": sum(lane.busy_us for lane in self._fast) * S_PER_US / wall_s if wall_s > 0 else None,
            "late_p50_s": late[len(late) // 2] if late else None,
            "late_p99_s": late[min(int(len(late) * 0.99), len(late) - 1)] if late else None,
            "missed": sum(lane.missed for lane in self._fast),
            "reads_failed": failed,
            "written_bytes": sum(lane.writer.written_bytes for lane in lanes) + self._json_bytes,
            "slower": self._thrift.slower,
            "per_probe": {lane.name: lane.account() for lane in lanes},
        }

    def _write_account(self) -> None:
        try:
            write_json(self._account_at, self.account())
            self._json_bytes += os.stat(self._account_at).st_size
        except OSError:
            # No space left: the streams say so themselves, and the last account stays readable.
            return


class Thrift:
    """Has lanes read less often while sampling takes more than its share of a core, and more often when it does not.

    By whole multiples of their periods, so that lanes go on being read together: each waking costs, too.
    """

    def __init__(self, lanes: Sequence[Lane]) -> None:
        self.slower = 1
        self._lanes = lanes
        self._before: tuple[float, float] | None = None

    def mind(self, now_s: float, cpu_s: float) -> None:
        """Look at the CPU seconds used so far; a dear moment is let pass."""
        before = self._before = self._before or (now_s, cpu_s)
        if now_s - before[0] < ACCOUNT_S:
            return
        self._before = (now_s, cpu_s)
        share = (cpu_s - before[1]) / (now_s - before[0])
        if share > MOST_CPU_SHARE_OF_ALL:
            self.slower = min(self.slower + 1, MOST_SLOWER)
        elif self.slower > 1 and share * self.slower / (self.slower - 1) < MOST_CPU_SHARE_OF_ALL:
            self.slower -= 1
        for lane in self._lanes:
            lane.slower = self.slower


class EpochWatch:
    """Notices that the training process has rewritten `inside.json`, which it does at each epoch's end."""

    def __init__(self, run: Path, stat: Callable[[str], os.stat_result] = os.stat) -> None:
        self._path, self._stat = os.fspath(run / "inside.json"), stat
        self._seen = self._stamp()

    def changed(self) -> bool:
        """Return whether it changed since the last call."""
        before, self._seen = self._seen, self._stamp()
        return self._seen != before

    def _stamp(self) -> int:
        try:
            return self._stat(self._path).st_mtime_ns
        except OSError:
            return 0


def _new_name(name: str, taken: set[str]) -> str:
    """Return a stream name nobody has: two boards' monitors may both be called `rails`."""
    chosen, count = name, 2
    while chosen in taken:
        chosen, count = f"{name}{count}", count + 1
    taken.add(chosen)
    return chosen
