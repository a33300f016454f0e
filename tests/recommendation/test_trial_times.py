"""What is read from one trial's record, and which doubts are only those of its end by SIGKILL."""

from __future__ import annotations

import numpy as np
import pytest

from edgetrain.analysis import find_loops
from edgetrain.recommendation import measure_trial
from edgetrain.recommendation.trial_times import steady_reads
from edgetrain.record import LoaderFacts, Manifest, Process, ProcessFacts, Run
from edgetrain.record.facts import ThreadCost
from edgetrain.record.table import ArrayTable

EACH_US = 10_000
WARM_UP = 8


def trial(
    count: int = 40, read: tuple[int, ...] = (), loaders: int = 1, ended: bool = False, lost: tuple[str, ...] = ()
) -> Run:
    """Return a loop of 10 ms per minibatch; `read` are the bytes of the first fetches."""
    asked_us = np.arange(count, dtype=np.int64) * EACH_US
    made = np.arange(count) * loaders // count
    rows = ArrayTable(
        {
            "epoch": made,
            "batch": np.arange(count),
            "loader": made,
            "generation": np.zeros(count, np.int64),
            "phase": np.ones(count, np.int64),
            "asked_us": asked_us,
            "ready_us": asked_us + 1000,
            "copied_us": asked_us + 1000,
            "launched_us": asked_us + 2000,
            "done_us": asked_us + 9000,
        }
    )
    fetches = {
        "loader": made[: len(read)],
        "fetched_us": asked_us[: len(read)] + 900,
        "read_bytes": np.array(read, np.int64),
    }
    facts = ProcessFacts(
        ended=ended,
        main_thread_cost=ThreadCost(minibatches=count + 5),
        loaders=tuple(LoaderFacts(loader=one, workers=0, made_at=("a",)) for one in range(loaders)),
    )
    return Run(
        "run",
        Manifest(state="complete"),
        (Process(facts=facts, minibatches=rows, workers=ArrayTable(fetches)),),
        lost=lost,
    )


@pytest.mark.parametrize(("read", "expected"), [((5_000_000,) * 4 + (0,) * 36, 0.0), ((1_000_000,) * 40, 1e8)])
def test_what_is_read_in_warm_up_is_not_taken_for_data(read: tuple[int, ...], expected: float) -> None:
    (loop,) = find_loops(trial(read=read))
    assert steady_reads(loop, WARM_UP) == pytest.approx(expected, rel=0.1)


def test_rows_that_the_kill_of_a_trial_cut_off_are_no_doubt_and_others_are() -> None:
    kinds = [doubt.kind for doubt in measure_trial(trial(), WARM_UP, None).doubts]
    assert "lost" not in kinds and "killed" not in kinds
    assert "lost" in [doubt.kind for doubt in measure_trial(trial(ended=True), WARM_UP, None).doubts]
    damaged = measure_trial(trial(lost=("workers-7.ets: 9 bytes could not be read",)), WARM_UP, None).doubts
    assert [doubt.text for doubt in damaged if doubt.kind == "lost"] == ["workers-7.ets: 9 bytes could not be read"]


def test_a_loader_that_is_made_for_each_pass_is_noticed() -> None:
    assert not measure_trial(trial(), WARM_UP, None).made_anew
    assert measure_trial(trial(loaders=3), WARM_UP, None).made_anew
