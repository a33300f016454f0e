"""The parts of a minibatch add up, in every timing mode, and none is negative."""

import random

import numpy as np
import pytest

from edgetrain.analysis.breakdown import break_down
from tests.summaries import with_columns


def random_rows(seed: int, timing: str) -> list[tuple[int, ...]]:
    """Make instants as a loop would: serialised (sync) or with the accelerator lagging behind the host (async)."""
    draw = random.Random(seed)
    rows = []
    now = accelerator = draw.randrange(10**9)
    for _ in range(200):
        now += draw.choice([0, 3, 500])
        asked = now
        now += draw.choice([5, 20, 2_000, 90_000])
        ready = now
        now += draw.choice([1, 40])
        copying = max(now, accelerator)
        copied = copying + draw.choice([0, 10, 3_000])
        now += draw.choice([100, 4_000])
        launched = now
        done = max(copied, launched) + draw.choice([100, 30_000])
        accelerator = done
        if timing == "sync":
            now = done
        seen = draw.random()
        rows.append(
            (
                asked,
                ready,
                copying if seen > 0.1 else -1,
                copied if seen > 0.2 else -1,
                launched if seen > 0.02 else -1,
                done if seen > 0.05 else -1,
            )
        )
    return rows


@pytest.mark.parametrize("timing", ["sync", "async"])
@pytest.mark.parametrize("seed", range(20))
def test_parts_add_up_and_none_is_negative(minibatches, seed, timing):
    epoch = np.repeat([0, 1, 2, 3], 50)
    parts = break_down(minibatches(random_rows(seed, timing), epoch))
    whole = parts.stall_s + parts.copy_s + parts.compute_s + parts.overhead_s
    np.testing.assert_allclose(whole, parts.e2e_s, atol=1e-9)
    for part in (parts.stall_s, parts.copy_s, parts.compute_s, parts.overhead_s, parts.hidden_s, parts.e2e_s):
        assert part.min() >= 0


@pytest.mark.parametrize("stretch", [1, 7, 200])
def test_cutting_in_stretches_changes_nothing(minibatches, stretch):
    for timing in ("sync", "async"):
        columns = minibatches(random_rows(3, timing), np.repeat([0, 1, 2, 3], 50))
        whole = break_down(columns)
        pieces = break_down(columns, stretch=stretch)
        for name in ("begin_us", "start_us", "copied_us", "done_us", "stall_from_us", "stall_to_us"):
            np.testing.assert_array_equal(getattr(pieces, name), getattr(whole, name))


def test_a_serialised_loop_gives_the_papers_definitions(minibatches):
    rows = [(0, 1000, 1010, 1200, 1300, 5000), (5100, 5600, 5605, 5700, 5800, 9000)]
    parts = break_down(minibatches(rows))
    assert parts.stall_s == pytest.approx([1000e-6, 500e-6])
    assert parts.copy_s == pytest.approx([190e-6, 95e-6])
    assert parts.compute_s == pytest.approx([3800e-6, 3300e-6])
    assert parts.hidden_s == pytest.approx([0, 0])
    assert parts.overhead_s == pytest.approx([10e-6, 105e-6])


def test_waiting_that_an_earlier_step_covers_is_hidden_and_no_stall(minibatches):
    rows = [(0, 10, 10, 20, 100, 50_000), (110, 20_000, 50_000, 50_010, 20_100, 90_000)]
    parts = break_down(minibatches(rows))
    assert parts.stall_s[1] == 0
    assert parts.hidden_s[1] == pytest.approx(19_890e-6)


def test_only_the_part_of_a_wait_that_idles_the_accelerator_is_a_stall(minibatches):
    rows = [(0, 10, 10, 20, 100, 5_000), (110, 20_000, 20_000, 20_010, 20_100, 90_000)]
    parts = break_down(minibatches(rows))
    assert parts.stall_s[1] == pytest.approx(15_000e-6)
    assert parts.hidden_s[1] == pytest.approx(4_890e-6)


def test_epochs_do_not_overlap_when_the_loop_runs_ahead(minibatches):
    rows = [(0, 10, 10, 20, 100, 50_000), (110, 200, 50_000, 50_010, 300, 90_000)]
    parts = break_down(minibatches(rows, epoch=[0, 1]))
    assert parts.begin_us[1] == 50_000
    assert parts.e2e_s.sum() == pytest.approx(90_000e-6)


def test_evaluation_is_no_training(minibatches):
    columns = minibatches([(0, 10, -1, -1, 20, 30)] * 4)
    assert len(break_down(with_columns(columns, phase=[1, 2, 1, 2]))) == 2


def test_a_copy_that_was_not_seen_is_not_called_zero(minibatches):
    parts = break_down(minibatches([(0, 10, -1, -1, 20, 30)] * 2))
    assert not parts.copy_seen
