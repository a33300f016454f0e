"""Energy of a predicted epoch: what a recorded run drew while it stalled and while it computed."""

from __future__ import annotations

from dataclasses import dataclass

from edgetrain.analysis import Summary
from edgetrain.schema import Estimate, Origin


@dataclass(frozen=True, slots=True)
class PowerByPart:
    """Power while the loop stalls and while it does not, with the uncertainty of the mean."""

    stalled_w: float
    busy_w: float
    pm_share: float  # of the energy, its uncertainty

    def energy_j(self, e2e: Estimate, stall: Estimate) -> Estimate:
        """Return the energy of an epoch of this length with this much stall."""
        value = self.spent_j(e2e.value, stall.value)
        lo = self.spent_j(e2e.lo, stall.lo) * (1.0 - self.pm_share)
        hi = self.spent_j(e2e.hi, stall.hi) * (1.0 + self.pm_share)
        return Estimate(value, min(lo, value), max(hi, value), "J", Origin.PREDICTED, e2e.level)

    def spent_j(self, e2e_s: float, stall_s: float) -> float:
        """Return the energy of this many seconds, of which some are stall."""
        stalled_s = min(stall_s, e2e_s)
        return self.stalled_w * stalled_s + self.busy_w * (e2e_s - stalled_s)

    def scaled(self, factor: float) -> PowerByPart:
        """Return the powers changed by a factor, as another power mode does."""
        return PowerByPart(self.stalled_w * factor, self.busy_w * factor, self.pm_share)


def power_by_part(summary: Summary) -> PowerByPart | None:
    """Return the power of a run's parts; the mean for both where it could not be split; None without power."""
    total_s = sum(epoch.e2e_s for epoch in summary.epochs)
    stall_s = sum(epoch.fetch_stall_s or 0.0 for epoch in summary.epochs)
    spent = [(epoch.energy_j, epoch.energy_pm_j or 0.0) for epoch in summary.epochs if epoch.energy_j is not None]
    if not spent or len(spent) < len(summary.epochs) or total_s <= 0:
        return None
    energy_j, pm_j = sum(joules for joules, _ in spent), sum(pm for _, pm in spent)
    pm_share = min(0.5, pm_j / energy_j) if energy_j > 0 else 0.5
    split = summary.energy_by
    if split is not None and summary.baseload_w is not None and 0 < stall_s < total_s:
        stalled_w = summary.baseload_w + split.stall_j / stall_s
        busy_w = summary.baseload_w + split.compute_j / (total_s - stall_s)
        if stalled_w > 0 and busy_w > 0:
            return PowerByPart(stalled_w, busy_w, pm_share)
    mean_w = energy_j / total_s
    return PowerByPart(mean_w, mean_w, max(pm_share, 0.1))
