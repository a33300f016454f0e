"""What-if questions from the live page: points come first, intervals follow, models are kept."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping

import pytest

from edgetrain.api.serving import PointsFirst, WhatIfModels
from edgetrain.record import FolderStore

pytest.importorskip("starlette")
from edgetrain.live import WhatIfPoint


class Slow:
    """Answers points at once and intervals in many short simulations."""

    made = 0

    def __init__(self, run: str, store: FolderStore) -> None:
        Slow.made += 1
        self.simulating = threading.Event()
        self.go_on = threading.Event()
        self.simulations: list[str] = []

    def point(self, changes: Mapping[str, str]) -> WhatIfPoint:
        before = len(self.simulations)
        time.sleep(0.1)  # an interval that does not wait would go on meanwhile
        assert len(self.simulations) <= before + 1
        return WhatIfPoint("point", 1.0, None, None, 0.0)

    def with_interval(self, changes: Mapping[str, str], pause: Callable[[], None]) -> WhatIfPoint:
        while not self.go_on.is_set():
            pause()
            self.simulations.append("one")
            self.simulating.set()
            time.sleep(0.002)
        return WhatIfPoint("interval", 1.0, 0.5, 1.5, 0.0)


def test_a_point_does_not_wait_for_an_interval_in_progress_which_waits_for_it(tmp_path) -> None:
    models = WhatIfModels(FolderStore(tmp_path), Slow)
    answers: list[WhatIfPoint | None] = []
    asking = threading.Thread(target=lambda: answers.append(models.answer("a", {}, interval=True)))
    asking.start()
    model = models._model("a", Slow)
    assert isinstance(model, Slow) and model.simulating.wait(5)
    point = models.answer("a", {}, interval=False)
    assert point is not None and point.lo_s is None and not answers
    model.go_on.set()
    asking.join(5)
    assert answers[0] is not None and answers[0].lo_s == 0.5


def test_an_interval_is_not_kept_waiting_for_ever() -> None:
    turns = PointsFirst()
    with turns.point():
        began = time.monotonic()
        turns.pause()
    assert 0.9 < time.monotonic() - began < 5


def test_a_model_is_made_once_and_few_are_kept(tmp_path) -> None:
    Slow.made = 0
    models = WhatIfModels(FolderStore(tmp_path), Slow, most=2)
    for run in ("a", "b", "a", "c", "a"):
        models._model(run, Slow)
    assert Slow.made == 3
    models._model("b", Slow)
    assert Slow.made == 4


def test_points_and_intervals_of_a_recorded_run_agree(record) -> None:
    run = record(epochs=3, minibatches=60)
    models = WhatIfModels(FolderStore(record.store))
    for changes in ({}, {"workers": "4"}, {"workers": "0", "batch_size": "32"}):
        point, whole = (models.answer(run, changes, interval) for interval in (False, True))
        assert point is not None and whole is not None and "interval follows" in point.said
        assert point.total_s == whole.total_s and point.gain_pct == pytest.approx(whole.gain_pct)
        assert whole.lo_s is not None and whole.hi_s is not None and whole.lo_s < whole.total_s < whole.hi_s
