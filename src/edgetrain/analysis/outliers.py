"""Finds outliers among units (generalised extreme studentised deviate test, Rosner 1983)."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from edgetrain.student import quantile

FALSE_ALARM = 0.05  # probability of naming any unit where all are alike
MIN_UNITS_FOR_OUTLIERS = 5  # with fewer, none lies far enough from the rest to be named with that certainty
MAX_SHARE = 0.25  # of the units; beyond that there is no majority to differ from


def outliers(values: NDArray[np.float64]) -> list[int]:
    """Return the places of the outliers, the farthest first. Several do not hide each other."""
    count = len(values)
    if count < MIN_UNITS_FOR_OUTLIERS:
        return []
    left = list(range(count))
    found: list[int] = []
    named = 0
    for step in range(max(1, math.floor(MAX_SHARE * count))):
        kept = values[left]
        deviation = float(kept.std(ddof=1))
        if deviation <= 0:
            break
        farthest = int(np.abs(kept - kept.mean()).argmax())
        found.append(left[farthest])
        size = len(left)
        t = quantile(1 - FALSE_ALARM / (2 * size), size - 2)
        critical = (size - 1) * t / math.sqrt((size - 2 + t * t) * size)
        if abs(float(kept[farthest] - kept.mean())) / deviation > critical:
            named = step + 1
        left.pop(farthest)
    return found[:named]
