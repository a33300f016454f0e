"""What every room's tests may use: small recorded runs, made by the same writer that real runs use."""

import signal
from pathlib import Path

import pytest

from tests.recording import write_record

# Begun in the background of a script, this process ignores Ctrl-C and so would every process that the tests start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def record(tmp_path: Path):
    """Return a function that writes a small run into a store folder and returns the run's id."""

    def write(**settings):
        return write_record(tmp_path / "store", **settings)

    write.store = tmp_path / "store"
    return write
