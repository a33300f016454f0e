"""Predicts the epochs of a training under another setting, from one recorded run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import exp, expm1, hypot

from edgetrain.analysis import Summary
from edgetrain.prediction.pipeline.calibrate import CalibratedPipeline, calibrate
from edgetrain.prediction.pipeline.costs import StepKind
from edgetrain.prediction.pipeline.energy import PowerByPart, power_by_part
from edgetrain.prediction.pipeline.epoch import Budget, SimulatedEpoch, simulate_epoch
from edgetrain.prediction.pipeline.from_record import RecordedPipeline, later_mean_s, read_pipeline
from edgetrain.prediction.pipeline.recorded_storage import TrainingMemory
from edgetrain.prediction.pipeline.setting import COLD, WARM, PipelineSetting
from edgetrain.prediction.pipeline.uncertainty import (
    LEVEL,
    QUANTILE,
    WIDER,
    busy_share_matters,
    draw_variations,
    interval,
    spread_between_runs,
    spread_of,
)
from edgetrain.record import Run
from edgetrain.schema import Estimate, Origin

MUCH_WAITING = 0.2  # of a fetch: more workers help only if they can wait at the same time
LARGE_ERROR = 0.25  # of an epoch, as a logarithm: a larger one is said
STARTED_AGAIN = "workers: started again in every epoch, as torch does by default; persistent=true keeps them"
SHARDED = (
    "stream (IterableDataset): it must be sharded between workers; else each of them delivers every sample, and an "
    "epoch takes longer instead"
)
REPLICAS = 12
REPLICA_BUDGET = Budget(minibatches=96, samples=1600)


@dataclass(frozen=True, slots=True)
class EpochPrediction:
    """One predicted epoch."""

    cache: str  # before it: cold (empty), or warm (with as much of the dataset as it holds; so before later epochs)
    e2e_s: Estimate
    stall_s: Estimate
    compute_s: Estimate
    energy_j: Estimate | None
    read_share: float  # of the samples, those read from the medium


@dataclass(frozen=True, slots=True)
class PipelinePrediction:
    """A training under one setting: its first epoch and its later ones."""

    setting: PipelineSetting
    first: EpochPrediction
    later: EpochPrediction
    assumed: tuple[str, ...]  # what was assumed for want of a record of it


@dataclass(frozen=True, slots=True)
class EpochPoint:
    """One predicted epoch without its interval."""

    e2e_s: float
    stall_s: float
    compute_s: float
    energy_j: float | None


@dataclass(frozen=True, slots=True)
class FirstReads:
    """What the first epoch finds in the page cache."""

    unread: float  # share of the samples that were not in it when the training began
    missed_share: float | None  # of the samples, those read from the medium; None: as the page cache implies


@dataclass(frozen=True, slots=True)
class PointPrediction:
    """A training under one setting, from one simulation of each epoch: the values of `PipelinePrediction`."""

    setting: PipelineSetting
    first: EpochPoint
    later: EpochPoint
    assumed: tuple[str, ...]


def no_pause() -> None:
    """Go on with the next simulation."""


class PipelinePredictor:
    """Answers what one recorded training would take under other settings."""

    def __init__(
        self,
        run: Run,
        summary: Summary,
        repeats_s: Sequence[float] = (),
        memory: TrainingMemory | None = None,
        notes: Sequence[str] = (),
    ) -> None:
        """`repeats_s` are durations of a later epoch in other runs of the same setting.

        `memory` is what system and training hold of the RAM, `notes` are said beside those about the record.
        """
        self.pipeline: CalibratedPipeline = calibrate(read_pipeline(run, summary, memory))
        self.base: RecordedPipeline = self.pipeline.base
        self._notes = tuple(notes)
        self._power: PowerByPart | None = power_by_part(summary)
        self.repeats = len(repeats_s)
        self.between_runs = spread_between_runs(later_mean_s(self.base.epochs), repeats_s)

    @property
    def notes(self) -> tuple[str, ...]:
        """What the record lacks, and how wrong the model is where it is very wrong."""
        return (*self.base.notes, *self._notes, *self.warnings)

    @property
    def warnings(self) -> tuple[str, ...]:
        """How wrong the model is of the recorded epochs, where it is very wrong."""
        error = max(abs(self.pipeline.first_error), abs(self.pipeline.later_error))
        if error <= LARGE_ERROR:
            return ()
        return (
            f"the model reproduces the recorded epochs only within {expm1(error):.0%}: something that it does not "
            "describe takes time, so its answers are uncertain",
        )

    @property
    def setting(self) -> PipelineSetting:
        """The recorded setting."""
        return self.base.setting

    def predict_point(
        self, setting: PipelineSetting, cold: bool = True, power: float | None = 1.0, seed: int = 0
    ) -> PointPrediction:
        """Predict one setting without intervals, in a tenth of the time; the values are those of `predict`."""
        points = []
        for epoch in (0, 1):
            found = self._simulate(setting, epoch, cold, seed)
            known = None if self._power is None or power is None else self._power.scaled(power)
            energy_j = None if known is None else known.spent_j(found.e2e_s, found.stall_s)
            points.append(EpochPoint(found.e2e_s, found.stall_s, found.compute_s, energy_j))
        return PointPrediction(setting, points[0], points[1], self._assumed(setting))

    def predict(
        self,
        setting: PipelineSetting,
        cold: bool = True,
        power: float | None = 1.0,
        seed: int = 0,
        pause: Callable[[], None] = no_pause,
    ) -> PipelinePrediction:
        """Predict one setting.

        `cold`: the page cache is empty before the first epoch, or holds what it held when the recorded run began cold;
        else it holds as much of the dataset as it can. A setting that asks for one of them decides itself. `power` is
        the power drawn, relative to the recorded run's (another power mode), None where that is not known. `pause` is
        called before each simulation: whatever is more urgent can run then.
        """
        assumed = self._assumed(setting)
        first = self._epoch(setting, 0, cold, power, seed, pause)
        later = self._epoch(setting, 1, cold, power, seed, pause)
        return PipelinePrediction(setting, first, later, assumed)

    def _epoch(
        self,
        setting: PipelineSetting,
        epoch: int,
        cold: bool,
        power: float | None,
        seed: int,
        pause: Callable[[], None],
    ) -> EpochPrediction:
        costs = self.pipeline.costs
        reads = self._reads(setting, epoch, cold)
        spread = spread_of(self.pipeline, setting, self._error(setting, epoch, cold))
        variations = draw_variations(spread, REPLICAS, seed)
        whole = self._simulate(setting, epoch, cold, seed)
        centre = simulate_epoch(setting, costs, epoch, seed, REPLICA_BUDGET, reads.missed_share, reads.unread)
        replicas = []
        for each in variations:
            pause()
            varied = simulate_epoch(
                each.of_setting(setting),
                each.of_costs(costs),
                epoch,
                seed,
                REPLICA_BUDGET,
                reads.missed_share,
                reads.unread,
            )
            replicas.append((varied, each.model))
        estimates = {
            name: _estimate(whole, centre, replicas, name, self.between_runs)
            for name in ("e2e_s", "stall_s", "compute_s")
        }
        energy = None
        if self._power is not None and power is not None:
            energy = self._power.scaled(power).energy_j(estimates["e2e_s"], estimates["stall_s"])
        cache = COLD if epoch == 0 and starts_cold(setting, cold) else WARM
        return EpochPrediction(cache, energy_j=energy, read_share=whole.missed_share, **estimates)

    def first_reads(self, setting: PipelineSetting, cold: bool) -> FirstReads:
        """Return what the first epoch finds in the page cache.

        Where neither the dataset nor what is asked of the start changes, it is what the recorded run found, on whatever
        medium; a smaller page cache cannot hold all of that.
        """
        base, cold = self.base, starts_cold(setting, cold)
        if setting.cache is not None or cold != base.began_cold or setting.dataset != base.setting.dataset:
            return FirstReads(1.0 if cold else 0.0, None)
        unread = base.missed_shares[0] if cold else 0.0
        smaller = setting.cached_share() < base.setting.cached_share()
        return FirstReads(unread, None if smaller else unread)

    def _reads(self, setting: PipelineSetting, epoch: int, cold: bool) -> FirstReads:
        """Return the reads of an epoch; later ones follow from the page cache and from how it began."""
        first = self.first_reads(setting, cold)
        return first if epoch == 0 else FirstReads(first.unread, None)

    def _simulate(self, setting: PipelineSetting, epoch: int, cold: bool, seed: int) -> SimulatedEpoch:
        """Simulate an epoch, corrected by what the model gets wrong of the recorded one.

        So the recorded setting is predicted as it was recorded, and a change without effect shows none.
        """
        reads = self._reads(setting, epoch, cold)
        found = simulate_epoch(
            setting, self.pipeline.costs, epoch, seed, missed_share=reads.missed_share, unread=reads.unread
        )
        return found.scaled(exp(-self._error(setting, epoch, cold)))

    def _error(self, setting: PipelineSetting, epoch: int, cold: bool) -> float:
        """Return what the model gets wrong of the recorded epoch that is most like one: log of simulated over true."""
        started_alike = epoch == 0 and starts_cold(setting, cold) == self.base.began_cold
        return self.pipeline.first_error if started_alike else self.pipeline.later_error

    def _assumed(self, setting: PipelineSetting) -> tuple[str, ...]:
        """Return what was not recorded and matters for a setting."""
        costs, base, found = self.pipeline.costs, self.base.setting, []
        if "hand-over" in costs.assumed and setting.workers:
            found.append("hand-over from workers: the record does not show it")
        if "cold read" in costs.assumed and setting.medium is not None:
            read = "too few fetches of the run read" if max(self.base.missed_shares) > 0 else "the run read nothing"
            found.append(f"CPU time of reads from the medium: {read}")
        if "warm fetch" in costs.assumed:
            found.append("fetches without reads: every fetch of the run read from the medium")
        if setting.batch_size != base.batch_size and "batch size" in costs.assumed:
            found.append("batch size: extrapolated; record a run with --probe-batch to measure it")
        if busy_share_matters(costs, setting):
            found.append(f"of a launch-bound step the accelerator computes {costs.step.busy:.0%} of the time")
        fetched = costs.made_by(setting.workers, setting.threads)
        if setting.workers > max(1, base.workers) and fetched.fetch_wait_s.mean() > MUCH_WAITING * fetched.fetch_s:
            found.append("waiting of fetches that read nothing: assumed to overlap between workers, as a lock does not")
        if setting.threads != base.threads and costs.step.kind is StepKind.CPU:
            found.append("threads of a step: their gain was not measured")
        sizes = [each.dataset.total_bytes if each.dataset is not None else 0.0 for each in (base, setting)]
        if sizes[1] > sizes[0] and setting.cache_bytes is None:
            found.append("page cache: the machine's RAM was not recorded, so the larger dataset is assumed to fit")
        if setting.workers and not base.workers and not setting.persistent:
            found.append(STARTED_AGAIN)
        if self.base.iterable and setting.workers > max(1, base.workers):
            found.append(SHARDED)
        if setting.pin_memory and not base.pin_memory:
            on_cpu = costs.step.kind is StepKind.CPU
            what = "no effect where the CPU computes the step" if on_cpu else "copies with non_blocking=True"
            found.append(f"page-locked memory: {what}")
        return tuple(found)


def starts_cold(setting: PipelineSetting, cold: bool) -> bool:
    """Return whether the first epoch begins with a cold page cache; a setting that asks for a start decides."""
    return cold if setting.cache is None else setting.cache == COLD


def _estimate(
    whole: SimulatedEpoch,
    centre: SimulatedEpoch,
    replicas: Sequence[tuple[SimulatedEpoch, float]],
    name: str,
    between_runs: float,
) -> Estimate:
    """Put an interval around one figure of an epoch; `between_runs` is the measured spread of repeats."""
    value, at_centre = float(getattr(whole, name)), float(getattr(centre, name))
    if name == "stall_s":
        # What varies end to end and is not compute is stall: a stall near zero has no logarithm to vary.
        shifts = [
            (each.stall_s - centre.stall_s + (model - 1.0) * each.stall_s) * _ratio(whole.e2e_s, centre.e2e_s)
            for each, model in replicas
        ]
        deviation = (sum(shift**2 for shift in shifts) / max(1, len(shifts))) ** 0.5
        reach = QUANTILE * hypot(WIDER * deviation, between_runs * value)
        return Estimate(value, max(0.0, value - reach), value + reach, "s", Origin.PREDICTED, LEVEL)
    scale = _ratio(value, at_centre)
    varied = [float(getattr(each, name)) * model * scale for each, model in replicas]
    lo, hi = interval(value, varied, between_runs)
    return Estimate(value, lo, hi, "s", Origin.PREDICTED, LEVEL)


def _ratio(value: float, centre: float) -> float:
    return value / centre if centre > 0 else 1.0
