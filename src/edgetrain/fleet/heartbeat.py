"""Preloaded by the scheduler: asks workers for a heartbeat every 5 s instead of every 0.5 s.

An idle worker then takes 0.03 % of a core instead of 0.26 %. Dask has no setting for it, so its function is replaced;
where a release has no such function, its own interval stays.
"""

from __future__ import annotations

from typing import Any

INTERVAL_S = 5.0


def dask_setup(scheduler: Any) -> None:
    """Set the interval (called by Dask)."""
    import distributed.scheduler

    if hasattr(distributed.scheduler, "heartbeat_interval"):
        distributed.scheduler.heartbeat_interval = lambda workers: INTERVAL_S
