"""Makes runs in memory, minibatch by minibatch, from costs that a test chooses."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from edgetrain.record import (
    ArrayTable,
    ComputeFacts,
    DeviceFacts,
    LimitsRecord,
    LoaderFacts,
    LoadingFacts,
    Manifest,
    Process,
    ProcessFacts,
    Run,
    WorkloadFacts,
)
from edgetrain.schema import CpuShareGot, LimitsAsked, LimitsGot

US = 1_000_000
IMAGE_BYTES = 120_000


@dataclass
class Training:
    """A training loop with a loader: every fetch and every step takes the same time."""

    workers: int = 1
    prefetch: int = 2
    epochs: int = 3
    minibatches: int = 80
    batch_size: int = 16
    fetch_s: float = 0.070
    collate_share: float = 0.1  # of a fetch
    wait_s: float = 0.0  # of each fetch, neither computing nor reading
    cold_read_s: float = 0.0  # added to each fetch of epoch 0, which then reads
    cold_minibatches: int | None = None  # of epoch 0, those that read; None: all
    again_share: float = 0.0  # of the minibatches of later epochs, those that read again
    pause_s: float = 0.0  # of the loop beside the step, after every tenth minibatch: an evaluation
    step_s: float = 0.030
    ship_s: float = 0.001
    receive_s: float = 0.001
    release_s: float = 0.0
    compute: ComputeFacts = field(default_factory=lambda: ComputeFacts("paced", "paced step", 30.0))
    cores: int = 2
    gpu: str | None = None
    launch_s: float | None = None  # on an accelerator: after this the host is done
    other_cores: float = 0.0
    last_minibatches: int | None = None  # of the last epoch, where it was cut short
    cpu_share: float = 1.0  # of a core: a fetch takes its time with this much CPU time
    iterable: bool = False
    persistent: bool = True

    def run(self, **manifest: object) -> Run:
        """Return the run."""
        rows: list[dict[str, int]] = []
        fetches: list[dict[str, int]] = []
        now = 1000.0
        for epoch in range(self.epochs):
            now = self._epoch(epoch, now, rows, fetches)
        samples = self.minibatches * self.batch_size
        known: dict[str, object] = {
            "state": "finished",
            "workload": WorkloadFacts(
                network="made", batch_size=self.batch_size, samples=samples, dataset_files=samples,
                dataset_bytes=samples * IMAGE_BYTES, dataset_scale=1.0,
            ),
            "loading": LoadingFacts(self.workers, self.prefetch, False, self.persistent, "fork", "warm"),
            "compute": replace(self.compute, ms=self.step_s * 1e3) if self.compute.kind == "paced" else self.compute,
            "device": DeviceFacts(name="host", cores=self.cores, ram_bytes=32 << 30, threads=1),
            "limits": self._limits(),
        }  # fmt: skip
        loader = LoaderFacts(
            0, self.workers, self.prefetch if self.workers else None, self.batch_size, False,
            self.persistent and self.workers > 0, iterable=self.iterable,
        )  # fmt: skip
        facts = ProcessFacts(pid=1, loaders=(loader,), threads=1, gpu=self.gpu, peak_rss_bytes=400 << 20)
        process = Process(facts, _table(rows), _table(fetches))
        probes = {}
        if self.other_cores:
            at = np.arange(0, int((now + 1) * US), US // 2, dtype=np.int64)
            probes["load"] = ArrayTable(
                {
                    "at_us": at,
                    "other_share": np.full(len(at), self.other_cores / self.cores),
                    "other_cores": np.full(len(at), self.other_cores),
                }
            )
        return Run("made", Manifest(**(known | manifest)), (process,), probes)

    def _limits(self) -> LimitsRecord | None:
        if self.cpu_share == 1.0:
            return None
        got = LimitsGot(cpu_share=CpuShareGot(self.cpu_share, "quota"))
        return LimitsRecord(LimitsAsked(cpu_share=self.cpu_share), got)

    def _epoch(self, epoch: int, now: float, rows: list[dict[str, int]], fetches: list[dict[str, int]]) -> float:
        """Add the rows of one epoch, by the recurrence of a loader with a bounded number of minibatches in flight."""
        free = [now] * max(1, self.workers)
        ready_at: list[float] = []
        asked = now
        last = epoch == self.epochs - 1 and self.last_minibatches is not None
        for batch in range(self.last_minibatches if last and self.last_minibatches else self.minibatches):
            among = self.cold_minibatches is None or batch < self.cold_minibatches
            again = int((batch + 1) * self.again_share) > int(batch * self.again_share)
            cold = self.cold_read_s > 0 and (among if epoch == 0 else again)
            fetch_s = self.fetch_s + self.wait_s + (self.cold_read_s if cold else 0.0)
            if self.workers:
                worker = batch % self.workers
                ahead = batch - self.workers * self.prefetch
                began = max(free[worker], ready_at[ahead] if ahead >= 0 else now)
                fetched = free[worker] = began + fetch_s
                ready = max(asked, fetched + self.ship_s) + self.receive_s
            else:
                worker, began, fetched = -1, asked, asked + fetch_s
                ready = fetched
            ready_at.append(ready)
            copying = ready + (self.release_s if self.workers else 0.0)
            done = copying + self.step_s
            launched = done if self.launch_s is None else copying + self.launch_s
            rows.append(
                _us(
                    loader=0, generation=epoch, epoch=epoch, batch=batch, phase=1, samples=self.batch_size,
                    worker=worker, asked_us=asked, ready_us=ready, copying_us=copying, copied_us=copying,
                    launched_us=launched, done_us=done, sent_us=began, queued_us=0.0,
                    cpu_us=self.receive_s * self.cpu_share,
                )
            )  # fmt: skip
            fetches.append(
                _us(
                    loader=0, generation=epoch, batch=batch, worker=worker, began_us=began, fetched_us=fetched,
                    pickled_us=fetched + self.ship_s if self.workers else None,
                    shipped_us=fetched + self.ship_s if self.workers else None,
                    cpu_us=self.fetch_s * self.cpu_share, helpers_us=0.0, queued_us=0.0, stolen_us=0.0,
                    collate_us=self.fetch_s * self.collate_share,
                    feeder_cpu_us=self.ship_s * self.cpu_share, system_us=0.0, helpers_queued_us=0.0, waking_us=0.0,
                    read_bytes=self.batch_size * IMAGE_BYTES if cold else 0, switches=2, faults=0, helpers=0,
                )
            )  # fmt: skip
            asked = done + 20e-6 + (self.pause_s if batch % 10 == 9 else 0.0)
        return asked + 0.01


def _us(**values: float | int | None) -> dict[str, int]:
    """Return instants and durations in microseconds; None is missing."""
    return {
        name: -1 if value is None else round(value * US) if name.endswith("_us") else int(value)
        for name, value in values.items()
    }


def _table(rows: list[dict[str, int]]) -> ArrayTable:
    return ArrayTable({name: np.array([row[name] for row in rows], np.int64) for name in rows[0]})
