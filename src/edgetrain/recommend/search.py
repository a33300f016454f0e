"""Guided search: a board in front of you, one limit, no table and no prior. Measure, move, prune.

A few modes chosen to tell most about any network come first; from then on each mode measured is the one
expected to bring most within the limit, and everything measured is fitted anew. The fit brings only the physics
of power modes, nothing learned from other networks. What is returned was seen within the limits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from edgetrain.errors import UsageError
from edgetrain.predict import Prior, choose_modes, fit
from edgetrain.predict.base import ModeTable, Predictions
from edgetrain.recommend.confirm import Confirmed, confirm
from edgetrain.recommend.goals import Goal
from edgetrain.recommend.outlook import SELECTION_FACTOR, Candidates
from edgetrain.schema import Measure, ModeMeasurement

FIRST_MODES = 3  # modes measured before the limit is aimed at; the fit needs a few to stand on


def search(
    modes: ModeTable,
    goal: Goal,
    measure: Measure,
    count: int,
    seed: int = 0,
    prior: Prior | None = None,
    first: int = FIRST_MODES,
    factor: float = SELECTION_FACTOR,
) -> Confirmed:
    """Return the best mode found within the goal's limits by measuring at most `count` modes."""
    if len(modes) < 2:
        raise UsageError("there is only one mode, so there is nothing to search; measure it")
    if count < 2:
        raise UsageError(f"a search needs at least 2 measurements, not {count}")
    bare = replace(modes, time_s=None, time_mean_s=None, power_w=None)
    count = min(count, len(bare))
    opening = choose_modes(bare, min(first, count), prior=prior, seed=seed)
    seen = {row: measure(bare.mode(row)) for row in opening}

    def refit(known: Mapping[int, ModeMeasurement]) -> Predictions:
        return fit(as_profiled(bare, known), prior, seed, bare).predict(bare)

    candidates = Candidates.of(bare, refit(seen), seen)
    return confirm(candidates, goal, measure, count - len(seen), refit, factor)


def as_profiled(modes: ModeTable, seen: Mapping[int, ModeMeasurement]) -> ModeTable:
    """Return what was measured as a table to fit from."""
    rows = sorted(seen)
    means = [seen[row].time_mean_s for row in rows]
    whole = [mean for mean in means if mean is not None]
    return replace(
        modes.take(np.array(rows)),
        time_s=np.array([seen[row].time_s for row in rows]),
        time_mean_s=np.array(whole) if len(whole) == len(rows) else None,
        power_w=np.array([seen[row].power_w for row in rows]),
    )
