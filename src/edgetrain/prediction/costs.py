"""What profiling some modes would cost, and which clocks the profiled modes leave undetermined."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from edgetrain.prediction.base import FACTORS, ModeTable, varies
from edgetrain.prediction.modes.design import plan_modes
from edgetrain.prediction.modes.fit import fit_modes
from edgetrain.prediction.modes.physics import TOP, Features, ReferenceMode, log_time
from edgetrain.prediction.modes.prior import Prior
from edgetrain.units import MS_PER_S

S_PER_MIN = 60.0


@dataclass(frozen=True, slots=True)
class ProfilingCost:
    """How long profiling some modes takes; None where the time of a minibatch is not known yet."""

    switching_min: float  # switching and settling
    training_min: float | None
    minibatches: int  # per mode


def profiling_cost(
    chosen: ModeTable,
    profiled: ModeTable | None,
    prior: Prior,
    seed: int,
    minibatches: int,
    minibatch_ms: float | None,
    switch_s: float,
) -> ProfilingCost:
    """Return the cost: from the profiled modes if there are any, else from the top mode's minibatch if it is known."""
    training_s = None
    if profiled is not None and profiled.time_s is not None and len(profiled) >= 2:
        predicted = fit_modes(profiled, prior, seed, chosen).predict(chosen)
        times = predicted.time_s if predicted.time_mean_s is None else predicted.time_mean_s
        training_s = minibatches * float(times.sum())
    elif minibatch_ms is not None:
        theta = prior.time().mean[None]
        log_ratio = log_time(theta, Features.of(chosen, ReferenceMode.of(chosen)))[0] - log_time(theta, TOP)[0]
        training_s = minibatches * minibatch_ms / MS_PER_S * float(np.exp(log_ratio).sum())
    return ProfilingCost(
        switch_s * len(chosen) / S_PER_MIN, None if training_s is None else training_s / S_PER_MIN, minibatches
    )


def warn_never_varied(profiled: ModeTable, board: ModeTable, prior: Prior, seed: int) -> list[str]:
    """Name the clocks that the profiled modes never varied although the board can, and the best mode to add."""
    fixed = [
        f"the {words}"
        for name, words in FACTORS.items()
        if not varies(profiled.factor(name)) and varies(board.factor(name))
    ]
    if not fixed or len(profiled) < 2:
        return []
    best = plan_modes(board, 1, profiled, prior, seed).rows[0]
    return [
        f"{' and '.join(fixed)} never varied, so intervals are wide; "
        f"profiling {board.mode(best)} would narrow them most"
    ]
