"""Fits the model to the run it came from: the recorded setting is simulated, and one cost is scaled until it agrees.

Which cost depends on what limits the recorded run. Scaling another one would reproduce the run as well and ruin every
other answer: the loader's CPU time where the workers are always busy (or the loop fetches by itself), the hand-over
where they are not, the step where it computes on the CPU beside the loader. What the loop does beside all that is
simulated (evaluation, checkpoints) is added to each minibatch, not spread over its parts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from edgetrain.analysis import EpochSummary
from edgetrain.prediction.pipeline.costs import PipelineCosts, StepKind
from edgetrain.prediction.pipeline.epoch import SimulatedEpoch, simulate_epoch
from edgetrain.prediction.pipeline.from_record import RecordedPipeline
from edgetrain.prediction.pipeline.recorded_storage import RECORDED_MEDIUM
from edgetrain.schema import StorageModel

ROUNDS = 4
WORKERS_BUSY = 0.9  # of their time, spent fetching: the workers are what limits the run
SMALLEST, LARGEST = 0.6, 1.7  # a cost that must be scaled further is not what is wrong
MAX_COLD_CPU_S = 6e-3
MAX_MEDIUM_FACTOR = 4.0  # by which a medium that is known from its reads may be slower or faster than they look


@dataclass(frozen=True, slots=True)
class CalibratedPipeline:
    """A recorded run and costs that reproduce it."""

    base: RecordedPipeline
    costs: PipelineCosts
    first_error: float  # log of simulated over recorded end-to-end time, first epoch
    later_error: float  # the same for later epochs


def calibrate(base: RecordedPipeline) -> CalibratedPipeline:
    """Scale the costs of a run until the model reproduces its epochs."""
    later = _later(base)
    costs = base.costs
    missed = _mean_missed(base, later)
    first_index = 0 if later[0] is base.epochs[0] else 1
    target_stall_s = float(np.mean([epoch.fetch_stall_s or 0.0 for epoch in later]))
    target_compute_s = float(np.mean([epoch.compute_s for epoch in later]))
    step = loader = hand_over = 1.0
    simulated = _simulate(base, costs, first_index, missed)
    for _ in range(ROUNDS):
        if costs.step.kind is StepKind.CPU:
            step = _clip(step * _ratio(target_compute_s, simulated.compute_s))
        if base.setting.workers == 0 or simulated.worker_busy > WORKERS_BUSY:
            # The workers' pace is the epoch's: what was stalled is the difference between it and the step's.
            busy_s = simulated.e2e_s if base.setting.workers else simulated.stall_s
            gap_s = target_stall_s - simulated.stall_s
            loader = _clip(loader * (1.0 + gap_s / max(busy_s, 1e-9)))
        elif simulated.stall_s > 0:
            hand_over = _clip(hand_over * _ratio(target_stall_s, simulated.stall_s))
        costs = base.costs.with_step(step).with_fetch(loader).with_hand_over(hand_over)
        simulated = _simulate(base, costs, first_index, missed)
    aside_s = float(np.mean([epoch.overhead_s for epoch in later])) - simulated.overhead_s
    costs = replace(costs, aside_s=max(0.0, aside_s) / base.setting.minibatches)
    base, costs, first = _fit_cold_reads(base, costs)
    simulated = _simulate(base, costs, first_index, missed)  # with the costs of reads as they were fitted
    return CalibratedPipeline(
        base,
        costs,
        first_error=_log_ratio(first.e2e_s, base.epochs[0].e2e_s),
        later_error=_log_ratio(simulated.e2e_s, float(np.mean([epoch.e2e_s for epoch in later]))),
    )


def _later(base: RecordedPipeline) -> list[EpochSummary]:
    return list(base.epochs[1:]) or list(base.epochs)


def _mean_missed(base: RecordedPipeline, later: list[EpochSummary]) -> float:
    return float(np.mean(base.missed_shares[-len(later) :]))


def _simulate(base: RecordedPipeline, costs: PipelineCosts, epoch: int, missed: float) -> SimulatedEpoch:
    return simulate_epoch(base.setting, costs, epoch, missed_share=missed)


def _fit_cold_reads(
    base: RecordedPipeline, costs: PipelineCosts
) -> tuple[RecordedPipeline, PipelineCosts, SimulatedEpoch]:
    """Scale the CPU time of cold reads, or a medium that is known from them, until a cold first epoch is reproduced."""
    missed, medium = base.missed_shares[0], base.setting.medium
    first = _simulate(base, costs, 0, missed)
    if missed < 0.3 or medium is None or len(base.epochs) < 2:
        return base, costs, first
    if medium.name == RECORDED_MEDIUM:
        base = _fit_medium(base, medium, costs, missed)
        return base, costs, _simulate(base, costs, 0, missed)
    reads = missed * base.setting.samples
    share = 1.0 / max(1, base.setting.workers)
    for _ in range(ROUNDS):
        gap_s = base.epochs[0].e2e_s - first.e2e_s
        cold_s = float(np.clip(costs.cold_cpu_s + gap_s / max(1.0, reads * share), 0.0, MAX_COLD_CPU_S))
        costs = replace(costs, cold_cpu_s=cold_s)
        first = _simulate(base, costs, 0, missed)
    return base, costs, first


def _fit_medium(base: RecordedPipeline, medium: StorageModel, costs: PipelineCosts, missed: float) -> RecordedPipeline:
    """Scale the times of a medium until the first epoch is reproduced: how its readers overlapped is not recorded."""
    factor = 1.0
    for _ in range(ROUNDS):
        first = _simulate(base, costs, 0, missed)
        gap_s = base.epochs[0].e2e_s - first.e2e_s
        factor *= float(np.clip(1.0 + gap_s / max(first.stall_s, 0.1 * first.e2e_s), 0.5, 2.0))
        factor = float(np.clip(factor, 1.0 / MAX_MEDIUM_FACTOR, MAX_MEDIUM_FACTOR))
        scaled = replace(medium, read_s=medium.read_s * factor, bytes_per_s=medium.bytes_per_s / factor)
        base = replace(base, setting=replace(base.setting, medium=scaled))
    return base


def _ratio(wanted: float, found: float) -> float:
    return wanted / found if found > 0 and wanted > 0 else 1.0


def _clip(factor: float) -> float:
    return float(np.clip(factor, SMALLEST, LARGEST))


def _log_ratio(found: float, wanted: float) -> float:
    return float(np.log(found / wanted)) if found > 0 and wanted > 0 else 0.0
