"""What one training needs, built from its job: network, loader, step and optimizer."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any, Callable, Iterator

import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, Sampler

from edgetrain.workload import datasets, networks
from edgetrain.workload.catalog import entry, is_own
from edgetrain.workload.errors import RequestError
from edgetrain.workload.job import BATCH_SIZE, TrainingJob
from edgetrain.workload.own import make_own
from edgetrain.workload.transforms import for_workload

_OPTIMIZERS: dict[str, Callable[..., Any]] = {
    "sgd": torch.optim.SGD,
    "adam": torch.optim.Adam,
    "adamw": torch.optim.AdamW,
}

Step = Callable[[nn.Module, Any], torch.Tensor]


@dataclass(frozen=True)
class PreparedTraining:
    """A training, ready to start."""

    network: nn.Module
    loader: DataLoader[Any]
    step: Step
    optimizer: Callable[[Any], Any]
    batch_size: int
    samples: int | None  # None: an iterable dataset does not say
    minibatches: int | None  # per epoch; None: not known before
    classes: int | None
    dataset_path: str | None


@dataclass(frozen=True)
class _Parts:
    """What a catalogued workload and the user's own each provide."""

    network: Any
    dataset: Any
    step: Step
    optimizer: Callable[[Any], Any]
    batch_size: int
    classes: int | None = None
    dataset_path: str | None = None
    collate: Any = None


class ShuffledSampler(Sampler):
    """A fresh order every epoch, from one seed; only as many samples as an epoch may take.

    A capped epoch ends here rather than by leaving the loop: workers would have fetched minibatches ahead that are
    never trained on.
    """

    def __init__(self, samples: int, taken: int, generator: torch.Generator) -> None:
        self.samples, self.taken, self.generator = samples, taken, generator

    def __iter__(self) -> Iterator[int]:
        return iter(torch.randperm(self.samples, generator=self.generator)[: self.taken].tolist())

    def __len__(self) -> int:
        return self.taken


def prepare(job: TrainingJob) -> PreparedTraining:
    """Build everything but what touches the accelerator."""
    torch.manual_seed(job.seed)
    parts = _own(job) if is_own(job.network) else _catalogued(job)
    if not isinstance(parts.network, nn.Module):
        found = type(parts.network).__name__
        raise RequestError(f"{job.network} returned a network of type {found}, not a torch module")
    samples = None if isinstance(parts.dataset, IterableDataset) else len(parts.dataset)
    taken = samples
    if samples is not None:
        if samples < parts.batch_size:
            raise RequestError(
                f"the dataset has {samples} samples, fewer than one minibatch of {parts.batch_size}; lower "
                f"--batch-size or give a larger dataset"
            )
        taken = min(samples, (job.max_minibatches or samples) * parts.batch_size)
    return PreparedTraining(
        network=parts.network,
        loader=_loader(job, parts, samples, taken),
        step=parts.step,
        optimizer=parts.optimizer,
        batch_size=parts.batch_size,
        samples=samples,
        minibatches=None if taken is None else math.ceil(taken / parts.batch_size),
        classes=parts.classes,
        dataset_path=parts.dataset_path,
    )


def _catalogued(job: TrainingJob) -> _Parts:
    if job.dataset is None:
        raise RequestError(f"the job names no dataset, and {job.network} needs one")
    known = entry(job.network)
    found = datasets.survey(job.dataset, known)
    needed = max(found.classes, known.classes) if job.generated else found.classes
    classes = job.classes or needed
    if classes < found.classes:
        raise RequestError(f"the dataset has {found.classes} classes, more than the {classes} asked for with --classes")
    return _Parts(
        network=_built(known.name, classes, shape_only=job.compute == "paced"),
        dataset=datasets.open_dataset(found, for_workload(known)),
        step=_step_with(nn.functional.cross_entropy),
        optimizer=_optimizer(job),
        batch_size=job.batch_size or BATCH_SIZE,
        classes=classes,
        dataset_path=job.dataset,
    )


def _own(job: TrainingJob) -> _Parts:
    own = make_own(job.network, job.dataset)
    return _Parts(
        network=own.network,
        dataset=own.dataset,
        step=own.step or _step_with(own.loss or nn.functional.cross_entropy),
        optimizer=own.optimizer or _optimizer(job),
        batch_size=job.batch_size or own.batch_size or BATCH_SIZE,
        dataset_path=own.dataset_path or job.dataset,
        collate=own.collate,
    )


def _loader(job: TrainingJob, parts: _Parts, samples: int | None, taken: int | None) -> DataLoader[Any]:
    generator = torch.Generator()
    generator.manual_seed(job.seed)
    make: Callable[..., Any] = DataLoader
    if job.workers:  # torch takes these only where there are workers
        make = functools.partial(
            DataLoader,
            prefetch_factor=job.prefetch,
            persistent_workers=job.persistent,
            multiprocessing_context=job.start_method,
        )
    try:
        return make(
            parts.dataset,
            batch_size=parts.batch_size,
            sampler=None if samples is None else ShuffledSampler(samples, taken or 0, generator),
            num_workers=job.workers,
            pin_memory=job.pin_memory,
            collate_fn=parts.collate,
            generator=generator,
        )
    except ValueError as error:
        raise RequestError(f"torch does not take these loader settings: {error}") from None


def _built(name: str, classes: int, shape_only: bool) -> nn.Module:
    """Return the network; where the step is paced it computes nothing and need not take memory."""
    if not shape_only or not hasattr(torch.device, "__enter__"):  # torch 2.0 made the device a context
        return networks.build(name, classes)
    with torch.device("meta"):
        return networks.build(name, classes)


def _optimizer(job: TrainingJob) -> Callable[[Any], Any]:
    make = _OPTIMIZERS.get(job.optimizer)
    if make is None:
        raise RequestError(f"no optimizer is called {job.optimizer!r}; known: {', '.join(_OPTIMIZERS)}")
    more = {"momentum": job.momentum} if job.optimizer == "sgd" else {}
    return lambda parameters: make(parameters, lr=job.learning_rate, **more)


def _step_with(loss: Callable[[Any, Any], torch.Tensor]) -> Step:
    def step(network: nn.Module, minibatch: Any) -> torch.Tensor:
        inputs, targets = minibatch
        return loss(network(inputs), targets)

    return step
