"""What happened on a simulated board: power, heat and load as pieces of time, and what an averaging chip sees of it."""

from __future__ import annotations

import bisect
import math
from collections.abc import Iterator
from dataclasses import dataclass

from edgetrain.units import NS_PER_S

LEAK_PER_C = 0.0012  # share of power per °C above the temperature at which the formulas were fitted
FITTED_AT_C = 50.0


class VirtualClock:
    """A clock that moves only when something sleeps on it."""

    def __init__(self, start_ns: int = 1_000 * NS_PER_S) -> None:
        self._now_ns = start_ns

    def now_ns(self) -> int:
        """Return the virtual time."""
        return self._now_ns

    def sleep(self, seconds: float) -> None:
        """Move the virtual time on."""
        self._now_ns += max(0, round(seconds * NS_PER_S))


@dataclass(frozen=True, slots=True)
class Load:
    """What the board does for a while."""

    watts: float
    gpu_share: float = 0.0
    busy_cores: float = 0.1
    emc_share: float = 0.02


class LoadTimeline:
    """What happened: power, heat and load, piece by piece; instants in ns, never falling."""

    def __init__(self, start_ns: int, ambient_c: float, heat_c_per_w: float, heat_s: float, watts: float) -> None:
        self.ambient_c, self._rise, self._heat_s = ambient_c, heat_c_per_w, heat_s
        settled_c = ambient_c + heat_c_per_w * watts
        self.ends: list[int] = [start_ns]
        self.energy_j: list[float] = [0.0]
        self.temps: list[float] = [settled_c]
        self.busy_s: list[float] = [0.0]
        self.loads: list[Load] = [Load(watts)]  # loads[i] lasts from ends[i-1] to ends[i]

    @property
    def end_ns(self) -> int:
        """The instant up to which something has happened."""
        return self.ends[-1]

    def append(self, until_ns: int, load: Load) -> None:
        """Let a load last until an instant; the temperature follows with its time constant."""
        seconds = (until_ns - self.ends[-1]) / NS_PER_S
        if seconds <= 0:
            return
        warm_c = self.temps[-1]
        watts = load.watts * (1 + LEAK_PER_C * (warm_c - FITTED_AT_C))
        goal_c = self.ambient_c + self._rise * watts
        self.ends.append(until_ns)
        self.energy_j.append(self.energy_j[-1] + watts * seconds)
        self.temps.append(goal_c + (warm_c - goal_c) * math.exp(-seconds / self._heat_s))
        self.busy_s.append(self.busy_s[-1] + load.busy_cores * seconds)
        self.loads.append(load)

    def _between(self, values: list[float], at_ns: int) -> float:
        index = bisect.bisect_left(self.ends, at_ns)
        if index == 0:
            return values[0]
        if index >= len(self.ends):
            return values[-1]
        before, after = self.ends[index - 1], self.ends[index]
        share = (at_ns - before) / (after - before)
        return values[index - 1] + share * (values[index] - values[index - 1])

    def energy_until_j(self, at_ns: int) -> float:
        """Return the energy spent up to an instant."""
        if at_ns <= self.ends[0]:
            # Before the beginning the board idled as it did at the beginning.
            return -(self.ends[0] - at_ns) / NS_PER_S * self.loads[0].watts
        return self._between(self.energy_j, at_ns)

    def temp_c(self, at_ns: int) -> float:
        """Return the temperature at an instant."""
        return self._between(self.temps, at_ns)

    def busy_until_s(self, at_ns: int) -> float:
        """Return the core-seconds of work up to an instant."""
        return self._between(self.busy_s, at_ns)

    def load(self, at_ns: int) -> Load:
        """Return what the board does at an instant."""
        index = bisect.bisect_left(self.ends, at_ns)
        return self.loads[min(index, len(self.loads) - 1)]

    def segments(self, from_ns: int, until_ns: int) -> Iterator[tuple[float, float]]:
        """Yield (seconds, watts) of each piece between two instants; after the end, the last piece goes on."""
        at_ns = from_ns
        index = bisect.bisect_right(self.ends, at_ns)
        while at_ns < until_ns:
            end_ns = min(self.ends[index], until_ns) if index < len(self.ends) else until_ns
            if 0 < index < len(self.ends):
                whole_s = (self.ends[index] - self.ends[index - 1]) / NS_PER_S
                watts = (self.energy_j[index] - self.energy_j[index - 1]) / whole_s
            else:
                watts = self.loads[min(index, len(self.loads) - 1)].watts
            yield (end_ns - at_ns) / NS_PER_S, watts
            at_ns, index = end_ns, index + 1


class RunningAverage:
    """What an INA chip shows of a timeline: each conversion moves the value by 1/samples of the difference."""

    def __init__(self, timeline: LoadTimeline, window_s: float) -> None:
        self._timeline, self._window_s = timeline, window_s
        self._at_ns = timeline.ends[0]
        self._watts = timeline.loads[0].watts

    def at(self, now_ns: int) -> float:
        """Return the value at an instant; instants never go back."""
        for seconds, watts in self._timeline.segments(self._at_ns, now_ns):
            self._watts = watts + (self._watts - watts) * math.exp(-seconds / self._window_s)
        self._at_ns = max(self._at_ns, now_ns)
        return self._watts
