"""What one training needs, gathered: network, loader, step; for a catalogued workload or for the user's own.

Your own workload is a function without arguments, named `module:function`, that returns a dict (or an object with the
same attributes):

    network       the torch module to train
    dataset       a torch dataset, map-style or iterable
    loss          optional: loss(output, target); cross-entropy where left out
    step          optional: step(network, minibatch) -> loss, for minibatches that are not (input, target)
    optimizer     optional: optimizer(parameters) -> torch optimizer; --optimizer and --lr where left out
    batch_size    optional: used where --batch-size is not given
    collate       optional: the loader's collate function
    dataset_path  optional: where its files lie, so that they can be cooled, warmed and watched
"""

from __future__ import annotations

import importlib
import inspect
import math
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, Sampler

from edgetrain.errors import UsageError, WorkloadError
from edgetrain.schema import Experiment, Loading
from edgetrain.workload import datasets, networks
from edgetrain.workload.catalog import entry, is_own
from edgetrain.workload.transforms import for_workload

BATCH_SIZE = 16  # the papers'
_OPTIMIZERS: dict[str, Callable[..., Any]] = {
    "sgd": torch.optim.SGD,
    "adam": torch.optim.Adam,
    "adamw": torch.optim.AdamW,
}

Step = Callable[[nn.Module, Any], torch.Tensor]


@dataclass(frozen=True)
class Job:
    """A training, ready to go."""

    network: nn.Module
    loader: DataLoader[Any]
    step: Step
    optimizer: Callable[[Any], Any]
    batch_size: int
    samples: int | None  # None: an iterable dataset does not say
    minibatches: int | None  # per epoch; None: not known before
    classes: int | None
    dataset_path: str | None


class Shuffled(Sampler[int]):
    """A fresh order every epoch, from one seed; only as many samples as an epoch may take.

    An epoch that is capped ends here rather than by leaving the loop: workers would have fetched minibatches ahead that
    nobody trains on.
    """

    def __init__(self, samples: int, taken: int, generator: torch.Generator) -> None:
        self.samples, self.taken, self.generator = samples, taken, generator

    def __iter__(self) -> Iterator[int]:
        return iter(torch.randperm(self.samples, generator=self.generator)[: self.taken].tolist())

    def __len__(self) -> int:
        return self.taken


def gather(experiment: Experiment, dataset: str | None, generated: bool) -> Job:
    """Build everything but what touches the accelerator."""
    workload, loading = experiment.workload, experiment.loading
    torch.manual_seed(experiment.seed)
    if is_own(workload.network):
        given = _own(workload.network, dataset)
        network, data = given["network"], given["dataset"]
        step, classes = _own_step(given), None
        path = given.get("dataset_path") or dataset
        batch_size = workload.batch_size or int(given.get("batch_size") or BATCH_SIZE)
        optimizer = given.get("optimizer") or _optimizer(experiment)
        collate = given.get("collate")
    else:
        assert dataset is not None
        known = entry(workload.network)
        found = datasets.survey(dataset, known)
        needed = max(found.classes, known.classes) if generated else found.classes
        classes = workload.classes or needed
        if classes < found.classes:
            raise UsageError(
                f"the dataset has {found.classes} classes, more than the {classes} asked for with --classes"
            )
        network = _built(known.name, classes, experiment.compute == "paced")
        data = datasets.open_dataset(found, for_workload(known))
        step, path, collate = _step_with(nn.functional.cross_entropy), dataset, None
        batch_size = workload.batch_size or BATCH_SIZE
        optimizer = _optimizer(experiment)
    if not isinstance(network, nn.Module):
        raise UsageError(f"{workload.network} returned a network of type {type(network).__name__}, not a torch module")
    generator = torch.Generator()
    generator.manual_seed(experiment.seed)
    samples = None if isinstance(data, IterableDataset) else len(data)
    taken = samples
    if samples is not None:
        if samples < batch_size:
            raise UsageError(
                f"the dataset has {samples} samples, fewer than one minibatch of {batch_size}; lower --batch-size or "
                f"give a larger dataset"
            )
        taken = min(samples, (experiment.max_minibatches or samples) * batch_size)
    try:
        loader = DataLoader(
            data,
            batch_size=batch_size,
            sampler=None if samples is None else Shuffled(samples, taken or 0, generator),
            num_workers=loading.workers,
            pin_memory=loading.pin_memory,
            collate_fn=collate,
            generator=generator,
            **_of_workers(loading),
        )
    except ValueError as error:
        raise UsageError(f"torch does not take these loader settings: {error}") from None
    minibatches = None if taken is None else math.ceil(taken / batch_size)
    where = None if path is None else str(path)
    return Job(network, loader, step, optimizer, batch_size, samples, minibatches, classes, where)


def _of_workers(loading: Loading) -> dict[str, Any]:
    """Return the settings that torch takes only where there are workers."""
    if not loading.workers:
        return {}
    return {
        "prefetch_factor": loading.prefetch,
        "persistent_workers": loading.persistent,
        "multiprocessing_context": loading.start_method,
    }


def _built(name: str, classes: int, shape_only: bool) -> nn.Module:
    """Return the network; where the step is paced it computes nothing, and need not take memory."""
    if not shape_only:
        return networks.build(name, classes)
    with torch.device("meta"):
        return networks.build(name, classes)


def _optimizer(experiment: Experiment) -> Callable[[Any], Any]:
    workload = experiment.workload
    make = _OPTIMIZERS.get(workload.optimizer)
    if make is None:
        raise UsageError(f"no optimizer is called {workload.optimizer!r}; there are {', '.join(_OPTIMIZERS)}")
    more = {"momentum": workload.momentum} if workload.optimizer == "sgd" else {}
    return lambda parameters: make(parameters, lr=workload.learning_rate, **more)


def _step_with(loss: Callable[[Any, Any], torch.Tensor]) -> Step:
    def step(network: nn.Module, minibatch: Any) -> torch.Tensor:
        inputs, targets = minibatch
        return loss(network(inputs), targets)

    return step


def _own(name: str, dataset: str | None) -> Mapping[str, Any]:
    """Call the user's function, with the dataset's folder if it wants it; every way it can be wrong is a sentence."""
    module, _, function = name.partition(":")
    try:
        loaded = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is not None and (module == error.name or module.startswith(error.name + ".")):
            raise UsageError(f"there is no module {module!r} in this folder or in {sys.prefix}") from None
        raise WorkloadError(f"{module} cannot be imported: {error}") from error
    make = getattr(loaded, function, None)
    if not callable(make):
        raise UsageError(
            f"{module} has no function {function!r}; write module:function, for example train:make_workload"
        )
    wanted: dict[str, Any] = {}
    try:
        signature = inspect.signature(make)
        if "dataset" in signature.parameters:
            wanted = _wanted_dataset(name, signature.parameters["dataset"], dataset)
        signature.bind(**wanted)
    except TypeError as error:
        raise UsageError(
            f"{name} cannot be called without arguments ({error}); make a function that can, or one that takes dataset"
        ) from None
    except ValueError:
        pass  # built in: no signature to look at
    given = make(**wanted)
    if not isinstance(given, Mapping):
        given = {key: getattr(given, key) for key in dir(given) if not key.startswith("_")}
    for key in ("network", "dataset"):
        if given.get(key) is None:
            raise UsageError(
                f"{name} returned no {key!r}; it returns a dict with network, dataset and, where needed, more"
            )
    return given


def _wanted_dataset(name: str, parameter: inspect.Parameter, dataset: str | None) -> dict[str, Any]:
    if dataset is not None:
        return {"dataset": dataset}
    if parameter.default is inspect.Parameter.empty:
        raise UsageError(f"{name} takes the folder of a dataset; name one with --dataset")
    return {}


def _own_step(given: Mapping[str, Any]) -> Step:
    if given.get("step") is not None:
        step: Step = given["step"]
        return step
    return _step_with(given.get("loss") or nn.functional.cross_entropy)
