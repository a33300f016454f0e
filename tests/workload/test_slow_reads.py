"""Without root, reads below the dataset wait in the reading process; what the page cache holds does not."""

import json
import os
import time

import pytest

from edgetrain.lab import MediumModel
from edgetrain.lab.read_queue import queue_setting
from edgetrain.workload.slow_reads import READ_QUEUE, ReadQueue, install_read_queue, remove_read_queue

SLOW = MediumModel("slow", 0.03, 1e9)


@pytest.fixture
def dataset(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "a").write_bytes(b"x" * 50_000)
    with open(folder / "a", "rb") as file:
        os.fsync(file.fileno())
    yield folder
    remove_read_queue()


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
    assert install_read_queue({READ_QUEUE: queue_setting(tmp_path / "queue", dataset, SLOW)})
    drop(dataset / "a")
    assert timed_read(dataset / "a") >= 0.03
    assert timed_read(dataset / "a") < 0.02


def test_files_outside_the_dataset_do_not_wait(dataset, tmp_path):
    other = tmp_path / "other"
    other.write_bytes(b"y" * 50_000)
    install_read_queue({READ_QUEUE: queue_setting(tmp_path / "queue", dataset, SLOW)})
    drop(other)
    assert timed_read(other) < 0.02


def test_all_processes_share_one_queue(tmp_path):
    one, two = (ReadQueue(str(tmp_path / "queue"), [0.03], 1e9, at_once=1) for _ in range(2))
    start_s = time.monotonic()
    child = os.fork()
    if child == 0:
        one.wait(0)
        os._exit(0)
    two.wait(0)
    os.waitpid(child, 0)
    assert time.monotonic() - start_s >= 0.06


def test_the_positioning_time_follows_the_depth_of_the_queue(tmp_path):
    disk = MediumModel("disk", 0.02, 1e8, at_once=3, gain=((2, 1.25), (4, 2.0)))
    setting = json.loads(queue_setting(tmp_path / "queue", tmp_path, disk))
    assert setting["position_s"] == pytest.approx([0.02, 0.016, 0.02 / 1.625, 0.01])


def test_open_is_not_wrapped_unless_asked():
    before = open
    assert not install_read_queue({})
    assert open is before
