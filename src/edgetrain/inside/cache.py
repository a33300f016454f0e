"""A loader cache for RAM smaller than the dataset: part of the dataset is kept in memory permanently.

    dataset = edgetrain.cached(dataset, ram="2GiB")

The kernel's page cache evicts what was used longest ago, which under reshuffling is often what comes next; this cache
never evicts, so x % of the dataset in memory gives x % hits. It lies below randomness: it keeps the bytes of files that
the dataset reads through a method of its own (`read(path)`), or what one deterministic step returns (`load`, for
example decoding and resizing). Augmentation above it sees what it saw before; samples and their order are the same.
"""

from __future__ import annotations

import gc
import inspect
import os
import re
import sys
from typing import Any

from .available import available_bytes
from .cached_step import (
    SAMPLES,
    CachedStep,
    CacheRefused,
    Replaceable,
    SampleCounter,
    drop_copied,
    random_refusal,
    replacement_of,
)
from .sample_check import random_sample
from .shared_cache import SharedCache, has_open_caches, reserved_bytes

READ_NAMES = ("read",)
LOAD_NAMES = ("load", "loader")
UNITS = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 2**10, "mib": 2**20, "gib": 2**30,
         "k": 10**3, "m": 10**6, "g": 10**9}  # fmt: skip
IS_PYTHON_CLASS = 1 << 9  # of type.__flags__ (Py_TPFLAGS_HEAPTYPE): its attributes can be set
OPENS = re.compile(r"\bopen\(|imread\(|read_image\(|decode_|fromfile\(|np\.load\(|torch\.load\(|loadtxt\(")


def cached(dataset: Any, ram: str | int = "1GiB", read: str | None = None, load: str | None = None) -> Any:
    """Return the dataset with one of its steps cached in shared memory, at most `ram` of it.

    `read` names the dataset's method that returns the bytes of a file, `load` one that returns the same object each
    time it is called with the same arguments. Left out, `read`, `load` and `loader` are looked for, in this order.
    `load="__getitem__"` caches whole samples. The dataset is changed in place; a copy of it is not cached. Call it
    before the DataLoader is made.
    """
    if read is not None and load is not None:
        raise CacheRefused("give either read=%r or load=%r: one step is cached" % (read, load))
    drop_copied(dataset)
    if load == SAMPLES:
        owner, name, is_read = dataset, SAMPLES, False
    else:
        owner, name, is_read = _find_step(dataset, read, load)
    _check_replaceable(owner, name)
    cache = _shared(ram, dataset)
    if name == SAMPLES:
        index = random_sample(dataset)
        if index is not None:
            raise random_refusal(index, dataset)
    CachedStep(owner, name, cache, is_read).install()
    if name == SAMPLES:
        if hasattr(owner, "__getitems__"):  # it fetches past the cache (torch asks for it, and Subset has it)
            owner.__dict__["__getitems__"] = None
    elif hasattr(type(owner), SAMPLES) and replacement_of(owner, SAMPLES) is None:
        SampleCounter(owner, cache, "%s.%s" % (type(owner).__name__, name), len(dataset)).install()
    return dataset


def parse_ram(ram: str | int) -> int:
    """Read `2GiB`, `300MB` or a number of bytes."""
    match = re.match(r"^\s*([0-9]*\.?[0-9]+)\s*([A-Za-z]*)\s*$", str(ram))
    if not match or match.group(2).lower() not in UNITS:
        raise ValueError("cannot read %r as a size; write for example 2GiB, 300MB or 1000000" % (ram,))
    return int(float(match.group(1)) * UNITS[match.group(2).lower()])


def _check_replaceable(owner: Any, name: str) -> None:
    """Refuse an object whose step is cached already or cannot be replaced."""
    kind = type(owner)
    if replacement_of(owner, name) is not None:
        raise CacheRefused(
            "%s.%s is cached already, by an earlier call: it serves all that share this dataset, for example all parts "
            "of one random_split; call edgetrain.cached once" % (kind.__name__, name)
        )
    if name == SAMPLES and (not hasattr(kind, SAMPLES) or _is_stream(owner)):
        raise CacheRefused(_no_samples(kind))
    if not hasattr(owner, "__dict__") or not kind.__flags__ & IS_PYTHON_CLASS:
        raise CacheRefused(
            "%s.%s cannot be replaced: %s; wrap it in a dataset class of your own, with __len__ and __getitem__"
            % (kind.__name__, name, "it has __slots__" if hasattr(kind, "__slots__") else "it is built in")
        )
    static = inspect.getattr_static(kind, name, None)
    if hasattr(type(static), "__set__") and not isinstance(static, Replaceable):
        raise CacheRefused(
            "%s.%s is a %s and cannot be replaced: make it a method" % (kind.__name__, name, type(static).__name__)
        )


def _is_stream(dataset: Any) -> bool:
    data = sys.modules.get("torch.utils.data")
    return data is not None and isinstance(dataset, data.IterableDataset)


def _no_samples(kind: type) -> str:
    return (
        "%s is a stream that is read from start to end and cannot be cached by sample: give it __len__ and __getitem__"
        % kind.__name__
    )


def _shared(ram: str | int, dataset: Any) -> SharedCache:
    budget = parse_ram(ram)
    if has_open_caches():
        gc.collect()  # a dataset that is no longer used, as of the fold before, may still hold its cache
    available, reserved = available_bytes(), reserved_bytes()
    if available is not None and budget + reserved > available:
        raise CacheRefused(
            "a cache of %.2f GB does not fit: %.2f GB of memory are available%s; give a smaller ram"
            % (
                budget / 1e9,
                available / 1e9,
                ", %.2f GB of them for other caches of this process" % (reserved / 1e9) if reserved else "",
            )
        )
    try:
        expected = len(dataset)
    except TypeError:
        kind = type(dataset)
        if _is_stream(dataset) or not hasattr(kind, SAMPLES):
            raise CacheRefused(_no_samples(kind))
        raise CacheRefused(
            "%s has no length, so the size of the cache's table is not known: give it __len__" % kind.__name__
        )
    return SharedCache(budget, expected)


def _find_step(dataset: Any, read: str | None, load: str | None) -> tuple[Any, str, bool]:
    """Return the object that has the step, its name, and whether it returns the bytes of a file."""
    named = read or load
    names = ((named, read is not None),) if named else tuple((one, True) for one in READ_NAMES)
    if not named:
        names += tuple((one, False) for one in LOAD_NAMES)
    owner, without = dataset, None
    while owner is not None:
        drop_copied(owner)
        for name, is_read in names:
            step = getattr(owner, name, None)
            if callable(step):
                if _takes_argument(step, required=not named):
                    return _holder(owner, name, step), name, is_read
                without = without or "%s.%s" % (type(owner).__name__, name)
        owner = _inner(owner)
    if named and without:
        raise CacheRefused(
            "%s takes no argument, so it does not load one sample; name a method that does, for example "
            "`def load(self, index)`" % without
        )
    if named:
        raise CacheRefused("%s has no method %r" % (type(dataset).__name__, named))
    raise CacheRefused(_what_to_change(dataset, without))


def _inner(dataset: Any) -> Any:
    """Return the dataset that a Subset or the like is a view of; None where it is no view."""
    inner = getattr(dataset, "dataset", None)  # may also be a name or an array
    return inner if hasattr(type(inner), SAMPLES) and hasattr(inner, "__dict__") else None


def _holder(owner: Any, name: str, step: Any) -> Any:
    """Return the object that has the step itself: a wrapper may only pass the question on to what it wraps."""
    if name in getattr(owner, "__dict__", {}) or any(name in vars(kind) for kind in type(owner).__mro__):
        return owner
    inner = getattr(step, "__self__", getattr(step, "owner", None))  # of a method, or of a step that is cached
    if inner is None or isinstance(inner, type) or inner is owner or not hasattr(inner, "__dict__"):
        raise CacheRefused(
            "%s has no method %r of its own, and what it wraps would not use a cached one: cache that before it is "
            "wrapped, edgetrain.cached(inner)" % (type(owner).__name__, name)
        )
    return _holder(inner, name, step)


def _takes_argument(step: Any, required: bool) -> bool:
    """Return whether a step takes an argument; `required`: whether it cannot be called without one."""
    try:
        parameters = inspect.signature(step).parameters.values()
    except (TypeError, ValueError):  # built in: not known
        return True
    return any(
        one.kind is not one.VAR_KEYWORD and (not required or one.kind is one.VAR_POSITIONAL or one.default is one.empty)
        for one in parameters
    )


def _what_to_change(dataset: Any, without_argument: str | None) -> str:
    while _inner(dataset) is not None:  # Subset and the like open no files themselves
        dataset = _inner(dataset)
    kind = type(dataset)
    if getattr(dataset, "datasets", None):
        return (
            "%s joins several datasets: cache each of them, with its own part of the memory, before they are joined: "
            "edgetrain.cached(part, ram=...)" % kind.__name__
        )
    line = _opening_line(kind)
    shown = "" if line is None else "; the line to change is %s" % line
    if without_argument is not None:
        shown = " (%s can be called without arguments, so it does not load one sample)%s" % (without_argument, shown)
    return (
        "%s cannot be cached: it has neither a method read(path), which returns the bytes of a file, nor a load step"
        "%s. Let it read through `def read(self, path): return open(path, 'rb').read()` and write "
        "`Image.open(io.BytesIO(self.read(path)))` where it writes `Image.open(path)`, or name the method that loads "
        "without randomness: edgetrain.cached(dataset, load='NAME')" % (kind.__name__, shown)
    )


def _opening_line(kind: type) -> str | None:
    """Return the line that opens a file, with its place: of `__getitem__`, else of another method of the class."""
    places: list[Any] = [getattr(kind, SAMPLES, None), kind]
    for searched in places:
        try:
            lines, first = inspect.getsourcelines(searched)
            file = inspect.getsourcefile(kind) or "?"
        except (OSError, TypeError):
            continue
        for place, line in enumerate(lines):
            if OPENS.search(line):
                return "%s:%d: %s" % (os.path.basename(file), first + place, line.strip())
    return None
