"""Loader arguments set from outside: the DataLoader that trains is given other arguments than the script's.

`edgetrain tune` names the loader by its creation order, as the record of the first trial shows it, and passes the
arguments as JSON in an environment variable. Nothing else of the script changes: same dataset, sampler, batch size,
collate function and random numbers.
"""

from __future__ import annotations

import functools
import inspect
import json
import os
from typing import Any

VARIABLE = "EDGETRAIN_LOADER"  # {"created": 0, "num_workers": 2, ...}
CREATED = "_edgetrain_created"  # attribute of a loader: its place in the order of creation in its process
ARGUMENTS = ("num_workers", "prefetch_factor", "pin_memory", "persistent_workers", "multiprocessing_context")
NEEDS_WORKERS = ("prefetch_factor", "persistent_workers", "multiprocessing_context", "timeout")


class LoaderOverride:
    """The loader to change, and its arguments; those not named stay the script's."""

    def __init__(self, created: int, arguments: Any) -> None:
        self.created = created
        self.arguments = {name: arguments[name] for name in ARGUMENTS if name in arguments}

    def apply(self, given: Any) -> None:
        """Change bound arguments in place; torch refuses some of them where there are no workers."""
        given.update(self.arguments)
        if not given.get("num_workers"):
            for name in NEEDS_WORKERS:
                given.pop(name, None)
        elif given.get("prefetch_factor", 0) is None:
            del given["prefetch_factor"]


def read(text: str | None) -> LoaderOverride | None:
    """Return what the variable asks for; None where it is not set or is not ours."""
    if not text:
        return None
    try:
        document = json.loads(text)
        return LoaderOverride(int(document["created"]), document)
    except (ValueError, KeyError, TypeError):
        return None


def install(dataloader: Any, text: str | None = None) -> None:
    """Number the loaders of this process in the order of creation, and change the arguments of the one asked for."""
    kind = dataloader.DataLoader
    if hasattr(kind, CREATED):
        return
    setattr(kind, CREATED, None)
    override = read(os.environ.get(VARIABLE) if text is None else text)
    original = kind.__init__
    signature = inspect.signature(original)
    count = [0]

    @functools.wraps(original)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        created = count[0]
        count[0] += 1
        self.__dict__[CREATED] = created
        if override is None or created != override.created:
            return original(self, *args, **kwargs)
        bound = signature.bind(self, *args, **kwargs)
        override.apply(bound.arguments)
        return original(*bound.args, **bound.kwargs)

    kind.__init__ = __init__
