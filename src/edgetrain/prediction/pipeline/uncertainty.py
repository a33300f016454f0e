"""How far a predicted epoch may lie from the truth: the model is run again with its inputs varied.

What is varied, each by a log-normal factor: the machine's speed (from the spread between the recorded epochs), each
cost that the record does not show, the loader's and the step's dependence on the batch size where no probe measured it,
what computing beside busy cores and with more threads than cores costs, and the load of other programs. The measured
spread of repeats of the run is added, where there are some. Minibatches of one run are never resampled: their spread
says nothing about the next run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from edgetrain.prediction.pipeline.calibrate import CalibratedPipeline
from edgetrain.prediction.pipeline.costs import HandOver, PipelineCosts, StepKind
from edgetrain.prediction.pipeline.engine import CoreSharing
from edgetrain.prediction.pipeline.from_record import RecordedPipeline
from edgetrain.prediction.pipeline.recorded_storage import RECORDED_MEDIUM
from edgetrain.prediction.pipeline.setting import PipelineSetting

LEVEL = 0.9
QUANTILE = 1.645  # of the normal distribution, for an interval at that level
# Standard deviations of logarithms. `SPEED` is the least that two runs of one setting differ by.
SPEED = 0.03
MODEL = 0.025  # what the model leaves out
HAND_OVER_ASSUMED = 0.4
COLD_READ_ASSUMED = 0.5
WARM_FETCH_ASSUMED = 0.15
MEDIUM_FROM_READS = 0.25  # a medium that is known from this run's reads alone
MEDIUM = 0.05
BATCH_SIZE_STEP = 0.15  # per doubling, without a probe
BATCH_SIZE_FETCH = 0.04
BATCH_SIZE_PROBED = 0.03  # with one
LAUNCH_BOUND_STEP = 0.4  # of a launch-bound step, what the accelerator itself computes, without a probe
CORES_OF_STEP = 0.15  # per doubling of cores or threads that a step on the CPU uses
SHARING = 0.5  # what computing beside busy cores, and with more threads than cores, costs: set by hand on one machine
NEW_REGIME = 0.03  # workers where there were none, reads where there were none, more threads than cores
MIN_RUNS = 3  # of one setting, from which their spread says something
WIDER = 1.6  # by which all of it is multiplied; calibrated on half of the settings measured in the lab and on an H200


@dataclass(frozen=True, slots=True)
class InputSpread:
    """Standard deviations of the logarithms of what is varied."""

    speed: float
    hand_over: float = 0.0
    cold_read: float = 0.0
    medium: float = 0.0
    fetch: float = 0.0
    step: float = 0.0
    model: float = MODEL
    busy_neighbours: float = SHARING
    oversubscribed: float = SHARING


def spread_of(pipeline: CalibratedPipeline, setting: PipelineSetting, error: float) -> InputSpread:
    """Return how uncertain each input is for one setting; `error` is the model's of the recorded epoch, corrected."""
    base, costs = pipeline.base, pipeline.costs
    doublings = abs(float(np.log2(setting.batch_size / costs.batch_size)))
    fetch = (BATCH_SIZE_FETCH if costs.fetch_by_batch is None else BATCH_SIZE_PROBED) * doublings
    step = (BATCH_SIZE_STEP if costs.step_by_batch is None else BATCH_SIZE_PROBED) * doublings
    if busy_share_matters(costs, setting):
        step += LAUNCH_BOUND_STEP
    step = setting.step_deviation + (0.0 if costs.step.kind is StepKind.PACED else step)
    if costs.step.kind is StepKind.CPU:
        changed = max(setting.threads / base.setting.threads, base.setting.threads / setting.threads)
        step += CORES_OF_STEP * float(np.log2(changed))
    if "warm fetch" in costs.assumed:
        fetch += WARM_FETCH_ASSUMED
    reads = setting.medium is not None and setting.dataset is not None
    new_workers = (setting.workers > 0) != (base.setting.workers > 0)
    new_reads = reads and max(base.missed_shares, default=0.0) < 0.3
    newly_crowded = _crowded(costs, setting) and not _crowded(costs, base.setting)
    model = MODEL + NEW_REGIME * (int(new_workers) + int(new_reads) + int(newly_crowded)) + 0.5 * abs(error)
    medium = MEDIUM_FROM_READS if setting.medium is not None and setting.medium.name == RECORDED_MEDIUM else MEDIUM
    return InputSpread(
        speed=_speed(base),
        hand_over=HAND_OVER_ASSUMED if "hand-over" in costs.assumed and setting.workers else 0.1,
        cold_read=(COLD_READ_ASSUMED if "cold read" in costs.assumed else 0.2) if reads else 0.0,
        medium=medium if reads else 0.0,
        fetch=fetch,
        step=step,
        model=model,
    )


def _crowded(costs: PipelineCosts, setting: PipelineSetting) -> bool:
    """Return whether more threads can be runnable than there are cores."""
    loop = setting.threads if costs.step.kind is StepKind.CPU else 1
    return CoreSharing(setting.cores, setting.others).crowded(setting.workers + loop)


def busy_share_matters(costs: PipelineCosts, setting: PipelineSetting) -> bool:
    """Return whether an answer depends on how long the accelerator computes in a launch-bound step: that is assumed."""
    larger = setting.batch_size != costs.batch_size and costs.step_by_batch is None
    faster = setting.launch_cpu < 1.0 or setting.cpu_speed > 1.0
    return costs.step.launch_bound and (larger or faster)


def _speed(base: RecordedPipeline) -> float:
    """Return how much the machine's speed varies within the run: between epochs, and by other load."""
    later = [epoch.e2e_s for epoch in base.epochs[1:] if epoch.e2e_s > 0]
    between_epochs = float(np.std(np.log(later), ddof=1)) if len(later) > 1 else 2 * SPEED
    return float(np.sqrt(SPEED**2 + between_epochs**2 + (0.25 * base.other_load) ** 2))


def spread_between_runs(own_s: float | None, repeats_s: Sequence[float]) -> float:
    """Return the standard deviation of the logarithm of runs of one setting; 0 where fewer than three are known."""
    known_s = [each for each in (own_s, *repeats_s) if each]
    return float(np.std(np.log(known_s), ddof=1)) if len(known_s) >= MIN_RUNS else 0.0


@dataclass(frozen=True, slots=True)
class Variation:
    """One draw of everything that is varied, as factors."""

    speed: float
    hand_over: float
    cold_read: float
    medium: float
    fetch: float
    step: float
    model: float
    busy_neighbours: float = 1.0
    oversubscribed: float = 1.0

    def of_costs(self, costs: PipelineCosts) -> PipelineCosts:
        """Return varied costs."""
        old = costs.hand_over
        factor = self.hand_over * self.speed
        hand_over = HandOver(
            old.ship_s * factor, old.receive_s * factor, old.latency_s * factor, old.release_s * factor
        )
        on_cpu = costs.step.kind is StepKind.CPU
        step = self.step * (self.speed if on_cpu else 1.0)
        changed = costs.with_fetch(self.fetch * self.speed).with_step(
            step if costs.step.kind is not StepKind.PACED else 1.0
        )
        return replace(
            changed,
            hand_over=hand_over,
            cold_cpu_s=costs.cold_cpu_s * self.cold_read * self.speed,
            busy_neighbours=costs.busy_neighbours * self.busy_neighbours,
            oversubscribed=costs.oversubscribed * self.oversubscribed,
        )

    def of_setting(self, setting: PipelineSetting) -> PipelineSetting:
        """Return the setting with its medium varied, and its step where that is paced."""
        if setting.fixed_step_s is not None:
            setting = replace(setting, fixed_step_s=setting.fixed_step_s * self.step)
        medium = setting.medium
        if medium is None:
            return setting
        slower = replace(medium, read_s=medium.read_s * self.medium, bytes_per_s=medium.bytes_per_s / self.medium)
        return replace(setting, medium=slower)


def draw_variations(spread: InputSpread, count: int, seed: int = 0) -> list[Variation]:
    """Draw factors, in pairs that mirror each other, so that their mean effect is small."""
    rng = np.random.default_rng(seed)
    normal = np.hstack([rng.standard_normal(((count + 1) // 2, columns)) for columns in (7, 2)])
    both = np.concatenate([normal, -normal])[:count]
    deviations = [
        spread.speed, spread.hand_over, spread.cold_read, spread.medium, spread.fetch, spread.step, spread.model,
        spread.busy_neighbours, spread.oversubscribed,
    ]  # fmt: skip
    return [Variation(*row) for row in np.exp(both * deviations).tolist()]


def interval(value: float, replicas: Sequence[float], between_runs: float = 0.0) -> tuple[float, float]:
    """Return the bounds of a value from replicas of it and the spread of repeats, at the level of `LEVEL`."""
    positive = [each for each in replicas if each > 0]
    if value <= 0 or len(positive) < 2:
        return (min([value, *replicas], default=value), max([value, *replicas], default=value))
    deviation = float(np.sqrt(np.mean(np.log(np.array(positive) / value) ** 2)))
    reach = float(np.exp(QUANTILE * np.hypot(WIDER * deviation, between_runs)))
    return value / reach, value * reach
