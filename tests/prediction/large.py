"""A board with as many modes as asked."""

from __future__ import annotations

import numpy as np

from edgetrain.prediction import ModeTable


def large_board(count: int, seed: int = 0) -> ModeTable:
    """Return random modes within the usual clocks."""
    rng = np.random.default_rng(seed)
    return ModeTable(
        rng.integers(1, 13, count).astype(float),
        np.round(rng.uniform(0.1e9, 2.2e9, count)),
        np.round(rng.uniform(0.1e9, 1.3e9, count)),
        np.round(rng.uniform(0.2e9, 3.2e9, count)),
    )
