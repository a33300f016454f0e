"""Ties the run's monotonic clock to the wall clock, at its start and at its end.

Two ties tell later whether the wall clock was set in between; durations never depend on it.
"""

from __future__ import annotations

import time
from datetime import datetime, timezone

TRIES = 5


def anchor() -> dict[str, float]:
    """Return one instant on both clocks, from the tightest of a few readings."""
    best: tuple[int, int, float] | None = None
    for _ in range(TRIES):
        before_ns = time.monotonic_ns()
        wall_s = time.time()
        after_ns = time.monotonic_ns()
        if best is None or after_ns - before_ns < best[0]:
            best = after_ns - before_ns, (before_ns + after_ns) // 2, wall_s
    assert best is not None
    return {"monotonic_us": best[1] // 1000, "wall_s": best[2], "within_us": best[0] / 1000}


def spell_wall(wall_s: float) -> str:
    """Return a wall-clock instant as ISO 8601, in UTC."""
    return datetime.fromtimestamp(wall_s, timezone.utc).isoformat(timespec="milliseconds")
