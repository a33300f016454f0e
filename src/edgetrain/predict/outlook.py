"""What profiling costs, and what it would leave untold: for the plan, before anything is measured."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from edgetrain.predict.base import ModeTable
from edgetrain.predict.modes.design import plan_modes
from edgetrain.predict.modes.fit import fit_modes
from edgetrain.predict.modes.physics import TOP, Features, Reference, log_time
from edgetrain.predict.modes.prior import Prior


@dataclass(frozen=True, slots=True)
class Cost:
    """What profiling some modes takes; None where the time of a minibatch is not known yet."""

    switching_s: float
    training_s: float | None
    minibatches: int


def cost_of(
    chosen: ModeTable,
    profiled: ModeTable | None,
    prior: Prior,
    seed: int,
    minibatches: int,
    minibatch_ms: float | None,
    switch_s: float,
) -> Cost:
    """Return the cost: from what is profiled if anything is, else from the top mode's minibatch, if that is known."""
    training = None
    if profiled is not None and profiled.time_s is not None and len(profiled) >= 2:
        predicted = fit_modes(profiled, prior, seed, chosen).predict(chosen)
        times = predicted.time_s if predicted.time_mean_s is None else predicted.time_mean_s
        training = minibatches * float(times.sum())
    elif minibatch_ms is not None:
        theta = prior.time().mean[None]
        log_ratio = log_time(theta, Features.of(chosen, Reference.of(chosen)))[0] - log_time(theta, TOP)[0]
        training = minibatches * minibatch_ms / 1e3 * float(np.exp(log_ratio).sum())
    return Cost(switch_s * len(chosen), training, minibatches)


def never_varied(profiled: ModeTable, board: ModeTable, prior: Prior, seed: int) -> list[str]:
    """Name the clocks that were never varied although the board varies them, and the mode that would tell most."""
    named = {
        "cores": "the number of cores",
        "cpu_hz": "the CPU clock",
        "gpu_hz": "the GPU clock",
        "emc_hz": "the memory clock",
    }
    fixed = [
        words
        for column, words in named.items()
        if np.ptp(getattr(profiled, column)) == 0 and np.ptp(getattr(board, column)) > 0
    ]
    if not fixed or len(profiled) < 2:
        return []
    best = plan_modes(board, 1, profiled, prior, seed).rows[0]
    return [f"{' and '.join(fixed)} never varied, so intervals are wide; profiling {board.mode(best)} would tell most"]
