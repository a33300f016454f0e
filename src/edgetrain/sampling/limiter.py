"""Decides how often each probe is read: its own interval, longer where reading costs too much."""

from __future__ import annotations

# A probe may take these shares of a core (more where its readings become joules) and, where it shares its thread, of
# the time between its readings. A quarter of a percent each keeps all of them together near one percent.
MAX_CPU_SHARE, MAX_POWER_CPU_SHARE = 0.0025, 0.005
MAX_WALL_SHARE = 0.1
# What all of sampling may take of a core. Above it, probes that are read often and do not measure power are read less
# often, by whole multiples of their interval so that they are still read together: each wake-up costs, too.
MAX_TOTAL_CPU_SHARE = 0.008
MAX_SLOWDOWN = 5
OFTEN_S = 0.5
UPDATE_INTERVAL_S = 5.0
_COST_MEMORY = 0.1  # weight of the newest reading in the mean cost


class ProbeRate:
    """How often one probe may be read."""

    def __init__(self, measures_power: bool, own_thread: bool) -> None:
        self.measures_power = measures_power
        self.slowdown = 1
        self._cpu_share = MAX_POWER_CPU_SHARE if measures_power else MAX_CPU_SHARE
        self._wall_share = None if own_thread else MAX_WALL_SHARE
        self._least_s = 0.0  # the interval that the cost allows, a moving mean

    def record(self, wall_s: float, cpu_s: float) -> None:
        """Take the cost of one reading into account."""
        cost_s = cpu_s / self._cpu_share
        if self._wall_share is not None:
            cost_s = max(cost_s, wall_s / self._wall_share)
        self._least_s += _COST_MEMORY * (cost_s - self._least_s)

    def interval_s(self, period_s: float) -> float:
        """Return the sampling interval of a probe that asks for this one."""
        return max(self.slowdown * period_s, self._least_s)


class RateLimiter:
    """Keeps sampling as a whole within its share of a core."""

    def __init__(
        self, max_cpu_share: float = MAX_TOTAL_CPU_SHARE, update_interval_s: float = UPDATE_INTERVAL_S
    ) -> None:
        self.slowdown = 1
        self._max_cpu_share, self._update_interval_s = max_cpu_share, update_interval_s
        self._slowed: list[ProbeRate] = []
        self._before: tuple[float, float] | None = None

    def add(self, period_s: float, measures_power: bool, own_thread: bool) -> ProbeRate:
        """Return the rate of a new probe."""
        rate = ProbeRate(measures_power, own_thread)
        if not measures_power and period_s < OFTEN_S:
            self._slowed.append(rate)
        return rate

    def update(self, now_s: float, cpu_s: float) -> None:
        """Compare the CPU seconds used so far with what is allowed; means over five seconds ignore brief CPU spikes."""
        before = self._before = self._before or (now_s, cpu_s)
        if now_s - before[0] < self._update_interval_s:
            return
        self._before = (now_s, cpu_s)
        share = (cpu_s - before[1]) / (now_s - before[0])
        if share > self._max_cpu_share:
            self.slowdown = min(self.slowdown + 1, MAX_SLOWDOWN)
        elif self.slowdown > 1 and share * self.slowdown / (self.slowdown - 1) < self._max_cpu_share:
            self.slowdown -= 1
        for rate in self._slowed:
            rate.slowdown = self.slowdown
