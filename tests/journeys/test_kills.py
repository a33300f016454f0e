"""A few of the kills that `make torture` makes many of."""

import pytest

from tests.torture import kills

pytest.importorskip("torch")


def test_a_killed_run_leaves_a_readable_record():
    assert "every record opened" in kills.run(3, seed=5)
