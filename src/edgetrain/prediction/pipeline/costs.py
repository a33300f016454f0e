"""What each part of a training costs, as one run's record shows it, and how that follows the batch size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from edgetrain.prediction.pipeline.engine import BUSY_NEIGHBOURS, OVERSUBSCRIBED
from edgetrain.prediction.pipeline.setting import PipelineSetting

Floats = NDArray[np.float64]
# What a minibatch costs however small it is; measured with LeNet (50 kB per minibatch) on the reference machine.
FETCH_FIXED_S = 0.2e-3
SHIP_FIXED_S, SHIP_S_PER_BYTE = 0.35e-3, 0.11e-9
RECEIVE_FIXED_S, RECEIVE_S_PER_BYTE = 1.0e-3, 0.05e-9
RELEASE_FIXED_S, RELEASE_S_PER_BYTE = 0.05e-3, 0.15e-9
# A worker's start: forking takes the loop's time, the worker then needs CPU time of its own before it fetches.
FORK_S, WORKER_START_CPU_S = 8e-3, 20e-3
# A worker collates into shared memory, the loop into its own; 0.24 to 0.36 with five workloads on two machines.
COLLATE_IN_LOOP = 0.3
# What intra-op threads cost the loop's own fetches of large samples, per doubling of them: 0.06 on an H200 machine with
# 16 threads and on 2 cores, less by published figures of AGX Xavier with 8. A worker has one thread.
THREADS_IN_LOOP = 0.04
SPLIT_BYTES = 128 << 10  # torch splits an operation on a larger sample between threads (32768 numbers of four bytes)
COLD_CPU_S = 0.26e-3  # kernel CPU time of one request to the medium: 1.3 ms per picture of five requests
SERIAL_STEP = 0.4  # of a step on the CPU, what more threads do not shorten (assumed)
COPY_FIXED_S = 0.15e-3  # of a copy, what does not follow its size (measured on an H200)
PINNED_COPY = 0.5  # a copy from page-locked memory, relative to one from pageable memory
MAX_AHEAD = 64  # steps that a loop issues before it waits for one, where nothing makes it wait
PIN_S_PER_BYTE = 0.15e-9  # copying a minibatch into page-locked memory
PIN_RECEIVE_S = 0.1e-3  # what the loop still does where another thread receives and pins


class StepKind(Enum):
    """What computes a step."""

    PACED = "paced"  # the loop sleeps
    CPU = "cpu"  # the loop's own threads
    ACCELERATOR = "accelerator"  # the loop issues kernels, the accelerator computes


@dataclass(frozen=True, slots=True)
class HandOver:
    """CPU time and waiting that it takes to hand one minibatch over from a worker to the loop."""

    ship_s: float  # CPU time of the worker's sending thread
    receive_s: float  # CPU time of the loop
    latency_s: float  # waking and waiting, without a core
    release_s: float  # CPU time of the loop to free the previous minibatch

    def scaled(self, batches: float) -> HandOver:
        """Return the costs of a minibatch that many times as large."""
        return HandOver(
            _affine(self.ship_s, SHIP_FIXED_S, batches),
            _affine(self.receive_s, RECEIVE_FIXED_S, batches),
            self.latency_s,
            _affine(self.release_s, RELEASE_FIXED_S, batches),
        )

    def slowed(self, factor: float) -> HandOver:
        """Return the costs on cores that are that many times as slow."""
        return HandOver(self.ship_s * factor, self.receive_s * factor, self.latency_s, self.release_s * factor)


def assumed_hand_over(minibatch_bytes: float) -> HandOver:
    """Return what handing a minibatch over costs where the record does not show it."""
    return HandOver(
        SHIP_FIXED_S + SHIP_S_PER_BYTE * minibatch_bytes,
        RECEIVE_FIXED_S + RECEIVE_S_PER_BYTE * minibatch_bytes,
        0.1e-3,
        RELEASE_FIXED_S + RELEASE_S_PER_BYTE * minibatch_bytes,
    )


@dataclass(frozen=True, slots=True)
class CostByBatchSize:
    """How a time follows the batch size: a fixed part and a part per sample, relative to the recorded batch size."""

    fixed: float
    per_sample: float

    def at(self, batch_size: int) -> float:
        """Return the time of a minibatch of another size, relative to the recorded one."""
        return self.fixed + self.per_sample * batch_size


def fit_batch_sizes(sizes: Sequence[int], times_s: Sequence[float], recorded: int) -> CostByBatchSize:
    """Fit a fixed part and a part per sample, neither negative, to times at some batch sizes (least relative error).

    A line through all of them is less exact between them than joining them, and far less wrong beyond them: each time
    is of a few minibatches.
    """
    x, y = np.array(sizes, float), np.array(times_s, float)
    rows, ones = np.column_stack([1.0 / y, x / y]), np.ones(len(x))
    fixed_s, per_sample_s = np.linalg.lstsq(rows, ones, rcond=None)[0]
    if fixed_s < 0.0:
        fixed_s, per_sample_s = 0.0, float((x / y).sum() / ((x / y) ** 2).sum())
    elif per_sample_s < 0.0:
        fixed_s, per_sample_s = float((1.0 / y).sum() / (1.0 / y**2).sum()), 0.0
    at_recorded_s = fixed_s + per_sample_s * recorded
    return CostByBatchSize(float(fixed_s / at_recorded_s), float(per_sample_s / at_recorded_s))


@dataclass(frozen=True, slots=True)
class StepCosts:
    """One training step."""

    kind: StepKind
    step_s: Floats  # duration of each recorded step: on the accelerator, or CPU time per thread
    fixed_s: float = 0.0  # of it, what does not follow the batch size
    launch_s: float = 0.0  # CPU time of the loop to issue it
    copy_s: float = 0.0  # bringing the minibatch to the accelerator
    threads: int = 1  # of a step on the CPU
    gap_s: float = 0.0  # CPU time of the loop beside all of this
    ahead: int = 0  # steps that the loop issues before it waits for one; 0: it waits for each
    warm_up_s: float = 0.0  # that the first steps of a training take longer, all together
    pinned: bool = False  # minibatches came from page-locked memory
    busy: float = (
        1.0  # of a launch-bound step, the share that the accelerator computes (assumed); `step_s` is that part
    )
    release_in_step: bool = False  # the record counts freeing the previous minibatch as compute

    @property
    def launch_bound(self) -> bool:
        """Whether issuing the step takes its time; how long the accelerator computes was not seen then."""
        return self.busy < 1.0


@dataclass(frozen=True, slots=True)
class PipelineCosts:
    """What each part of a training costs per minibatch of `batch_size`; times are at full speed of a core."""

    batch_size: int
    fetch_cpu_s: Floats  # of each recorded fetch, served from the page cache
    fetch_wait_s: Floats  # waiting of the same fetches that is neither storage nor a missing core
    fetch_fixed_s: float
    cold_cpu_s: float  # CPU time that reading one sample from the medium adds
    collate_s: float  # of the fetch, CPU time after the last sample
    hand_over: HandOver
    step: StepCosts
    first_epoch: float = 1.0  # fetch CPU time in the first epoch, relative to later ones
    fork_s: float = FORK_S
    worker_start_s: float = WORKER_START_CPU_S
    tail_s: float = 0.0  # between the last step of an epoch and its end
    aside_s: float = 0.0  # of the loop per minibatch, beside all that is simulated: evaluation, checkpoints
    minibatch_bytes: float = 0.0
    fetch_by_batch: CostByBatchSize | None = None  # None: not measured
    step_by_batch: CostByBatchSize | None = None
    requests_per_sample: float | None = None  # to the medium, counted; None: as the kernel's read-ahead makes them
    in_loop: bool = False  # the recorded fetches were made by the loop itself
    helper_share: float = 0.0  # of their waiting, for the loop's own intra-op threads, which workers do not have
    busy_neighbours: float = BUSY_NEIGHBOURS  # what computing costs more beside busy cores
    oversubscribed: float = OVERSUBSCRIBED  # and with more threads than cores
    assumed: frozenset[str] = frozenset()  # parts that the record does not show

    @property
    def fetch_s(self) -> float:
        """Mean time of one fetch without reads."""
        return float(self.fetch_cpu_s.mean() + self.fetch_wait_s.mean())

    def made_by(self, workers: int, loop_threads: int) -> PipelineCosts:
        """Return the costs of fetches made by workers, or with 0 workers by a loop with this many intra-op threads."""
        if self.in_loop == (workers == 0):
            return self
        if workers:
            collate_s = self.collate_s / COLLATE_IN_LOOP
            wait_s = self.fetch_wait_s * (1.0 - self.helper_share)
            cpu_s = self.fetch_cpu_s + collate_s - self.collate_s
            return replace(self, fetch_cpu_s=cpu_s, fetch_wait_s=wait_s, collate_s=collate_s, in_loop=False)
        collate_s = self.collate_s * COLLATE_IN_LOOP
        cpu_s = np.maximum(self.fetch_cpu_s - (self.collate_s - collate_s), 0.0)
        if self.minibatch_bytes / self.batch_size >= SPLIT_BYTES and "minibatch bytes" not in self.assumed:
            cpu_s = cpu_s * (1.0 + THREADS_IN_LOOP * float(np.log2(max(1, loop_threads))))
        return replace(self, fetch_cpu_s=cpu_s, collate_s=collate_s, in_loop=True)

    def with_fetch(self, factor: float) -> PipelineCosts:
        """Return the costs with the loader's CPU time changed by a factor."""
        return replace(self, fetch_cpu_s=self.fetch_cpu_s * factor, collate_s=self.collate_s * factor)

    def with_step(self, factor: float) -> PipelineCosts:
        """Return the costs with the step changed by a factor."""
        step = replace(self.step, step_s=self.step.step_s * factor, fixed_s=self.step.fixed_s * factor)
        return replace(self, step=step)

    def with_hand_over(self, factor: float) -> PipelineCosts:
        """Return the costs with the hand-over changed by a factor."""
        old = self.hand_over
        changed = HandOver(old.ship_s * factor, old.receive_s * factor, old.latency_s * factor, old.release_s)
        return replace(self, hand_over=changed)


@dataclass(frozen=True, slots=True)
class MinibatchCosts:
    """The costs of each minibatch to simulate, under one setting."""

    fetch_cpu_s: list[float]
    fetch_wait_s: list[float]
    collate_s: float
    hand_over: HandOver
    step_s: list[float]
    launch_s: float
    copy_s: float
    gap_s: float
    pin_s: float
    ahead: int


def minibatch_costs(
    costs: PipelineCosts, setting: PipelineSetting, epoch: int, count: int, rng: np.random.Generator
) -> MinibatchCosts:
    """Draw the costs of `count` minibatches from the recorded ones, scaled to a setting."""
    costs = costs.made_by(setting.workers, setting.threads)
    batches = setting.batch_size / costs.batch_size
    slower = 1.0 / setting.cpu_speed
    fetches = rng.permutation(np.arange(count) % len(costs.fetch_cpu_s))
    steps = rng.permutation(np.arange(count) % len(costs.step.step_s))
    fetch_cpu_s = costs.fetch_cpu_s[fetches]
    if costs.fetch_by_batch is not None:
        fetch_cpu_s = fetch_cpu_s * costs.fetch_by_batch.at(setting.batch_size)
    else:
        fixed_s = min(costs.fetch_fixed_s, float(costs.fetch_cpu_s.min(initial=np.inf)))
        fetch_cpu_s = fixed_s + (fetch_cpu_s - fixed_s) * batches
    fetch_cpu_s = fetch_cpu_s * slower * setting.fetch_cpu
    if epoch == 0:
        fetch_cpu_s = fetch_cpu_s * costs.first_epoch
    step, step_s = costs.step, _steps_s(costs, setting)[steps]
    hand_over = costs.hand_over.scaled(batches).slowed(slower)
    pinned = setting.pin_memory and step.kind is StepKind.ACCELERATOR
    copy_s, ahead = _affine(step.copy_s, COPY_FIXED_S, batches), step.ahead
    if pinned and not step.pinned:
        # Without the wait for each copy the loop runs ahead, unless it waits for each step anyway.
        copy_s, ahead = copy_s * PINNED_COPY, MAX_AHEAD if ahead else 0
    elif step.pinned and not pinned:
        copy_s, ahead = copy_s / PINNED_COPY, min(ahead, 1)
    return MinibatchCosts(
        fetch_cpu_s=fetch_cpu_s.tolist(),
        fetch_wait_s=(costs.fetch_wait_s[fetches] * batches).tolist(),
        collate_s=costs.collate_s * batches * slower * setting.fetch_cpu,
        hand_over=hand_over,
        step_s=np.maximum(step_s, 0.0).tolist(),
        launch_s=step.launch_s * slower * setting.launch_cpu,
        copy_s=copy_s,
        gap_s=step.gap_s * slower,
        pin_s=PIN_S_PER_BYTE * costs.minibatch_bytes * batches * slower if pinned else 0.0,
        ahead=ahead,
    )


def _steps_s(costs: PipelineCosts, setting: PipelineSetting) -> Floats:
    """Return the duration of each recorded step, scaled to a setting."""
    step, batches = costs.step, setting.batch_size / costs.batch_size
    if step.kind is StepKind.PACED:
        return step.step_s if setting.fixed_step_s is None else np.full(len(step.step_s), setting.fixed_step_s)
    if costs.step_by_batch is not None:
        # The probe measured whole steps: what the accelerator computes or what issuing takes, whichever is longer.
        whole = 1.0 if setting.batch_size == costs.batch_size else 1.0 / step.busy
        step_s = step.step_s * whole * costs.step_by_batch.at(setting.batch_size)
    else:
        step_s = step.fixed_s + (step.step_s - step.fixed_s) * batches
    if step.kind is StepKind.ACCELERATOR:
        return step_s * setting.step_time
    return step_s * (SERIAL_STEP + (1.0 - SERIAL_STEP) * step.threads / setting.threads) / setting.cpu_speed


def mean_step_s(costs: PipelineCosts, setting: PipelineSetting) -> float:
    """Return the mean duration of a step under a setting."""
    return float(_steps_s(costs, setting).mean())


def _affine(value_s: float, fixed_s: float, batches: float) -> float:
    fixed_s = min(value_s, fixed_s)
    return fixed_s + (value_s - fixed_s) * batches
