"""What every room's tests may use: small recorded runs, made by the same writer that real runs use."""

from pathlib import Path

import pytest

from tests.recording import write_record


@pytest.fixture
def record(tmp_path: Path):
    """Return a function that writes a small run into a store folder and returns the run's id."""

    def write(**settings):
        return write_record(tmp_path / "store", **settings)

    write.store = tmp_path / "store"
    return write
