"""The queue of a storage medium keeps the medium's pace for any number of readers."""

import itertools
import random

import pytest

from edgetrain.documents import to_document
from edgetrain.lab import IMAGE_BYTES, media
from edgetrain.lab.queueing import MediumQueue
from edgetrain.lab.server import read_medium

SD = media()["sd"]
HDD = media()["hdd"]
SSD = media()["ssd"]


def closed_loop(medium, readers, reads, floor_s=0.0):
    """Simulate readers that each ask for the next read when theirs is done; return reads per second."""
    queue = MediumQueue(medium, floor_s)
    places = random.Random(0)
    ready_s = [0.0] * readers
    last_s = 0.0
    for _ in range(reads):
        reader = min(range(readers), key=ready_s.__getitem__)
        # The way to the server and back takes the floor, half each.
        arrived_s = ready_s[reader] + floor_s / 2
        done_s = queue.admit(arrived_s, 1, places.randrange(10**12), IMAGE_BYTES)
        ready_s[reader] = max(done_s, arrived_s) + floor_s / 2
        last_s = max(last_s, ready_s[reader])
    return reads / last_s


@pytest.mark.parametrize("name, cost_ms", [("ssd", 0.9), ("sd", 8.6), ("hdd", 19.7)])
def test_one_image_costs_what_the_papers_say(name, cost_ms):
    assert media()[name].cost_s(IMAGE_BYTES) * 1e3 == pytest.approx(cost_ms, rel=0.01)


@pytest.mark.parametrize("medium", [SD, HDD, SSD])
@pytest.mark.parametrize("readers", [1, 2, 4])
def test_readers_get_the_rate_the_medium_promises(medium, readers):
    assert closed_loop(medium, readers, 400) == pytest.approx(medium.reads_per_s(IMAGE_BYTES, readers), rel=0.05)


def test_a_medium_that_serves_one_read_gives_four_readers_no_more_than_one():
    assert closed_loop(SD, 4, 400) == pytest.approx(closed_loop(SD, 1, 400), rel=0.01)


def test_waiting_reads_make_a_disk_faster_but_never_a_card():
    assert closed_loop(HDD, 4, 400) > 1.15 * closed_loop(HDD, 1, 400)


@pytest.mark.parametrize("readers", [1, 4])
def test_the_floor_of_the_mechanism_does_not_show(readers):
    assert closed_loop(SD, readers, 300, floor_s=0.3e-3) == pytest.approx(closed_loop(SD, readers, 300), rel=0.02)


def test_answers_never_overtake_the_medium():
    queue = MediumQueue(HDD, 0.2e-3)
    source = random.Random(3)
    now_s, done = 0.0, []
    for _ in range(200):
        now_s += source.expovariate(200)
        done.append(queue.admit(now_s, 1, source.randrange(10**9), IMAGE_BYTES))
    gaps = [after - before for before, after in itertools.pairwise(done)]
    assert min(gaps) >= HDD.cost_s(IMAGE_BYTES, 8) * 0.999


def test_a_read_that_goes_on_where_another_ended_is_not_positioned_again():
    queue = MediumQueue(HDD)
    first_s = queue.admit(0.0, 1, 0, 131072)
    second_s = queue.admit(first_s, 1, 131072, 131072)
    assert second_s - first_s == pytest.approx(131072 / HDD.bytes_per_s)


def test_a_medium_is_the_same_after_being_sent_to_the_server():
    assert read_medium(to_document(HDD)) == HDD


def test_a_faster_medium_is_the_same_medium_sooner():
    assert SD.faster(4).cost_s(IMAGE_BYTES) == pytest.approx(SD.cost_s(IMAGE_BYTES) / 4)
