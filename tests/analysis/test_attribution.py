"""The parts sum to the stall, and a cause gets what vanishes without it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from edgetrain.analysis.attribution import BLOCK, MAX_BLOCKS, MAX_STEAL, Attribution, attribute
from edgetrain.analysis.breakdown import break_down
from edgetrain.analysis.services import LockIntervals
from edgetrain.record import ArrayTable
from tests.analysis.pipelines import BatchCost, record
from tests.summaries import with_columns
from tests.torture import attribution as torture

CAUSES = ("blocked", "preprocess", "contention", "handover")
NAMES = {"blocked": "blocked", "preprocess": "cpu", "contention": "queued", "handover": "pickling"}


def shares(
    cost: Callable[[int], BatchCost], workers: int, step_us: int = 5_000, minibatches: int = 300, **more: int
) -> tuple[dict[str, float], float]:
    """What the rule says, and the stall in seconds, of all but the first minibatches."""
    minibatches_columns, worker_columns = record(cost, minibatches, workers, step_us, **more)
    parts = break_down(minibatches_columns)
    said = attribute(minibatches_columns, worker_columns, parts.rows, parts.stall_s)
    check_law(said, parts.stall_s)
    counts = slice(2 * workers + 1, None)
    stall = float(parts.stall_s[counts].sum())
    return {c: float(getattr(said, f"{c}_s")[counts].sum()) / max(stall, 1e-12) for c in CAUSES}, stall


def check_law(said: Attribution, stall_s: np.ndarray) -> None:
    parts = np.stack([getattr(said, f"{cause}_s") for cause in CAUSES])
    assert np.allclose(parts.sum(axis=0), stall_s, atol=1e-9)
    assert np.all(parts >= 0)


@pytest.mark.parametrize("workers", [0, 1, 2, 4])
@pytest.mark.parametrize("cause", CAUSES)
def test_a_single_cause_gets_all_of_the_stall(cause: str, workers: int) -> None:
    if cause == "handover":
        # Sending goes on beside the next fetch; receiving is what the loop has to wait for.
        said, stall = shares(lambda batch: BatchCost(pickling=32_000, receiving=20_000), max(workers, 1))
    else:
        said, stall = shares(lambda batch: BatchCost(**{NAMES[cause]: 32_000}), workers)
    assert stall > 0.1
    assert said[cause] > 0.95


@pytest.mark.parametrize("one_in", [1, 3, 7])
def test_waits_between_the_looks_are_like_those_looked_at(one_in: int) -> None:
    minibatches, workers = record(lambda batch: BatchCost(pickling=1_000, receiving=20_000), 300, 1, 5_000)
    read = np.arange(300) % one_in == 0
    minibatches = with_columns(minibatches, queued_us=np.where(read, 8_000, -1), cpu_us=np.where(read, 12_000, -1))
    parts = break_down(minibatches)
    said = attribute(minibatches, workers, parts.rows, parts.stall_s)
    check_law(said, parts.stall_s)
    assert said.contention_s.sum() / parts.stall_s.sum() == pytest.approx(0.4, abs=0.02)


@pytest.mark.parametrize("workers", [0, 1, 2])
def test_two_equal_causes_get_half_each_whatever_their_order(workers: int) -> None:
    said, _ = shares(lambda batch: BatchCost(blocked=16_000, cpu=16_000), workers)
    assert said["blocked"] == pytest.approx(0.5, abs=0.03)
    assert said["preprocess"] == pytest.approx(0.5, abs=0.03)


@pytest.mark.parametrize("workers", [0, 1, 2])
@pytest.mark.parametrize("one_in", [2, 3, 8])
@pytest.mark.parametrize("timed", [True, False])
def test_fetches_between_the_looks_are_made_of_what_those_like_them_are(workers: int, one_in: int, timed: bool) -> None:
    def cost(batch: int) -> BatchCost:
        return BatchCost(blocked=3_000 + 500 * (batch % 5), cpu=2_000, queued=1_000 + 100 * (batch % 7))

    whole, _ = shares(cost, workers, step_us=1_000)
    minibatches, made = record(cost, 300, workers, 1_000)
    between = np.arange(300) % one_in != 0
    unread = ["helpers_us", "queued_us", "system_us", "stolen_us", "switches", "waking_us", "feeder_queued_us"]
    unread += [] if timed else ["cpu_us"]
    made = with_columns(made, **{name: np.where(between, -1, made[name]) for name in unread})
    parts = break_down(minibatches)
    said = attribute(minibatches, made, parts.rows, parts.stall_s)
    check_law(said, parts.stall_s)
    counts = slice(2 * workers + 1, None)
    for cause in CAUSES:
        share = getattr(said, f"{cause}_s")[counts].sum() / parts.stall_s[counts].sum()
        assert share == pytest.approx(whole[cause], abs=0.03)


@pytest.mark.parametrize(("workers", "hogs"), [(0, 1), (1, 1), (2, 1), (1, 2), (4, 1)])
def test_a_shared_core_splits_like_its_time_slices(workers: int, hogs: int) -> None:
    others = hogs + max(workers, 1) - 1
    said, _ = shares(lambda batch: BatchCost(cpu=32_000, queued=32_000 * others), workers)
    assert said["contention"] == pytest.approx(others / (others + 1), abs=0.08)


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("period", [5, 10, 23])
def test_a_straggler_answers_for_the_stall_that_vanishes_without_it(period: int, workers: int) -> None:
    def cost(batch: int) -> BatchCost:
        return BatchCost(blocked=100_000 if batch % period == 0 else 0, cpu=16_000 + 1_000 * (batch % 3))

    said, stall = shares(cost, workers, step_us=20_000)
    _, without = shares(lambda batch: cost(batch).without("blocked"), workers, step_us=20_000)
    assert said["blocked"] == pytest.approx(1 - without / stall, abs=0.05)


@pytest.mark.parametrize("workers", [0, 1, 2])
def test_behind_an_accelerator_each_cause_gets_what_it_adds_while_all_grow(workers: int) -> None:
    def cost(batch: int, blocked: float = 1.0, cpu: float = 1.0) -> BatchCost:
        return BatchCost(blocked=int(blocked * (30_000 + 100 * (batch % 7))), cpu=int(cpu * 10_000), receiving=0)

    def stall(blocked: float, cpu: float) -> float:
        return shares(lambda batch: cost(batch, blocked, cpu), workers, step_us=1_000, gpu_us=12_000)[1]

    said, whole = shares(cost, workers, step_us=1_000, gpu_us=12_000)
    assert whole > 0.1
    added, steps = 0.0, 20
    for step in range(steps):
        before, after = step / steps, (step + 1) / steps
        added += (stall(after, before) - stall(before, before) + stall(after, after) - stall(before, after)) / 2
    assert said["blocked"] == pytest.approx(added / whole, abs=0.03)


@pytest.mark.parametrize("workers", [1, 2, 4])
@pytest.mark.parametrize("sleeping", [1, 3])
def test_causes_behind_one_another_share_in_proportion_however_small_the_stall(sleeping: int, workers: int) -> None:
    whole = 9_000 * workers  # a batch every 9 ms against steps of 5 ms
    said, _ = shares(lambda batch: BatchCost(blocked=whole * sleeping // 4, cpu=whole * (4 - sleeping) // 4), workers)
    assert said["blocked"] == pytest.approx(sleeping / 4, abs=0.03)


def test_the_start_of_the_workers_does_not_colour_what_comes_after() -> None:
    minibatches, workers = record(lambda batch: BatchCost(cpu=40_000), 24, 2, 5_000)
    shift = 400_000  # the workers took this long to start: everything but the sending comes later
    instants = ("began_us", "fetched_us", "pickled_us", "shipped_us")
    late = with_columns(workers, **{name: workers[name] + shift for name in instants})
    durations = ("queued_us", "cpu_us")
    later = {name: minibatches[name] + shift for name in minibatches if name.endswith("_us") and name not in durations}
    later["sent_us"] = np.where(np.arange(24) < 4, minibatches["sent_us"], later["sent_us"])
    later["asked_us"] = np.where(np.arange(24) < 1, minibatches["asked_us"], later["asked_us"])
    moved = with_columns(minibatches, **later)
    parts = break_down(moved)
    said = attribute(moved, late, parts.rows, parts.stall_s)
    check_law(said, parts.stall_s)
    assert said.handover_s[0] > 0.3
    assert said.preprocess_s[5:].sum() / parts.stall_s[5:].sum() > 0.95


def test_a_lock_is_held_by_whatever_the_same_worker_computes_at_the_time() -> None:
    worker = np.array([0.0, 1.0, 0.0, 0.0])
    began, fetched = np.array([0.0, 0.0, 100.0, 300.0]), np.array([100.0, 900.0, 300.0, 400.0])
    fetch = np.zeros((4, 4))
    fetch[:, 1] = (100, 900, 100, 100)
    fetch[2, 0] = 100  # half of it asleep: then the lock is free
    held = LockIntervals(np.zeros(4, np.int64), worker, began, fetched, fetch)
    during = held.during(np.array([100.0, 950.0, 300.0, 400.0]), np.array([350.0, 999.0, 310.0, 500.0]))
    assert during[:, 1].tolist() == pytest.approx([150.0, 0.0, 10.0, 0.0])
    assert not during[:, (0, 2, 3)].any()
    assert held.after(np.array([150.0, 950.0, 300.0, 400.0])).tolist() == [2, -1, 3, -1]


def test_work_of_helper_threads_is_pre_processing_and_their_waiting_is_contention() -> None:
    minibatches, workers = record(lambda batch: BatchCost(blocked=40_000), 100, 1, 5_000)
    workers = with_columns(workers, helpers_us=np.full(100, 60_000), helpers_queued_us=np.full(100, 20_000))
    parts = break_down(minibatches)
    said = attribute(minibatches, workers, parts.rows, parts.stall_s)
    check_law(said, parts.stall_s)
    total = parts.stall_s[1:].sum()
    assert said.preprocess_s[1:].sum() / total == pytest.approx(0.75, abs=0.05)
    assert said.contention_s[1:].sum() / total == pytest.approx(0.25, abs=0.05)


def test_kernel_time_of_a_fetch_that_reached_the_medium_is_storage() -> None:
    minibatches, workers = record(lambda batch: BatchCost(blocked=10_000, cpu=30_000), 100, 1, 5_000)
    cold = with_columns(workers, read_bytes=np.full(100, 1 << 20), system_us=np.full(100, 20_000))
    warm = with_columns(cold, read_bytes=np.zeros(100, np.int64))
    parts = break_down(minibatches)
    for columns, expected in ((cold, 0.75), (warm, 0.25)):
        said = attribute(minibatches, columns, parts.rows, parts.stall_s)
        assert said.blocked_s[1:].sum() / parts.stall_s[1:].sum() == pytest.approx(expected, abs=0.05)


def test_a_sender_starved_by_its_own_worker_is_pre_processing() -> None:
    minibatches, workers = record(lambda batch: BatchCost(cpu=30_000, pickling=25_000), 100, 1, 5_000)
    starved = with_columns(workers, feeder_cpu_us=np.full(100, 100))
    parts = break_down(minibatches)
    said = attribute(minibatches, starved, parts.rows, parts.stall_s)
    assert said.preprocess_s[2:].sum() / parts.stall_s[2:].sum() > 0.9


def test_under_high_steal_there_is_no_verdict_but_a_doubt() -> None:
    minibatches, workers = record(lambda batch: BatchCost(cpu=30_000), 50, 1, 5_000)
    parts = break_down(minibatches)
    said = attribute(minibatches, workers, parts.rows, parts.stall_s, steal_share=2 * MAX_STEAL)
    assert not said.verdict
    assert [doubt.kind for doubt in said.doubts] == ["steal"]
    stolen = with_columns(workers, stolen_us=np.full(50, 9_000))
    assert not attribute(minibatches, stolen, parts.rows, parts.stall_s).verdict
    quiet = attribute(minibatches, workers, parts.rows, parts.stall_s, steal_share=0.01)
    assert quiet.verdict and not quiet.doubts


def test_under_moderate_steal_the_causes_are_given_with_a_doubt() -> None:
    minibatches, workers = record(lambda batch: BatchCost(cpu=30_000), 50, 1, 5_000)
    parts = break_down(minibatches)
    said = attribute(minibatches, workers, parts.rows, parts.stall_s, steal_share=0.1)
    assert said.verdict and said.preprocess_s.sum() > 0
    assert [(doubt.kind, "uncertain" in doubt.text) for doubt in said.doubts] == [("steal", True)]


def test_without_most_of_the_workers_rows_there_is_no_verdict() -> None:
    minibatches, workers = record(lambda batch: BatchCost(cpu=30_000), 50, 1, 5_000)
    parts = break_down(minibatches)
    few = workers.take(slice(20))
    assert not attribute(minibatches, few, parts.rows, parts.stall_s).verdict
    most = workers.take(slice(45))
    said = attribute(minibatches, most, parts.rows, parts.stall_s)
    assert said.verdict
    check_law(said, parts.stall_s)
    assert not attribute(minibatches, ArrayTable(), parts.rows, parts.stall_s).verdict


def test_a_training_longer_than_its_blocks_is_judged_by_even_picks() -> None:
    count = BLOCK * (MAX_BLOCKS + 500)

    def cost(batch: int) -> BatchCost:
        return BatchCost(blocked=20_000) if batch < count // 2 else BatchCost(cpu=20_000)

    minibatches, workers = record(cost, count, 1, 5_000)
    parts = break_down(minibatches)
    said = attribute(minibatches, workers, parts.rows, parts.stall_s)
    check_law(said, parts.stall_s)
    assert said.blocked_s.sum() / parts.stall_s.sum() == pytest.approx(0.5, abs=0.01)
    assert said.preprocess_s[: count // 2 - BLOCK].sum() < 0.02 * said.blocked_s.sum()


@pytest.mark.parametrize("seed", range(8))
def test_for_any_mixture_the_parts_are_near_what_vanishes(seed: int) -> None:
    random = np.random.default_rng(seed)
    means = random.dirichlet(np.ones(3)) * 40_000
    costs = random.gamma(4.0, means / 4.0, (400, 3)).astype(int)
    workers = int(random.integers(0, 4))

    def cost(batch: int) -> BatchCost:
        return BatchCost(*costs[batch].tolist())

    said, stall = shares(cost, workers, minibatches=400)
    assert stall > 0.2  # there is something to explain
    # What vanishes with each cause, scaled to one: an independent reading of the same counterfactual.
    vanish = []
    for cause in ("blocked", "preprocess", "contention"):
        removed = shares(lambda batch, cause=cause: cost(batch).without(NAMES[cause]), workers, minibatches=400)[1]
        vanish.append(stall - removed)
    for cause, expected in zip(("blocked", "preprocess", "contention"), np.array(vanish) / sum(vanish), strict=True):
        assert said[cause] == pytest.approx(expected, abs=0.12)


def test_random_pipelines_keep_the_laws() -> None:
    assert "parts summed to the stall" in torture.run(40, seed=7)
