"""Measurements of power modes from summaries of runs: one per mode, repeats averaged."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np

from edgetrain.analysis import Summary
from edgetrain.prediction import Array
from edgetrain.schema import ModeMeasurement, PowerMode, weakest
from edgetrain.units import MS_PER_S


@dataclass(frozen=True, slots=True)
class StallTimes:
    """Fetch stall and compute per minibatch, one value per mode; NaN where it is not known."""

    fetch_stall_s: Array
    compute_s: Array


def power_mode_of(summary: Summary) -> PowerMode | None:
    """Return the power mode of a run: as read back, else as requested; without its stock name."""
    held = summary.power_mode.held if summary.power_mode else None
    return None if held is None else PowerMode(held.cores, held.cpu_hz, held.gpu_hz, held.emc_hz)


def _by_mode(summaries: Iterable[Summary]) -> dict[PowerMode, list[Summary]]:
    """Group the runs that have a mode, a time and a power, in the order in which modes first occur."""
    groups: dict[PowerMode, list[Summary]] = defaultdict(list)
    for summary in summaries:
        mode = power_mode_of(summary)
        if mode is not None and not missing_results(summary):
            groups[mode].append(summary)
    return groups


def missing_results(summary: Summary) -> tuple[str, ...]:
    """Return what this run lacks to be a measurement of a power mode."""
    known = {
        "power mode": power_mode_of(summary) is not None,
        "time": bool(summary.minibatch.median_ms),
        "power": bool(summary.power_w.median),
    }
    return tuple(name for name, there in known.items() if not there)


def left_out_text(summaries: Sequence[Summary]) -> str | None:
    """Return which runs cannot be used and why, in words; None where all can."""
    lacking = [(summary.run, missing_results(summary)) for summary in summaries]
    without = [f"{run} has no {' and no '.join(missing)}" for run, missing in lacking if missing]
    if not without:
        return None
    short = any("power" in missing for _, missing in lacking)
    hint = "; a run must last a few refreshes of the power sensor, about 2 s" if short else ""
    more = f" and {len(without) - 3} more" if len(without) > 3 else ""
    return f"{len(without)} of {len(summaries)} runs are left out: {', '.join(without[:3])}{more}{hint}"


def measurements_from(summaries: Iterable[Summary]) -> list[ModeMeasurement]:
    """Return one measurement per mode: means over its runs, with the weakest of their origins."""
    found = []
    for mode, same in _by_mode(summaries).items():
        temps = [each.temp_c for each in same if each.temp_c is not None]
        peaks = [each.power_w.peak_1s for each in same if each.power_w.peak_1s is not None]
        found.append(
            ModeMeasurement(
                mode,
                fmean(each.minibatch.median_ms or 0.0 for each in same) / MS_PER_S,
                fmean(each.power_w.median or 0.0 for each in same),
                weakest(each.origin for each in same),
                fmean(each.minibatch.mean_ms or 0.0 for each in same) / MS_PER_S,
                max(peaks, default=None),
                max(temps, default=None),
                run=same[0].run,
            )
        )
    return found


def stall_times(summaries: Iterable[Summary]) -> StallTimes:
    """Return stall and compute of each mode, in the order of `measurements_from`."""
    groups = [[_per_minibatch(each) for each in same] for same in _by_mode(summaries).values()]
    return StallTimes(
        np.array([_mean([stall for stall, _ in same]) for same in groups]),
        np.array([_mean([compute for _, compute in same]) for same in groups]),
    )


def _per_minibatch(summary: Summary) -> tuple[float | None, float | None]:
    """Return fetch stall and compute per minibatch of the warm epochs, or of all where only one was recorded."""
    epochs = [epoch for epoch in summary.epochs if epoch.minibatches]
    warm = [epoch for epoch in epochs if epoch.epoch > 0] or epochs
    count = sum(epoch.minibatches for epoch in warm)
    if not count:
        return None, None
    stalls = [epoch.fetch_stall_s for epoch in warm if epoch.fetch_stall_s is not None]
    return (sum(stalls) / count if len(stalls) == len(warm) else None), sum(e.compute_s for e in warm) / count


def _mean(values: Sequence[float | None]) -> float:
    known = [value for value in values if value is not None]
    return fmean(known) if known else np.nan
