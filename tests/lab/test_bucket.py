"""Without root, reads below the dataset wait in the reading process; what the page cache holds does not."""

import os
import time

import pytest

from edgetrain.lab import bucket
from edgetrain.lab.queueing import Medium

SLOW = Medium("slow", 0.03, 1e9)


@pytest.fixture
def dataset(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "a").write_bytes(b"x" * 50_000)
    with open(folder / "a", "rb") as file:
        os.fsync(file.fileno())
    yield folder
    bucket.remove()


def drop(path):
    descriptor = os.open(path, os.O_RDONLY)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(descriptor)


def timed_read(path):
    start_s = time.monotonic()
    with open(path, "rb") as file:
        file.read()
    return time.monotonic() - start_s


def test_a_cold_read_waits_and_a_cached_one_does_not(dataset, tmp_path):
    assert bucket.install({bucket.ENTRY: bucket.entry(tmp_path / "queue", dataset, SLOW)})
    drop(dataset / "a")
    assert timed_read(dataset / "a") >= 0.03
    assert timed_read(dataset / "a") < 0.02


def test_files_outside_the_dataset_are_left_alone(dataset, tmp_path):
    other = tmp_path / "other"
    other.write_bytes(b"y" * 50_000)
    bucket.install({bucket.ENTRY: bucket.entry(tmp_path / "queue", dataset, SLOW)})
    drop(other)
    assert timed_read(other) < 0.02


def test_all_processes_share_one_queue(tmp_path):
    one, two = (bucket.Bucket(tmp_path / "queue", SLOW) for _ in range(2))
    start_s = time.monotonic()
    child = os.fork()
    if child == 0:
        one.wait(0)
        os._exit(0)
    two.wait(0)
    os.waitpid(child, 0)
    assert time.monotonic() - start_s >= 0.06


def test_nothing_is_wrapped_unless_asked():
    before = open
    assert not bucket.install({})
    assert open is before
