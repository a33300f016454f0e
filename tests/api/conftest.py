"""A small board that is a table, as files and in memory."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from edgetrain.prediction import ModeTable, bare, write_table
from tests.recommendation.conftest import make_board

ROWS = [0, 13, 27, 38, 50, 61, 77, 95]


@dataclass(frozen=True)
class Files:
    """A board of 96 modes: all of them measured, eight profiled, and the modes alone."""

    truth: Path
    profiled: Path
    modes: Path
    board: ModeTable

    @property
    def table(self) -> ModeTable:
        return self.board.take(ROWS)


@pytest.fixture
def files(tmp_path: Path) -> Files:
    board = make_board()
    found = Files(tmp_path / "truth.csv", tmp_path / "profiled.csv", tmp_path / "modes.csv", board)
    found.truth.write_text(write_table(board))
    found.profiled.write_text(write_table(board.take(ROWS)))
    found.modes.write_text(write_table(bare(board)))
    return found
