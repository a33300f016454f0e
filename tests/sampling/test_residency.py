"""How much of a dataset lies in the page cache, counted and estimated, and said honestly where it cannot be seen."""

from __future__ import annotations

import mmap
import os
import random
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from edgetrain.sampling import residency
from edgetrain.sampling.pagecache import PAGE_BYTES, PageCounter, PagesHidden
from edgetrain.sampling.residency import Inventory, share


def evict(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY)
    os.fsync(fd)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(fd)


def make(folder: Path, sizes: list[int]) -> list[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for index, size in enumerate(sizes):
        path = folder / f"{index:05d}.bin"
        path.write_bytes(b"x" * size)
        paths.append(path)
    return paths


def counters() -> list[PageCounter]:
    kinds = [PageCounter(use_cachestat=False)]
    if PageCounter().has_cachestat:
        kinds.append(PageCounter())
    return kinds


@pytest.fixture
def on_disk(tmp_path: Path) -> Path:
    """A folder whose files can be evicted: not on tmpfs."""
    probe = make(tmp_path / "probe", [5 * PAGE_BYTES])[0]
    evict(probe)
    if share([probe], None).share != 0:
        pytest.skip("files here cannot be evicted")
    return tmp_path


@pytest.mark.parametrize("counter", counters(), ids=lambda counter: "cachestat" if counter.has_cachestat else "mincore")
@pytest.mark.parametrize("size", [1, PAGE_BYTES - 1, PAGE_BYTES, PAGE_BYTES + 1, 100_000])
def test_a_file_just_written_is_all_there_and_never_more_than_all(
    tmp_path: Path, counter: PageCounter, size: int
) -> None:
    found = share(make(tmp_path, [size] * 3), None, counter=counter)
    assert found.share == 1.0 and found.pm == 0.0
    assert found.pages == 3 * -(-size // PAGE_BYTES)


def test_both_ways_of_counting_agree_on_a_file_read_in_part(on_disk: Path) -> None:
    path = make(on_disk, [64 * PAGE_BYTES])[0]
    evict(path)
    fd = os.open(path, os.O_RDONLY)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)  # no readahead
    for page in (3, 17, 40):
        os.pread(fd, 10, page * PAGE_BYTES)
    os.close(fd)
    shares = {share([path], None, counter=counter).share for counter in counters()}
    assert shares == {3 / 64}


def test_counting_loads_nothing(on_disk: Path) -> None:
    paths = make(on_disk / "data", [50_000] * 40)
    for path in paths:
        evict(path)
    for _ in range(3):
        assert share(on_disk / "data", None).share == 0.0
        assert share(on_disk / "data", 10).share == 0.0


def test_the_plus_minus_covers_the_truth_as_often_as_it_says(on_disk: Path) -> None:
    draws = random.Random(11)
    paths = make(on_disk / "data", [draws.randrange(1, 40) * 1000 for _ in range(2100)])
    for path in paths:
        if draws.random() < 0.4:
            evict(path)
    truth = share(on_disk / "data", None)
    known = Inventory.of(on_disk / "data")
    known.ends()
    for dataset in (on_disk / "data", known):  # by files, and by pages once sizes are known
        estimates = [share(dataset, 80, seed=seed) for seed in range(120)]
        covered = sum(abs(each.share - truth.share) <= each.pm for each in estimates)
        assert covered >= 0.9 * len(estimates)
        mean = sum(each.share for each in estimates) / len(estimates)
        assert mean == pytest.approx(truth.share, abs=0.02)


@pytest.mark.parametrize("count, name", [(300, "huge.bin"), (2500, "huge.tar")])
def test_one_huge_file_beside_many_small_ones_weighs_by_its_size(on_disk: Path, count: int, name: str) -> None:
    make(on_disk / "data", [1000] * count)
    huge = on_disk / "data" / name
    huge.write_bytes(b"x" * (600 * PAGE_BYTES * 20))
    evict(huge)
    truth = share(on_disk / "data", None).share
    estimate = share(on_disk / "data", 50, seed=1)
    assert truth is not None and truth < 0.2
    assert abs(estimate.share - truth) <= estimate.pm


def test_a_sample_larger_than_the_dataset_is_an_exact_count(tmp_path: Path) -> None:
    paths = make(tmp_path, [3000] * 20)
    found = share(paths, 1000)
    assert found.files == 20 and found.pm == 0.0


def test_nothing_seen_in_n_draws_is_not_called_nothing(on_disk: Path) -> None:
    for path in make(on_disk / "data", [3000] * 400):
        evict(path)
    found = share(on_disk / "data", 100)
    assert found.share == 0.0 and found.pm == pytest.approx(0.03 * 0.75, rel=0.01)


def test_files_that_vanish_and_empty_ones_are_passed_over(tmp_path: Path) -> None:
    paths = make(tmp_path, [5000] * 4)
    (tmp_path / "empty").touch()
    inventory = Inventory.of(tmp_path)
    paths[0].unlink()
    found = share(inventory, None)
    assert found.files == 3 and found.share == 1.0 and found.blind == 0


def test_a_dataset_with_nothing_in_it_has_no_share_but_a_reason(tmp_path: Path) -> None:
    for where in (tmp_path, tmp_path / "missing", []):
        for sample in (None, 10):
            found = share(where, sample)
            assert found.share is None and found.pm is None and found.reason


def test_links_are_followed_and_loops_are_not(tmp_path: Path) -> None:
    make(tmp_path / "real", [100] * 3)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "class_a").symlink_to(tmp_path / "real")
    (tmp_path / "data" / "again").symlink_to(tmp_path / "data")
    os.mkfifo(tmp_path / "data" / "pipe")
    names = {os.path.basename(path) for path in Inventory.of(tmp_path / "data").paths}
    assert names == {"00000.bin", "00001.bin", "00002.bin"}


def test_a_pipe_among_the_files_blocks_nobody(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    found = share([tmp_path / "pipe", *make(tmp_path, [100])], None)
    assert found.files == 1 and found.blind == 1 and found.reason


def test_a_sample_of_one_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="at least 2"):
        share(tmp_path, 1)


STRANGER = """
import os, sys
from edgetrain.sampling.residency import share
from edgetrain.sampling.pagecache import PageCounter
os.setuid(65534)
for counter in (PageCounter(), PageCounter(use_cachestat=False)):
    found = share(sys.argv[1:], None, counter=counter)
    print(found.share, found.blind, "owner" in (found.reason or ""))
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become a stranger")
def test_to_a_stranger_the_share_is_unknown_not_full(on_disk: Path) -> None:
    # pytest's own folders are closed to strangers, and they must be able to reach the files.
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        os.chmod(folder, 0o755)
        paths = make(Path(folder), [9000] * 3)
        for path in paths:
            evict(path)
        package = Path(residency.__file__).parents[2]
        ran = subprocess.run(
            [sys.executable, "-c", STRANGER, *map(str, paths)],
            capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": str(package)},
        )  # fmt: skip
    assert ran.stdout.split("\n")[:2] == ["None 3 True", "None 3 True"], ran.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")
def test_on_overlayfs_where_cachestat_counts_nothing_the_share_is_right(on_disk: Path) -> None:
    lower, upper, work, merged = (on_disk / name for name in ("lower", "upper", "work", "merged"))
    make(lower, [20 * PAGE_BYTES])
    for folder in (upper, work, merged):
        folder.mkdir()
    options = f"lowerdir={lower},upperdir={upper},workdir={work}"
    mounted = subprocess.run(["mount", "-t", "overlay", "overlay", "-o", options, merged], capture_output=True)
    if mounted.returncode:
        pytest.skip("overlayfs cannot be mounted here")
    try:
        assert share(merged, None).share == 1.0
        evict(lower / "00000.bin")
        assert share(merged, None).share == 0.0
        assert share(merged, None).method == "mincore"
    finally:
        subprocess.run(["umount", merged], check=True)


def test_what_cannot_be_mapped_is_blind(tmp_path: Path) -> None:
    path = make(tmp_path, [100])[0]
    fd = os.open(path, os.O_WRONLY)
    counter = PageCounter(use_cachestat=False)
    counter.enter(str(tmp_path), fd)
    with pytest.raises(PagesHidden, match="mmap"):
        counter.count(fd, 0, 100, str(path))
    os.close(fd)


def test_the_count_agrees_with_vmtouch(on_disk: Path) -> None:
    if shutil.which("vmtouch") is None:
        pytest.skip("no vmtouch here")
    draws = random.Random(5)
    paths = make(on_disk / "data", [draws.randrange(1, 200_000) for _ in range(200)])
    for path in draws.sample(paths, 90):
        evict(path)
    said = subprocess.run(["vmtouch", on_disk / "data"], capture_output=True, text=True, check=True).stdout
    cached, pages = said.split("Resident Pages:")[1].split()[0].split("/")
    found = share(on_disk / "data", None)
    assert (round(found.share * found.pages), found.pages) == (int(cached), int(pages))


def test_pages_here_are_those_mmap_knows() -> None:
    assert PAGE_BYTES == mmap.PAGESIZE
