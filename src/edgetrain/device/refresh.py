"""How often a sensor has a new value: found by reading it faster than it changes."""

from __future__ import annotations

import itertools
import math
import statistics
import time
from collections.abc import Callable

from edgetrain.units import NS_PER_S

# Fewer changes than this show no period.
MIN_CHANGES = 4


def measure_refresh_s(
    read: Callable[[], float],
    seconds: float = 1.2,
    step_s: float = 0.002,
    now_ns: Callable[[], int] = time.monotonic_ns,
    sleep: Callable[[float], None] = time.sleep,
) -> float | None:
    """Return the median time between two distinct values; None where too few were seen.

    A sensor may refresh without its value changing, so this errs towards longer periods, which widens the ± of
    an energy and never narrows it. No period shorter than twice `step_s` can be seen.
    """
    began_ns = now_ns()
    changes_ns: list[int] = []
    last = math.nan
    while (at_ns := now_ns()) - began_ns < seconds * NS_PER_S:
        value = read()
        if value == value and value != last:
            if last == last:
                changes_ns.append(at_ns)
            last = value
        sleep(step_s)
    if len(changes_ns) < MIN_CHANGES:
        return None
    gaps = [after - before for before, after in itertools.pairwise(changes_ns)]
    return statistics.median(gaps) / NS_PER_S
