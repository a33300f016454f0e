"""Sums a run up from what it recorded: epochs, steady minibatches, power, energy, our own cost, doubts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgetrain.analysis.causes import Causes, find_causes
from edgetrain.analysis.doubts import collect
from edgetrain.analysis.energy import Power, energy, find_power, mean_power_w, peak_1s_w
from edgetrain.analysis.energy_by_cause import split_energy, waiting_times
from edgetrain.analysis.epochs import EpochSpan
from edgetrain.analysis.loop import TrainingLoop, find_loops, slowest
from edgetrain.analysis.loop_doubts import loop_doubts
from edgetrain.analysis.machine import with_machine
from edgetrain.analysis.parts import Parts
from edgetrain.analysis.samples import highest_temp_c, mean_between, mean_of
from edgetrain.analysis.steady import Steady, find_steady
from edgetrain.analysis.summary import (
    EnergyByCause,
    EpochSummary,
    EvaluationSummary,
    MinibatchTimes,
    OwnCost,
    PowerSummary,
    ProcessSpread,
    ProcessSummary,
    Summary,
)
from edgetrain.record import Process, Run, SamplerReport, SteadyWindow, Table
from edgetrain.units import S_PER_US, US_PER_S

MIN_ACCOUNT_S = 1.0  # of sampling; before that, a sampler has spent nearly all of its CPU time on starting
NEAREST_RESIDENCY_S = 10.0  # a residency sample further from the edge of an epoch says nothing about it


def summarize(run: Run) -> Summary:
    """Sum a run up from what it recorded."""
    manifest, loops = run.manifest, find_loops(run)
    loop = slowest(loops)
    process, parts = loop.process, loop.parts
    steady = find_steady(parts, manifest.steady)
    chosen = _chosen(parts, steady, manifest.steady is None)
    minibatch, total_s = _minibatch(parts, chosen), loop.e2e_s
    causes = find_causes(process.minibatches, process.workers, parts, mean_of(run, "cpu", "steal_share"))
    power, no_power = find_power(run)
    baseload_w = _baseload_w(run, power)
    epochs = tuple(_epochs(run, loop, causes, power, baseload_w))
    energy_by, energy_by_reason = _energy_by(run, parts, power, baseload_w, no_power)
    cost = _own_cost(run, process)
    return Summary(
        run=run.id,
        state=manifest.state,
        reason=manifest.reason,
        origin=manifest.origin,
        workload=manifest.workload,
        loading=manifest.loading,
        timing=manifest.timing,
        compute=manifest.compute,
        device=manifest.device,
        limits=manifest.limits,
        power_mode=manifest.power_mode,
        campaign=manifest.campaign,
        factors=manifest.factors,
        imported=manifest.imported,
        loaders=process.facts.loaders,
        overhead_pct=_overhead_pct(run, cost, len(parts), total_s),
        overhead=cost,
        minibatch=minibatch,
        power_w=_power_w(parts, chosen, power, epochs),
        temp_c=highest_temp_c(run),
        baseload_w=baseload_w,
        power_scope=power.scope if power else None,
        energy_method=None if power is None else ("counter" if power.counted else "trapezoids"),
        energy_reason=no_power or None,
        energy_by=energy_by,
        energy_by_reason=energy_by_reason,
        steady=steady,
        samples_per_s=_samples_per_s(process.minibatches, parts, total_s),
        parameters=process.facts.parameters,
        peak_rss_bytes=process.facts.peak_rss_bytes,
        peak_gpu_bytes=process.facts.peak_gpu_bytes,
        evaluation=_evaluation(loop),
        epochs=with_machine(run, epochs),
        processes=tuple(
            _process(one, manifest.steady, minibatch if one is loop else None) for one in loops if len(one.parts)
        ),
        process_spread=_spread([one for one in loops if len(one.parts)]),
        doubts=tuple(collect(run, (*loop_doubts(run, loops), *causes.doubts))),
    )


def _chosen(parts: Parts, steady: Steady, without_fill: bool) -> NDArray[np.bool_]:
    """Return which minibatches the medians are of: the steady ones, without the first of each epoch."""
    chosen = np.zeros(len(parts), bool)
    chosen[steady.first : steady.last + 1] = True
    if without_fill:
        chosen &= ~parts.first
    if not chosen.any():
        chosen[:] = True
    return chosen


def _minibatch(parts: Parts, chosen: NDArray[np.bool_]) -> MinibatchTimes:
    times_s = parts.e2e_s
    times_s = times_s if chosen.all() else times_s[chosen]
    if not len(times_s):
        return MinibatchTimes()
    mean_ms = float(times_s.mean() * 1e3)
    p50, p95, p99 = np.percentile(times_s, [50, 95, 99], overwrite_input=True) * 1e3
    return MinibatchTimes(float(p50), mean_ms, float(p95), float(p99))


def _process(loop: TrainingLoop, steady: SteadyWindow | None, minibatch: MinibatchTimes | None) -> ProcessSummary:
    """Sum one process up, all its epochs together; `minibatch` is known already for the slowest one."""
    facts, parts = loop.process.facts, loop.parts
    each = [_times(span, span.end_us, parts.copy_seen) for span in loop.epochs]
    steps = [span.optimizer_steps for span in loop.epochs]
    if minibatch is None:
        minibatch = _minibatch(parts, _chosen(parts, find_steady(parts, steady), steady is None))
    return ProcessSummary(
        pid=facts.pid,
        rank=facts.rank,
        local_rank=facts.local_rank,
        world_size=facts.world_size,
        epochs=len(each),
        minibatches=len(parts),
        trained=sum(span.trained for span in loop.epochs),
        optimizer_steps=None if any(one is None for one in steps) else sum(one or 0 for one in steps),
        e2e_s=loop.e2e_s,
        fetch_stall_s=_total(one.fetch_stall_s for one in each),
        hidden_wait_s=_total(one.hidden_wait_s for one in each),
        copy_s=_total(one.copy_s for one in each),
        compute_s=sum(one.compute_s for one in each),
        overhead_s=sum(one.overhead_s for one in each),
        minibatch=minibatch,
    )


def _total(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _spread(loops: Sequence[TrainingLoop]) -> ProcessSpread | None:
    if len(loops) < 2:
        return None
    took = [loop.e2e_s for loop in loops]
    stalls = [sum(span.stall_s for span in loop.epochs) for loop in loops if loop.parts.fetched is None]
    return ProcessSpread(min(took), max(took), min(stalls, default=None), max(stalls, default=None))


@dataclass(frozen=True, slots=True)
class _Times:
    """The parts of one epoch's time, in seconds."""

    e2e_s: float
    fetch_stall_s: float | None
    hidden_wait_s: float | None
    fill_s: float | None
    copy_s: float | None
    compute_s: float
    overhead_s: float


def _times(span: EpochSpan, end_us: int, copy_seen: bool) -> _Times:
    """Cut one epoch; what lies between and after its minibatches is overhead."""
    e2e_s = (end_us - span.begin_us) * S_PER_US
    copy_s = span.copy_s if copy_seen else None
    if not span.fetched:
        # Without a loader to watch, overhead cannot be separated from compute either.
        return _Times(e2e_s, None, None, None, copy_s, e2e_s - span.copy_s, 0.0)
    overhead_s = max(0.0, e2e_s - span.stall_s - span.copy_s - span.compute_s)
    return _Times(e2e_s, span.stall_s, span.hidden_s, span.fill_s, copy_s, span.compute_s, overhead_s)


def _epochs(
    run: Run, loop: TrainingLoop, causes: Causes, power: Power | None, baseload_w: float | None
) -> list[EpochSummary]:
    process = loop.process
    known = {one.epoch: one for one in process.facts.epochs if one.epoch is not None}
    read = _read_bytes(process.workers)
    residency = run.samples("residency")
    found = []
    for place, span in enumerate(loop.epochs):
        mark, end_us = known.get(span.epoch), span.end_us
        if loop.turns.labelled and mark and mark.ended_us:
            following_us = loop.epochs[place + 1].begin_us if place + 1 < len(loop.epochs) else mark.ended_us
            end_us = max(end_us, min(mark.ended_us, following_us))
        times = _times(span, end_us, loop.parts.copy_seen)
        spent = energy(power, span.begin_us, end_us) if power else None
        found.append(
            EpochSummary(
                epoch=span.epoch,
                minibatches=span.stop - span.first,
                trained=span.trained,
                optimizer_steps=span.optimizer_steps,
                e2e_s=times.e2e_s,
                fetch_stall_s=times.fetch_stall_s,
                hidden_wait_s=times.hidden_wait_s,
                fill_s=times.fill_s,
                copy_s=times.copy_s,
                compute_s=times.compute_s,
                overhead_s=times.overhead_s,
                worker_join_s=span.worker_join_s,
                evaluation_s=span.evaluation_s,
                stall_by=None if times.fetch_stall_s is None else causes.of(span.epoch, times.fetch_stall_s),
                read_bytes=None if read is None else sum(read.get(one, 0) for one in span.passes),
                read_requests=_read_requests(run, span.begin_us, end_us),
                other_load=mean_between(run, "load", "other_share", span.begin_us, end_us),
                cached_share_before=_share_near(
                    residency, span.begin_us, mark.cached_share_before if mark else None, before=place == 0
                ),
                cached_share_after=_share_near(residency, end_us, mark.cached_share_after if mark else None),
                energy_j=spent.joules if spent else None,
                energy_pm_j=spent.pm_j if spent else None,
                baseload_j=None if baseload_w is None else baseload_w * times.e2e_s,
                loss=mark.loss if mark else None,
                begin_us=span.begin_us,
                end_us=end_us,
            )
        )
    return found


def _read_requests(run: Run, begin_us: int, end_us: int) -> int | None:
    """Return the reads that the dataset's block device completed during an epoch; None where it was not sampled."""
    device, disks = run.manifest.workload.storage_device, run.samples("disk")
    counted = None if device is None else disks.get(f"{device}_reads")
    if counted is None or len(counted) < 2:
        return None
    at_us = disks["at_us"]
    edges = np.interp([begin_us, end_us], at_us, counted)
    if begin_us < at_us[0] - US_PER_S or end_us > at_us[-1] + US_PER_S or not np.all(np.isfinite(edges)):
        return None
    return max(0, round(float(edges[1] - edges[0])))


def _read_bytes(workers_table: Table) -> dict[tuple[int, int], int] | None:
    """Return the bytes that each pass over a loader read from the storage medium; None where they were not counted."""
    sums: dict[tuple[int, int], int] = {}
    counted = False
    for workers in workers_table.parts():
        if not workers or "read_bytes" not in workers:
            continue
        read, loader, generation = (workers.once(name) for name in ("read_bytes", "loader", "generation"))
        counted |= bool(np.any(read >= 0))
        if not len(read):
            continue
        # Rows of one pass lie together: one sum per stretch of equal passes, which matters for millions of rows.
        changes = np.flatnonzero((loader[1:] != loader[:-1]) | (generation[1:] != generation[:-1])) + 1
        starts = np.concatenate([[0], changes])
        of_stretch = np.add.reduceat(np.maximum(read, 0) if read.min() < 0 else read, starts)
        for number, place, total in zip(loader[starts], generation[starts], of_stretch, strict=True):
            key = int(number), int(place)
            sums[key] = sums.get(key, 0) + int(total)
    return sums if counted else None


def _share_near(residency: Table, at_us: int, recorded: float | None, before: bool = False) -> float | None:
    """Return the cached share of the dataset at the edge of an epoch: as recorded, else from the nearest sample.

    `before`: of the samples until then, if there is one: the first epoch can fill the page cache within moments.
    """
    if recorded is not None:
        return recorded
    if not len(residency):
        return None
    far = np.abs(residency["at_us"] - at_us)
    if before and residency["at_us"][0] <= at_us:
        far = np.where(residency["at_us"] <= at_us, far, np.inf)
    nearest = int(np.argmin(far))
    if far[nearest] > NEAREST_RESIDENCY_S * US_PER_S:
        return None
    share = float(residency["cached_share"][nearest])
    return share if np.isfinite(share) else None


def _baseload_w(run: Run, power: Power | None) -> float | None:
    window = run.manifest.baseload
    return None if power is None or window is None else mean_power_w(power, window.from_us, window.to_us)[1]


def _power_w(
    parts: Parts, chosen: NDArray[np.bool_], power: Power | None, epochs: Sequence[EpochSummary]
) -> PowerSummary:
    if power is None:
        return PowerSummary()
    if not len(parts):
        # Telemetry alone (an imported tegrastats log): all of it is the window.
        begin_us, end_us = power.at_s[0] * US_PER_S, power.at_s[-1] * US_PER_S
        return PowerSummary(*mean_power_w(power, begin_us, end_us), peak_1s_w(power, begin_us, end_us))
    rows = np.flatnonzero(chosen)
    steady = mean_power_w(power, int(parts.begin_us[rows[0]]), int(parts.done_us[rows[-1]]))
    return PowerSummary(*steady, peak_1s_w(power, epochs[0].begin_us, epochs[-1].end_us) if epochs else None)


def _energy_by(
    run: Run, parts: Parts, power: Power | None, baseload_w: float | None, no_power: str
) -> tuple[EnergyByCause | None, str | None]:
    """Split the energy of all epochs into baseload and what stalls and compute added to it; or say why not."""
    if power is None:
        return None, no_power
    if baseload_w is None or run.manifest.baseload is None:
        return None, "the baseload was not measured before the run; use --baseload-s 10"
    if not len(parts):
        return None, "no minibatches were recorded"
    waiting = waiting_times(run, parts) if power.scope == "gpu" else []
    return split_energy(parts, power, baseload_w, run.manifest.baseload, waiting)


def _own_cost(run: Run, process: Process) -> OwnCost:
    """Return what the tool itself cost, as it measured it."""
    facts, sampler = process.facts, _account(run)
    cost = facts.main_thread_cost
    workers = [event for event in run.events if event.kind == "cost" and event.per_batch_us]
    batches = sum(event.batches or 0 for event in workers)
    worker_us = (
        sum((event.batches or 0) * (event.per_batch_us or 0.0) for event in workers) / batches if batches else None
    )
    writing_s = sum(event.writer_cpu_s or 0.0 for event in workers) + (facts.writer_cpu_s or 0.0)
    loop_us = cost.per_minibatch_us if cost else None
    loop_s = (loop_us or 0.0) * ((cost.minibatches if cost else None) or 0) * S_PER_US
    sampler_cpu_s = sampler.cpu_s if sampler else None
    beside_s = (worker_us or 0.0) * batches * S_PER_US + writing_s + (sampler_cpu_s or 0.0)
    measured = bool(cost or workers or sampler_cpu_s is not None)
    return OwnCost(
        cpu_s=loop_s + beside_s if measured else None,
        beside_cpu_s=beside_s if measured else None,
        main_thread_us_per_minibatch=loop_us,
        worker_us_per_minibatch=worker_us,
        writing_cpu_s=writing_s if cost else None,
        sampler_cpu_s=sampler_cpu_s,
        sampler_wall_s=sampler.wall_s if sampler else None,
        sampler_cpu_share=sampler.cpu_share if sampler else None,
        sampler_read_share=sampler.read_wall_share if sampler else None,
        written_bytes=facts.written_bytes,
    )


def _account(run: Run) -> SamplerReport | None:
    """Return the sampler's account of its cost; None where it was killed before it had sampled for a while."""
    sampler = run.sampler
    killed = sampler is not None and sampler.state == "running" and run.manifest.state != "running"
    return None if sampler is None or (killed and (sampler.wall_s or 0.0) < MIN_ACCOUNT_S) else sampler


def _overhead_pct(run: Run, cost: OwnCost, minibatches: int, total_s: float) -> float | None:
    """Return the tool's overhead in percent of the run: time taken from the loop, plus our share of the cores.

    What runs beside the loop (the sampler, timing in loader workers, writing) counts against all cores; what runs in
    the loop counts in full.
    """
    cores = run.manifest.device.cores or 1
    shares = [
        share
        for share in (
            _ratio(cost.main_thread_us_per_minibatch, minibatches * S_PER_US, total_s),
            _ratio(cost.beside_cpu_s, 1.0 / cores, max(cost.sampler_wall_s or 0.0, total_s)),
        )
        if share is not None
    ]
    return 100.0 * sum(shares) if shares else None


def _ratio(value: float | None, scale: float, total: float) -> float | None:
    return None if value is None or not total else value * scale / total


def _samples_per_s(minibatches: Table, parts: Parts, total_s: float) -> float | None:
    samples = minibatches.once("samples") if "samples" in minibatches else None
    if samples is None or not total_s:
        return None
    counted = parts.picked.take(samples) if parts.wait_row is None else samples[parts.wait_row]
    seen = int(counted.sum() if not len(counted) or counted.min() >= 0 else np.maximum(counted, 0).sum())
    return seen / total_s if seen else None


def _evaluation(loop: TrainingLoop) -> EvaluationSummary | None:
    """Return what the passes that were evaluation took."""
    rows, minibatches = loop.turns.evaluation_rows, loop.process.minibatches
    if rows is None or not len(rows):
        return None
    wait = (minibatches["ready_us"][rows] - minibatches["asked_us"][rows]) * S_PER_US
    return EvaluationSummary(len(rows), float(wait.sum()))
