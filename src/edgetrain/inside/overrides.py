"""Loader arguments set from outside: the DataLoaders that train are given other arguments than the script's.

A loader is known by the place in the program where it was made, because many scripts make a new one for each epoch or
fold; where that place makes loaders for evaluation too, by which of them it is or by its dataset; else by the order of
creation. `edgetrain tune` reads from the record of the first trial which of these tells the training loaders apart, and
passes it with the arguments as JSON in an environment variable. Nothing else of the script changes: same dataset,
sampler, batch size, collate function and random numbers.
"""

from __future__ import annotations

import functools
import inspect
import json
import os
import sys
import weakref
import zlib
from typing import Any

from .sites import PRECALL, PRECALL_BYTES, SKIPPED

VARIABLE = "EDGETRAIN_LOADER"  # {"created": 0, "made_at": ["1f2e3d4c"], "num_workers": 2, ...}
MADE = "_edgetrain_made"  # attribute of a loader: how it was made
ARGUMENTS = ("num_workers", "prefetch_factor", "pin_memory", "persistent_workers", "multiprocessing_context")
NEEDS_WORKERS = ("prefetch_factor", "persistent_workers", "multiprocessing_context", "timeout")
DEPTH = 8  # frames of a place: enough to get through a framework and a helper function to the user's own call
MAX_PLACES = 1000  # counted; a program that makes new code all the time must not fill the memory


def place_of(frame: Any) -> tuple[str, ...]:
    """Return the place in the program that a frame and its callers are at, innermost first.

    One short hash per frame, the same in each run of the program. Frames of torch and of this package do not count.
    """
    found: list[str] = []
    while frame is not None and len(found) < DEPTH:
        name = str(frame.f_globals.get("__name__") or "")
        if name != "torch" and not name.startswith(SKIPPED):
            code, at = frame.f_code, frame.f_lasti
            if PRECALL is not None and code.co_code[at] == PRECALL:
                at += PRECALL_BYTES
            text = "%s %s %d" % (code.co_filename, code.co_name, at)
            found.append("%08x" % zlib.crc32(text.encode("utf-8", "backslashreplace")))
        frame = frame.f_back
    return tuple(found)


class NumberedDataset:
    """The number of a dataset, and a reference that shows whether it still exists: its id may be used again."""

    def __init__(self, number: int, dataset: Any) -> None:
        self.number = number
        self._reference = weakref.ref(dataset)

    def is_of(self, dataset: Any) -> bool:
        """Return whether this is that dataset."""
        return self._reference() is dataset


class Creations:
    """The loaders that this process has made so far: in all, at each place, and of which datasets."""

    def __init__(self) -> None:
        self.count = 0
        self.by_place: dict[tuple[str, ...], int] = {}
        self._datasets: dict[int, NumberedDataset] = {}  # by id
        self._numbered = 0

    def add(self, frame: Any, dataset: Any) -> tuple[int, tuple[str, ...], int, int | None]:
        """Count one; return its order of creation, its place, how many were made there before, and which dataset."""
        created = self.count
        self.count += 1
        place: tuple[str, ...] = ()
        before, number = 0, None
        try:
            place = place_of(frame)
            before = self.by_place.get(place, 0)
            if before or len(self.by_place) < MAX_PLACES:
                self.by_place[place] = before + 1
            number = self._number_of(dataset)
        except Exception:  # what cannot be told apart must never end the user's program
            pass
        return created, place, before, number

    def _number_of(self, dataset: Any) -> int | None:
        """Return which dataset this is, in the order of first use; None where that cannot be known later."""
        known = self._datasets.get(id(dataset))
        if known is not None and known.is_of(dataset):
            return known.number
        try:
            known = NumberedDataset(self._numbered, dataset)
        except TypeError:
            return None
        self._numbered += 1
        self._datasets[id(dataset)] = known
        return known.number


CREATIONS = Creations()


class LoaderOverride:
    """The loaders to change, and their arguments; those not named stay the script's."""

    def __init__(self, created: int, document: Any) -> None:
        self.created = created
        self.made_at = tuple(str(each) for each in document.get("made_at") or ())
        self.datasets = frozenset(int(each) for each in document.get("datasets") or ())
        self.period = int(document.get("period") or 0)
        self.phases = frozenset(int(each) for each in document.get("phases") or ())
        self.arguments = {name: document[name] for name in ARGUMENTS if name in document}

    def concerns(self, created: int, place: tuple[str, ...], before: int, dataset: int | None) -> bool:
        """Return whether a loader is one of those to change."""
        if not self.made_at:
            return created == self.created
        if place[: len(self.made_at)] != self.made_at:
            return False
        if self.period:
            return before % self.period in self.phases
        return not self.datasets or dataset in self.datasets

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
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def install(dataloader: Any, text: str | None = None) -> None:
    """Note how each loader of this process is made, and change the arguments of those asked for."""
    kind = dataloader.DataLoader
    if hasattr(kind, MADE):
        return
    setattr(kind, MADE, None)
    override = read(os.environ.get(VARIABLE) if text is None else text)
    original = kind.__init__
    signature = inspect.signature(original)

    @functools.wraps(original)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        made = CREATIONS.add(sys._getframe(1), args[0] if args else kwargs.get("dataset"))
        self.__dict__[MADE] = made
        if override is None or not override.concerns(*made):
            return original(self, *args, **kwargs)
        bound = signature.bind(self, *args, **kwargs)
        override.apply(bound.arguments)
        return original(*bound.args, **bound.kwargs)

    kind.__init__ = __init__


def creation_of(loader: Any) -> Any:
    """Return how a loader was made, as `Creations.add` does; Nones where it was made before that was noted."""
    made = getattr(loader, MADE, None)
    return made if type(made) is tuple else (None, (), None, None)


def places() -> list[tuple[tuple[str, ...], int]]:
    """Return the places where loaders were made so far, and how many at each."""
    return list(CREATIONS.by_place.items())
