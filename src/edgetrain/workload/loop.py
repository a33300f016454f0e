"""The training loop: asks, copies, steps, and says so to the stopwatch; or paces itself where no step is computed."""

from __future__ import annotations

import itertools
import signal
import time
from collections.abc import Iterable
from typing import Any, Protocol

import torch

from edgetrain.errors import UsageError, WorkloadError
from edgetrain.schema import Experiment
from edgetrain.workload.job import Job

DYING_S = 0.2  # a killed worker's connection breaks before its parent can learn of its end


class Stopwatch(Protocol):
    """What the loop tells (`edgetrain.inside.session.Session`)."""

    def epoch(self, number: int) -> None: ...
    def copying(self) -> None: ...
    def copied(self) -> None: ...
    def launched(self) -> None: ...
    def epoch_done(self, number: int, loss: float | None) -> None: ...


class Listener(Protocol):
    """Who follows the loop from outside; `batch` is read by another thread, so that the loop does not wait for it."""

    batch: int

    def epoch_began(self, epoch: int) -> None: ...
    def epoch_ended(self, epoch: int, loss: float | None) -> None: ...


def compute_device(asked: str) -> torch.device | None:
    """Return where to compute; None where the step is paced."""
    if asked == "paced":
        return None
    if asked == "cpu":
        return torch.device("cpu")
    available = torch.cuda.is_available()
    if asked == "cuda" and not available:
        raise UsageError(
            "no CUDA device is usable by this torch; use --compute cpu, or --compute paced --compute-ms 30"
        )
    return torch.device("cuda" if available else "cpu")


def moved(minibatch: Any, device: torch.device, pinned: bool) -> Any:
    """Return the minibatch on the device, whatever it is made of."""
    if isinstance(minibatch, torch.Tensor):
        return minibatch.to(device, non_blocking=pinned)
    if isinstance(minibatch, dict):
        return {key: moved(value, device, pinned) for key, value in minibatch.items()}
    if isinstance(minibatch, tuple) and hasattr(minibatch, "_fields"):
        return type(minibatch)(*(moved(value, device, pinned) for value in minibatch))
    if isinstance(minibatch, (list, tuple)):
        return type(minibatch)(moved(value, device, pinned) for value in minibatch)
    return minibatch


def train(experiment: Experiment, job: Job, stopwatch: Stopwatch, listener: Listener) -> None:
    """Train for the experiment's epochs."""
    device = compute_device(experiment.compute)
    if device is None:
        _pace(experiment, job, stopwatch, listener)
        return
    pinned = experiment.loading.pin_memory
    try:
        network = job.network.to(device).train()
        optimizer = job.optimizer(network.parameters())
        total = torch.zeros((), device=device)
        for epoch in range(experiment.epochs):
            _begin(epoch, stopwatch, listener)
            total.zero_()
            steps = 0
            for minibatch in _capped(experiment, job):
                # Not from `ready` on: letting go of the minibatch before unmaps its memory, and that is no copy.
                stopwatch.copying()
                minibatch = moved(minibatch, device, pinned)
                stopwatch.copied()
                optimizer.zero_grad(set_to_none=True)
                loss = job.step(network, minibatch)
                loss.backward()
                optimizer.step()
                # Added up on the device: reading it here would make the host wait for the step.
                total += loss.detach()
                stopwatch.launched()
                steps += 1
                listener.batch = steps
            _end(epoch, float(total) / steps if steps else None, steps, stopwatch, listener)
    except torch.cuda.OutOfMemoryError as error:
        raise WorkloadError(
            f"the accelerator ran out of memory ({str(error).splitlines()[0]}); lower --batch-size {job.batch_size}"
        ) from None
    except (RuntimeError, OSError, EOFError):
        _name_dead_workers(job)
        raise


def _pace(experiment: Experiment, job: Job, stopwatch: Stopwatch, listener: Listener) -> None:
    """Stand in for an accelerator: sleep until the step's time is up, leaving the CPU to the loaders."""
    if experiment.compute_ms is None:
        raise UsageError("paced compute needs the time of a step: --compute-ms 30")
    step_s = experiment.compute_ms / 1e3
    try:
        for epoch in range(experiment.epochs):
            _begin(epoch, stopwatch, listener)
            steps = 0
            for _ in _capped(experiment, job):
                until_s = time.monotonic() + step_s
                while (left_s := until_s - time.monotonic()) > 0:
                    time.sleep(left_s)
                stopwatch.launched()
                steps += 1
                listener.batch = steps
            _end(epoch, None, steps, stopwatch, listener)
    except (RuntimeError, OSError, EOFError):
        _name_dead_workers(job)
        raise


def _name_dead_workers(job: Job) -> None:
    """Raise, naming them, where loader workers were killed: all torch may have seen is a connection that was reset."""
    time.sleep(DYING_S)
    for number, worker in enumerate(getattr(getattr(job.loader, "_iterator", None), "_workers", ())):
        if worker.exitcode is not None and worker.exitcode < 0:
            name = signal.Signals(-worker.exitcode).name
            raise WorkloadError(f"a loader worker died: worker {number} (process {worker.pid}) was ended by {name}")


def _capped(experiment: Experiment, job: Job) -> Iterable[Any]:
    """Return the loader; an iterable dataset has no sampler that could end an epoch early."""
    if job.samples is not None or experiment.max_minibatches is None:
        return job.loader
    return itertools.islice(job.loader, experiment.max_minibatches)


def _begin(epoch: int, stopwatch: Stopwatch, listener: Listener) -> None:
    listener.batch = 0
    listener.epoch_began(epoch)
    stopwatch.epoch(epoch)


def _end(epoch: int, loss: float | None, steps: int, stopwatch: Stopwatch, listener: Listener) -> None:
    if not steps:
        raise WorkloadError("the dataset gave no minibatch; check that it is not empty")
    stopwatch.epoch_done(epoch, loss)
    listener.epoch_ended(epoch, loss)
