"""Simulates one epoch: a training loop, its loader workers, storage, cores and accelerator."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from edgetrain.prediction.pipeline.costs import (
    PIN_RECEIVE_S,
    MinibatchCosts,
    PipelineCosts,
    StepKind,
    minibatch_costs,
)
from edgetrain.prediction.pipeline.engine import (
    COMPUTE,
    READ,
    SLEEP,
    UNTIL,
    WAIT,
    Activity,
    CoreSharing,
    Engine,
    Need,
    Slot,
)
from edgetrain.prediction.pipeline.page_cache import (
    PAGE_BYTES,
    DatasetOnMedium,
    later_miss_chances,
    miss_chances,
    missed,
)
from edgetrain.prediction.pipeline.setting import PipelineSetting

# The kernel's read-ahead: a file is read in dependent requests of these sizes, and only the first is positioned.
FIRST_WINDOW_BYTES, MAX_WINDOW_BYTES = 16 << 10, 128 << 10
BETWEEN_READS = 0.5  # of a sample's CPU work, done between its requests; the rest after the last (set by hand)
POSITIONED_PAGES = 0.75  # of a packed file's pages: the others lie beside one that is read anyway (measured)


@dataclass(frozen=True, slots=True)
class SimulatedEpoch:
    """Seconds of one simulated epoch, scaled to all its minibatches."""

    e2e_s: float
    stall_s: float
    compute_s: float
    copy_s: float
    overhead_s: float
    fill_s: float
    missed_share: float  # of the samples, those read from the medium
    worker_busy: float  # of the workers' time, spent fetching; 0 without workers

    def scaled(self, factor: float) -> SimulatedEpoch:
        """Return the epoch with all its seconds changed by a factor."""
        seconds = ("e2e_s", "stall_s", "compute_s", "copy_s", "overhead_s", "fill_s")
        return replace(self, **{name: factor * getattr(self, name) for name in seconds})


@dataclass(frozen=True, slots=True)
class Budget:
    """How many minibatches of an epoch are simulated; the rest is scaled up."""

    minibatches: int = 240
    samples: int = 6000

    def of(self, setting: PipelineSetting) -> int:
        """Return how many minibatches to simulate: enough for a pipeline to settle, and not more than there are."""
        least = 12 * max(1, setting.workers) * setting.prefetch
        by_samples = max(48, self.samples // setting.batch_size)
        return min(setting.minibatches, max(least, min(self.minibatches, by_samples)))


WHOLE_EPOCH = Budget()


def simulate_epoch(
    setting: PipelineSetting,
    costs: PipelineCosts,
    epoch: int,
    seed: int = 0,
    budget: Budget = WHOLE_EPOCH,
    missed_share: float | None = None,
    unread: float = 1.0,
) -> SimulatedEpoch:
    """Simulate the first epoch (0), or a later one (1): the mean of those that the training has.

    `unread` is the share of the first epoch's samples that were not in the page cache when the training began: 1 where
    it was empty, 0 where it held as much of the dataset as it can. `missed_share` sets how many of the samples are read
    from the medium, instead of what the page cache implies.
    """
    rng = np.random.default_rng(seed)
    count = budget.of(setting)
    reads = _reads(setting, costs, epoch, count, rng, missed_share, unread)
    drawn = minibatch_costs(costs, setting, epoch, count, rng)
    simulation = _Simulation(setting, costs, drawn, reads, starts=epoch == 0 or not setting.persistent)
    simulation.run()
    warm_up_s = costs.step.warm_up_s * setting.step_time if epoch == 0 else 0.0
    return simulation.result(setting.minibatches, costs, warm_up_s)


def _reads(
    setting: PipelineSetting,
    costs: PipelineCosts,
    epoch: int,
    count: int,
    rng: np.random.Generator,
    missed_share: float | None,
    unread: float,
) -> list[list[bool]] | None:
    """Return for each minibatch which of its samples are read from the medium; None: none is."""
    dataset = setting.dataset
    if dataset is None or setting.medium is None:
        return None
    samples = count * setting.batch_size
    if missed_share is not None:
        chances = np.full(samples, missed_share)
    else:
        in_flight = costs.minibatch_bytes * setting.batch_size / costs.batch_size
        chances = _chances(setting, dataset, setting.cached_share(in_flight), epoch, samples, unread)
    if not chances.any():
        return None
    drawn: list[list[bool]] = missed(chances, rng).reshape(count, setting.batch_size).tolist()
    return drawn


def _chances(
    setting: PipelineSetting, dataset: DatasetOnMedium, cached: float, epoch: int, samples: int, unread: float
) -> NDArray[np.float64]:
    """Return the chance of each sample to be read from the medium, as the page cache implies it."""
    positions = (np.arange(samples) + 0.5) / samples
    if epoch == 0:
        return miss_chances(positions, cached, 0, dataset, setting.taken, unread)
    if setting.never_evicts:
        seen = 1.0 - (1.0 - setting.taken) ** np.arange(1, setting.later_epochs + 1)  # by the epochs before each
        return np.full(samples, 1.0 - float(np.minimum(cached, seen).mean()))
    if dataset.share_pages and unread > 0.0:
        unread = 1.0  # it is a share of samples, most of which find their page read by another
    return later_miss_chances(positions, cached, setting.later_epochs, setting.taken, unread)


class _Simulation:
    """The processes of one epoch and what they share."""

    def __init__(
        self,
        setting: PipelineSetting,
        costs: PipelineCosts,
        drawn: MinibatchCosts,
        reads: list[list[bool]] | None,
        starts: bool,
    ) -> None:
        self.setting, self.costs, self.drawn, self.reads, self.starts = setting, costs, drawn, reads, starts
        self.count = len(drawn.step_s)
        sharing = CoreSharing(setting.cores, setting.others, costs.busy_neighbours, costs.oversubscribed)
        self.engine = Engine(sharing, setting.medium)
        self.asked_s, self.ready_s, self.copying_s, self.copied_s, self.done_s = (
            np.zeros(self.count) for _ in range(5)
        )
        self.fetching_s = 0.0
        self.made = [Slot() for _ in range(self.count)]
        self.indices = [Slot() for _ in range(setting.workers)]
        self.shipping = [Slot() for _ in range(setting.workers)]
        self.pinning = Slot()
        self.interpreter = Slot()  # held by the loop or by its pinning thread: one of them runs Python at a time
        self.interpreter.items.append(0)
        self.pinned = setting.pin_memory and costs.step.kind is StepKind.ACCELERATOR
        self.windows = request_sizes(setting.dataset, costs.requests_per_sample)
        self.share_pages = setting.dataset is not None and setting.dataset.share_pages
        self.positions = 0.0  # of requests to pages of a packed file, some lie beside the one before

    def run(self) -> None:
        self.engine.start(self._loop())
        self.engine.run()

    # The loop

    def _loop(self) -> Activity:
        engine, setting, workers = self.engine, self.setting, self.setting.workers
        sent = 0
        for number in range(self.count):
            self.asked_s[number] = engine.now_s
            if number == 0 and workers:
                yield from self._start_workers()
                sent = min(workers * setting.prefetch, self.count)
                for index in range(sent):
                    engine.put(self.indices[index % workers], index)
            if workers:
                yield from self._receive(number)
                if sent < self.count:
                    engine.put(self.indices[sent % workers], sent)
                    sent += 1
            else:
                yield from self._fetch(number)
                if self.pinned:
                    yield (COMPUTE, self.drawn.pin_s, 1)
            self.ready_s[number] = engine.now_s
            if workers and number:
                yield (COMPUTE, self.drawn.hand_over.release_s, 1)
            yield (COMPUTE, self.drawn.gap_s, 1)
            yield from self._step(number)
        for slot in self.indices:
            engine.put(slot, -1)

    def _start_workers(self) -> Iterator[Need]:
        for worker in range(self.setting.workers):
            if self.starts:
                yield (COMPUTE, self.costs.fork_s, 1)
            self.engine.start(self._worker(worker))
            self.engine.start(self._sender(worker))
        if self.pinned:
            self.engine.start(self._pinner())

    def _receive(self, number: int) -> Iterator[Need]:
        hand_over = self.drawn.hand_over
        yield (WAIT, self.made[number])
        yield (SLEEP, hand_over.latency_s)
        yield (COMPUTE, PIN_RECEIVE_S if self.pinned else hand_over.receive_s, 1)

    def _step(self, number: int) -> Iterator[Need]:
        engine, step, drawn = self.engine, self.costs.step, self.drawn
        duration_s = drawn.step_s[number]
        begun_s = self.ready_s[number] if step.release_in_step else engine.now_s
        self.copying_s[number] = self.copied_s[number] = begun_s
        if step.kind is not StepKind.ACCELERATOR:
            if step.kind is StepKind.CPU:
                yield (COMPUTE, duration_s, self.setting.threads)
            else:
                yield (SLEEP, duration_s)
            self.done_s[number] = engine.now_s
            return
        if drawn.ahead and number >= drawn.ahead:
            yield (UNTIL, float(self.done_s[number - drawn.ahead]))
        free_s = float(self.done_s[number - 1]) if number else 0.0
        copied_s = max(engine.now_s, free_s) + drawn.copy_s
        if not self.pinned:
            yield (UNTIL, copied_s)
        self.copied_s[number] = copied_s
        yield from self._interpret(drawn.launch_s)
        self.done_s[number] = max(copied_s + duration_s, engine.now_s)
        if not drawn.ahead:
            yield (UNTIL, float(self.done_s[number]))

    # The workers

    def _worker(self, worker: int) -> Activity:
        if self.starts:
            yield (COMPUTE, self.costs.worker_start_s, 1)
        indices, engine = self.indices[worker], self.engine
        while True:
            yield (WAIT, indices)
            number = indices.items.popleft()
            if number >= 0:
                began_s = engine.now_s
                yield from self._fetch(number)
                self.fetching_s += engine.now_s - began_s
            engine.put(self.shipping[worker], number)
            if number < 0:
                return

    def _sender(self, worker: int) -> Activity:
        """The worker's sending thread: takes a core, not the worker's time."""
        queue = self.shipping[worker]
        while True:
            yield (WAIT, queue)
            number = queue.items.popleft()
            if number < 0:
                if self.pinned and worker == 0:
                    self.engine.put(self.pinning, -1)
                return
            yield (COMPUTE, self.drawn.hand_over.ship_s, 1)
            self.engine.put(self.pinning if self.pinned else self.made[number], number)

    def _pinner(self) -> Activity:
        """The loop's second thread, which receives minibatches and copies them into page-locked memory."""
        while True:
            yield (WAIT, self.pinning)
            number = self.pinning.items.popleft()
            if number < 0:
                return
            yield from self._interpret(self.drawn.hand_over.receive_s)
            yield (COMPUTE, self.drawn.pin_s, 1)
            self.engine.put(self.made[number], number)

    def _interpret(self, cpu_s: float) -> Iterator[Need]:
        """Compute in the interpreter, which the loop shares with its pinning thread."""
        if not self.pinned:
            yield (COMPUTE, cpu_s, 1)
            return
        while not self.interpreter.items:
            yield (WAIT, self.interpreter)
        self.interpreter.items.popleft()
        yield (COMPUTE, cpu_s, 1)
        self.engine.put(self.interpreter, 0)

    def _fetch(self, number: int) -> Iterator[Need]:
        """Make one minibatch: wait, read what misses, compute, collate."""
        cpu_s, wait_s = self.drawn.fetch_cpu_s[number], self.drawn.fetch_wait_s[number]
        if wait_s > 0.0:
            yield (SLEEP, wait_s)
        reads = self.reads[number] if self.reads is not None else None
        if reads is None or not any(reads):
            yield (COMPUTE, cpu_s, 1)
            return
        collate_s = min(self.drawn.collate_s, cpu_s)
        sample_s = (cpu_s - collate_s) / len(reads)
        pending_s = 0.0
        for miss in reads:
            if not miss:
                pending_s += sample_s
                continue
            yield (COMPUTE, pending_s, 1)
            pending_s = yield from self._read(sample_s)
        yield (COMPUTE, pending_s + collate_s, 1)

    def _read(self, sample_s: float) -> Generator[Need, None, float]:
        """Read one sample in dependent requests with work between them; return the CPU work that is left after."""
        windows = self.windows
        self.positions += POSITIONED_PAGES if self.share_pages else 1.0
        positioned = self.positions >= 1.0
        self.positions -= positioned
        between_s = (BETWEEN_READS * sample_s + self.costs.cold_cpu_s / self.setting.cpu_speed) / len(windows)
        for place, size in enumerate(windows):
            yield (READ, place == 0 and positioned, size)
            yield (COMPUTE, between_s, 1)
        return (1.0 - BETWEEN_READS) * sample_s

    # What came out

    def result(self, minibatches: int, costs: PipelineCosts, warm_up_s: float) -> SimulatedEpoch:
        """Cut each minibatch as the record of a real run is cut, and scale to the whole epoch."""
        asked, ready, done = self.asked_s, self.ready_s, self.done_s
        begin = np.concatenate([asked[:1], done[:-1]])
        start = np.minimum(np.maximum(np.maximum(begin, ready), self.copying_s), done)
        copied = np.minimum(np.maximum(self.copied_s, start), done)
        stall_from = np.minimum(np.maximum(asked, begin), start)
        stall = np.minimum(np.maximum(ready, stall_from), start) - stall_from
        parts = {
            "stall_s": stall,
            "compute_s": done - copied,
            "copy_s": copied - start,
            "overhead_s": (start - begin) - stall,
        }
        # The pipeline's filling happens once per epoch; only what comes after it is scaled.
        filling = min(self.count - 1, max(1, self.setting.workers * self.setting.prefetch))
        scale = (minibatches - filling) / max(1, self.count - filling)
        total = {name: float(each[:filling].sum() + each[filling:].sum() * scale) for name, each in parts.items()}
        total["overhead_s"] += costs.tail_s + costs.aside_s * minibatches
        total["compute_s"] += warm_up_s
        lasted_s = float(done[-1]) * max(1, self.setting.workers)
        reads = 0.0 if self.reads is None else float(np.mean(self.reads))
        return SimulatedEpoch(
            e2e_s=sum(total.values()),
            fill_s=float(stall[0]),
            missed_share=reads,
            worker_busy=self.fetching_s / lasted_s if self.setting.workers and lasted_s > 0 else 0.0,
            **total,
        )


def request_sizes(dataset: DatasetOnMedium | None, requests: float | None = None) -> list[float]:
    """Return the sizes of the requests that read one sample; `requests` of them, where they were counted."""
    if dataset is None:
        return [0.0]
    if dataset.share_pages:
        return [float(PAGE_BYTES)]
    if requests is not None:
        count = max(1, round(requests))
        return [dataset.sample_bytes / count] * count
    left, window, sizes = dataset.sample_bytes, float(FIRST_WINDOW_BYTES), []
    while left > 0:
        sizes.append(min(left, window))
        left -= window
        window = min(2 * window, float(MAX_WINDOW_BYTES))
    return sizes or [0.0]
