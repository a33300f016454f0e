"""How clocks varied during a run: the share of time in which each was well below its highest value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgetrain.analysis.summary import EpochSummary
from edgetrain.record import Run

WELL_BELOW = 0.9  # of the highest clock, as the SIGMETRICS paper counts residency
PARTS = ("cpu", "gpu", "emc")


@dataclass(frozen=True, slots=True)
class ClockUse:
    """Share of the samples in which a clock was below 90 % of its highest; None where it was not recorded."""

    cpu_below: float | None = None
    gpu_below: float | None = None
    emc_below: float | None = None

    @property
    def most(self) -> float | None:
        """The share of the clock that moved most."""
        known = [share for share in (self.cpu_below, self.gpu_below, self.emc_below) if share is not None]
        return max(known, default=None)


def clock_use(run: Run, epochs: Sequence[EpochSummary]) -> ClockUse:
    """Return how the clocks moved during the epochs of a run."""
    if not epochs:
        return ClockUse()
    held = run.manifest.power_mode.asked if run.manifest.power_mode else None
    tops = (held.cpu_hz, held.gpu_hz, held.emc_hz) if held else (None, None, None)
    begin_us, end_us = epochs[0].begin_us, epochs[-1].end_us
    return ClockUse(*(_below(run, part, top, begin_us, end_us) for part, top in zip(PARTS, tops, strict=True)))


def _below(run: Run, part: str, top_hz: int | None, begin_us: int, end_us: int) -> float | None:
    """Return the share of samples below 90 % of `top_hz`, or of the highest sample where that is not known."""
    shares = []
    for table in run.probes.values():
        names = [name for name in table if _is_clock(name, part)]
        if not names or not len(table):
            continue
        inside = (table["at_us"] >= begin_us) & (table["at_us"] <= end_us)
        for name in names:
            share = _share_below(np.asarray(table[name], float)[inside], top_hz)
            if share is not None:
                shares.append(share)
    return float(np.mean(shares)) if shares else None


def _is_clock(name: str, part: str) -> bool:
    """Whether a column is a clock of that part: cpu3_hz, gpu_hz; not the cap of one."""
    return name.startswith(part) and name.endswith("_hz") and "cap" not in name


def _share_below(clocks_hz: NDArray[np.float64], top_hz: int | None) -> float | None:
    seen = clocks_hz[np.isfinite(clocks_hz) & (clocks_hz > 0)]  # a core that is switched off has no clock
    if not len(seen):
        return None
    return float((seen < WELL_BELOW * (top_hz or float(seen.max()))).mean())
