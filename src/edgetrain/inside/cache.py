"""A loader cache for RAM smaller than the dataset: part of the dataset is kept in memory permanently.

    dataset = edgetrain.cached(dataset, ram="2GiB")

The kernel's page cache evicts what was used longest ago, which under reshuffling is often what comes next; this cache
never evicts, so x % of the dataset in memory gives x % hits. It lies below randomness: it keeps the bytes of files that
the dataset reads through a method of its own (`read(path)`), or what one deterministic step returns (`load`, for
example decoding and resizing). Augmentation above it sees what it saw before; samples and their order are the same.
"""

from __future__ import annotations

import inspect
import io
import operator
import os
import pickle
import random
import re
import sys
from typing import Any, Callable

from .available import available_bytes
from .shared_cache import SharedCache

READ_NAMES = ("read",)
LOAD_NAMES = ("load", "loader")
SAMPLES = "__getitem__"
PROTOCOL = 4
CHECKED_SAMPLES = 16  # samples made twice before samples are cached
CHECKED_LOADS = 8  # outputs of a step made twice, in each process
UNITS = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 2**10, "mib": 2**20, "gib": 2**30,
         "k": 10**3, "m": 10**6, "g": 10**9}  # fmt: skip
OPENS = re.compile(r"\bopen\(|imread\(|read_image\(|decode_|fromfile\(|np\.load\(|torch\.load\(|loadtxt\(")


class _Pickler(pickle.Pickler):
    """Writes tensors as their bytes: torch's own way is slow, and differs between two equal tensors."""

    def reducer_override(self, obj: Any) -> Any:
        torch = sys.modules.get("torch")
        if torch is None or type(obj) is not torch.Tensor:
            return NotImplemented
        if obj.device.type != "cpu" or obj.layout is not torch.strided or obj.requires_grad or not obj.numel():
            return NotImplemented
        data = obj.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
        return make_tensor, (data, obj.dtype, tuple(obj.shape))


def make_tensor(data: bytes, dtype: Any, shape: Any) -> Any:
    """Return the tensor that was written as these bytes."""
    import torch

    return torch.frombuffer(bytearray(data), dtype=dtype).reshape(shape)


def dumps(value: Any) -> bytes:
    """Return any value as bytes; equal values give equal bytes."""
    file = io.BytesIO()
    _Pickler(file, PROTOCOL).dump(value)
    return file.getvalue()


class CacheRefused(ValueError):
    """This dataset cannot be cached as asked; the message shows what to change."""


def cached(dataset: Any, ram: str | int = "1GiB", read: str | None = None, load: str | None = None) -> Any:
    """Return the dataset with one of its steps cached in shared memory, at most `ram` of it.

    `read` names the dataset's method that returns the bytes of a file, `load` one that returns the same object each
    time it is called with the same arguments. Left out, `read`, `load` and `loader` are looked for, in this order.
    `load="__getitem__"` caches whole samples. Call it before the DataLoader is made.
    """
    if read is not None and load is not None:
        raise CacheRefused("give either read=%r or load=%r: one step is cached" % (read, load))
    if load == SAMPLES:
        return CachedSamples(dataset, _shared(ram, dataset))
    owner, name, is_read = _find_step(dataset, read, load)
    step = getattr(owner, name)
    if isinstance(step, CachedStep):
        raise CacheRefused("%s.%s is cached already" % (type(owner).__name__, name))
    setattr(owner, name, CachedStep(owner, name, _shared(ram, dataset), is_read))
    return dataset


def parse_ram(ram: str | int) -> int:
    """Read `2GiB`, `300MB` or a number of bytes."""
    match = re.match(r"^\s*([0-9]*\.?[0-9]+)\s*([A-Za-z]*)\s*$", str(ram))
    if not match or match.group(2).lower() not in UNITS:
        raise ValueError("cannot read %r as a size; write for example 2GiB, 300MB or 1000000" % (ram,))
    return int(float(match.group(1)) * UNITS[match.group(2).lower()])


class CachedStep:
    """Takes the place of a dataset's step: returns what is cached, else calls the step and keeps what it returns."""

    def __init__(self, owner: Any, name: str, cache: SharedCache, is_read: bool) -> None:
        self.owner, self.name, self.cache, self.is_read = owner, name, cache, is_read
        self.function = owner.__dict__.get(name)  # None: a method of its class
        self._unchecked = 0 if is_read else CHECKED_LOADS

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        # A call without arguments loads no sample: it opens what later calls use.
        key = _key(args, kwargs) if args or kwargs else None
        if key is None:
            return self._call(args, kwargs)
        found = self.cache.get(key)
        if found is not None:
            return bytes(found) if self.is_read else pickle.loads(found)
        result = self._call(args, kwargs)
        if self.is_read:
            if not isinstance(result, (bytes, bytearray, memoryview)):
                raise CacheRefused(
                    "%s returned %s, not bytes; name it with load=%r instead of read"
                    % (self._label(), type(result).__name__, self.name)
                )
            if self.cache.put(key, bytes(result)):
                _give_up_pages(args)
            return result
        if result is None:  # what the call was for happened elsewhere
            return None
        value = dumps(result)
        if self._unchecked:
            self._unchecked -= 1
            self._check(args, kwargs, value)
        self.cache.put(key, value)
        return result

    def _call(self, args: Any, kwargs: Any) -> Any:
        if self.function is not None:
            return self.function(*args, **kwargs)
        return getattr(type(self.owner), self.name).__get__(self.owner)(*args, **kwargs)

    def _check(self, args: Any, kwargs: Any, value: bytes) -> None:
        """Refuse a step that returns something else when it is called again; random numbers are as before after it."""
        with _other_randomness():
            again = dumps(self._call(args, kwargs))
        if again != value:
            raise CacheRefused(
                "%s returns different things for the same arguments, so its output cannot be cached: move what is "
                "random (augmentation) out of it" % self._label()
            )

    def _label(self) -> str:
        return "%s.%s" % (type(self.owner).__name__, self.name)


class CachedSamples:
    """A dataset whose whole samples are cached; everything else is the dataset's own."""

    def __init__(self, dataset: Any, cache: SharedCache) -> None:
        self.dataset, self.cache = dataset, cache
        _check_samples(dataset)

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: Any) -> Any:
        key = _key((index,), {})
        if key is None:
            return self.dataset[index]
        found = self.cache.get(key)
        if found is not None:
            return pickle.loads(found)
        sample = self.dataset[index]
        self.cache.put(key, dumps(sample))
        return sample

    def __getattr__(self, name: str) -> Any:
        # The first two are not there yet while it is being unpickled; the last would fetch past the cache (torch asks
        # for it, and Subset has it).
        if name in ("dataset", "cache", "__getitems__"):
            raise AttributeError(name)
        return getattr(self.dataset, name)


def _shared(ram: str | int, dataset: Any) -> SharedCache:
    budget = parse_ram(ram)
    available = available_bytes()
    if available is not None and budget > available:
        raise CacheRefused(
            "a cache of %.2f GB does not fit: %.2f GB of memory are available; give a smaller ram"
            % (budget / 1e9, available / 1e9)
        )
    try:
        expected = len(dataset)
    except TypeError:
        raise CacheRefused(
            "%s has no length: a stream that is read once per epoch from start to end cannot be cached by sample"
            % type(dataset).__name__
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
        for name, is_read in names:
            step = getattr(owner, name, None)
            if callable(step):
                if _takes_argument(step, required=not named):
                    return owner, name, is_read
                without = without or "%s.%s" % (type(owner).__name__, name)
        owner = getattr(owner, "dataset", None)  # Subset and the like
    if named and without:
        raise CacheRefused(
            "%s takes no argument, so it does not load one sample; name a method that does, for example "
            "`def load(self, index)`" % without
        )
    if named:
        raise CacheRefused("%s has no method %r" % (type(dataset).__name__, named))
    raise CacheRefused(_what_to_change(dataset, without))


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
    while getattr(dataset, "dataset", None) is not None:  # Subset and the like open no files themselves
        dataset = dataset.dataset
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


def _check_samples(dataset: Any) -> None:
    """Refuse a dataset of which the same index gives two different samples."""
    count = len(dataset)
    step = max(1, count // CHECKED_SAMPLES)
    for index in range(0, count, step):
        with _other_randomness():
            first = dumps(dataset[index])
            second = dumps(dataset[index])
        if first != second:
            raise CacheRefused(
                "sample %d of %s is different each time, so samples cannot be cached: name a step below its random "
                "part, with read='NAME' (the bytes of a file) or load='NAME'" % (index, type(dataset).__name__)
            )


class _other_randomness:
    """Other random numbers within it; those of Python, numpy and torch are as before after it."""

    def __enter__(self) -> None:
        self._restore: list[tuple[Callable[[Any], Any], Any]] = [(random.setstate, random.getstate())]
        numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
        if numpy is not None:
            self._restore.append((numpy.random.set_state, numpy.random.get_state()))
            numpy.random.seed(random.randrange(2**31))
        if torch is not None:
            self._restore.append((torch.set_rng_state, torch.get_rng_state()))
            torch.random.default_generator.manual_seed(random.randrange(2**31))
        random.seed(random.randrange(2**31))

    def __exit__(self, *error: Any) -> None:
        for restore, state in self._restore:
            restore(state)


def _key(args: Any, kwargs: Any) -> bytes | None:
    """Return the key of a call; None for arguments that cannot be written: such a call is not cached."""
    args = _plain(args)
    if len(args) == 1 and not kwargs and type(args[0]) is str:
        return args[0].encode("utf-8", "surrogateescape")
    try:
        return dumps((args, sorted((name, _plain(value)) for name, value in kwargs.items())))
    except Exception:
        return None


def _plain(value: Any) -> Any:
    """Return an argument such that equal ones are written as equal bytes: an index is an int, numpy's too."""
    if type(value) in (tuple, list):
        return type(value)(map(_plain, value))
    if isinstance(value, str):
        return str(value)
    if type(value) in (int, bool, bytes, float, type(None)):
        return value
    if getattr(value, "ndim", 0) or "bool" in str(getattr(value, "dtype", "")):  # a list of indices, a mask
        return value
    try:
        return operator.index(value)
    except Exception:
        return value


def _give_up_pages(args: Any) -> None:
    """Let the kernel use the page cache of a file for others: its bytes are in ours now."""
    try:
        fd = os.open(args[0], os.O_RDONLY | os.O_CLOEXEC)
    except (OSError, TypeError, IndexError, ValueError):
        return
    try:
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    except OSError:
        pass
    finally:
        os.close(fd)
