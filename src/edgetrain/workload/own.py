"""Your own workload: a function without arguments, named `module:function`, that returns a dict (or an object with the
same attributes).

    network       the torch module to train
    dataset       a torch dataset, map-style or iterable
    loss          optional: loss(output, target); cross-entropy where left out
    step          optional: step(network, minibatch) -> loss, for minibatches that are not (input, target)
    optimizer     optional: optimizer(parameters) -> torch optimizer; the job's optimizer where left out
    batch_size    optional: used where the job has none
    collate       optional: the loader's collate function
    dataset_path  optional: where its files lie, so that they can be cooled, warmed and watched

A function with a parameter `dataset` is given the dataset's folder.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import sys
from dataclasses import dataclass
from typing import Any, Callable, Mapping

from edgetrain.workload.errors import RequestError, TrainingError


@dataclass(frozen=True)
class OwnWorkload:
    """What the user's function returned; None where it was left out."""

    network: Any
    dataset: Any
    loss: Callable[[Any, Any], Any] | None = None
    step: Callable[[Any, Any], Any] | None = None
    optimizer: Callable[[Any], Any] | None = None
    batch_size: int | None = None
    collate: Callable[[Any], Any] | None = None
    dataset_path: str | None = None


def make_own(name: str, dataset: str | None) -> OwnWorkload:
    """Call the user's function and return what it made; RequestError names each way it can be wrong."""
    make = _function(name)
    try:
        signature = inspect.signature(make)
        if "dataset" in signature.parameters and _gets_dataset(name, signature.parameters["dataset"], dataset):
            make = functools.partial(make, dataset=dataset)
        inspect.signature(make).bind()
    except TypeError as error:
        raise RequestError(
            f"{name} cannot be called without arguments ({error}); make a function that can, or one that takes dataset"
        ) from None
    except ValueError:
        pass  # a built-in function has no signature
    given = make()

    def of(key: str) -> Any:
        return given.get(key) if isinstance(given, Mapping) else getattr(given, key, None)

    for key in ("network", "dataset"):
        if of(key) is None:
            raise RequestError(
                f"{name} returned no {key!r}; it returns a dict with network, dataset and, where needed, more"
            )
    return OwnWorkload(
        network=of("network"),
        dataset=of("dataset"),
        loss=of("loss"),
        step=of("step"),
        optimizer=of("optimizer"),
        batch_size=None if of("batch_size") is None else int(of("batch_size")),
        collate=of("collate"),
        dataset_path=None if of("dataset_path") is None else str(of("dataset_path")),
    )


def _function(name: str) -> Any:
    module, _, function = name.partition(":")
    try:
        loaded = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is not None and (module == error.name or module.startswith(error.name + ".")):
            raise RequestError(f"there is no module {module!r} in this folder or in {sys.prefix}") from None
        raise TrainingError(f"{module} cannot be imported: {error}") from error
    make = getattr(loaded, function, None)
    if not callable(make):
        raise RequestError(
            f"{module} has no function {function!r}; write module:function, for example train:make_workload"
        )
    return make


def _gets_dataset(name: str, parameter: inspect.Parameter, dataset: str | None) -> bool:
    if dataset is None and parameter.default is inspect.Parameter.empty:
        raise RequestError(f"{name} takes the folder of a dataset; name one with --dataset")
    return dataset is not None
