"""A small made-up board whose truth is known exactly, and predictions of it that are wrong by a known spread."""

from __future__ import annotations

import csv
import itertools
import os
from pathlib import Path

import numpy as np
import pytest

from edgetrain.prediction import ModeTable, Predictions


def make_board(scale_time: float = 1.0, scale_power: float = 1.0, cores=(2, 4, 6), seed: int = 0) -> ModeTable:
    """Return 3 x 4 x 4 x 2 modes with a loader-or-GPU-bound time and static plus dynamic power."""
    cpu, gpu, emc = (0.4e9, 0.8e9, 1.2e9, 1.6e9), (0.2e9, 0.5e9, 0.8e9, 1.1e9), (0.7e9, 2.1e9)
    rows = np.array(list(itertools.product(cores, cpu, gpu, emc)), dtype=float)
    c, fc, fg, fm = rows.T
    noise = np.random.default_rng(seed).standard_normal((2, len(rows)))
    accelerator = ((0.06e9 / fg) ** 4 + (0.05e9 / fm) ** 4) ** 0.25
    time_s = (accelerator**4 + (0.1e9 / (fc * c**0.8)) ** 4) ** 0.25 * np.exp(0.01 * noise[0])
    power_w = (4 + 1.2 * (fm / 2.1e9) + 0.5 * c * (fc / 1.6e9) ** 2 + 3 * (fg / 1.1e9) ** 2 + 0.25 / time_s) * np.exp(
        0.005 * noise[1]
    )
    return ModeTable(c, fc, fg, fm, None, time_s * scale_time, time_s * 1.02 * scale_time, power_w * scale_power)


def make_predictions(
    board: ModeTable, time_sd: float = 0.05, power_sd: float = 0.03, seed: int = 0, dof: float = 8.0, wrong: bool = True
) -> Predictions:
    """Return predictions off by the spread they admit to."""
    assert board.time_s is not None and board.power_w is not None
    draws = np.random.default_rng(seed).standard_t(dof, (2, len(board))) if wrong else np.zeros((2, len(board)))
    return Predictions(
        board.time_s * np.exp(time_sd * draws[0]),
        board.time_s * 1.02 * np.exp(time_sd * draws[0]),
        board.power_w * np.exp(power_sd * draws[1]),
        np.full(len(board), time_sd),
        np.full(len(board), power_sd),
        -0.3,
        dof,
        np.zeros(len(board), dtype=bool),
    )


@pytest.fixture
def board() -> ModeTable:
    return make_board()


@pytest.fixture
def predictions(board: ModeTable) -> Predictions:
    return make_predictions(board)


def shared_folder() -> Path:
    """Return the folder with published tables, or skip: they are not part of this repository."""
    root = Path(os.environ.get("EDGETRAIN_SHARED", Path(__file__).parents[2] / ".." / "shared"))
    if not (root / "data" / "jetson").is_dir():
        pytest.skip("the published tables are not here")
    return root / "data" / "jetson"


def published_modes(network: str) -> tuple[list[str], np.ndarray, np.ndarray]:
    """Return names, epoch times (s) and energies (mWh) of AGX Xavier's modes, from the digitised figure 9."""
    path = shared_folder().parents[1] / "reference" / "published_numbers.csv"
    found: dict[str, dict[str, float]] = {}
    with path.open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if row["source"] in ("SIGMETRICS23 Fig9a", "SIGMETRICS23 Fig9b") and row["workload"] == network:
                found.setdefault(row["power_mode"], {})[row["metric"]] = float(row["value"])
    names = sorted(found)
    return names, np.array([found[n]["e2e"] for n in names]), np.array([found[n]["energy"] for n in names])
