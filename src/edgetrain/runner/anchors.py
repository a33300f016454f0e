"""Relates the run's monotonic clock to the wall clock, at its start and at its end.

The two pairs show later whether the wall clock was set in between; durations never depend on it.
"""

from __future__ import annotations

import time
from datetime import datetime, timezone

from edgetrain.record import ClockAnchor

TRIES = 5


def anchor() -> ClockAnchor:
    """Return one instant on both clocks, from the tightest of a few readings."""
    best: tuple[int, int, float] | None = None
    for _ in range(TRIES):
        before_ns = time.monotonic_ns()
        wall_s = time.time()
        after_ns = time.monotonic_ns()
        if best is None or after_ns - before_ns < best[0]:
            best = after_ns - before_ns, (before_ns + after_ns) // 2, wall_s
    assert best is not None
    return ClockAnchor(best[1] // 1000, best[2], best[0] / 1000)


def spell_wall(wall_s: float) -> str:
    """Return a wall-clock instant as ISO 8601, in UTC."""
    return datetime.fromtimestamp(wall_s, timezone.utc).isoformat(timespec="milliseconds")
