"""Reads what is going on in a store: the run being recorded, its last minutes, the campaign, the list of runs."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timezone

import numpy as np

from edgetrain.analysis import TraceKind, find_loops, slowest, traces
from edgetrain.errors import EdgetrainError
from edgetrain.record import ArrayTable, FolderStore, Manifest, Run, live_runner
from edgetrain.report import LiveCampaign, LiveRun, LiveView, Plot, live_plots
from edgetrain.runner import CampaignJournal

WINDOW_S = 120.0
MIN_US = 10_000_000  # shown of a run that has only begun
MAX_RUNS = 40  # listed
RECENT_S = 24 * 3600.0  # a campaign whose journal was not written for longer is not in progress


@dataclass(frozen=True, slots=True)
class _Tail:
    """The last minutes of a run, and how many minibatches it has in all."""

    run: Run
    begin_us: int
    end_us: int
    minibatches: int


class Watcher:
    """Reads a store again and again. `now_us` is the clock of the records, `wall_s` that of the journals."""

    def __init__(
        self,
        store: FolderStore,
        window_s: float = WINDOW_S,
        now_us: Callable[[], int] = lambda: time.monotonic_ns() // 1000,
        wall_s: Callable[[], float] = time.time,
    ) -> None:
        self.store = store
        self._window_us = round(window_s * 1e6)
        self._now_us, self._wall_s = now_us, wall_s

    def read(self, pictures: bool = True) -> LiveView:
        """Return what there is to see now; whatever cannot be read is named, never raised."""
        try:
            rows = self.store.runs()
        except (EdgetrainError, OSError) as error:
            return LiveView(None, None, (), problem=f"the store {self.store.path} cannot be read: {error}")
        newest = tuple(reversed(rows[-MAX_RUNS:]))
        problem: str | None = None
        running: LiveRun | None = None
        plots: tuple[Plot, ...] = ()
        for row in (row for row in newest if row.state == "running"):
            try:
                manifest = self.store.manifest(row.run)
                alive = live_runner(manifest) is not None
                if not alive and row is not newest[0]:
                    continue  # ended long ago; an older run may still be training
                tail = self._tail(row.run)
                running = _live_run(tail, manifest, alive, self._wall_s())
                plots = tuple(live_plots(tail.run, tail.begin_us, tail.end_us)) if pictures else ()
            except (EdgetrainError, OSError, ValueError) as error:
                problem = problem or f"{row.run} cannot be read at the moment: {error}"
                continue
            if alive:
                break
        return LiveView(running, self._campaign(), newest, plots, problem)

    def _tail(self, name: str) -> _Tail:
        run = self.store.open(name)
        end_us = self._now_us()
        newest = self._cut(run, end_us)
        seen_us = _newest_us(newest)
        if seen_us is None or not end_us - self._window_us <= seen_us <= end_us:
            # Another clock (a simulated board, an earlier boot): take the end of the record for now.
            end_us = _newest_us(run) or end_us
            newest = self._cut(run, end_us)
        minibatches = max((len(process.minibatches) for process in run.processes), default=0)
        return _Tail(newest, max(end_us - self._window_us, _oldest_us(newest, end_us)), end_us, minibatches)

    def _cut(self, run: Run, end_us: int) -> Run:
        window = [(end_us - self._window_us, end_us)]
        processes = tuple(
            replace(each, minibatches=each.minibatches.near("asked_us", window), workers=ArrayTable())
            for each in run.processes
        )
        return replace(
            run, processes=processes, probes={name: table.near("at_us", window) for name, table in run.probes.items()}
        )

    def _campaign(self) -> LiveCampaign | None:
        """Return the campaign whose journal was written last, if that is recent and it has not ended."""
        try:
            journals = [(file.stat().st_mtime, file) for file in self.store.campaigns.glob("*/journal.jsonl")]
        except OSError:
            return None
        if not journals:
            return None
        written_s, file = max(journals)
        if self._wall_s() - written_s > RECENT_S:
            return None
        try:
            entries = CampaignJournal(file).read()
        except OSError:  # another user's, or on a medium that failed
            return None
        starts = [entry for entry in entries if entry.kind == "start"]
        if not starts or entries[-1].kind == "end":
            return None
        took = {entry.key: entry.took_s for entry in entries if entry.kind == "done" and entry.key}
        failed = {entry.key for entry in entries if entry.kind == "failed" and entry.key} - set(took)
        known = [seconds for seconds in took.values() if seconds is not None]
        planned = starts[-1].planned
        left_s = None
        if planned is not None and known:
            left_s = max(0, planned - len(took)) * sum(known) / len(known)
        now = entries[-1].key if entries[-1].kind == "begun" else None
        return LiveCampaign(file.parent.name, planned, len(took), len(failed), left_s, now)


def _oldest_us(run: Run, end_us: int) -> int:
    """Return the oldest instant of a run, at least some seconds ago: a young run fills the picture too."""
    firsts = [int(table["at_us"][0]) for table in run.probes.values() if len(table)]
    firsts += [int(each.minibatches["asked_us"][0]) for each in run.processes if len(each.minibatches)]
    return min(min(firsts, default=end_us), end_us - MIN_US)


def _newest_us(run: Run) -> int | None:
    """Return the newest instant of a run; None where nothing is recorded."""
    ends = [int(table["at_us"][-1]) for table in run.probes.values() if len(table)]
    ends += [int(each.minibatches["done_us"].max()) for each in run.processes if len(each.minibatches)]
    return max(ends, default=None)


def _live_run(tail: _Tail, manifest: Manifest, alive: bool, wall_s: float) -> LiveRun:
    parts = slowest(find_loops(tail.run)).parts
    inside = parts.done_us >= tail.begin_us if len(parts) else np.zeros(0, bool)
    e2e_s, stall_s = parts.e2e_s[inside], parts.stall_s[inside]
    total_s = float(e2e_s.sum())
    batch = manifest.workload.batch_size
    newest = _newest(tail.run)
    loading, experiment = manifest.loading, manifest.experiment
    words = [f"batch {batch}" if batch else "", _workers(loading.workers if loading else None)]
    return LiveRun(
        run=tail.run.id,
        state="running" if alive else "ended unexpectedly",
        network=manifest.workload.network,
        device=manifest.device.model or manifest.device.name,
        origin=str(manifest.origin),
        setting=", ".join(word for word in words if word) or "as given",
        epoch=int(parts.epoch[-1]) if len(parts) else None,
        epochs=experiment.epochs if experiment else None,
        minibatches=tail.minibatches,
        median_s=float(np.median(e2e_s)) if len(e2e_s) else None,
        stall_share=float(stall_s.sum()) / total_s if total_s > 0 else None,
        samples_per_s=batch * len(e2e_s) / total_s if batch and total_s > 0 else None,
        power_w=newest.power_w,
        temp_c=newest.temp_c,
        gpu_hz=newest.gpu_hz,
        running_s=_since(manifest, wall_s),
    )


def _workers(count: int | None) -> str:
    return "" if not count else "1 worker" if count == 1 else f"{count} workers"


@dataclass(frozen=True, slots=True)
class _Newest:
    """The newest readings of the most important sensors."""

    power_w: float | None
    temp_c: float | None
    gpu_hz: float | None


def _newest(run: Run) -> _Newest:
    power = gpu_hz = None
    temperatures = []
    for trace in traces(run):
        value = float(trace.values[np.isfinite(trace.values)][-1])
        if trace.kind is TraceKind.POWER and trace.main:
            power = value
        elif trace.kind is TraceKind.CLOCK and trace.name == "GPU":
            gpu_hz = value
        elif trace.kind is TraceKind.TEMPERATURE:
            temperatures.append(value)
    return _Newest(power, max(temperatures, default=None), gpu_hz)


def _since(manifest: Manifest, wall_s: float) -> float | None:
    try:
        started = datetime.fromisoformat(manifest.started_wall or "")
    except ValueError:
        return None
    started = started if started.tzinfo else started.replace(tzinfo=timezone.utc)
    return max(0.0, wall_s - started.timestamp())
