"""The event loop: cores are shared, media queue, who waits goes on."""

import pytest

from edgetrain.prediction.pipeline.engine import COMPUTE, READ, SLEEP, WAIT, CoreSharing, Engine, RequestQueue, Slot
from edgetrain.schema import StorageModel

FAIR = {"busy_neighbours": 0.0, "oversubscribed": 0.0}


def finishes(engine, *needs):
    """Start one process per list of needs; return when each ends, in order."""
    ends = [None] * len(needs)

    def process(place, wanted):
        yield from wanted
        ends[place] = engine.now_s

    for place, wanted in enumerate(needs):
        engine.start(process(place, wanted))
    engine.run()
    return ends


def test_threads_within_the_cores_run_at_full_speed():
    engine = Engine(CoreSharing(2, **FAIR), None)
    assert finishes(engine, [(COMPUTE, 1.0, 1)], [(COMPUTE, 2.0, 1)]) == pytest.approx([1.0, 2.0])


def test_more_threads_than_cores_share_them_equally():
    engine = Engine(CoreSharing(1, **FAIR), None)
    # Both run at half speed until the short one ends after 2 s; the other has 1 s left then.
    assert finishes(engine, [(COMPUTE, 1.0, 1)], [(COMPUTE, 2.0, 1)]) == pytest.approx([2.0, 3.0])


def test_a_step_on_two_threads_counts_twice():
    engine = Engine(CoreSharing(2, **FAIR), None)
    assert finishes(engine, [(COMPUTE, 1.0, 2)], [(COMPUTE, 1.0, 1)]) == pytest.approx([1.5, 1.5])


def test_other_programs_take_their_share():
    engine = Engine(CoreSharing(1, others=1.0, **FAIR), None)
    assert finishes(engine, [(COMPUTE, 1.0, 1)]) == pytest.approx([2.0])


def test_work_is_conserved_whatever_the_arrivals():
    engine = Engine(CoreSharing(2, **FAIR), None)
    ends = finishes(engine, *([(SLEEP, 0.1 * place), (COMPUTE, 0.7, 1)] for place in range(7)))
    # 4.9 s of work on two cores, which are both busy from 0.1 s until the last one or two end.
    assert max(ends) == pytest.approx(4.9 / 2, abs=0.15)


def test_sleeping_takes_no_core():
    engine = Engine(CoreSharing(1, **FAIR), None)
    assert finishes(engine, [(SLEEP, 1.0)], [(SLEEP, 1.0)], [(COMPUTE, 1.0, 1)]) == pytest.approx([1.0, 1.0, 1.0])


def test_computing_beside_busy_cores_is_slower_and_oversubscription_slower_still():
    sharing = CoreSharing(4)
    assert sharing.rate(1) == 1.0
    assert 1.0 > sharing.rate(4) > sharing.rate(5) * 5 / 4
    assert CoreSharing(1).rate(1) == 1.0


def test_a_queue_wakes_who_waits_for_it():
    engine = Engine(CoreSharing(1), None)
    slot, seen = Slot(), []

    def waits():
        yield (WAIT, slot)
        seen.append((engine.now_s, slot.items.popleft()))

    def puts():
        yield (SLEEP, 2.0)
        engine.put(slot, 7)

    engine.start(waits())
    engine.start(puts())
    engine.run()
    assert seen == [(2.0, 7)]


def test_requests_queue_on_a_medium_and_continued_ones_are_not_positioned_again():
    engine = Engine(CoreSharing(2), StorageModel("m", read_s=0.01, bytes_per_s=1e6))
    ends = finishes(engine, [(READ, True, 1000), (READ, False, 1000)], [(READ, True, 1000)])
    # The second reader's request goes before the first one's continuation.
    assert ends == pytest.approx([0.023, 0.022])


def test_a_medium_that_serves_several_requests_at_once_shares_its_transfer():
    queue = RequestQueue(StorageModel("m", read_s=0.01, bytes_per_s=1e6, at_once=4))
    assert [queue.admit(0.0, True, 1000) for _ in range(4)] == pytest.approx([0.011, 0.012, 0.013, 0.014])


def test_positioning_gains_from_a_deep_queue():
    queue = RequestQueue(StorageModel("hdd", read_s=0.02, bytes_per_s=1e12, gain=((2, 2.0),)))
    assert queue.admit(0.0, True, 0) == pytest.approx(0.02)
    assert queue.admit(0.0, True, 0) == pytest.approx(0.03)


def test_a_simulation_agrees_with_the_disk_server_of_the_lab():
    from edgetrain.lab import medium
    from edgetrain.prediction.pipeline.engine import RequestQueue

    known = medium("hdd")
    model = StorageModel("hdd", known.read_s, known.bytes_per_s, known.at_once, tuple(known.gain))
    queue = RequestQueue(model)
    times = [queue.admit(0.001 * place, True, 100_000) for place in range(8)]
    assert times == sorted(times)
    alone = known.read_s + 100_000 / known.bytes_per_s
    assert times[0] == pytest.approx(alone)
    assert times[-1] < 8 * alone
