"""Splits the energy of a run into baseload, stalls and compute, by regression of power on what each sensor window held.

A sensor window is one refresh of the power sensor (or one step of the energy counter). With the baseload B measured
before the run, its mean power is B + S·(share of the window stalled) + C·(share computing) + O·(share of anything
else), so stalls much shorter than a refresh are resolved as long as their share varies between windows. The idle
windows before the run and the long stall while workers start are part of the regression. So are, where the power is a
GPU's own, the windows before and after the training in which the process holds GPU memory and the GPU does nothing:
that is what a GPU does in a stall. The ± (about 95 %) comes from resampling blocks of windows and from the residuals.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgetrain.analysis.energy import Power, energy
from edgetrain.analysis.parts import Parts
from edgetrain.analysis.resampling import student_quantile
from edgetrain.analysis.summary import EnergyByCause
from edgetrain.record import BaseloadWindow, Run
from edgetrain.units import S_PER_US, US_PER_S

Floats = NDArray[np.float64]
MIN_WINDOWS = 20  # fewer give no usable ±
MIN_WITH_WAITING = 6  # windows of the run are enough where windows outside it show the power of a waiting GPU
WAITING_PM = 0.15  # of the stall's energy: a GPU between two steps draws up to this much more or less than an idle one
CONTEXT_BYTES = 100_000_000  # a process that uses a GPU takes more of its memory
RESTING_SHARE = 0.02  # of the time; a GPU that is busy for less counts as idle
MAX_MINIBATCHES = 200_000  # of a longer run, the first ones: their shares repeat
MAX_PM_SHARE = 0.20  # of the run's energy; a wider ± says nothing
LAGS_S = (0.0, 0.02, 0.04, 0.06, 0.08, 0.1, 0.13, 0.16, 0.2, 0.25, 0.3)  # a sensor may show power late
BLOCK = 8  # windows resampled together: neighbours are not independent
RESAMPLES = 200
SEED = 0


@dataclass(frozen=True, slots=True)
class PowerWindows:
    """Mean power over each sensor window, and the shares of it that were stall, compute and anything else."""

    power_w: Floats
    seconds: Floats
    shares: Floats  # one column per cause
    in_run: NDArray[np.bool_]  # whether it lies in the run
    waiting: int  # how many lie outside it, while the GPU waited; the others lie in the idle time before it

    def __len__(self) -> int:
        return len(self.power_w)


def waiting_times(run: Run, parts: Parts) -> list[tuple[float, float]]:
    """Return when, outside the training, its process held GPU memory and the GPU did nothing, in seconds."""
    gpu, baseload = run.samples("gpu"), run.manifest.baseload
    if baseload is None or not {"gpu_memory_bytes", "gpu_share"} <= set(gpu.names):
        return []
    at_us, memory, share = gpu["at_us"], gpu["gpu_memory_bytes"], gpu["gpu_share"]
    idle = memory[at_us <= baseload.to_us]
    if not len(idle):
        return []
    held = memory > np.nanmax(idle) + CONTEXT_BYTES
    found: list[tuple[float, float]] = []
    for number in range(1, len(at_us)):
        # The share is of the time up to its reading; the last reading before the training may hold some of it.
        if not (held[number - 1] and held[number] and share[number] <= RESTING_SHARE):
            continue
        begin, end = int(at_us[number - 1]), int(at_us[number])
        if end > parts.begin_us[0] and begin < parts.done_us[-1]:
            continue
        if found and found[-1][1] == begin / US_PER_S:
            found[-1] = found[-1][0], end / US_PER_S
        else:
            found.append((begin / US_PER_S, end / US_PER_S))
    return found


def split_energy(
    parts: Parts,
    power: Power,
    baseload_w: float,
    baseload: BaseloadWindow,
    waiting: Sequence[tuple[float, float]] = (),
) -> tuple[EnergyByCause | None, str | None]:
    """Return the energy by cause of all epochs, or None and the reason."""
    begin_us, end_us = int(parts.begin_us[0]), int(parts.done_us[-1])
    whole = energy(power, begin_us, end_us)
    if whole is None:
        return None, "power was not sampled during the whole run"
    stall_s = float(parts.stall_s.sum())
    if stall_s <= 0:
        total_s = (end_us - begin_us) * S_PER_US
        baseload_j = baseload_w * total_s
        return EnergyByCause(0.0, whole.joules - baseload_j, baseload_j, whole.pm_j), None
    best: tuple[float, PowerWindows] | None = None
    for lag_s in LAGS_S:
        windows = _windows(parts, power, baseload, lag_s, waiting)
        needed = MIN_WITH_WAITING if windows.waiting else MIN_WINDOWS
        found = int(windows.in_run.sum())
        if found < needed:
            return (
                None,
                f"only {found} power readings fall into the run; {needed} are needed to split its energy by cause",
            )
        _, residual = _fit(windows, baseload_w, np.ones(len(windows)))
        if best is None or residual < best[0]:
            best = residual, windows
    assert best is not None
    return _split(best[1], baseload_w, stall_s, whole.joules, whole.pm_j, (end_us - begin_us) * S_PER_US)


def _split(
    windows: PowerWindows, baseload_w: float, stall_s: float, whole_j: float, whole_pm_j: float, total_s: float
) -> tuple[EnergyByCause | None, str | None]:
    spread = float(np.ptp(windows.shares[:, 0]))
    draws = np.random.default_rng(SEED)
    found = _fit(windows, baseload_w, np.ones(len(windows)))[0]
    # Those outside the run are few and steady: all of them stay, where they show what waiting draws.
    drawn = np.flatnonzero(windows.in_run) if windows.waiting else np.arange(len(windows))
    block = min(BLOCK, max(1, len(drawn) // 3))
    resampled = []
    for _ in range(RESAMPLES):
        weights = np.ones(len(windows))
        weights[drawn] = 0.0
        for start in draws.integers(0, max(1, len(drawn) - block + 1), max(1, len(drawn) // block)):
            weights[drawn[start : start + block]] += 1.0
        resampled.append(_fit(windows, baseload_w, weights)[0][0])
    stall_j = float(found[0]) * stall_s
    pm_w = max(2 * float(np.std(resampled)), _half_width_w(windows, baseload_w))
    model_j = WAITING_PM * stall_j if windows.waiting else 0.0
    pm_j = float(np.sqrt((pm_w * stall_s) ** 2 + whole_pm_j**2 + model_j**2))
    if pm_j > MAX_PM_SHARE * whole_j:
        return None, (
            f"the share of stalls hardly differs between power readings (by {spread:.0%}), so their power is known "
            f"only to ± {pm_j:.3g} J of {whole_j:.3g} J"
        )
    baseload_j = baseload_w * total_s
    return EnergyByCause(stall_j, whole_j - baseload_j - stall_j, baseload_j, pm_j), None


def _fit(windows: PowerWindows, baseload_w: float, weights: Floats) -> tuple[Floats, float]:
    """Return watts above the baseload of each cause, none negative, and the mean squared residual."""
    scale = np.sqrt(weights * windows.seconds)
    shares, watts = windows.shares * scale[:, None], (windows.power_w - baseload_w) * scale
    used = [column for column in range(shares.shape[1]) if np.any(shares[:, column] > 0)]
    found = np.zeros(shares.shape[1])
    while used:
        solved, *_ = np.linalg.lstsq(shares[:, used], watts, rcond=None)
        negative = [column for column, value in zip(used, solved, strict=True) if value < 0]
        if not negative:
            found[used] = solved
            break
        used = [column for column in used if column not in negative]
    residual = watts - shares @ found
    return found, float(np.sum(residual**2) / max(float(np.sum(scale**2)), 1e-12))


def _half_width_w(windows: PowerWindows, baseload_w: float) -> float:
    """Return the ± (95 %) of the watts in a stall that the residuals of the regression give."""
    scale = np.sqrt(windows.seconds)
    shares = windows.shares * scale[:, None]
    used = [column for column in range(shares.shape[1]) if np.any(shares[:, column] > 0)]
    if 0 not in used:
        return 0.0
    watts = (windows.power_w - baseload_w) * scale
    solved, *_ = np.linalg.lstsq(shares[:, used], watts, rcond=None)
    free = len(windows) - len(used)
    if free < 1:
        return float("inf")
    variance = float(np.sum((watts - shares[:, used] @ solved) ** 2)) / free
    covariance = variance * np.linalg.pinv(shares[:, used].T @ shares[:, used])
    return student_quantile(free) * float(np.sqrt(covariance[used.index(0), used.index(0)]))


def _windows(
    parts: Parts, power: Power, baseload: BaseloadWindow, lag_s: float, waiting: Sequence[tuple[float, float]]
) -> PowerWindows:
    """Cut the trace of power into sensor windows of the run and of the idle time before it."""
    if power.counted:
        edges = power.counter_at_s
        watts = np.diff(power.counter_j) / np.maximum(np.diff(edges), 1e-9)
        starts, stops = edges[:-1], edges[1:]
    else:
        watts, stops = power.power_w, power.at_s
        starts = stops - np.minimum(np.diff(stops, prepend=stops[0] - power.refresh_s), 2 * power.refresh_s)
    few = parts if len(parts) <= MAX_MINIBATCHES else parts.take(slice(MAX_MINIBATCHES))
    run = few.begin_us[0] / US_PER_S, few.done_us[-1] / US_PER_S
    idle = baseload.from_us / US_PER_S, baseload.to_us / US_PER_S
    starts, stops = starts - lag_s, stops - lag_s
    inside = (starts >= run[0]) & (stops <= run[1])
    before = (starts >= idle[0]) & (stops <= idle[1])
    resting = np.zeros(len(starts), bool)
    for begin, end in waiting:
        resting |= (starts >= begin) & (stops <= end) & ~inside & ~before
    keep = inside | before | resting
    starts, stops, watts = starts[keep], stops[keep], watts[keep]
    seconds = np.maximum(stops - starts, 1e-9)
    stall = np.where(resting[keep], 1.0, _time_in(few.stall_from_us, few.stall_to_us, starts, stops) / seconds)
    busy = _time_in(few.start_us, few.done_us, starts, stops) / seconds
    rest = np.where(inside[keep], np.clip(1.0 - stall - busy, 0.0, 1.0), 0.0)
    shares = np.stack([stall, busy, rest], axis=1)
    return PowerWindows(watts, seconds, shares, inside[keep], int(resting.sum()))


def _time_in(from_us: NDArray[np.int64], to_us: NDArray[np.int64], starts: Floats, stops: Floats) -> Floats:
    """Return the seconds of each window that lie inside the given intervals, which are in order and do not overlap."""
    keep = to_us > from_us
    begin, end = from_us[keep] / US_PER_S, to_us[keep] / US_PER_S
    if not len(begin):
        return np.zeros(len(starts))
    at = np.stack([begin, end], axis=1).ravel()
    until = np.stack([np.zeros(len(begin)), end - begin], axis=1).ravel().cumsum()
    found: Floats = np.interp(stops, at, until, left=0.0) - np.interp(starts, at, until, left=0.0)
    return found
