"""What a training step costs, as a run's record shows it: on an accelerator, on the CPU, or paced."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from edgetrain.analysis import RecordedRows, Summary, is_launch_bound
from edgetrain.prediction.pipeline.costs import MAX_AHEAD, StepCosts, StepKind
from edgetrain.record import Run
from edgetrain.units import MS_PER_S

SIMULATED = "simulated"
ON_ACCELERATOR = ("cuda", SIMULATED)  # kinds of compute
OVERSLEPT_S = 0.15e-3  # a paced step sleeps this much too long (measured: 0.1 to 0.3 ms)
WAITED_S = 50e-6  # a loop that asks this soon after a step was done has waited for it
WARM_UP_STEPS, WARM_UP_LONGER = 20, 0.25  # the first steps; one that is this much longer warms up
BUSY_WHEN_LAUNCH_BOUND = 0.3  # of a launch-bound step the accelerator computes this share (assumed: it is not seen)
CPU_FIXED_S = 1e-3  # of a step on the CPU, what does not follow the batch size (assumed)


def step_costs(
    run: Run,
    summary: Summary,
    rows: RecordedRows,
    chosen: NDArray[np.bool_],
    pinned: bool = False,
    cpu_share: float = 1.0,
) -> tuple[StepCosts, float | None]:
    """Return the costs of a step, and what freeing the previous minibatch takes where that is seen.

    `pinned`: minibatches came from page-locked memory. `cpu_share` is the speed that the lab left to the cores: what
    the loop does was recorded as durations, and costs are at full speed.
    """
    copying = rows.copying_s
    begin = np.where(np.isnan(copying), rows.ready_s, copying)
    step, release_s = _step_costs(run, summary, rows, chosen, begin)
    step = _at_full_speed(step, cpu_share)
    release_s = None if release_s is None else release_s * cpu_share
    step = replace(step, pinned=pinned and step.kind is StepKind.ACCELERATOR)
    if step.kind is StepKind.PACED:
        return step, release_s
    return replace(step, warm_up_s=_warm_up_s(rows)), release_s


def _step_costs(
    run: Run, summary: Summary, rows: RecordedRows, chosen: NDArray[np.bool_], begin: NDArray[np.float64]
) -> tuple[StepCosts, float | None]:
    kind = summary.compute.kind if summary.compute else None
    released = (rows.copying_s - rows.ready_s)[chosen]
    release_s = float(np.nanmedian(released)) if (~np.isnan(released)).any() else None
    gap_s = _gap_s(rows, chosen)
    if kind == "paced" and summary.compute is not None:
        total_s = (rows.done_s - begin)[chosen]
        asked_s = (summary.compute.ms or 0.0) / MS_PER_S
        if np.all(rows.own[chosen]) or not asked_s:
            return StepCosts(StepKind.PACED, total_s, gap_s=gap_s, release_in_step=True), None
        usual_s = float(np.median(total_s))
        slept_s = min(asked_s + OVERSLEPT_S, usual_s)
        released_s = usual_s - slept_s
        step = StepCosts(StepKind.PACED, np.full(len(total_s), slept_s), gap_s=gap_s, release_in_step=True)
        return step, released_s
    if run.main.facts.gpu is None and kind not in ON_ACCELERATOR:
        step_s = (rows.done_s - begin)[chosen]
        fixed_s = min(CPU_FIXED_S, 0.5 * float(np.median(step_s)))
        threads = run.main.facts.threads or summary.device.threads or 1
        return StepCosts(StepKind.CPU, step_s, fixed_s=fixed_s, threads=threads, gap_s=gap_s), release_s
    step = _on_accelerator(rows, chosen, gap_s)
    if kind == SIMULATED:
        # A simulated board says nothing about the host: its steps are computed as they are.
        return replace(step, step_s=rows.parts.compute_s[chosen], launch_s=0.0, busy=1.0), None
    return step, release_s


def _at_full_speed(step: StepCosts, cpu_share: float) -> StepCosts:
    """Return what the loop's own work would take on cores at full speed."""
    if step.kind is StepKind.CPU:
        step = replace(step, step_s=step.step_s * cpu_share, fixed_s=step.fixed_s * cpu_share)
    return replace(step, launch_s=step.launch_s * cpu_share, gap_s=step.gap_s * cpu_share)


def _warm_up_s(rows: RecordedRows) -> float:
    """Return how much longer the first steps took than later ones: libraries load, kernels are chosen."""
    compute_s = rows.parts.compute_s
    if len(compute_s) <= 2 * WARM_UP_STEPS:
        return 0.0
    usual_s = float(np.median(compute_s[WARM_UP_STEPS:]))
    longer_s = compute_s[:WARM_UP_STEPS] - usual_s
    return float(longer_s[longer_s > WARM_UP_LONGER * usual_s].sum())


def _gap_s(rows: RecordedRows, chosen: NDArray[np.bool_]) -> float:
    """Return the loop's own time between a step and the next request for data."""
    gap = rows.asked_s[1:] - rows.done_s[:-1]
    inside = chosen[1:] & ~rows.parts.first[1:]
    return max(0.0, float(np.median(gap[inside]))) if inside.any() else 0.0


def _on_accelerator(rows: RecordedRows, chosen: NDArray[np.bool_], gap_s: float) -> StepCosts:
    parts = rows.parts
    compute_s, copy_s = parts.compute_s[chosen], parts.copy_s[chosen]
    ahead = steps_ahead(rows, chosen)
    host = np.where(np.isnan(rows.copying_s), rows.ready_s, rows.copying_s)
    if ahead <= 1:
        host = np.fmax(host, parts.copied_us * 1e-6)
    launch = np.maximum(rows.launched_s - host, 0.0)[chosen]
    launch_s = float(np.nanmedian(launch)) if (~np.isnan(launch)).any() else 0.0
    busy = BUSY_WHEN_LAUNCH_BOUND if is_launch_bound(rows, chosen) else 1.0
    return StepCosts(
        StepKind.ACCELERATOR,
        compute_s * busy,
        fixed_s=0.0,
        launch_s=launch_s,
        copy_s=float(np.median(copy_s)) if parts.copy_seen else 0.0,
        gap_s=max(0.0, gap_s),
        ahead=ahead,
        busy=busy,
    )


def steps_ahead(rows: RecordedRows, chosen: NDArray[np.bool_]) -> int:
    """Return how many steps the loop issues before it waits for one; 0: it waits for each."""
    inside = chosen[1:] & ~rows.parts.first[1:]
    if not inside.any():
        return 0
    waited = rows.asked_s[1:] >= rows.done_s[:-1] - WAITED_S
    if waited[inside].mean() > 0.9:
        return 0
    launched = np.where(np.isnan(rows.launched_s), rows.done_s, rows.launched_s)
    # Steps that were issued and not done when each step had been issued, itself included.
    done_before = np.searchsorted(rows.done_s, launched, side="right")
    outstanding = np.arange(len(rows)) + 1 - done_before
    usual = int(np.percentile(outstanding[chosen], 90))
    return 1 if usual <= 1 else MAX_AHEAD
