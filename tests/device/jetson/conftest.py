"""Boards to test on."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgetrain.device.jetson.board import JetsonDevice
from tests import boards


@pytest.fixture(params=boards.PAIRS)
def pair(request: pytest.FixtureRequest, tmp_path: Path) -> JetsonDevice:
    """Each of the eight pairs of board and JetPack."""
    return boards.open_fixture(request.param, tmp_path / "root")


@pytest.fixture
def orin(tmp_path: Path) -> JetsonDevice:
    return boards.open_fixture("orin-agx-jp5", tmp_path / "root")
