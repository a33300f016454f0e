"""The training loop: fetches, copies, steps, and marks each instant; or sleeps where the step is paced."""

from __future__ import annotations

import itertools
import signal
import time
from typing import Any, Iterable, Protocol

import torch

from edgetrain.workload.errors import RequestError, TrainingError
from edgetrain.workload.job import TrainingJob
from edgetrain.workload.training import PreparedTraining

WORKER_EXIT_S = 0.2  # a killed worker's connection breaks before its parent can learn of its end


class LoopRecorder(Protocol):
    """Where the loop marks its instants (`edgetrain.inside.session`)."""

    def epoch(self, number: int) -> None: ...
    def copying(self) -> None: ...
    def copied(self) -> None: ...
    def launched(self) -> None: ...
    def epoch_done(self, number: int, loss: float | None) -> None: ...


class ProgressListener(Protocol):
    """Follows the loop; `minibatches` is read by another thread, so that the loop does not wait for it."""

    minibatches: int

    def epoch_began(self, epoch: int) -> None: ...
    def epoch_ended(self, epoch: int, loss: float | None) -> None: ...


def compute_device(compute: str) -> torch.device | None:
    """Return where to compute; None where the step is paced."""
    if compute == "paced":
        return None
    if compute == "cpu":
        return torch.device("cpu")
    available = torch.cuda.is_available()
    if compute == "cuda" and not available:
        raise RequestError(
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


def train(job: TrainingJob, training: PreparedTraining, recording: LoopRecorder, listener: ProgressListener) -> None:
    """Train for the job's epochs."""
    device = compute_device(job.compute)
    try:
        if device is None:
            _pace(job, training, recording, listener)
        else:
            _compute(job, training, device, recording, listener)
    except (RuntimeError, OSError, EOFError) as error:
        if _is_out_of_memory(error):
            raise TrainingError(
                f"the accelerator ran out of memory ({str(error).splitlines()[0]}); lower --batch-size, which is "
                f"{training.batch_size}"
            ) from None
        _name_dead_workers(training)
        raise


def _compute(
    job: TrainingJob,
    training: PreparedTraining,
    device: torch.device,
    recording: LoopRecorder,
    listener: ProgressListener,
) -> None:
    network = training.network.to(device).train()
    optimizer = training.optimizer(network.parameters())
    total = torch.zeros((), device=device)
    for epoch in range(job.epochs):
        _begin(epoch, recording, listener)
        total.zero_()
        steps = 0
        for minibatch in _capped(job, training):
            # Not from `ready` on: freeing the previous minibatch unmaps its memory, and that is not part of the copy.
            recording.copying()
            minibatch = moved(minibatch, device, job.pin_memory)
            recording.copied()
            optimizer.zero_grad(set_to_none=True)
            loss = training.step(network, minibatch)
            loss.backward()
            optimizer.step()
            # Added up on the device: reading it here would make the host wait for the step.
            total += loss.detach()
            recording.launched()
            steps += 1
            listener.minibatches = steps
        _end(epoch, float(total) / steps if steps else None, steps, recording, listener)


def _pace(job: TrainingJob, training: PreparedTraining, recording: LoopRecorder, listener: ProgressListener) -> None:
    """Sleep for the duration of each step, which leaves the CPU to the loaders as an accelerator does."""
    if job.compute_ms is None:
        raise RequestError("paced compute needs the duration of a step: --compute-ms 30")
    step_s = job.compute_ms / 1e3
    for epoch in range(job.epochs):
        _begin(epoch, recording, listener)
        steps = 0
        for _ in _capped(job, training):
            until_s = time.monotonic() + step_s
            while (left_s := until_s - time.monotonic()) > 0:
                time.sleep(left_s)
            recording.launched()
            steps += 1
            listener.minibatches = steps
        _end(epoch, None, steps, recording, listener)


def _is_out_of_memory(error: BaseException) -> bool:
    # Before torch 1.13 it has no type of its own.
    kind = getattr(torch.cuda, "OutOfMemoryError", None)
    return (kind is not None and isinstance(error, kind)) or str(error).startswith("CUDA out of memory")


def _name_dead_workers(training: PreparedTraining) -> None:
    """Raise, naming them, where loader workers were killed: all torch may have seen is a connection that was reset."""
    time.sleep(WORKER_EXIT_S)
    for number, worker in enumerate(getattr(getattr(training.loader, "_iterator", None), "_workers", ())):
        if worker.exitcode is not None and worker.exitcode < 0:
            name = signal.Signals(-worker.exitcode).name
            raise TrainingError(f"a loader worker died: worker {number} (process {worker.pid}) was ended by {name}")


def _capped(job: TrainingJob, training: PreparedTraining) -> Iterable[Any]:
    """Return the loader; an iterable dataset has no sampler that could end an epoch early."""
    if training.samples is not None or job.max_minibatches is None:
        return training.loader
    return itertools.islice(training.loader, job.max_minibatches)


def _begin(epoch: int, recording: LoopRecorder, listener: ProgressListener) -> None:
    listener.epoch_began(epoch)
    recording.epoch(epoch)


def _end(epoch: int, loss: float | None, steps: int, recording: LoopRecorder, listener: ProgressListener) -> None:
    if not steps:
        raise TrainingError("the dataset gave no minibatch; check that it is not empty")
    recording.epoch_done(epoch, loss)
    listener.epoch_ended(epoch, loss)
