"""The probe of the dataset's share in the page cache: slow, so it is read every few seconds and when an epoch ends."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence

from edgetrain.device import ProbeEvent
from edgetrain.sampling.pagecache import PageCounter
from edgetrain.sampling.residency import Inventory, share

PERIOD_S = 5.0
# 500 draws: ± 4 points at worst, 5 ms every 5 s, a tenth of a percent of a core.
SAMPLE = 500
# Counting may take this share of a core.
MAX_CPU_SHARE = 0.003


class ResidencyProbe:
    """Estimates the cached share from the same files each time, so that changes are not sampling noise."""

    name = "residency"
    columns: Sequence[str] = ("cached_share", "cached_share_pm", "sampled_files")
    blocking = True

    def __init__(self, dataset: str, exact: bool = False, seed: int = 0) -> None:
        self.period_s = PERIOD_S
        self._dataset, self._sample, self._seed = dataset, None if exact else SAMPLE, seed
        self._inventory: Inventory | None = None
        self._counter = PageCounter()
        self._reason: str | None = None
        self._reported: str | None = None

    def read(self) -> list[float]:
        """Return the share, its ±, and the number of files counted; NaN where this user may not see them."""
        began_s = time.thread_time()
        if self._inventory is None or not self._inventory.paths:
            # Listed here, not when built: a million files take seconds, and other probes should not wait.
            self._inventory = Inventory.of(self._dataset)
        found = share(self._inventory, self._sample, self._seed, self._counter)
        self.period_s = max(PERIOD_S, (time.thread_time() - began_s) / MAX_CPU_SHARE)
        self._reason = found.reason
        if found.share is None or found.pm is None:
            return [math.nan, math.nan, float(found.files)]
        return [found.share, found.pm, float(found.files)]

    def pop_events(self) -> list[ProbeEvent]:
        """Return once why the share is unknown, or its ± wider than it could be."""
        if self._reason is None or self._reason == self._reported:
            return []
        first, self._reported = self._reported is None, self._reason
        return [ProbeEvent("doubt", f"page cache share of the dataset: {self._reason}")] if first else []

    def close(self) -> None:
        """Nothing is kept open."""
