"""Which instance's step is cached: copies, wrappers, static methods, steps that are never called; when it is freed."""

from __future__ import annotations

import copy
import gc
import os
import pickle
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import ConcatDataset, DataLoader, Dataset, IterableDataset, Subset, random_split

import edgetrain
from edgetrain.inside import cache as cache_module
from edgetrain.inside import shared_cache
from edgetrain.inside.cached_step import CHECKED_LOADS, MAX_CHECKS, CachedStep, CacheRefused, replacement_of
from edgetrain.inside.shared_cache import SharedCache

COUNT = 12


class Keeps(Dataset[Any]):
    """Gives numbers above a base; logs what it loads."""

    def __init__(self, base: int = 0) -> None:
        self.base = base
        self.loaded: list[int] = []

    def __len__(self) -> int:
        return COUNT

    def load(self, index: int) -> Any:
        self.loaded.append(index)
        return torch.tensor(self.base + index)

    def __getitem__(self, index: int) -> Any:
        return self.load(index)


class Inherits(Keeps):
    """Calls the step of the class it inherits from."""

    def load(self, index: int) -> Any:
        return super().load(index) + 1000


class Wraps(Dataset[Any]):
    """Passes on what it does not have itself."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def __len__(self) -> int:
        return len(self.inner)

    def __getitem__(self, index: int) -> Any:
        return self.inner[index]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "inner":
            raise AttributeError(name)
        return getattr(self.inner, name)


class OpensLate(Dataset[Any]):
    """Opens its file in the process that reads it."""

    def __init__(self, path: str) -> None:
        self.path, self.file = path, None

    def __len__(self) -> int:
        return COUNT

    def __getitem__(self, index: int) -> Any:
        if self.file is None:
            self.file: Any = open(self.path, "rb", buffering=0)  # noqa: SIM115
        self.file.seek(index * 8)
        parts = [self.file.read(1) for _ in range(8)]
        return torch.frombuffer(bytearray(b"".join(parts)), dtype=torch.uint8)


def open_descriptors() -> int:
    links = [os.path.join("/proc/self/fd", number) for number in os.listdir("/proc/self/fd")]
    return sum("edgetrain-cache" in os.readlink(link) for link in links if os.path.lexists(link))


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_file_that_each_worker_opens_for_itself_is_not_opened_before(tmp_path: Any, method: str) -> None:
    path = tmp_path / "numbers"
    path.write_bytes(b"".join(bytes([number] * 8) for number in range(COUNT)))
    kept = edgetrain.cached(OpensLate(str(path)), "1MiB", load="__getitem__")
    assert kept.file is None
    workers = 2 if method == "fork" else 1
    loader = DataLoader(kept, batch_size=2, num_workers=workers, multiprocessing_context=method)
    for _ in range(2 if method == "fork" else 1):
        assert torch.cat(list(loader)).tolist() == [[number] * 8 for number in range(COUNT)]
    assert replacement_of(kept, "__getitem__").cache.values == COUNT


@pytest.mark.parametrize("step", ["load", "__getitem__"])
@pytest.mark.parametrize("make", [copy.copy, copy.deepcopy, lambda it: pickle.loads(pickle.dumps(it))])
def test_a_copy_gives_its_own_samples_and_is_not_cached_until_asked(step: str, make: Any) -> None:
    train = edgetrain.cached(Keeps(), "1MiB", load=step)
    assert train[3] == 3
    test = make(train)
    test.base = 100
    with pytest.warns(RuntimeWarning, match="a copy of a cached Keeps is not cached") as warned:
        assert [int(test[3]), int(test[3]), int(train[3])] == [103, 103, 3]
    assert len(warned) == 1
    test = make(train)
    test.base = 200
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        edgetrain.cached(test, "1MiB", load=step)
        assert [int(test[3]), int(train[3])] == [203, 3]
        loaded = len(test.loaded)
        assert test[3] == 203 and len(test.loaded) == loaded


def test_a_copy_of_a_dataset_whose_step_is_an_attribute_calls_its_own() -> None:
    class Given(Keeps):
        def __init__(self) -> None:
            super().__init__()
            self.load = self.slowly  # type: ignore[method-assign]

        def slowly(self, index: int) -> Any:
            return self.base + index

    train = edgetrain.cached(Given(), "1MiB", load="load")
    assert isinstance(train.load, CachedStep) and train[3] == 3
    test = copy.deepcopy(train)
    test.base = 100
    with pytest.warns(RuntimeWarning, match="a copy of a cached Given"):
        assert test[3] == 103
    assert edgetrain.cached(test, "1MiB", load="load")[3] == 103 and train[3] == 3


def test_other_instances_and_classes_below_are_not_affected() -> None:
    first, second, below = Keeps(), Keeps(100), Inherits()
    edgetrain.cached(first, "1MiB")
    edgetrain.cached(below, "1MiB")
    for _ in range(2):
        assert [int(one[2]) for one in (first, second, below)] == [2, 102, 1002]
    assert len(second.loaded) == 2 and isinstance(below.load, CachedStep) and not isinstance(second.load, CachedStep)


def test_values_are_made_twice_for_some_of_each_process_and_of_all_together() -> None:
    kept: Any = edgetrain.cached(Keeps(), "1MiB")
    for index in range(90):
        kept.load(index)
    assert len(kept.loaded) == 90 + CHECKED_LOADS
    kept.load._unchecked = 100  # as in further workers
    for index in range(90, 180):
        kept.load(index)
    assert len(kept.loaded) == 180 + MAX_CHECKS


class Static(Keeps):
    """Loads by static and class methods and by what is no method at all."""

    @staticmethod
    def read(number: int) -> bytes:
        return bytes([number] * 5)

    @classmethod
    def of_class(cls, number: int) -> str:
        return cls.__name__ * number

    of_numpy = staticmethod(np.arange)
    built_in = abs


def test_static_and_class_methods_are_steps() -> None:
    for name, argument in (("read", 3), ("of_class", 2), ("of_numpy", 4), ("built_in", -7)):
        kept: Any = edgetrain.cached(Static(), "1MiB", **{"read" if name == "read" else "load": name})
        step = getattr(kept, name)
        assert isinstance(step, CachedStep)
        for _ in range(2):
            assert np.array_equal(step(argument), getattr(Static(), name)(argument))
        assert step.cache.values == 1


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview, lambda data: memoryview(bytearray(data))])
def test_the_bytes_of_a_file_keep_their_type(kind: Any) -> None:
    class Reads(Keeps):
        def read(self, index: int) -> Any:
            return kind(b"file %d" % index)

    kept: Any = edgetrain.cached(Reads(), "1MiB")
    first, second = kept.read(1), kept.read(1)
    assert kept.read.cache.values == 1
    assert type(first) is type(second) and first == second == b"file 1"
    assert memoryview(first).readonly == memoryview(second).readonly


def test_a_wrapper_that_passes_on_has_its_inner_dataset_cached() -> None:
    outer = edgetrain.cached(Wraps(Wraps(Keeps())), "1MiB")
    for _ in range(2):
        assert [int(outer[index]) for index in range(COUNT)] == [*range(COUNT)]
    assert outer.load.cache.values == COUNT
    with pytest.raises(CacheRefused, match=r"Keeps\.load is cached already"):
        edgetrain.cached(outer, "1MiB")
    both = edgetrain.cached(edgetrain.cached(Keeps(), "1MiB", load="__getitem__"), "1MiB", load="load")
    assert both.load(3) == both[3] == 3 and both.load.cache.values == 1

    class PassesOnStatic(Wraps):
        pass

    with pytest.raises(CacheRefused, match=r"has no method 'read' of its own.*cached\(inner\)"):
        edgetrain.cached(PassesOnStatic(Static()), "1MiB", read="read")


class NeverCalls(Keeps):
    """Has a `load` that its samples do not come from."""

    def __getitem__(self, index: int) -> Any:
        return index


def test_a_step_that_is_never_called_is_reported_once_after_an_epoch() -> None:
    kept = edgetrain.cached(NeverCalls(), "1MiB")
    loader = DataLoader(kept, batch_size=3, num_workers=2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        list(loader)
    with pytest.warns(RuntimeWarning, match=r"12 samples were made without a call of NeverCalls\.load") as warned:
        assert [kept[index] for index in range(COUNT)] == [*range(COUNT)]
    assert len(warned) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        used = edgetrain.cached(Keeps(), "1MiB")
        assert [int(used[index]) for _ in range(3) for index in range(COUNT)] == [*range(COUNT)] * 3
        assert [kept[index] for index in range(COUNT)] == [*range(COUNT)]


def test_a_cached_dataset_is_the_dataset() -> None:
    kept = edgetrain.cached(Keeps(), "1MiB", load="__getitem__")
    kept.base = 7
    assert isinstance(kept, Keeps) and kept[1] == 8
    joined = kept + edgetrain.cached(Keeps(100), "1MiB", load="__getitem__")
    assert isinstance(joined, ConcatDataset) and [int(joined[COUNT - 1]), int(joined[COUNT])] == [COUNT + 6, 100]


def test_the_memory_of_a_cache_is_freed_with_its_dataset() -> None:
    gc.collect()
    before = open_descriptors()
    for _ in range(3):
        kept: Any = edgetrain.cached(Keeps(), "1MiB")
        value = kept.load(1)
        copies = [copy.deepcopy(kept), pickle.loads(pickle.dumps(kept)), pickle.dumps(kept)]
        assert copies[0].__dict__["_edgetrain_cached_load"].cache is kept.load.cache
        del kept
        assert value == 1
    data = copies[2]
    del copies
    del value
    gc.collect()
    assert open_descriptors() == before
    with pytest.raises(RuntimeError, match="cannot be opened"):
        pickle.loads(data)
    with open(os.devnull), pytest.raises(RuntimeError, match="cannot be opened"):  # another file has the number now
        pickle.loads(data)


def test_what_other_caches_of_the_process_may_still_fill_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    gc.collect()
    others = shared_cache.reserved_bytes()
    first = SharedCache(6_000_000, COUNT)
    assert 5_900_000 < shared_cache.reserved_bytes() - others < 6_000_000
    monkeypatch.setattr(cache_module, "available_bytes", lambda: others + 10_000_000)
    with pytest.raises(CacheRefused, match=r"GB of them for other caches of this process; give a smaller ram"):
        edgetrain.cached(Keeps(), 6_000_000)
    assert first.put(b"key", bytes(3_000_000))
    assert edgetrain.cached(Keeps(), 6_000_000)[1] == 1
    del first
    counts = []
    for _ in range(3):  # those that are no longer used make room, although they are full
        kept: Any = edgetrain.cached(Keeps(), 6_000_000)
        assert kept.load.cache.put(b"key", bytes(5_900_000))
        counts.append(open_descriptors())
        del kept
    assert len(set(counts)) == 1


def test_values_that_cannot_be_written_name_the_step_and_what_to_do() -> None:
    class Makes(Keeps):
        def load(self, index: int) -> Any:
            return (number for number in range(3)) if index else lambda: 1

    for step, index in (("load", 1), ("__getitem__", 0)):
        kept = edgetrain.cached(Makes(), "1MiB", load=step)
        with pytest.raises(
            CacheRefused, match=rf"^Makes\.{step} returned a value that cannot be kept \(.*let it return"
        ):
            kept[index]


class Slots:
    __slots__ = ("base",)

    def __len__(self) -> int:
        return COUNT

    def read(self, path: str) -> bytes:
        return b""


class HasProperty(Keeps):
    @property
    def read(self) -> Any:
        return lambda path: b""


class Named(Dataset[Any]):
    dataset = "imagenet"

    def __len__(self) -> int:
        return COUNT

    def __getitem__(self, index: int) -> Any:
        return open(f"{index}").read()


class NoLength(Dataset[Any]):
    def read(self, path: str) -> bytes:
        return b""

    def __getitem__(self, index: int) -> Any:
        return self.read("")


class Stream(IterableDataset[Any]):
    def read(self, path: str) -> bytes:
        return b""

    def __iter__(self) -> Iterator[int]:
        return iter(())


@pytest.mark.parametrize(
    ("make", "given", "words"),
    [
        (Slots, {}, r"Slots\.read cannot be replaced: it has __slots__; wrap it"),
        (HasProperty, {}, r"HasProperty\.read is a property .*make it a method"),
        (Named, {}, r"Named cannot be cached.*the line to change is test_cached_step\.py:\d+: return open"),
        (NoLength, {}, "NoLength has no length.*give it __len__"),
        (Stream, {}, "Stream is a stream"),
        (Stream, {"load": "__getitem__"}, "Stream is a stream"),
        (lambda: [1, 2], {"load": "__getitem__"}, r"list\.__getitem__ cannot be replaced: it is built in"),
    ],
)
def test_a_refusal_says_what_is_in_the_way(make: Any, given: dict[str, str], words: str) -> None:
    with pytest.raises(CacheRefused, match=words):
        edgetrain.cached(make(), "1MiB", **given)


def test_a_dataset_that_forbids_to_set_attributes_is_cached() -> None:
    class Frozen(Keeps):
        def __setattr__(self, name: str, value: Any) -> None:
            if "loaded" in self.__dict__:
                raise AttributeError("frozen")
            super().__setattr__(name, value)

    kept: Any = edgetrain.cached(Frozen(), "1MiB")
    assert kept[1] == 1 and kept.load.cache.values == 1


def test_both_parts_of_a_split_are_cached_by_one_call() -> None:
    train, test = random_split(Keeps(), [8, 4])
    edgetrain.cached(train, "1MiB")
    assert isinstance(test, Subset) and isinstance(test.dataset.load, CachedStep)  # type: ignore[attr-defined]
    with pytest.raises(CacheRefused, match="all parts of one random_split"):
        edgetrain.cached(test, "1MiB")
