"""What a fetch costs where it is made: by a worker, or by the loop with its intra-op threads."""

import numpy as np
import pytest

from edgetrain.prediction import HandOver, PipelineCosts, StepCosts, StepKind

LARGE, SMALL = 16 * 600e3, 16 * 3e3  # bytes of a minibatch of 16 samples


def costs(in_loop, minibatch_bytes=LARGE, wait_s=0.0, helper_share=0.0, collate_s=0.006):
    return PipelineCosts(
        batch_size=16,
        fetch_cpu_s=np.full(8, 0.070),
        fetch_wait_s=np.full(8, wait_s),
        fetch_fixed_s=0.0,
        cold_cpu_s=0.0,
        collate_s=collate_s,
        hand_over=HandOver(0.0, 0.0, 0.0, 0.0),
        step=StepCosts(StepKind.PACED, np.full(8, 0.030)),
        minibatch_bytes=minibatch_bytes,
        in_loop=in_loop,
        helper_share=helper_share,
    )


@pytest.mark.parametrize(("in_loop", "workers"), [(True, 0), (False, 1), (False, 4)])
def test_costs_stay_as_recorded_where_the_same_process_fetches(in_loop, workers):
    recorded = costs(in_loop)
    assert recorded.made_by(workers, 16) is recorded


def test_a_loop_collates_faster_than_a_worker_that_writes_to_shared_memory():
    by_worker = costs(False, SMALL)
    by_loop = by_worker.made_by(0, 1)
    assert by_loop.collate_s < by_worker.collate_s
    saved_s = by_worker.collate_s - by_loop.collate_s
    assert by_loop.fetch_cpu_s == pytest.approx(by_worker.fetch_cpu_s - saved_s)


@pytest.mark.parametrize("minibatch_bytes", [SMALL, LARGE])
def test_there_and_back_is_the_same_on_one_thread(minibatch_bytes):
    recorded = costs(False, minibatch_bytes)
    again = recorded.made_by(0, 1).made_by(2, 1)
    assert again.fetch_cpu_s == pytest.approx(recorded.fetch_cpu_s)
    assert again.collate_s == pytest.approx(recorded.collate_s)


def test_intra_op_threads_slow_the_loops_own_fetches_of_large_samples_alone():
    one, many = (costs(False, LARGE).made_by(0, threads).fetch_cpu_s.mean() for threads in (1, 16))
    assert many > 1.1 * one
    one, many = (costs(False, SMALL).made_by(0, threads).fetch_cpu_s.mean() for threads in (1, 16))
    assert many == one


def test_workers_do_not_wait_for_the_loops_helper_threads():
    recorded = costs(True, wait_s=0.010, helper_share=0.75)
    assert recorded.made_by(2, 16).fetch_wait_s.mean() == pytest.approx(0.0025)
    assert recorded.made_by(0, 16).fetch_wait_s.mean() == pytest.approx(0.010)
