"""One probe on its own timetable, with the stream it writes and the account of its cost."""

from __future__ import annotations

import math
import os
import time
from array import array
from collections.abc import Callable
from pathlib import Path
from typing import Any

from edgetrain.device.base import Phased, Probe, Telling
from edgetrain.inside.stream import StreamWriter, now_us
from edgetrain.units import US_PER_S

# Gauges that four bytes hold well enough; everything else (counters, bytes, joules) takes eight.
_SHORT = ("_share", "_pm", "_w", "_c", "_hz", "_length", "_count", "_cores")
# A probe may take these shares of the time between its readings (of the clock, of a core); one that takes more is read
# less often. A quarter of a percent each, and half for what becomes joules, keeps all of them together near one.
MOST_WALL_SHARE = 0.1
MOST_CPU_SHARE, MOST_POWER_CPU_SHARE = 0.0025, 0.005
# Telling that a probe is read at a third of its rate or less; a little less is nobody's business.
WORTH_TELLING = 3.0
# A probe that raises again and again is still tried, this much apart at most.
MOST_BACKOFF_S = 5.0
_COST_MEMORY = 0.1


class Lane:
    """Reads one probe when due, survives whatever it does, and counts."""

    def __init__(self, probe: Probe, folder: Path, start_us: int, name: str | None = None) -> None:
        self.probe, self.name = probe, name or probe.name
        self.columns = tuple(probe.columns)
        encoded = [("at_us", "delta"), *((column, encoding_of(column)) for column in self.columns)]
        meta = {"probe": self.name, "period_s": probe.period_s, "pid": os.getpid()}
        self.writer: Any = StreamWriter(os.fspath(folder / f"samples-{self.name}.ets"), "samples", encoded, meta)
        self.due_us = start_us
        self.reads = self.missed = self.broken = 0
        self.busy_us = 0
        self.failed: dict[str, int] = {}
        self.why: str | None = None  # the last exception's words
        self.powers = any(column.endswith(("_w", "_j")) for column in self.columns)
        self.slower = 1  # its period is so many times the probe's own
        self._most_cpu_share = MOST_POWER_CPU_SHARE if self.powers else MOST_CPU_SHARE
        self._least_period_us = 0.0  # what its cost allows, a moving mean
        self._told_slow = False
        self._backoff = 1
        self._phased = probe if isinstance(probe, Phased) else None
        self._telling = probe if isinstance(probe, Telling) else None

    def take_last(self) -> None:
        """Read once more at the end; what has already gone with the training is no failure."""
        try:
            row = array("d", self.probe.read())
        except Exception as error:
            self.why = f"{type(error).__name__}: {error}"
            return
        if len(row) == len(self.columns) and not all(value != value for value in row):
            self.writer.add((now_us(), *row))

    def take(self, tell: Callable[..., None]) -> None:
        """Read once, now, and set when next."""
        began_us, began_cpu_ns = now_us(), time.thread_time_ns()
        try:
            row = array("d", self.probe.read())
            if len(row) != len(self.columns):
                raise ValueError(f"{len(row)} values for {len(self.columns)} columns")
            self._backoff = 1
        except Exception as error:  # a sensor's bad day must not end the others'
            row = array("d", [math.nan]) * len(self.columns)
            self.broken += 1
            self.why = f"{type(error).__name__}: {error}"
            self._backoff = min(self._backoff * 2, 64)
        ended_us = now_us()
        cpu_us = (time.thread_time_ns() - began_cpu_ns) / 1000
        cost_us = max((ended_us - began_us) / MOST_WALL_SHARE, cpu_us / self._most_cpu_share)
        self._least_period_us += _COST_MEMORY * (cost_us - self._least_period_us)
        # A slow read belongs to its middle.
        self.writer.add(((began_us + ended_us) // 2, *row))
        self.reads += 1
        self.busy_us += ended_us - began_us
        total = math.fsum(row) if self.reads > 1 else 0.0
        if total != total:
            for column, value in zip(self.columns, row, strict=True):
                if value != value:
                    self.failed[column] = self.failed.get(column, 0) + 1
        if self._telling is not None:
            self._pass_on(self._telling, tell)
        self._next(ended_us, tell)

    def _pass_on(self, telling: Telling, tell: Callable[..., None]) -> None:
        try:
            for kind, text in telling.told():
                tell(kind, text)
        except Exception as error:
            self.why = f"{type(error).__name__}: {error}"

    def _next(self, ended_us: int, tell: Callable[..., None]) -> None:
        period_us = self.slower * self.probe.period_s * US_PER_S
        if self._least_period_us > period_us:
            period_us = self._least_period_us
            if not self._told_slow and period_us > WORTH_TELLING * self.probe.period_s * US_PER_S:
                self._told_slow = True
                text = f"probe {self.name} is dear here: read every {period_us / US_PER_S:.2f} s, not every "
                tell("doubt", f"{text}{self.probe.period_s:g} s", doubt="probe_slow")
        if self._backoff > 1:
            period_us = max(period_us, min(period_us * self._backoff, MOST_BACKOFF_S * US_PER_S))
        elif self._phased is not None:
            wanted_us = self._phased.next_read_us(ended_us)
            self.due_us = min(max(wanted_us, ended_us + 1000), ended_us + 60 * US_PER_S)
            return
        step_us = max(int(period_us), 1000)
        self.due_us += step_us
        if self.due_us <= ended_us:
            # On the same grid, so that the clock does not drift; what lies behind is missed, not made up for.
            skipped = (ended_us - self.due_us) // step_us + 1
            self.missed += skipped
            self.due_us += skipped * step_us

    def account(self) -> dict[str, Any]:
        """Return what `sampler.json` says of this probe."""
        mean_s = self.busy_us / US_PER_S / self.reads if self.reads else None
        account: dict[str, Any] = {"reads": self.reads, "mean_s": mean_s, "missed": self.missed}
        if self.broken:
            account.update(broken=self.broken, why=self.why)
        return account

    def close(self) -> None:
        """Write what waits and give everything back."""
        self.writer.close()
        try:
            self.probe.close()
        except Exception as error:
            self.why = f"{type(error).__name__}: {error}"


def encoding_of(column: str) -> str:
    """Return how a column is stored."""
    return "f4" if column.endswith(_SHORT) else "f8"
