"""What takes the place of a dataset's method when it is cached, for one instance and not for its copies.

A method is looked up in the class, so the class gets a `Replaceable` under its name: that one sees the instance and
returns what the instance's `__dict__` holds in place of the method, or else the method itself. A copy of the dataset
has the same `__dict__`, but is another instance: its samples may differ, so it calls its own method.
"""

from __future__ import annotations

import copy
import inspect
import os
from typing import Any, Callable

from .cached_values import dumps, key_of, loads, same
from .randomness import OtherRandomness
from .shared_cache import CHECKS_AT, COPIED, NEVER_USED, NOT_A_KEY, SAMPLES_AT, SharedCache

SAMPLES = "__getitem__"
CHECKED_LOADS = 8  # outputs of a step made twice, in each process
CHECKED_SAMPLES = 32  # the same for whole samples: finds what happens to every tenth sample in 998 of 1000 datasets
MAX_CHECKS = 64  # in all processes: a loader may start new workers for each epoch
MAX_UNUSED_SAMPLES = 1000  # or one epoch: a step that was not called until then is not where samples come from
FILE_TYPES = (bytes, bytearray, memoryview)  # what a read step returns; the place is written behind the bytes


class CacheRefused(ValueError):
    """This dataset cannot be cached as asked; the message shows what to change."""


def random_refusal(index: Any, dataset: Any) -> CacheRefused:
    """Return the refusal of a dataset whose sample at this index is another each time."""
    return CacheRefused(
        "sample %s of %s is different each time, so samples cannot be cached: name a step below its random part, with "
        "read='NAME' (the bytes of a file) or load='NAME'" % (index, type(dataset).__name__)
    )


class Replaceable:
    """A method of a class that single instances replace."""

    def __init__(self, name: str, original: Any) -> None:
        self.original, self.place = original, _place(name)

    def __get__(self, instance: Any, kind: Any = None) -> Any:
        replacement = None if instance is None else instance.__dict__.get(self.place)
        # Another descriptor: a class below has a method of this name too, and calls this one by super().
        if replacement is not None and replacement.descriptor is self:
            if replacement.owner is instance:
                return replacement
            replacement.copied()
        return self.bind(instance, kind)

    def bind(self, instance: Any, kind: Any) -> Any:
        """Return the method as if nothing replaced it: also of a static or a class method."""
        get = getattr(type(self.original), "__get__", None)
        return self.original if get is None else get(self.original, instance, kind)


class Replacement:
    """Replaces the method `name` of `owner`, an instance."""

    def __init__(self, owner: Any, name: str, cache: SharedCache) -> None:
        self.owner, self.name, self.cache = owner, name, cache
        self.label = "%s.%s" % (type(owner).__name__, name)
        # None: a method of its class.
        self.function: Any = None if name == SAMPLES else owner.__dict__.get(name)
        self.descriptor: Any = None

    def install(self) -> None:
        """Put this in place of the method."""
        if self.function is None:
            self.descriptor = _replaceable(type(self.owner), self.name)
        self.owner.__dict__[self.name if self.descriptor is None else _place(self.name)] = self

    def original(self) -> Callable[..., Any]:
        """Return what this replaces."""
        if self.descriptor is None:
            return self.function
        return self.descriptor.bind(self.owner, type(self.owner))

    def copied(self) -> None:
        """Called when a copy of the owner calls its own method."""

    def __getstate__(self) -> dict[str, Any]:
        return dict(self.__dict__, descriptor=None)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if self.owner is not None and self.function is None:
            self.descriptor = _replaceable(type(self.owner), self.name)
        if os.getpid() == self.cache.made_by:  # not sent to a worker: a copy
            self.owner = None

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__, owner=None, function=copy.deepcopy(self.function, memo))
        return other


class CachedStep(Replacement):
    """Returns what is cached, else calls the step and keeps what it returns."""

    def __init__(self, owner: Any, name: str, cache: SharedCache, is_read: bool) -> None:
        super().__init__(owner, name, cache)
        if isinstance(self.function, CachedStep):  # of the instance that this one is a copy of
            self.function = self.function.function
        self.is_read = is_read
        self._unchecked = 0 if is_read else CHECKED_SAMPLES if name == SAMPLES else CHECKED_LOADS

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.owner is None:
            self.copied()
            return self.function(*args, **kwargs)
        # A call without arguments loads no sample: it opens what later calls use.
        key = self._key(args, kwargs) if args or kwargs else None
        if key is None:
            return self.original()(*args, **kwargs)
        found = self.cache.get(key)
        if found is not None:
            return _file_value(found) if self.is_read else loads(found)
        result = self.original()(*args, **kwargs)
        if self.is_read:
            if self.cache.put(key, self._file_bytes(result)):
                _give_up_pages(args)
            return result
        if result is None:  # what the call was for happened elsewhere
            return None
        value = self._dumps(result)
        if self._unchecked:
            self._unchecked -= 1
            if self.cache.count(CHECKS_AT) < MAX_CHECKS:
                self._check(args, kwargs, value)
        self.cache.put(key, value)
        return result

    def _key(self, args: Any, kwargs: Any) -> bytes | None:
        try:
            return key_of(args, kwargs)
        except Exception as error:
            self.cache.warn_once(
                NOT_A_KEY,
                "%s is called with an argument that cannot be the key of a value (%s), and such calls are not cached: "
                "let it take an index or a path" % (self.label, error),
            )
            return None

    def _file_bytes(self, result: Any) -> bytes:
        if type(result) not in FILE_TYPES or (type(result) is memoryview and (result.format, result.ndim) != ("B", 1)):
            raise CacheRefused(
                "%s returned %s, not bytes; name it with load=%r instead of read"
                % (self.label, type(result).__name__, self.name)
            )
        place = FILE_TYPES.index(type(result))
        if place == 2 and not result.readonly:
            place = 3
        return b"".join((result, bytes((place,))))

    def _dumps(self, result: Any) -> bytes:
        try:
            return dumps(result)
        except Exception as error:
            raise CacheRefused(
                "%s returned a value that cannot be kept (%s: %s): let it return tensors, arrays, pictures, numbers or "
                "text, or name a step below it with read='NAME' or load='NAME'"
                % (self.label, type(error).__name__, error)
            )

    def _check(self, args: Any, kwargs: Any, value: bytes) -> None:
        """Refuse a step that returns something else when it is called again; random numbers are as before after it."""
        with OtherRandomness():
            again = self.original()(*args, **kwargs)
        if self._dumps(again) == value or same(loads(value), again):
            return
        if self.name == SAMPLES:
            raise random_refusal(args[0], self.owner)
        raise CacheRefused(
            "%s returns different things for the same arguments, so its output cannot be cached: move what is "
            "random (augmentation) out of it" % self.label
        )

    def copied(self) -> None:
        """Warn that a copy of the dataset is not cached."""
        self.cache.warn_once(
            COPIED,
            "a copy of a cached %s is not cached, because its samples may differ; call edgetrain.cached on the copy too"
            % self.label.partition(".")[0],
        )


class SampleCounter(Replacement):
    """Counts samples until something was cached; warns when an epoch of them was made without."""

    def __init__(self, owner: Any, cache: SharedCache, step: str, count: int) -> None:
        super().__init__(owner, SAMPLES, cache)
        self.step, self.limit = step, min(count, MAX_UNUSED_SAMPLES)

    def __call__(self, index: Any) -> Any:
        used = self.cache.values or self.cache.left_out
        if used or self.cache.count(SAMPLES_AT) >= self.limit:
            self.owner.__dict__.pop(_place(SAMPLES), None)
            if not used:
                self.cache.warn_once(
                    NEVER_USED,
                    "%d samples were made without a call of %s that returns a value for its arguments, so nothing is "
                    "cached; name the method that loads a sample with read='NAME' or load='NAME'"
                    % (self.limit, self.step),
                )
        return self.original()(index)


def replacement_of(instance: Any, name: str) -> Any:
    """Return the cached step that replaces a method of this instance; None where it is not cached."""
    own = getattr(instance, "__dict__", {})
    found = own.get(_place(name), own.get(name))
    if isinstance(found, CachedStep) and (found.owner is instance or found.descriptor is None):
        return None if found.owner is None else found
    return None


def drop_copied(instance: Any) -> None:
    """Forget what a copy has from the instance that it was copied from."""
    own = getattr(instance, "__dict__", {})
    for name, found in list(own.items()):
        if isinstance(found, Replacement) and found.descriptor is not None and found.owner is not instance:
            del own[name]


def _place(name: str) -> str:
    return "_edgetrain_cached_%s" % name


def _replaceable(kind: Any, name: str) -> Replaceable:
    """Return what makes a method of a class replaceable, and put it there unless it is there already."""
    original = inspect.getattr_static(kind, name)
    if not isinstance(original, Replaceable):
        original = Replaceable(name, original)
        setattr(kind, name, original)
    return original


def _file_value(found: memoryview) -> Any:
    place, data = found[-1], found[:-1]
    if place < 2:
        return FILE_TYPES[place](data)
    return memoryview(bytes(data) if place == 2 else bytearray(data))


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
