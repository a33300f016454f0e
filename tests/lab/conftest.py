"""What the tests of a real lab need: root, FUSE, and a folder of one's own."""

import os
from pathlib import Path

import pytest

from edgetrain.lab import find_mechanisms, find_sessions, take_down


@pytest.fixture
def own_lab(tmp_path, monkeypatch):
    """Keep this test's sessions and images apart from any other lab on the machine."""
    if os.geteuid() != 0:
        pytest.skip("needs root")
    lacks = find_mechanisms().lacks
    if lacks:
        pytest.skip("; ".join(lacks.values()))
    monkeypatch.setenv("EDGETRAIN_LAB_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("EDGETRAIN_LAB_IMAGES", str(tmp_path / "images"))
    yield tmp_path
    for session in find_sessions():  # what a failed test left
        take_down(session)


@pytest.fixture
def files(tmp_path) -> Path:
    """A dataset: 40 files of 100 kB in two folders."""
    folder = tmp_path / "dataset"
    for number in range(40):
        path = folder / str(number % 2) / f"{number:03d}.bin"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(os.urandom(100_000))
    return folder
