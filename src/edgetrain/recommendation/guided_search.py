"""Guided search: finds a mode within limits by measuring, without a table or a prior.

A few modes that are informative about any network come first; from then on each measured mode is the one with the
largest expected gain within the limits, and everything measured is fitted again. The fit uses only the physical model,
nothing learned from other networks. The returned mode was measured within the limits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from edgetrain.errors import UsageError
from edgetrain.prediction import ModeTable, Predictions, Prior, bare, choose_modes, fit
from edgetrain.recommendation.assessment import SELECTION_FACTOR, Candidates
from edgetrain.recommendation.confirmation import Confirmed, confirm
from edgetrain.recommendation.goals import Goal
from edgetrain.schema import Measure, ModeMeasurement

FIRST_MODES = 3  # modes measured before the limit is taken into account; the fit needs a few


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
    plain = bare(modes)
    count = min(count, len(plain))
    opening = choose_modes(plain, min(first, count), prior=prior, seed=seed)
    seen = {row: measure(plain.mode(row)) for row in opening}

    def refit(known: Mapping[int, ModeMeasurement]) -> Predictions:
        return fit(_as_profiled(plain, known), prior, seed, plain).predict(plain)

    candidates = Candidates.of(plain, refit(seen), seen)
    return confirm(candidates, goal, measure, count - len(seen), refit, factor)


def _as_profiled(modes: ModeTable, seen: Mapping[int, ModeMeasurement]) -> ModeTable:
    """Return the measured modes with their results, as a table to fit."""
    rows = sorted(seen)
    found = ModeTable.of_measurements([seen[row] for row in rows])
    return replace(modes.take(rows), time_s=found.time_s, time_mean_s=found.time_mean_s, power_w=found.power_w)
