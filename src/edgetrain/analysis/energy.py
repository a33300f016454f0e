"""Energy with its ±: trapezoids over distinct sensor refreshes, or the device's own counter.

The ± has four sources, taken as independent and stated at about 95 %: the sensor's quantum, its refresh period at both
edges of the window (power may have changed up to one refresh before we saw it), the trapezoids themselves (against the
same integral from every other refresh), and gaps where readings are missing. A sensor's calibration is not in it: no
sensor reports its own.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgetrain.record import Run
from edgetrain.units import S_PER_US, US_PER_S

LONG_GAP = 5.0  # refresh periods without a reading are a gap
TWO_SIGMA = 2.0
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Power:
    """The total power over time, distinct refreshes only, or an energy counter; instants in seconds."""

    at_s: Floats
    power_w: Floats
    counter_at_s: Floats
    counter_j: Floats
    refresh_s: float
    quantum_w: float
    scope: str

    @property
    def counted(self) -> bool:
        return len(self.counter_j) >= 2


@dataclass(frozen=True, slots=True)
class Energy:
    """Joules in a window, with ± at about 95 %, and how they were obtained."""

    joules: float
    pm_j: float
    refreshes: int
    method: str  # counter | trapezoids


def find_power(run: Run) -> tuple[Power | None, str]:
    """Return the run's total power, or None and the reason."""
    source = run.manifest.power
    if source is None:
        return None, run.manifest.power_reason or "this device has no power sensor that can be read"
    samples, names = run.samples(source.stream), source.columns
    if not any(name in samples for name in names):
        return None, f"the power stream {source.stream!r} recorded nothing"
    at_s = samples["at_us"] * S_PER_US
    total = np.sum([np.asarray(samples[name], float) for name in names if name in samples], axis=0)
    sound = np.isfinite(total)
    at_s, total = at_s[sound], total[sound]
    if len(at_s) < 2:
        return None, "fewer than two power readings were taken"
    distinct = np.ones(len(total), bool)
    distinct[1:] = total[1:] != total[:-1]
    distinct[-1] = True  # the last reading says how long the last value held
    refresh = source.refresh_s or _refresh_s(at_s[distinct])
    # A value that truly stays the same is read again once per refresh, so that a flat line keeps its points.
    distinct |= _one_per(at_s, distinct, 2 * refresh)
    counter = source.counter_column
    counter_at = counter_j = np.zeros(0)
    if counter and counter in samples:
        values = np.asarray(samples[counter], float)
        fine = np.isfinite(values)
        moved = np.ones(int(fine.sum()), bool)
        moved[1:] = np.diff(values[fine]) > 0
        counter_at, counter_j = (samples["at_us"] * S_PER_US)[fine][moved], values[fine][moved]
    return (
        Power(
            at_s[distinct],
            total[distinct],
            counter_at,
            counter_j,
            float(refresh),
            source.quantum_w or 0.0,
            source.scope,
        ),
        "",
    )


def _refresh_s(at_s: Floats) -> float:
    """Estimate a sensor's refresh period from the instants at which its value changed."""
    gaps = np.diff(at_s)
    return float(np.median(gaps)) if len(gaps) else 1.0


def _one_per(at_s: Floats, distinct: NDArray[np.bool_], period_s: float) -> NDArray[np.bool_]:
    keep = np.zeros(len(at_s), bool)
    last = -math.inf
    for row, instant in enumerate(at_s):
        if distinct[row] or instant - last >= period_s:
            keep[row] = True
            last = instant
    return keep


def integral_j(at_s: Floats, power_w: Floats, start_s: float, stop_s: float) -> float:
    """Integrate power by trapezoids between two instants; outside the readings the nearest one holds."""
    inside = (at_s > start_s) & (at_s < stop_s)
    at = np.concatenate([[start_s], at_s[inside], [stop_s]])
    edges = np.interp([start_s, stop_s], at_s, power_w)
    power = np.concatenate([[edges[0]], power_w[inside], [edges[1]]])
    return float(np.sum((power[1:] + power[:-1]) / 2 * np.diff(at)))


def energy(power: Power, start_us: float, stop_us: float) -> Energy | None:
    """Return the energy between two instants; None where the window lies outside what was sampled."""
    start_s, stop_s = start_us / US_PER_S, stop_us / US_PER_S
    slack_s = max(2 * power.refresh_s, 0.25)
    if stop_s <= start_s or start_s < power.at_s[0] - slack_s or stop_s > power.at_s[-1] + slack_s:
        return None
    inside = (power.at_s >= start_s) & (power.at_s <= stop_s)
    refreshes = int(inside.sum())
    near = power.power_w[inside] if refreshes >= 2 else power.power_w
    spread_w = float(np.std(near))
    edge_j = math.sqrt(2) * power.refresh_s / math.sqrt(12) * max(spread_w, power.quantum_w)
    if power.counted and power.counter_at_s[0] <= start_s + slack_s and power.counter_at_s[-1] >= stop_s - slack_s:
        joules = float(np.diff(np.interp([start_s, stop_s], power.counter_at_s, power.counter_j))[0])
        return Energy(joules, TWO_SIGMA * edge_j, refreshes, "counter")
    joules = integral_j(power.at_s, power.power_w, start_s, stop_s)
    quantum_j = power.quantum_w / math.sqrt(12) * (stop_s - start_s) / math.sqrt(max(refreshes, 1))
    coarse_j = abs(joules - integral_j(power.at_s[::2], power.power_w[::2], start_s, stop_s)) / 3
    between = np.diff(np.concatenate([[start_s], power.at_s[inside], [stop_s]]))
    gap_j = float(np.sum(between[between > LONG_GAP * power.refresh_s])) * spread_w / math.sqrt(12)
    pm = TWO_SIGMA * math.sqrt(quantum_j**2 + edge_j**2 + coarse_j**2 + gap_j**2)
    return Energy(joules, pm, refreshes, "trapezoids")


def energy_between(run: Run, start_us: float, stop_us: float) -> tuple[Energy | None, str]:
    """Return the energy of a run between two instants of its clock; None and the reason where it is not known."""
    power, reason = find_power(run)
    if power is None:
        return None, reason
    found = energy(power, start_us, stop_us)
    return found, "" if found else "the power readings do not cover the training"


def mean_power_w(power: Power, start_us: float, stop_us: float) -> tuple[float | None, float | None]:
    """Return median and mean power between two instants."""
    inside = (power.at_s >= start_us / US_PER_S) & (power.at_s <= stop_us / US_PER_S)
    if not np.any(inside):
        return None, None
    whole = energy(power, start_us, stop_us)
    mean = whole.joules / ((stop_us - start_us) * S_PER_US) if whole else float(np.mean(power.power_w[inside]))
    return float(np.median(power.power_w[inside])), mean


def peak_1s_w(power: Power, start_us: float, stop_us: float) -> float | None:
    """Return the largest mean power over one second between two instants; None where the window is shorter."""
    inside = (power.at_s >= start_us / US_PER_S) & (power.at_s <= stop_us / US_PER_S)
    at, watts = power.at_s[inside], power.power_w[inside]
    if len(at) < 2 or at[-1] - at[0] < 1.0:
        return None
    joules = np.concatenate([[0.0], np.cumsum((watts[1:] + watts[:-1]) / 2 * np.diff(at))])
    begin = at[at <= at[-1] - 1.0]
    means = np.interp(begin + 1.0, at, joules) - np.interp(begin, at, joules)
    return float(means.max())
