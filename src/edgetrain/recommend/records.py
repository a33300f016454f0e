"""Measurements of power modes from digests of runs: one per mode, repeats averaged."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from statistics import fmean
from typing import Any

import numpy as np

from edgetrain.analysis import digest
from edgetrain.analysis.energy import find_power
from edgetrain.analysis.samples import told_by
from edgetrain.predict.base import Array
from edgetrain.schema import ModeMeasurement, Origin, PowerMode, Run, weakest
from edgetrain.units import HZ_PER_MHZ, US_PER_S

_SPELLED = re.compile(r"(\d+) cores at ([\d.]+) MHz(?:, GPU ([\d.]+|–) MHz)?(?:, memory ([\d.]+|–) MHz)?")


def power_mode_of(document: Mapping[str, Any]) -> PowerMode | None:
    """Return the power mode a run really had: what was read back, else what was asked; spelled or as columns."""
    recorded = document.get("power_mode")
    if not isinstance(recorded, Mapping):
        return _mode(recorded)
    if recorded.get("cores") is not None:
        return _mode(recorded)
    said = (_mode(recorded.get(key)) for key in ("found", "start", "asked"))
    return next((mode for mode in said if mode is not None), None)


def _mode(said: Any) -> PowerMode | None:
    if isinstance(said, Mapping) and said.get("cores") is not None and said.get("cpu_hz") is not None:
        clocks = {key: None if said.get(key) is None else int(said[key]) for key in ("gpu_hz", "emc_hz")}
        return PowerMode(int(said["cores"]), int(said["cpu_hz"]), clocks["gpu_hz"], clocks["emc_hz"])
    match = _SPELLED.search(said) if isinstance(said, str) else None
    if match is None:
        return None
    hertz = [None if text in (None, "–") else round(float(text) * HZ_PER_MHZ) for text in match.groups()[1:]]
    return PowerMode(int(match[1]), hertz[0] or 0, hertz[1], hertz[2])


def survey(run: Run) -> dict[str, Any]:
    """Return a run's digest with what choosing needs besides: the largest 1 s peak of power and the hottest reading."""
    document = digest(run).document()
    epochs = document["epochs"]
    power, _ = find_power(run)
    if power is not None and epochs and (document.get("power_w") or {}).get("median") is not None:
        window = epochs[0]["begin_us"] / US_PER_S, epochs[-1]["end_us"] / US_PER_S
        document["power_w"] = {**document["power_w"], "peak_1s": peak_1s_w(power.at_s, power.power_w, *window)}
    thermal = run.samples.get("thermal") or {}
    read = [told_by(column) for name, column in thermal.items() if name.endswith("temp_c")]
    document["temp_c"] = max((float(column.max()) for column in read if len(column)), default=None)
    return document


def peak_1s_w(at_s: Array, power_w: Array, start_s: float, stop_s: float) -> float | None:
    """Return the largest mean power over one second between two instants; None where the window is shorter."""
    inside = (at_s >= start_s) & (at_s <= stop_s)
    at, watts = at_s[inside], power_w[inside]
    if len(at) < 2 or at[-1] - at[0] < 1.0:
        return None
    joules = np.concatenate([[0.0], np.cumsum((watts[1:] + watts[:-1]) / 2 * np.diff(at))])
    begin = at[at <= at[-1] - 1.0]
    means = np.interp(begin + 1.0, at, joules) - np.interp(begin, at, joules)
    return float(means.max())


def measurements_from(documents: Iterable[Mapping[str, Any]]) -> list[ModeMeasurement]:
    """Return one measurement per mode from the digests that have a mode, a time and a power."""
    groups: dict[PowerMode, list[Mapping[str, Any]]] = defaultdict(list)
    for document in documents:
        mode = power_mode_of(document)
        minibatch, power = document.get("minibatch") or {}, document.get("power_w") or {}
        if mode is not None and minibatch.get("median_ms") and power.get("median"):
            groups[mode].append(document)
    found = []
    for mode, same in groups.items():
        temps = [d["temp_c"] for d in same if d.get("temp_c") is not None]
        peaks = [d["power_w"]["peak_1s"] for d in same if d["power_w"].get("peak_1s") is not None]
        found.append(
            ModeMeasurement(
                mode,
                fmean(d["minibatch"]["median_ms"] for d in same) / 1e3,
                fmean(d["power_w"]["median"] for d in same),
                weakest(Origin(d.get("origin") or Origin.REPLAYED.value) for d in same),
                fmean(d["minibatch"]["mean_ms"] for d in same) / 1e3,
                max(peaks) if peaks else None,
                max(temps) if temps else None,
                run=str(same[0].get("run")),
            )
        )
    return found


def stalls_from(documents: Iterable[Mapping[str, Any]]) -> dict[str, Array]:
    """Return fetch stall and compute per minibatch (warm epochs), in the order of `measurements_from`."""
    groups: dict[PowerMode, list[tuple[float, float]]] = defaultdict(list)
    for document in documents:
        mode = power_mode_of(document)
        minibatch, power = document.get("minibatch") or {}, document.get("power_w") or {}
        if mode is None or not minibatch.get("median_ms") or not power.get("median"):
            continue
        epochs = [e for e in document.get("epochs") or () if e.get("minibatches")]
        warm = [e for e in epochs if e["epoch"] > 0] or epochs
        count = sum(e["minibatches"] for e in warm)
        sums = [sum(epoch[name] for epoch in warm) for name in ("fetch_stall_s", "compute_s")]
        groups[mode].append((sums[0] / count, sums[1] / count) if count else (float("nan"), float("nan")))
    rows = [np.mean(values, axis=0) for values in groups.values()]
    if not rows:
        return {}
    columns = np.stack(rows, axis=1)
    return {"fetch_stall_s": columns[0], "compute_s": columns[1]}
