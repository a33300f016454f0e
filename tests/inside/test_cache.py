"""The loader cache: samples and order as without it, shared by all workers, never evicting, refusing randomness."""

from __future__ import annotations

import io
import multiprocessing
import random
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import ConcatDataset, DataLoader, Dataset, Subset

import edgetrain
from edgetrain.inside.available import available_bytes
from edgetrain.inside.cache import parse_ram
from edgetrain.inside.cached_step import CachedStep, CacheRefused, replacement_of
from edgetrain.inside.sample_check import random_sample
from edgetrain.inside.shared_cache import VALUE_BYTES, SharedCache

COUNT = 24


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pictures")
    for index in range(COUNT):
        pixels = np.random.default_rng(index).integers(0, 255, (24, 32, 3), np.uint8)
        Image.fromarray(pixels).save(folder / f"{index:03d}.png")
    return folder


class Reads(Dataset[Any]):
    """Reads files through a method of its own; augmentation above it draws from three generators."""

    def __init__(self, folder: Path) -> None:
        self.files = sorted(str(path) for path in folder.iterdir())
        self.log: str | None = None

    def __len__(self) -> int:
        return len(self.files)

    def read(self, path: str) -> bytes:
        if self.log is not None:
            with open(self.log, "a") as log:
                log.write(path + "\n")
        with open(path, "rb") as file:
            return file.read()

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return self.augment(Image.open(io.BytesIO(self.read(self.files[index])))), index

    def augment(self, picture: Image.Image) -> torch.Tensor:
        pixels = torch.from_numpy(np.asarray(picture, np.float32).copy())
        if random.random() < 0.5:
            pixels = pixels.flip(1)
        return pixels + torch.rand(1) + float(np.random.rand())


class Loads(Reads):
    """Decodes and resizes in a step of its own."""

    def load(self, path: str) -> np.ndarray[Any, Any]:
        return np.asarray(Image.open(io.BytesIO(super().read(path))).resize((16, 12)))

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return self.augment(Image.fromarray(self.load(self.files[index]))), index

    read = None


class LoadsAtRandom(Loads):
    """The step that is named augments too."""

    def load(self, path: str) -> np.ndarray[Any, Any]:
        return super().load(path) + np.uint8(random.randrange(100))


class Opens(Reads):
    """Opens files where it needs them."""

    read = None

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return self.augment(Image.open(self.files[index])), index


class OpensElsewhere(Opens):
    """Opens files in a method that its samples come from."""

    def picture(self, index: int) -> Image.Image:
        return Image.open(self.files[index])

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return self.augment(self.picture(index)), index


class Plain(Dataset[Any]):
    """Samples without randomness."""

    def __len__(self) -> int:
        return COUNT

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return torch.full((5,), float(index)), index


def seed_worker(worker: int) -> None:
    random.seed(worker)
    np.random.seed(worker)


def epochs(dataset: Any, workers: int, method: str | None, count: int = 3) -> list[tuple[list[int], torch.Tensor]]:
    """Return indices and samples of some passes, as a loop receives them."""
    torch.manual_seed(3)
    random.seed(3)
    np.random.seed(3)
    generator = torch.Generator()
    generator.manual_seed(5)
    loader: DataLoader[Any] = DataLoader(
        dataset,
        batch_size=5,
        shuffle=True,
        num_workers=workers,
        generator=generator,
        worker_init_fn=seed_worker,
        multiprocessing_context=method if workers else None,
        persistent_workers=method == "spawn",  # which take seconds to start
    )
    found = []
    for _ in range(count):
        batches = list(loader)
        found.append((torch.cat([b[1] for b in batches]).tolist(), torch.cat([b[0] for b in batches])))
    return found


@pytest.mark.parametrize(
    ("kind", "workers", "method", "ram"),
    [
        (Reads, 0, None, "40kB"),
        (Loads, 0, None, "1MiB"),
        (Reads, 2, "fork", "40kB"),
        (Loads, 2, "fork", "20kB"),
        (Loads, 2, "spawn", "1MiB"),
    ],
)
def test_samples_and_their_order_are_the_same_as_without_the_cache(
    pictures: Path, kind: type[Reads], workers: int, method: str | None, ram: str
) -> None:
    plain = epochs(kind(pictures), workers, method)
    kept = epochs(edgetrain.cached(kind(pictures), ram), workers, method)
    for (order, samples), (kept_order, kept_samples) in zip(plain, kept, strict=True):
        assert order == kept_order
        assert torch.equal(samples, kept_samples)


@pytest.mark.parametrize(("workers", "method"), [(0, None), (2, "fork"), (1, "spawn")])
def test_a_file_is_read_once_by_all_workers_together(
    pictures: Path, tmp_path: Path, workers: int, method: str | None
) -> None:
    dataset = Reads(pictures)
    dataset.log = str(tmp_path / "log")
    epochs(edgetrain.cached(dataset, "1MiB"), workers, method)
    read = Path(dataset.log).read_text().splitlines()
    assert sorted(read) == dataset.files


def test_within_the_budget_nothing_is_evicted_and_x_percent_cached_give_x_percent_hits(
    pictures: Path, tmp_path: Path
) -> None:
    dataset = Reads(pictures)
    dataset.log = str(tmp_path / "log")
    edgetrain.cached(dataset, "40kB")
    step: Any = dataset.read
    epochs(dataset, 0, None, count=1)
    inside, read = step.cache.values, len(Path(dataset.log).read_text().splitlines())
    assert 0 < inside < COUNT and read == COUNT and step.cache.used_bytes <= 40_000
    epochs(dataset, 0, None, count=4)
    assert step.cache.values == inside
    assert len(Path(dataset.log).read_text().splitlines()) - read == 4 * (COUNT - inside)


def test_a_dataset_without_a_step_to_cache_is_refused_with_the_line_to_change(pictures: Path) -> None:
    with pytest.raises(CacheRefused, match=r"test_cache\.py:\d+: return self\.augment\(Image\.open\(self\.files"):
        edgetrain.cached(Opens(pictures), "1MiB")


def test_the_line_to_change_is_found_below_a_subset_and_in_another_method(pictures: Path) -> None:
    with pytest.raises(CacheRefused, match=r"^OpensElsewhere .*\d+: return Image\.open\(self\.files\[index\]\)"):
        edgetrain.cached(Subset(OpensElsewhere(pictures), [1, 3]), "1MiB")


def test_datasets_that_are_joined_are_cached_one_by_one(pictures: Path) -> None:
    with pytest.raises(CacheRefused, match="ConcatDataset joins several datasets: cache each of them"):
        edgetrain.cached(ConcatDataset([Reads(pictures), Reads(pictures)]), "1MiB")


def test_a_step_that_is_random_is_refused(pictures: Path) -> None:
    with pytest.raises(CacheRefused, match="different things for the same arguments"):
        list(DataLoader(edgetrain.cached(LoadsAtRandom(pictures), "1MiB", load="load")))


def test_whole_samples_are_cached_only_where_the_same_index_gives_the_same_sample(pictures: Path) -> None:
    with pytest.raises(CacheRefused, match="sample 0 of Reads is different each time"):
        edgetrain.cached(Reads(pictures), "1MiB", load="__getitem__")
    kept = edgetrain.cached(Plain(), "1MiB", load="__getitem__")
    for _ in range(2):
        assert all(torch.equal(kept[index][0], Plain()[index][0]) for index in range(COUNT))
    assert replacement_of(kept, "__getitem__").cache.values == COUNT


class Hangs(Plain):
    def __getitem__(self, index: int) -> Any:
        time.sleep(60.0)


def test_a_dataset_that_cannot_be_looked_at_in_time_is_left_to_the_check_in_training() -> None:
    assert random_sample(Hangs(), within_s=0.1) is None


def test_whole_samples_of_a_subset_are_cached_although_it_gives_a_minibatch_at_once() -> None:
    part = Subset(Plain(), range(0, COUNT, 2))
    assert hasattr(part, "__getitems__")
    kept = edgetrain.cached(part, "1MiB", load="__getitem__")
    samples = torch.cat([batch[1] for batch in DataLoader(kept, batch_size=4)])
    assert samples.tolist() == [*range(0, COUNT, 2)]
    assert replacement_of(kept, "__getitem__").cache.values == COUNT // 2


def test_a_cached_sample_that_is_changed_in_place_stays_as_it_was() -> None:
    kept = edgetrain.cached(Plain(), "1MiB", load="__getitem__")
    kept[3][0].add_(100)
    kept[3][0].add_(100)
    assert kept[3][0].tolist() == [3.0] * 5


def test_checking_a_step_leaves_the_random_numbers_as_they_were(pictures: Path) -> None:
    dataset = Loads(pictures)
    random.seed(1)
    np.random.seed(1)
    torch.manual_seed(1)
    expected = (random.random(), float(np.random.rand()), float(torch.rand(1)))
    random.seed(1)
    np.random.seed(1)
    torch.manual_seed(1)
    step: Any = edgetrain.cached(dataset, "1MiB").load
    step(dataset.files[0])
    assert (random.random(), float(np.random.rand()), float(torch.rand(1))) == expected


def test_the_step_of_a_subset_is_its_datasets(pictures: Path) -> None:
    dataset = Reads(pictures)
    part = Subset(dataset, [1, 3])
    assert edgetrain.cached(part, "1MiB") is part
    assert isinstance(dataset.read, CachedStep)
    with pytest.raises(CacheRefused, match="cached already"):
        edgetrain.cached(part, "1MiB")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"ram": "lots"}, "cannot read 'lots' as a size"),
        ({"ram": "900000GiB"}, "of memory are available"),
        ({"ram": 1000}, "too small"),
        ({"ram": "1MiB", "read": "nosuch"}, "has no method 'nosuch'"),
        ({"ram": "1MiB", "read": "read", "load": "augment"}, "give either"),
    ],
)
def test_wrong_arguments_are_refused(pictures: Path, arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        edgetrain.cached(Reads(pictures), **arguments)


@pytest.mark.parametrize(
    ("line", "group"), [("0::/a/b", "a/memory.max"), ("9:memory:/a", "memory/memory.limit_in_bytes")]
)
def test_memory_is_what_is_free_or_what_a_control_group_leaves(tmp_path: Path, line: str, group: str) -> None:
    for name, text in (("proc/meminfo", "MemAvailable:  4000 kB\n"), ("proc/self/cgroup", line + "\n")):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert available_bytes(str(tmp_path)) == 4_096_000
    limit = tmp_path / "sys/fs/cgroup" / group
    limit.parent.mkdir(parents=True)
    limit.write_text("max\n")
    assert available_bytes(str(tmp_path)) == 4_096_000
    limit.write_text("1000000\n")
    assert available_bytes(str(tmp_path)) == 1_000_000
    usage, total = ("memory.current", "") if line.startswith("0") else ("memory.usage_in_bytes", "total_")
    (limit.parent / usage).write_text("700000\n")
    (limit.parent / "memory.stat").write_text(f"anon 1\n{total}active_file 100000\n{total}inactive_file 200000\n")
    assert available_bytes(str(tmp_path)) == 600_000  # page cache is given up when memory is needed
    (limit.parent / usage).write_text("2000000\n")
    assert available_bytes(str(tmp_path)) == 0


def test_a_read_step_that_returns_something_else_than_bytes_is_refused(pictures: Path) -> None:
    dataset = edgetrain.cached(Loads(pictures), "1MiB", read="load")
    with pytest.raises(CacheRefused, match="returned ndarray, not bytes"):
        dataset[0]


def test_sizes_are_read() -> None:
    assert [parse_ram(text) for text in ("2GiB", "300MB", 1000, "1.5k")] == [2 << 30, 300_000_000, 1000, 1500]


def fill(cache: SharedCache, first: int) -> None:
    for number in range(first, first + 400):
        cache.put(b"key %d" % number, b"value %d" % number * 20)


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_processes_that_add_the_same_values_at_once_see_each_value_whole(method: str) -> None:
    cache = SharedCache(1 << 20, 1200)
    context: Any = multiprocessing.get_context(method)
    children = [
        context.Process(target=fill, args=(cache, first))
        for first in ((0, 200, 400, 600) if method == "fork" else (0, 600))
    ]
    for child in children:
        child.start()
    for child in children:
        child.join()
        assert child.exitcode == 0
    numbers = [*range(1000)] if method == "fork" else [*range(400), *range(600, 1000)]
    assert cache.values == len(numbers)
    for number in numbers:
        found = cache.get(b"key %d" % number)
        assert found is not None and bytes(found) == b"value %d" % number * 20
    assert cache.get(b"key 1000") is None


def test_a_table_holds_two_values_per_sample_and_leaves_the_rest_out() -> None:
    cache = SharedCache(1 << 20, 1000)
    assert all(
        cache.put(b"picture %d" % number, b"p") and cache.put(b"mask %d" % number, b"m") for number in range(1000)
    )
    assert cache.values == 2000 and cache.left_out == 0
    with pytest.warns(RuntimeWarning, match=r"full with 2250 values although .* MB are free") as warned:
        stored = [cache.put(b"more %d" % number, b"x") for number in range(1000)]
    assert len(warned) == 1
    assert stored[0] and not stored[-1] and cache.left_out == stored.count(False)
    assert cache.get(b"more 999") is None


def test_a_table_has_places_for_many_small_values_of_few_samples() -> None:
    cache = SharedCache(16 << 20, 4)  # clips of many frames
    frames = [cache.put(b"frame %d" % number, bytes(VALUE_BYTES)) for number in range(2100)]
    assert cache.used_bytes == pytest.approx(cache.budget_bytes, rel=0.001)
    assert cache.first_byte < 0.01 * cache.budget_bytes and frames.count(True) > 2000


def test_values_that_do_not_fit_are_left_out_without_a_warning(recwarn: pytest.WarningsRecorder) -> None:
    cache = SharedCache(40_000, 4)
    assert not cache.put(b"large", bytes(40_000)) and cache.left_out == 1
    assert len(recwarn) == 0


class ByIndex(Dataset[Any]):
    """Loads by an index."""

    def __init__(self) -> None:
        self.loaded: list[int] = []

    def __len__(self) -> int:
        return COUNT

    def load(self, index: Any) -> torch.Tensor:
        self.loaded.append(int(index))
        return torch.full((3,), float(index))

    def __getitem__(self, index: Any) -> torch.Tensor:
        return self.load(index)


@pytest.mark.parametrize("step", ["load", "__getitem__"])
def test_an_index_of_numpy_or_torch_is_the_index(step: str) -> None:
    dataset = ByIndex()
    kept = edgetrain.cached(dataset, "1MiB", load=step)
    order = torch.randperm(COUNT)
    for index in order:  # a view of one number into all of them
        kept[index]
    loaded = len(dataset.loaded)
    for index in (*range(COUNT), *np.arange(COUNT), *order, *np.arange(COUNT, dtype=np.uint8)):
        assert kept[index].tolist() == [float(index)] * 3
    assert len(dataset.loaded) == loaded
    assert replacement_of(kept, step).cache.values == COUNT


def test_arguments_that_are_no_index_are_told_apart_by_their_values() -> None:
    class Takes(ByIndex):
        def load(self, *given: Any, **named: Any) -> str:
            self.loaded.append(0)
            return repr((given, named))

    dataset: Any = Takes()
    step = edgetrain.cached(dataset, "1MiB", load="load").load
    calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
        ((1,), {}), ((True,), {}), ((1.0,), {}), (("1",), {}), ((1, 2), {}), (((1, 2),), {}), ((1,), {"size": 2}),
        ((torch.tensor([1]),), {}), ((torch.tensor([1, 2]),), {}), ((torch.tensor(True),), {}), ((np.arange(2),), {}),
    ]  # fmt: skip
    first = [step(*given, **named) for given, named in calls]
    made = len(dataset.loaded)
    assert step.cache.values == len(calls)
    assert [step(*given, **named) for given, named in calls] == first and len(dataset.loaded) == made
    assert step((np.int64(1), torch.tensor(2))) == first[5] and step(np.str_("1")) == first[3]
    # Cannot be a key: the step is called each time.
    with open("/dev/null") as file, pytest.warns(RuntimeWarning, match=r"Takes\.load .* cannot be the key") as warned:
        assert step(file) and step(file)
    assert len(warned) == 1 and len(dataset.loaded) == made + 2 and step.cache.values == len(calls)


class Opening(ByIndex):
    """Has a `load` that opens what its samples are read from."""

    def load(self, verbose: bool = False) -> None:  # type: ignore[override]
        self.loaded.append(-1)

    def __getitem__(self, index: Any) -> torch.Tensor:
        self.load()
        return torch.full((3,), float(index))


def test_a_load_that_needs_no_argument_is_not_taken_for_a_step() -> None:
    with pytest.raises(CacheRefused, match=r"Opening\.load can be called without arguments.*def read\(self, path\)"):
        edgetrain.cached(Opening(), "1MiB")

    class Opens(Opening):
        def load(self) -> None:  # type: ignore[override]
            pass

    with pytest.raises(CacheRefused, match=r"Opens\.load takes no argument"):
        edgetrain.cached(Opens(), "1MiB", load="load")


def test_a_loader_beside_a_load_that_needs_no_argument_is_found() -> None:
    class Both(Opening):
        def loader(self, index: int) -> torch.Tensor:
            return torch.ones(index)

    dataset: Any = edgetrain.cached(Both(), "1MiB")
    assert isinstance(dataset.loader, CachedStep) and not isinstance(dataset.load, CachedStep)


def test_a_call_without_arguments_and_a_result_of_none_are_never_cached() -> None:
    dataset: Any = edgetrain.cached(Opening(), "1MiB", load="load")
    for _ in range(2):
        assert dataset.load() is None and dataset.load(verbose=True) is None
    assert len(dataset.loaded) == 4 and dataset.load.cache.values == 0
