"""What the tests of every package may use: small recorded runs, made by the same writer that real runs use."""

import os
import signal
import tempfile
from pathlib import Path

import pytest

from tests.recording import write_record

# Started in the background of a script this process ignores Ctrl-C, started by nohup it ignores SIGHUP, and so would
# every process that the tests start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

# Simulated boards that the tests open by name are built anew, and never those of the person who runs the tests.
_BOARDS = tempfile.TemporaryDirectory(prefix="edgetrain-boards-")
os.environ["EDGETRAIN_SIM_HOME"] = _BOARDS.name


# Files with few but long tests; begun first, so that no process of several has a long one left at the end.
_LONG = ("loops", "journeys", "fleet", "inside", "lab", "live", "packaging", "docs", "runner", "api")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the folders with long tests first; the order within a file stays."""
    root = Path(__file__).parent
    items.sort(key=lambda item: item.path.relative_to(root).parts[0] not in _LONG)


@pytest.fixture
def record(tmp_path: Path):
    """Return a function that writes a small run into a store folder and returns the run's id."""

    def write(**settings):
        return write_record(tmp_path / "store", **settings)

    write.store = tmp_path / "store"
    return write
