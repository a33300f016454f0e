"""Sums a run up: epoch by epoch, where the seconds and the joules went, and how far to trust it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgetrain.analysis.breakdown import Parts, break_down, once
from edgetrain.analysis.causes import Causes, find_causes
from edgetrain.analysis.doubts import collect
from edgetrain.analysis.energy import Power, energy, find_power, mean_power_w, split_windows, told_apart
from edgetrain.analysis.steady import Steady, find_steady
from edgetrain.schema import SCHEMA, Columns, Run
from edgetrain.units import S_PER_US, US_PER_S

NEAREST_RESIDENCY_S = 10.0  # a residency sample further from an epoch's edge than this says nothing about it


@dataclass(frozen=True)
class Digest:
    """A run summed up. `document()` is the JSON that every command gives; `parts` are kept for pictures."""

    run: Run
    parts: Parts
    steady: Steady
    epochs: tuple[dict[str, Any], ...]
    summary: Mapping[str, Any]
    doubts: tuple[dict[str, str], ...]

    def document(self) -> dict[str, Any]:
        """Return the JSON document: what was not measured is None, never 0."""
        manifest = self.run.manifest
        inside = manifest.get("inside") or {}
        return {
            "schema": SCHEMA,
            "run": self.run.run,
            "state": manifest.get("state"),
            "reason": manifest.get("reason"),
            "origin": manifest.get("origin"),
            "workload": manifest.get("workload"),
            "loading": manifest.get("loading"),
            "timing": manifest.get("timing"),
            "compute": manifest.get("compute"),
            "device": manifest.get("device"),
            "limits": manifest.get("limits"),
            "power_mode": manifest.get("power_mode"),
            "campaign": manifest.get("campaign"),
            "factors": manifest.get("factors"),
            "imported": manifest.get("imported"),
            "loaders": inside.get("loaders"),
            **self.summary,
            "epochs": list(self.epochs),
            "doubts": list(self.doubts),
        }


def digest(run: Run) -> Digest:
    """Sum a run up from what it recorded."""
    parts = break_down(run.minibatches)
    steady = find_steady(parts, run.manifest.get("steady"))
    chosen = np.zeros(len(parts), bool)
    chosen[steady.first : steady.last + 1] = True
    if run.manifest.get("steady") is None:
        chosen &= ~parts.first
    if not chosen.any():
        chosen[:] = True
    e2e_s = parts.e2e_s
    total_s = float(e2e_s.sum())
    minibatch = _minibatch(e2e_s if chosen.all() else e2e_s[chosen])
    del e2e_s
    causes = find_causes(run, parts)
    power, no_power = find_power(run)
    epochs = tuple(_epochs(run, parts, causes, power))
    baseload = _baseload_w(run, power)
    for epoch in epochs:
        epoch["baseload_j"] = None if baseload is None else baseload * epoch["e2e_s"]
    summary = {
        "overhead_pct": _overhead_pct(run, len(parts), total_s),
        "overhead": _overhead(run),
        "minibatch": minibatch,
        "power_w": _power_w(parts, chosen, power),
        "baseload_w": baseload,
        "power_scope": power.scope if power else None,
        "energy_method": None if power is None else ("counter" if power.counted else "trapezoids"),
        "energy_reason": no_power or None,
        **_energy_by(parts, power, baseload, no_power),
        "steady": {"first": steady.first, "last": steady.last, "rule": steady.rule},
        "samples_per_s": _samples_per_s(run.minibatches, parts, total_s),
        "parameters": (run.manifest.get("inside") or {}).get("parameters"),
        "peak_rss_bytes": (run.manifest.get("inside") or {}).get("peak_rss_bytes"),
        "peak_gpu_bytes": (run.manifest.get("inside") or {}).get("peak_gpu_bytes"),
        "evaluation": _evaluation(run.minibatches),
    }
    doubts = tuple(collect(run, causes.doubts))
    return Digest(run, parts, steady, epochs, summary, doubts)


def _minibatch(times_s: NDArray[np.float64]) -> dict[str, float | None]:
    if not len(times_s):
        return {"median_ms": None, "mean_ms": None, "p95_ms": None, "p99_ms": None}
    mean_ms = float(times_s.mean() * 1e3)
    p50, p95, p99 = np.percentile(times_s, [50, 95, 99], overwrite_input=True) * 1e3
    return {"median_ms": float(p50), "mean_ms": mean_ms, "p95_ms": float(p95), "p99_ms": float(p99)}


def _epochs(run: Run, parts: Parts, causes: Causes, power: Power | None) -> list[dict[str, Any]]:
    known = {
        int(mark["epoch"]): mark
        for mark in (run.manifest.get("inside") or {}).get("epochs") or ()
        if isinstance(mark, dict) and mark.get("epoch") is not None
    }
    edges = np.flatnonzero(parts.first)
    stops = np.append(edges[1:], len(parts)) if len(edges) else edges
    read = _read_bytes(run)
    passes = _passes(run.minibatches, edges if parts.picked is None else parts.picked[edges]) if len(edges) else []
    rows = []
    for start, stop, made_in in zip(edges.tolist(), stops.tolist(), passes, strict=True):
        number = int(parts.epoch[start])
        part = parts.take(slice(start, stop))
        begin_us, done_us = int(parts.begin_us[start]), int(parts.done_us[stop - 1])
        ended_us = int((known.get(number) or {}).get("ended_us") or done_us)
        following_us = int(parts.begin_us[stop]) if stop < len(parts) else ended_us
        end_us = max(done_us, min(ended_us, following_us))
        tail_s = (end_us - done_us) * S_PER_US
        stall = float(part.stall_s.sum())
        spent = energy(power, begin_us, end_us) if power else None
        rows.append(
            {
                "epoch": number,
                "minibatches": stop - start,
                "e2e_s": float(part.e2e_s.sum()) + tail_s,
                "fetch_stall_s": stall,
                "hidden_wait_s": float(part.hidden_s.sum()),
                "fill_s": float(part.take(slice(1)).stall_s[0]),
                "copy_s": float(part.copy_s.sum()) if parts.copy_seen else None,
                "compute_s": float(part.compute_s.sum()),
                "overhead_s": float(part.overhead_s.sum()) + tail_s,
                "stall_by": causes.of(number, stall),
                "read_bytes": None if read is None else read.get(made_in, 0),
                "cached_share_before": _share_near(run.samples.get("residency"), begin_us, known.get(number), "before"),
                "cached_share_after": _share_near(run.samples.get("residency"), end_us, known.get(number), "after"),
                "energy_j": spent.joules if spent else None,
                "energy_pm_j": spent.pm_j if spent else None,
                "baseload_j": None,
                "loss": (known.get(number) or {}).get("loss"),
                "begin_us": begin_us,
                "end_us": end_us,
            }
        )
    return rows


def _passes(minibatches: Columns, rows: NDArray[np.int64]) -> list[tuple[int, int]]:
    """Return the pass over a loader that each of these rows belongs to."""
    return list(zip(*(once(minibatches, name)[rows].tolist() for name in ("loader", "generation")), strict=True))


def _read_bytes(run: Run) -> dict[tuple[int, int], int] | None:
    """Return the bytes that each pass over a loader read from the storage medium; None where nobody counted."""
    sums: dict[tuple[int, int], int] = {}
    counted = False
    for workers in run.workers.streams() if hasattr(run.workers, "streams") else [run.workers]:
        if not workers or "read_bytes" not in workers:
            continue
        read, loader, generation = (once(workers, name) for name in ("read_bytes", "loader", "generation"))
        counted |= bool(np.any(read >= 0))
        if not len(read):
            continue
        # Rows of one pass lie together: summed up stretch by stretch, which a long run feels.
        changes = np.flatnonzero((loader[1:] != loader[:-1]) | (generation[1:] != generation[:-1])) + 1
        starts = np.concatenate([[0], changes])
        of_stretch = np.add.reduceat(np.maximum(read, 0) if read.min() < 0 else read, starts)
        for number, place, total in zip(loader[starts], generation[starts], of_stretch, strict=True):
            key = int(number), int(place)
            sums[key] = sums.get(key, 0) + int(total)
    return sums if counted else None


def _share_near(residency: Columns | None, at_us: int, mark: Mapping[str, Any] | None, edge: str) -> float | None:
    """Return the cached share of the dataset at an epoch's edge, from the nearest look at it."""
    if mark and mark.get(f"cached_share_{edge}") is not None:
        return float(mark[f"cached_share_{edge}"])
    if residency is None or not len(residency["at_us"]):
        return None
    far = np.abs(residency["at_us"] - at_us)
    nearest = int(np.argmin(far))
    if far[nearest] > NEAREST_RESIDENCY_S * US_PER_S:
        return None
    share = float(residency["cached_share"][nearest])
    return share if np.isfinite(share) else None


def _baseload_w(run: Run, power: Power | None) -> float | None:
    window = run.manifest.get("baseload")
    if power is None or not window or window.get("from_us") is None:
        return None
    return mean_power_w(power, window["from_us"], window["to_us"])[1]


def _power_w(parts: Parts, chosen: NDArray[np.bool_], power: Power | None) -> dict[str, float | None]:
    if power is None:
        return {"median": None, "mean": None}
    if not len(parts):
        # Telemetry alone (an imported tegrastats log): the whole of it is the window.
        median, mean = mean_power_w(power, power.at_s[0] * US_PER_S, power.at_s[-1] * US_PER_S)
        return {"median": median, "mean": mean}
    rows = np.flatnonzero(chosen)
    median, mean = mean_power_w(power, int(parts.begin_us[rows[0]]), int(parts.done_us[rows[-1]]))
    return {"median": median, "mean": mean}


def _energy_by(parts: Parts, power: Power | None, baseload_w: float | None, no_power: str) -> dict[str, Any]:
    """Split the energy of all epochs into baseload and what stalls and compute added to it."""

    def no(reason: str) -> dict[str, Any]:
        return {"energy_by": None, "energy_by_reason": reason}

    if power is None:
        return no(no_power)
    if baseload_w is None:
        return no("the baseload was not measured before the run; use --baseload-s 10")
    if not len(parts):
        return no("no minibatches were recorded")
    whole = energy(power, int(parts.begin_us[0]), int(parts.done_us[-1]))
    if whole is None:
        return no("power was not sampled during the whole run")
    stalls = _join(parts.stall_from_us, parts.stall_to_us)
    busy = _join(parts.start_us, parts.done_us)
    for name, windows in (("stalls", stalls), ("compute", busy)):
        if not told_apart(power, windows):
            return no(
                f"{name} mostly last less than five refreshes of the power sensor "
                f"({power.refresh_s * 1e3:.0f} ms each), so their power cannot be told apart"
            )
    stall_s = sum(stop - start for start, stop in stalls) * S_PER_US
    total_s = float(parts.done_us[-1] - parts.begin_us[0]) * S_PER_US
    stall_j = split_windows(power, stalls) - baseload_w * stall_s
    baseload_j = baseload_w * total_s
    rest_j = whole.joules - split_windows(power, stalls) - baseload_w * (total_s - stall_s)
    return {
        "energy_by": {"stall_j": stall_j, "compute_j": rest_j, "baseload_j": baseload_j, "pm_j": whole.pm_j},
        "energy_by_reason": None,
    }


def _join(starts: NDArray[np.int64], stops: NDArray[np.int64]) -> list[tuple[int, int]]:
    """Return windows as pairs; empty ones dropped, neighbours closer than a millisecond joined."""
    windows: list[tuple[int, int]] = []
    keep = stops > starts
    for start, stop in zip(starts[keep].tolist(), stops[keep].tolist(), strict=True):
        if windows and start - windows[-1][1] <= 1000:
            windows[-1] = (windows[-1][0], stop)
        else:
            windows.append((start, stop))
    return windows


def _overhead(run: Run) -> dict[str, Any]:
    """Return what the tool itself cost, as it measured it."""
    inside, sampler = run.manifest.get("inside") or {}, run.manifest.get("sampler") or {}
    cost = inside.get("main_thread_cost") or {}
    workers = [event for event in run.events if event.get("kind") == "cost" and event.get("per_batch_us")]
    batches = sum(int(event.get("batches") or 0) for event in workers)
    worker_us = (
        sum((event.get("batches") or 0) * event["per_batch_us"] for event in workers) / batches if batches else None
    )
    writers_s = sum(event.get("writer_cpu_s") or 0.0 for event in workers)
    writing_s = writers_s + (inside.get("keeper_cpu_s") or 0.0)
    loop_us = cost.get("per_minibatch_us")
    loop_s = (loop_us or 0.0) * (cost.get("minibatches") or 0) * S_PER_US
    beside_s = (worker_us or 0.0) * batches * S_PER_US + writing_s + (sampler.get("cpu_s") or 0.0)
    measured = cost or workers or sampler.get("cpu_s") is not None
    return {
        "cpu_s": loop_s + beside_s if measured else None,
        "beside_cpu_s": beside_s if measured else None,  # of it, what the training thread did not pay
        "main_thread_us_per_minibatch": loop_us,
        "worker_us_per_minibatch": worker_us,
        "writing_cpu_s": writing_s if cost else None,
        "sampler_cpu_s": sampler.get("cpu_s"),
        "sampler_wall_s": sampler.get("wall_s"),
        "sampler_cpu_share": sampler.get("cpu_share"),  # of one core, once it runs
        "sampler_read_share": sampler.get("read_wall_share"),  # of the wall clock, waiting on sensors included
        "written_bytes": inside.get("written_bytes"),
    }


def _overhead_pct(run: Run, minibatches: int, total_s: float) -> float | None:
    """Return the tool's overhead in percent of the run: the loop's time we took, plus our share of the machine's cores.

    What runs beside the loop (the sampler, the watching in loader workers, the writing) counts against all cores; the
    stopwatch in the loop counts in full.
    """
    cost = _overhead(run)
    cores = (run.manifest.get("device") or {}).get("cores") or 1
    shares: Sequence[float] = [
        share
        for share in (
            _ratio(cost["main_thread_us_per_minibatch"], minibatches * S_PER_US, total_s),
            _ratio(cost["beside_cpu_s"], 1.0 / cores, cost["sampler_wall_s"] or total_s),
        )
        if share is not None
    ]
    return 100.0 * sum(shares) if shares else None


def _ratio(value: float | None, scale: float, total: float) -> float | None:
    return None if value is None or not total else value * scale / total


def _samples_per_s(minibatches: Columns, parts: Parts, total_s: float) -> float | None:
    samples = once(minibatches, "samples") if minibatches and "samples" in minibatches else None
    if samples is None or not total_s:
        return None
    counted = samples if parts.picked is None else samples[parts.picked]
    seen = int(np.maximum(counted, 0).sum())
    return seen / total_s if seen else None


def _evaluation(minibatches: Columns) -> dict[str, Any] | None:
    """Return what the passes that were evaluation took; they are told apart from training."""
    if not minibatches or "phase" not in minibatches:
        return None
    rows = np.flatnonzero(minibatches["phase"] == 2)
    if not len(rows):
        return None
    wait = (minibatches["ready_us"][rows] - minibatches["asked_us"][rows]) * S_PER_US
    return {"minibatches": len(rows), "wait_s": float(wait.sum())}
