"""Finds where warm-up ends: minibatches before steady state are kept and labelled, not counted."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from edgetrain.analysis.parts import Parts
from edgetrain.record import SteadyWindow

BLOCK = 5  # minibatches whose median is compared at a time
WITHIN = 0.10  # a block is steady when its median compute is this close to the reference
MIN_MINIBATCHES = 4  # minibatches below which nothing can be called warm-up


@dataclass(frozen=True, slots=True)
class Steady:
    """Which minibatches count: positions first..last among the training minibatches, and by which rule."""

    first: int
    last: int
    rule: str


def find_steady(parts: Parts, override: SteadyWindow | None = None) -> Steady:
    """Return the steady minibatches.

    Warm-up shows in compute (libraries being loaded, clocks rising, kernels being chosen), so compute is what is
    watched: steady state begins with the first block of five whose median lies within 10 % of the median of the
    second half, and at the latest at half the run. Stalls are not watched: a cold cache is a finding, not warm-up.
    """
    count = len(parts)
    if override:
        last = count - 1 if override.last is None else min(override.last, count - 1)
        return Steady(min(override.first, max(count - 1, 0)), last, override.rule)
    if count < MIN_MINIBATCHES:
        return Steady(0, count - 1, f"all: fewer than {MIN_MINIBATCHES} minibatches")
    compute = parts.busy_s
    if not np.any(compute > 0):
        compute = parts.e2e_s
    reference = float(np.median(compute[count // 2 :]))
    half = count // 2
    first = half
    for start in range(0, half, 1):
        block = compute[start : start + BLOCK]
        if abs(float(np.median(block)) - reference) <= WITHIN * reference:
            # The median of five may pass while its first member still warms up.
            while start < half and abs(compute[start] - reference) > 5 * WITHIN * reference:
                start += 1
            first = start
            break
    rule = (
        f"from the first {BLOCK} minibatches whose median compute is within {WITHIN:.0%} of the second half's; "
        "the first minibatch of an epoch is left out"
    )
    return Steady(first, count - 1, rule)
