"""A seeded sample of the kills; `make torture` does the full counts."""

import os

import pytest

from edgetrain.lab import find_mechanisms


@pytest.fixture(autouse=True)
def able():
    if os.geteuid() != 0 or find_mechanisms().lacks:
        pytest.skip("needs root and FUSE")


def test_a_killed_holder_of_the_lab_leaves_nothing():
    from tests.torture import lab

    assert "removed" in lab.run(4, 3)


def test_a_killed_campaign_resumes_to_exactly_the_planned_runs():
    pytest.importorskip("torch")
    from tests.torture import campaign

    assert "none lost" in campaign.run(2, 1)
