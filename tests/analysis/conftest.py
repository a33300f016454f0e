"""Small records made by hand, as columns."""

import numpy as np
import pytest

from edgetrain.record import ArrayTable


@pytest.fixture
def minibatches():
    """Return a function that makes minibatch columns from rows of instants (µs); -1 is null."""

    def make(rows, epoch=None, phase=1):
        rows = np.asarray(rows, np.int64)
        count = len(rows)
        names = ("asked_us", "ready_us", "copying_us", "copied_us", "launched_us", "done_us")
        columns = {name: rows[:, place] for place, name in enumerate(names)}
        columns["epoch"] = np.zeros(count, np.int64) if epoch is None else np.asarray(epoch, np.int64)
        columns["generation"] = columns["epoch"].copy()
        columns["batch"] = np.arange(count, dtype=np.int64)
        columns["loader"] = np.zeros(count, np.int64)
        columns["phase"] = np.full(count, phase, np.int64)
        columns["sent_us"] = np.full(count, -1, np.int64)
        columns["worker"] = np.full(count, -1, np.int64)
        columns["samples"] = np.full(count, 16, np.int64)
        return ArrayTable(columns)

    return make
