"""Trains on a simulated board: loader workers, storage, host and accelerator, one minibatch after the other.

A small discrete-event model fed by `physics`. It gives the same rows that the stopwatch writes on a real board
(asked, ready, copied, launched, done; per worker began, fetched, CPU) and what the power rails would see meanwhile.
First minibatches warm up, a loader that cannot keep up makes times bimodal, and a hot board throttles.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass, field

from edgetrain.device.simulated.physics import Physics, StepCost
from edgetrain.device.simulated.timeline import Load, LoadTimeline
from edgetrain.device.simulated.world import TRIP_C
from edgetrain.schema import PowerMode
from edgetrain.units import NS_PER_S

# Seconds to read one sample cold. SIGMETRICS 2023, derived from GLD images of 122 kB on AGX Xavier; eMMC lies between
# SSD and SD in HiPC's ordering and is set so. A medium that serves one read at a time makes its readers queue.
READ_S = {"ssd": 0.0009, "nvme": 0.0009, "emmc": 0.003, "sd": 0.0086, "hdd": 0.0197, "usb": 0.0197, "ram": 0.0}
SERIAL = {"sd", "hdd", "usb"}
IMAGE_BYTES = 122_000
# What a catalogued network trains on: samples, bytes of one, and whether samples are files of their own.
DATASETS = {
    "lenet5": (60_000, 784, False),
    "mobilenet_v3": (23_080, IMAGE_BYTES, True),
    "resnet18": (50_000, 134_000, True),
    "resnet18_cifar_gn": (50_000, 3_072, False),
    "vgg11": (50_000, 3_072, False),
    "lstm": (36_000, 500, False),
}
COPY_S = 0.0004  # a batch of 16 onto the accelerator
HAND_S = 0.0002  # from a worker's pipe to the loop
LOOP_S = 0.00015  # the loop's own statements
WARM_UP_S = 6.0  # CUDA and cuDNN on a 1 GHz core; logs show 4 to 139 s for the first minibatch
WORKER_START_S = 0.25  # forking a worker on a 1 GHz core
FETCH_CV = 0.12
STRAGGLER_SHARE, STRAGGLER = 0.01, 1.25
OPEN_STEPS = 2  # the loop may run ahead of the accelerator by this many steps
THROTTLE_SLOWER = 1.2
THROTTLE_POWER = 0.88


@dataclass(frozen=True, slots=True)
class TrainingPlan:
    """What to train, and how it is loaded."""

    network: str
    batch_size: int = 16
    workers: int = 2
    prefetch: int = 2
    sync: bool = False
    medium: str = "ssd"
    samples: int = 0  # in the dataset; 0: the network's own
    cache_bytes: float = math.inf  # what the page cache may hold


@dataclass(slots=True)
class TrainedEpoch:
    """One pass over the data."""

    epoch: int
    minibatches: list[dict[str, int | None]] = field(default_factory=list)
    workers: list[dict[str, int | None]] = field(default_factory=list)
    began_ns: int = 0
    ended_ns: int = 0
    cached_before: float = 0.0
    cached_after: float = 0.0
    throttled: bool = False


class SimulatedTraining:
    """One training under way in one power mode; `epoch` runs a pass over the data."""

    def __init__(
        self,
        plan: TrainingPlan,
        physics: Physics,
        mode: PowerMode,
        timeline: LoadTimeline,
        start_ns: int,
        seed: int | str,
        dvfs: bool = False,
    ) -> None:
        self.plan, self.mode, self.timeline = plan, mode, timeline
        self._physics = physics
        self.step: StepCost = physics.step(mode, dvfs, str(seed))
        self._chance = random.Random(f"training|{seed}|{plan.network}|{mode}")
        self._now_ns = start_ns
        self._generation = 0
        known = DATASETS.get(plan.network, (10_000, 1_000, False))
        self.samples = plan.samples or known[0]
        self.sample_bytes, self._files = known[1], known[2]
        self.cached = 0.0  # share of the dataset in the page cache
        self._medium_free_ns = 0
        self._step_number = 0

    @property
    def dataset_bytes(self) -> int:
        """Size of the dataset."""
        return self.samples * self.sample_bytes

    @property
    def minibatches_per_epoch(self) -> int:
        """Whole minibatches in one pass."""
        return self.samples // self.plan.batch_size

    def epoch(self, number: int, most: int | None = None) -> TrainedEpoch:
        """Train one epoch, of at most `most` minibatches; the timeline then reaches to its end."""
        plan, chance = self.plan, self._chance
        count = min(self.minibatches_per_epoch, most or self.minibatches_per_epoch)
        done = TrainedEpoch(number, began_ns=self._now_ns, cached_before=self.cached)
        start_ns = self._now_ns
        if plan.workers:
            begin = 0 if self._generation else 1
            start_ns += _ns(begin * WORKER_START_S / (self.mode.cpu_hz / 1e9) * min(plan.workers, self.mode.cores + 1))
        free = [start_ns] * max(1, plan.workers)
        readies: list[int] = []
        dones: list[int] = []
        asked_ns = self._now_ns
        for batch in range(count):
            maker = batch % plan.workers if plan.workers else 0
            row: dict[str, int | None] = {"worker": maker if plan.workers else None}
            ahead = batch - plan.prefetch * plan.workers
            if plan.workers:
                sent_ns = start_ns if ahead < 0 else readies[ahead]
                made = self._fetch(max(free[maker], sent_ns), batch, maker, done)
                free[maker] = made
                ready_ns = max(asked_ns + _ns(LOOP_S), made + _ns(HAND_S))
                row["sent_us"] = sent_ns // 1000
            else:
                made = self._fetch(asked_ns, batch, None, done)
                ready_ns = made + _ns(LOOP_S)
            slower = THROTTLE_SLOWER if self._hot() else 1.0
            done.throttled |= slower > 1
            compute_s = self.step.compute_s * self._noise() * self._warm(number, batch) * slower
            if number == 0 and batch == 0:
                compute_s += WARM_UP_S / (self.mode.cpu_hz / 1e9)
            before_ns = dones[-1] if dones else asked_ns
            copying_ns = max(ready_ns, before_ns)
            copied_ns = copying_ns + _ns(COPY_S * plan.batch_size / 16)
            done_ns = copied_ns + _ns(compute_s)
            launched_ns = min(done_ns, ready_ns + _ns(min(self.step.host_s, 0.95 * compute_s)))
            row.update(
                loader=0, generation=self._generation, epoch=number, batch=batch, phase=1, samples=plan.batch_size,
                asked_us=asked_ns // 1000, ready_us=ready_ns // 1000, copying_us=copying_ns // 1000,
                copied_us=copied_ns // 1000, launched_us=launched_ns // 1000, done_us=done_ns // 1000, queued_us=0,
            )  # fmt: skip
            done.minibatches.append(row)
            self._record_power(before_ns, copied_ns, done_ns, compute_s, slower)
            readies.append(ready_ns)
            dones.append(done_ns)
            asked_ns = done_ns if plan.sync else max(launched_ns, dones[-OPEN_STEPS] if len(dones) >= OPEN_STEPS else 0)
            asked_ns += _ns(LOOP_S)
            self._step_number += 1
        share = min(1.0, plan.cache_bytes / max(1, self.dataset_bytes))
        self.cached = max(self.cached, min(share, count / max(1, self.minibatches_per_epoch)))
        if share < 1.0 and self._files:
            self.cached = share * 0.5  # a cache smaller than the data is mostly evicted before it is read again
        done.cached_after = self.cached
        done.ended_ns = self._now_ns = max(dones[-1], asked_ns)
        self._generation += 1
        chance.random()
        return done

    def _fetch(self, began_ns: int, batch: int, maker: int | None, done: TrainedEpoch) -> int:
        """Have one batch made, by a worker or by the loop itself; return when it was."""
        plan, step = self.plan, self.step
        alone_s = step.fetch_s
        each_s = alone_s if maker is None else alone_s * plan.workers / step.makers(plan.workers)
        work_s = each_s * self._chance.lognormvariate(-(FETCH_CV**2) / 2, FETCH_CV)
        own_s = min(work_s, alone_s * work_s / each_s)
        cold = self._chance.random() >= self.cached if self._files else False
        read_s = plan.batch_size * READ_S.get(plan.medium, READ_S["ssd"]) * (1 - self.cached) if self._files else 0.0
        from_ns = began_ns
        if read_s and plan.medium in SERIAL:
            from_ns = max(began_ns, self._medium_free_ns)
            self._medium_free_ns = from_ns + _ns(read_s)
        blocked_s = read_s + (from_ns - began_ns) / NS_PER_S
        fetched_ns = began_ns + _ns(work_s + blocked_s)
        done.workers.append(
            {
                "loader": 0, "generation": self._generation, "batch": batch, "worker": maker,
                "began_us": began_ns // 1000, "fetched_us": fetched_ns // 1000,
                "shipped_us": None if maker is None else (fetched_ns + _ns(HAND_S / 2)) // 1000,
                "cpu_us": round(own_s * 1e6), "helpers_us": 0, "system_us": round(own_s * 5e4), "helpers_queued_us": 0,
                "queued_us": max(0, round((work_s - own_s) * 1e6)), "stolen_us": 0, "faults": 0,
                "switches": 1 + int(cold),
                "read_bytes": round(plan.batch_size * self.sample_bytes * (1 - self.cached)) if self._files else 0,
                "collate_us": round(own_s * 3e4), "feeder_cpu_us": 80, "feeder_queued_us": 0,
            }
        )  # fmt: skip
        return fetched_ns

    def _noise(self) -> float:
        cv = self._physics.minibatch_cv
        late = STRAGGLER if self._chance.random() < STRAGGLER_SHARE else 1.0
        return late * self._chance.lognormvariate(-(cv**2) / 2, cv)

    def _warm(self, epoch: int, batch: int) -> float:
        return 1.0 + (0.6 * math.exp(-batch / 1.5) if epoch == 0 and batch else 0.0)

    def _hot(self) -> bool:
        return self.timeline.temps[-1] >= TRIP_C

    def _record_power(self, before_ns: int, copied_ns: int, done_ns: int, compute_s: float, slower: float) -> None:
        step, workers = self.step, self.plan.workers
        ease = THROTTLE_POWER if slower > 1 else 1.0
        around_w = step.static_w + step.cpu_j / step.interval_s(workers)
        busy = min(float(self.mode.cores), 1.0 + min(workers, step.fetch_s / max(step.compute_s, 1e-6)))
        self.timeline.append(max(before_ns, self.timeline.end_ns), Load(around_w))
        self.timeline.append(copied_ns, Load(around_w, 0.05, busy, 0.1))
        work_w = around_w + step.gpu_j / max(compute_s, 1e-4)
        self.timeline.append(done_ns, Load(work_w * ease, 0.99, busy, 0.45))


def _ns(seconds: float) -> int:
    return round(seconds * NS_PER_S)


def stream_rows(
    names: Iterator[str] | tuple[str, ...], found: list[dict[str, int | None]]
) -> list[tuple[int | None, ...]]:
    """Return rows as tuples in a stream's order; what a simulated board does not know is None."""
    order = tuple(names)
    return [tuple(row.get(name) for name in order) for row in found]
