"""What the training program reports to the runner: one JSON object per line, each one of these types.

The runner reads them back with the same types. Standard library only.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from typing import Union


@dataclass(frozen=True)
class ComputeUsed:
    """What computes the step: `paced` sleeps `ms` instead."""

    kind: str  # cuda | cpu | paced
    name: str | None = None  # None: the runner knows the GPU's name
    ms: float | None = None


@dataclass(frozen=True)
class Prepared:
    """Network, loader and dataset are ready; nothing has touched the accelerator yet."""

    parameters: int
    batch_size: int
    compute: ComputeUsed
    torch: str
    threads: int
    python: str
    cuda: str | None = None
    classes: int | None = None
    samples: int | None = None  # None: an iterable dataset does not say
    minibatches_per_epoch: int | None = None
    dataset_path: str | None = None


@dataclass(frozen=True)
class EpochBegan:
    """An epoch begins."""

    epoch: int


@dataclass(frozen=True)
class MinibatchesDone:
    """How many minibatches of this epoch have been trained; a few times per second."""

    minibatches: int


@dataclass(frozen=True)
class EpochEnded:
    """An epoch has ended; the mean loss is None where no step was computed."""

    epoch: int
    loss: float | None = None


@dataclass(frozen=True)
class TrainingFailed:
    """The training ends here, with this reason and exit status."""

    reason: str
    kind: str  # name of the exception
    status: int


@dataclass(frozen=True)
class HandOverMeasured:
    """What handing a minibatch from a worker to the loop costs; measured after a training without workers."""

    minibatch_bytes: int
    minibatches: int  # measured
    receive_cpu_s: float  # CPU time of the loop
    receive_s: float  # duration, with a minibatch waiting in the queue; without waiting for a core
    release_s: float  # freeing it
    collate_s: float  # CPU time to collate it in the loop
    worker_collate_s: float  # and in a worker, which writes into shared memory


@dataclass(frozen=True)
class BatchSizeMeasured:
    """Medians over a few minibatches of one size, fetched by the loop itself; `step_s` is None where it is paced."""

    batch_size: int
    minibatches: int
    fetch_s: float
    fetch_cpu_s: float
    step_s: float | None = None


@dataclass(frozen=True)
class TrainingFinished:
    """Every epoch was trained and the record is closed."""

    hand_over: HandOverMeasured | None = None
    batch_sizes: tuple[BatchSizeMeasured, ...] = ()


TrainingMessage = Union[Prepared, EpochBegan, MinibatchesDone, EpochEnded, TrainingFailed, TrainingFinished]

MESSAGES: dict[str, type[TrainingMessage]] = {
    kind.__name__: kind
    for kind in (Prepared, EpochBegan, MinibatchesDone, EpochEnded, TrainingFailed, TrainingFinished)
}


def encode(message: TrainingMessage) -> bytes:
    """Return a message as one line; its type is the key `message`."""
    document = {"message": type(message).__name__, **dataclasses.asdict(message)}
    return (json.dumps(document) + "\n").encode()
