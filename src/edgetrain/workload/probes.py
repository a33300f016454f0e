"""Short measurements after the training, beside its record: handing minibatches over, and other batch sizes.

A run without workers does not show what a minibatch costs on its way from a worker to the loop, and a run with one
batch size does not show how its times follow the batch size. Both are measured here in about a second, after the record
is closed, and reported to the runner.
"""

from __future__ import annotations

import contextlib
import time
from typing import Any, Iterator, Sequence

import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset

from edgetrain.inside import counters
from edgetrain.workload.job import TrainingJob
from edgetrain.workload.loop import compute_device, moved
from edgetrain.workload.messages import BatchSizeMeasured, HandOverMeasured
from edgetrain.workload.training import PreparedTraining

HAND_OVER_S = 1.0  # a probe takes at most about this long
WARM_UP = 4  # minibatches that are not counted: the worker starts, memory is mapped for the first time
MIN_COUNTED = 4
BATCH_S = 3.0  # per batch size
STEPS, STEPS_BEFORE = 8, 2


class KeptSamples(Dataset):
    """A few samples that lie in memory, again and again: fetching them costs nothing."""

    def __init__(self, samples: Sequence[Any], count: int) -> None:
        self.samples, self.count = samples, count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> Any:
        return self.samples[index % len(self.samples)]


class TimedCollate:
    """Collates and adds the CPU time that took to the minibatch."""

    def __init__(self, collate: Any) -> None:
        self.collate = collate

    def __call__(self, samples: Any) -> Any:
        began_s = time.thread_time()
        batch = self.collate(samples)
        return batch, time.thread_time() - began_s


def measure_hand_over(job: TrainingJob, training: PreparedTraining) -> HandOverMeasured | None:
    """Measure what one worker's minibatches cost the loop; None where the dataset cannot be indexed."""
    dataset, size = training.loader.dataset, training.batch_size
    if isinstance(dataset, IterableDataset):
        return None
    samples = [dataset[index] for index in range(min(size, len(dataset)))]
    collate = TimedCollate(training.loader.collate_fn)
    _, in_loop_s = collate(samples)
    loader: Any = DataLoader(
        KeptSamples(samples, size * 100_000), batch_size=size, num_workers=1, prefetch_factor=2, collate_fn=collate
    )
    receive: list[float] = []
    waited: list[float] = []
    collated: list[float] = []
    released: list[float] = []
    until_s = time.monotonic() + HAND_OVER_S
    batches = iter(loader)
    size_bytes, schedstat = 0, counters.open_schedstat()
    with _closing(batches):
        for number in range(100_000):
            # A pause as long as a fetch: the next minibatch waits in the queue, as it does beside a slower step.
            time.sleep(0.002 if not collated else 2 * max(collated))
            queued_ns = counters.queued_ns(schedstat)
            cpu_s, began_s = time.thread_time(), time.monotonic()
            batch = next(batches)
            ready_s, cpu_s = time.monotonic() - began_s, time.thread_time() - cpu_s
            ready_s -= (counters.queued_ns(schedstat) - queued_ns) / 1e9
            size_bytes = bytes_of(batch[0])
            collate_s = batch[1]
            began_s = time.monotonic()
            del batch
            release_s = time.monotonic() - began_s
            if number >= WARM_UP:
                receive.append(cpu_s)
                waited.append(max(ready_s, cpu_s))
                collated.append(collate_s)
                released.append(release_s)
            if time.monotonic() > until_s and len(receive) >= MIN_COUNTED:
                break
    return HandOverMeasured(
        minibatch_bytes=size_bytes,
        minibatches=len(receive),
        receive_cpu_s=_median(receive),
        receive_s=_median(waited),
        release_s=_median(released),
        collate_s=in_loop_s,
        worker_collate_s=_median(collated),
    )


@contextlib.contextmanager
def _closing(batches: Any) -> Iterator[None]:
    try:
        yield
    finally:
        stop = getattr(batches, "_shutdown_workers", None)
        if stop is not None:
            stop()


def measure_batch_sizes(job: TrainingJob, training: PreparedTraining) -> list[BatchSizeMeasured]:
    """Measure fetch and step at half, the same and double the batch size; a size that does not fit is left out."""
    dataset = training.loader.dataset
    if isinstance(dataset, IterableDataset):
        return []
    device = compute_device(job.compute)
    optimizer = None if device is None else training.optimizer(training.network.parameters())
    found = []
    for size in sorted({max(1, training.batch_size // 2), training.batch_size, 2 * training.batch_size}):
        if size > len(dataset):
            continue
        try:
            found.append(_measure_size(training, device, optimizer, size, job.pin_memory))
        except (RuntimeError, MemoryError):
            continue  # out of memory
    return found


def _measure_size(
    training: PreparedTraining, device: Any, optimizer: Any, size: int, pinned: bool
) -> BatchSizeMeasured:
    dataset, collate = training.loader.dataset, training.loader.collate_fn
    fetches, cpu, steps = [], [], []
    until_s, index = time.monotonic() + BATCH_S, 0
    for number in range(STEPS_BEFORE + STEPS):
        cpu_s, began_s = time.thread_time(), time.monotonic()
        batch = collate([dataset[(index + place) % len(dataset)] for place in range(size)])
        fetch_s, cpu_s = time.monotonic() - began_s, time.thread_time() - cpu_s
        index += size
        step_s = None if device is None else _step(training, device, optimizer, batch, pinned)
        if number >= STEPS_BEFORE:
            fetches.append(fetch_s)
            cpu.append(cpu_s)
            if step_s is not None:
                steps.append(step_s)
        if time.monotonic() > until_s and len(fetches) >= 2:
            break
    return BatchSizeMeasured(
        batch_size=size,
        minibatches=len(fetches),
        fetch_s=_median(fetches),
        fetch_cpu_s=_median(cpu),
        step_s=_median(steps) if steps else None,
    )


def _step(training: PreparedTraining, device: Any, optimizer: Any, batch: Any, pinned: bool) -> float:
    began_s = time.monotonic()
    batch = moved(batch, device, pinned)
    optimizer.zero_grad(set_to_none=True)
    training.step(training.network, batch).backward()
    optimizer.step()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.monotonic() - began_s


def bytes_of(batch: Any, depth: int = 4) -> int:
    """Return the bytes of the tensors in a minibatch."""
    if isinstance(batch, torch.Tensor):
        return batch.numel() * batch.element_size()
    if depth and isinstance(batch, dict):
        return sum(bytes_of(each, depth - 1) for each in batch.values())
    if depth and isinstance(batch, (list, tuple)):
        return sum(bytes_of(each, depth - 1) for each in batch)
    return int(getattr(batch, "nbytes", 0) or 0)


def _median(values: Sequence[float]) -> float:
    ordered = sorted(values)
    return ordered[len(ordered) // 2] if ordered else 0.0
