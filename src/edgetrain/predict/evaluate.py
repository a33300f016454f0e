"""How wrong prediction is: a table whose truth is known, a few modes seen, all the others predicted.

A seed restricts what may be profiled to a random quarter of the table; the method sees the N modes chosen from it and
nothing else. Errors are over the modes it did not see. All figures are percentages.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from edgetrain.errors import UsageError
from edgetrain.predict.base import Array, ModeTable, Predictions, Predictor, bare
from edgetrain.predict.intervals import LEVEL, bounds, energy, interval_score
from edgetrain.predict.modes.design import plan_modes
from edgetrain.predict.modes.fit import fit_modes
from edgetrain.predict.modes.prior import Prior

QUANTITIES = ("time", "power", "energy")
Fit = Callable[[ModeTable, ModeTable, int], Predictor]  # profiled, the whole board without results, seed


@dataclass(frozen=True, slots=True)
class Method:
    """A way to predict, and whether its intervals mean anything."""

    name: str
    fit: Fit
    has_intervals: bool = True


def physics(prior: Prior) -> Method:
    """Return our own method under a prior."""
    return Method("physics", lambda profiled, board, seed: fit_modes(profiled, prior, seed, board))


def evaluate(
    table: ModeTable,
    profile: int,
    seeds: int | Sequence[int],
    prior: Prior,
    methods: Sequence[Method] | None = None,
    random_modes: bool = False,
) -> dict[str, Any]:
    """Return errors, coverage and cost for each method, by name; all methods see the same modes."""
    if table.time_s is None or table.power_w is None:
        raise UsageError("evaluating needs the time and power of every mode of the table")
    quarter = max(profile, -(-len(table) // 4))
    if profile < 2 or profile >= len(table):
        raise UsageError(
            f"--profile must be from 2 to {len(table) - 1} for a table of {len(table)} modes, not {profile}"
        )
    listed = list(range(seeds)) if isinstance(seeds, int) else list(seeds)
    if not listed:
        raise UsageError("--seeds must be at least 1")
    board = bare(table)
    methods = [physics(prior)] if methods is None else methods
    gathered: dict[str, list[dict[str, Any]]] = {method.name: [] for method in methods}
    chosen: list[list[int]] = []
    plan_s: list[float] = []
    for seed in listed:
        rng = np.random.default_rng(seed)
        allowed = np.sort(rng.choice(len(table), quarter, replace=False))
        begun = time.perf_counter()
        if random_modes:
            rows = rng.choice(allowed, profile, replace=False)
        else:
            rows = allowed[plan_modes(board.take(allowed), profile, prior=prior, seed=seed, board=board).rows]
        plan_s.append(time.perf_counter() - begun)
        chosen.append([int(row) for row in rows])
        unseen = np.setdiff1d(np.arange(len(table)), rows)
        for method in methods:
            begun = time.perf_counter()
            predictor = method.fit(table.take(rows), board, seed)
            predictions = predictor.predict(board)
            seconds = time.perf_counter() - begun
            gathered[method.name].append({"fit_s": seconds, **_errors(table, predictions, unseen, method)})
    out: dict[str, Any] = {name: _sum_up(found) for name, found in gathered.items()}
    for document in out.values():
        document["plan_s"] = float(np.mean(plan_s))
    return {"methods": out, "profiled_rows": chosen, "seeds": listed}


def _errors(table: ModeTable, predictions: Predictions, unseen: Array, method: Method) -> dict[str, Any]:
    """Return what one seed found, in per cent."""
    assert table.time_s is not None and table.power_w is not None
    # Energy per epoch follows the mean minibatch, where the table has it.
    paced = table.time_s if table.time_mean_s is None else table.time_mean_s
    joules, joules_sd = energy(predictions)
    pairs = {
        "time": (table.time_s, predictions.time_s, predictions.time_log_sd),
        "power": (table.power_w, predictions.power_w, predictions.power_log_sd),
        "energy": (paced * table.power_w, joules, joules_sd),
    }
    out: dict[str, Any] = {}
    for quantity, (truth, value, log_sd) in pairs.items():
        truth, value, log_sd = truth[unseen], value[unseen], log_sd[unseen]
        wrong = 100.0 * np.abs(value / truth - 1.0)
        out[quantity] = {
            "mape": float(wrong.mean()),
            "median": float(np.median(wrong)),
            "p95": float(np.quantile(wrong, 0.95)),
        }
        if method.has_intervals:
            lo, hi = bounds(value, log_sd, predictions.dof, LEVEL)
            out[quantity] |= {
                "coverage90": 100.0 * float(((truth >= lo) & (truth <= hi)).mean()),
                "width90": 100.0 * float(((hi - lo) / truth).mean()),
                "score90": 100.0 * float(interval_score(truth, lo, hi).mean()),
            }
    return out


def _sum_up(found: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return means over seeds beside the value of each seed."""
    out: dict[str, Any] = {}
    for quantity in QUANTITIES:
        out[quantity] = {}
        for figure in ("mape", "median", "p95"):
            values = [seed[quantity][figure] for seed in found]
            out[quantity][figure] = {"mean": float(np.mean(values)), "per_seed": values}
    for figure in ("coverage90", "width90", "score90"):
        if figure not in found[0]["time"]:
            out[figure] = None
            continue
        out[figure] = {q: float(np.mean([seed[q][figure] for seed in found])) for q in QUANTITIES}
        out[figure]["per_seed"] = {q: [seed[q][figure] for seed in found] for q in QUANTITIES}
    seconds = [seed["fit_s"] for seed in found]
    out["fit_s"], out["fit_s_per_seed"] = float(np.mean(seconds)), seconds
    return out
