"""One probe with its schedule, the stream it is written to, and the account of its cost."""

from __future__ import annotations

import math
import os
import time
from array import array
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from edgetrain.device import EventSource, Probe
from edgetrain.inside.stream import StreamWriter, now_us
from edgetrain.sampling.limiter import ProbeRate
from edgetrain.units import S_PER_US, US_PER_S, spell_seconds

# Gauges that four bytes hold well enough; everything else (counters, bytes, joules) takes eight.
_SHORT = ("_share", "_pm", "_w", "_c", "_hz", "_length", "_count", "_cores")
# A probe that is read at a third of its rate or less is reported; a smaller slowdown is not.
REPORTED_SLOWDOWN = 3.0
# A probe that fails again and again is still tried, this much apart at most.
MAX_BACKOFF_S = 5.0
MAX_BACKOFF = 64
MIN_US = 1000
Report = Callable[..., None]  # kind, text and facts of an event


@dataclass(frozen=True, slots=True)
class ProbeAccount:
    """What reading one probe cost, and how often it failed."""

    reads: int
    mean_s: float | None
    missed: int
    broken: int = 0  # readings that failed as a whole
    why: str | None = None  # the last failure


class ScheduledProbe:
    """Reads one probe when due, survives whatever it does, and counts."""

    def __init__(self, probe: Probe, folder: Path, start_us: int, rate: ProbeRate, name: str | None = None) -> None:
        self.probe, self.name, self.rate = probe, name or probe.name, rate
        self.columns = tuple(probe.columns)
        encoded = [("at_us", "delta"), *((column, encoding_of(column)) for column in self.columns)]
        meta = {"probe": self.name, "period_s": probe.period_s, "pid": os.getpid()}
        self.writer = StreamWriter(os.fspath(folder / f"samples-{self.name}.ets"), "samples", encoded, meta)
        self.due_us = start_us
        self.reads = self.missed = self.broken = 0
        self.busy_us = 0
        self.failed: dict[str, int] = {}
        self.why: str | None = None
        self._reported_slow = False
        self._backoff = 1
        self._events = probe if isinstance(probe, EventSource) else None

    def read_last(self) -> None:
        """Read once more at the end; what has already gone with the training is no failure."""
        try:
            row = array("d", self.probe.read())
        except Exception as error:
            self.why = f"{type(error).__name__}: {error}"
            return
        if len(row) == len(self.columns) and not all(value != value for value in row):
            self.writer.add((now_us(), *row))

    def read(self, report: Report) -> None:
        """Read once, now, and set when to read next."""
        began_us, began_cpu_ns = now_us(), time.thread_time_ns()
        try:
            row = array("d", self.probe.read())
            if len(row) != len(self.columns):
                raise ValueError(f"{len(row)} values for {len(self.columns)} columns")
            self._backoff = 1
        except Exception as error:  # a failing sensor must not end the others
            row = array("d", [math.nan]) * len(self.columns)
            self.broken += 1
            self.why = f"{type(error).__name__}: {error}"
            self._backoff = min(self._backoff * 2, MAX_BACKOFF)
        ended_us = now_us()
        self.rate.record((ended_us - began_us) * S_PER_US, (time.thread_time_ns() - began_cpu_ns) / 1e9)
        # A slow reading is dated at its middle.
        self.writer.add(((began_us + ended_us) // 2, *row))
        self.reads += 1
        self.busy_us += ended_us - began_us
        total = math.fsum(row) if self.reads > 1 else 0.0
        if total != total:
            for column, value in zip(self.columns, row, strict=True):
                if value != value:
                    self.failed[column] = self.failed.get(column, 0) + 1
        if self._events is not None:
            self._pass_on(self._events, report)
        self._schedule(ended_us, report)

    def _pass_on(self, source: EventSource, report: Report) -> None:
        try:
            for event in source.pop_events():
                report(event.kind, event.text)
        except Exception as error:
            self.why = f"{type(error).__name__}: {error}"

    def _schedule(self, ended_us: int, report: Report) -> None:
        interval_s = self.rate.interval_s(self.probe.period_s)
        if not self._reported_slow and interval_s > REPORTED_SLOWDOWN * self.rate.slowdown * self.probe.period_s:
            self._reported_slow = True
            mean_s = self.busy_us * S_PER_US / self.reads
            text = f"{self.name} is slow to read here ({spell_seconds(mean_s)}): sampled every {interval_s:.2g} s"
            report("doubt", f"{text}, not every {self.probe.period_s:g} s", doubt="probe_slow")
        if self._backoff > 1:
            interval_s = max(interval_s, min(interval_s * self._backoff, MAX_BACKOFF_S))
        step_us = max(int(interval_s * US_PER_S), MIN_US)
        self.due_us += step_us
        if self.due_us <= ended_us:
            # On the same grid, so that the schedule does not drift; what lies behind is missed, not made up for.
            skipped = (ended_us - self.due_us) // step_us + 1
            self.missed += skipped
            self.due_us += skipped * step_us

    def account(self) -> ProbeAccount:
        """Return the cost of this probe so far."""
        mean_s = self.busy_us * S_PER_US / self.reads if self.reads else None
        return ProbeAccount(self.reads, mean_s, self.missed, self.broken, self.why if self.broken else None)

    def close(self) -> None:
        """Write what is buffered and close the probe."""
        self.writer.close()
        try:
            self.probe.close()
        except Exception as error:
            self.why = f"{type(error).__name__}: {error}"


def encoding_of(column: str) -> str:
    """Return how a column is stored."""
    return "f4" if column.endswith(_SHORT) else "f8"
