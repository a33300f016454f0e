"""Predicts time, power and energy of settings nobody tried from the few that somebody did.

`fit` takes a handful of profiled power modes and returns a Predictor for every mode of the board; `choose_modes` says
which handful; `load_prior` brings what other networks taught.
"""

from __future__ import annotations

from edgetrain.predict.base import Estimate, ModeTable, Predictions, Predictor
from edgetrain.predict.modes.design import plan_modes
from edgetrain.predict.modes.fit import Fitted, fit_modes
from edgetrain.predict.modes.prior import Prior, load_prior
from edgetrain.predict.modes.saved import dump_predictor, parse_predictor
from edgetrain.predict.table import read_table, write_table

__all__ = [
    "Estimate",
    "ModeTable",
    "Predictions",
    "Predictor",
    "Prior",
    "choose_modes",
    "dump_predictor",
    "fit",
    "load_prior",
    "parse_predictor",
    "read_table",
    "write_table",
]


def fit(profiled: ModeTable, prior: Prior | None = None, seed: int = 0, board: ModeTable | None = None) -> Fitted:
    """Learn from profiled modes; `board` (all modes there are) tells the largest clocks if they were not profiled."""
    return fit_modes(profiled, prior, seed, board)


def choose_modes(
    candidates: ModeTable,
    count: int,
    profiled: ModeTable | None = None,
    prior: Prior | None = None,
    seed: int = 0,
    board: ModeTable | None = None,
) -> list[int]:
    """Return the rows of `candidates` to profile next, most telling first."""
    return plan_modes(candidates, count, profiled, prior, seed, board).rows
