"""Whole trainings: epochs with a cold first one, idle time between jobs, a battery, the payback of profiling.

Inputs are estimates per epoch in one mode; a number that was neither measured nor published must be given or stays
unknown. Idle and wake-on-LAN powers are those of the whole board: power at the socket and power of the module must not
be mixed, and the caller states which one is meant.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from edgetrain.errors import UsageError
from edgetrain.schema import Estimate, ModeMeasurement, Origin, weakest
from edgetrain.units import J_PER_WH, spell, spell_seconds


@dataclass(frozen=True, slots=True)
class EpochCost:
    """What one epoch in one mode takes: warm, and cold where that is known."""

    epoch_s: Estimate
    power_w: Estimate
    cold_epoch_s: float | None = None  # the first epoch, which reads from the storage medium
    cold_origin: Origin = Origin.MEASURED
    baseload_w: float | None = None  # what the board draws in this mode while it waits


@dataclass(frozen=True, slots=True)
class TrainingCost:
    """Time and energy of a whole training."""

    epochs: float
    time_s: Estimate
    energy_j: Estimate
    cold_extra_s: float | None  # additional time of the cold first epoch; None: not known, and not included
    baseload_j: float | None  # the part of the energy that the board would have drawn anyway
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class IdleState:
    """What the board does between two jobs."""

    state: str  # idle | wake-on-lan | off
    power_w: float
    origin: Origin
    source: str | None = None
    wake_s: float = 0.0  # from asleep to training, at idle power


@dataclass(frozen=True, slots=True)
class JobCycle:
    """One job and the wait until the next."""

    state: str
    power_w: float
    origin: Origin
    source: str | None
    period_s: float
    waiting_s: float
    waiting_j: float
    energy_j: Estimate
    mean_power_w: float


@dataclass(frozen=True, slots=True)
class BatteryLife:
    """How many trainings a battery holds; `rounds_sure` is the number at the upper end of the energy's interval."""

    capacity_wh: float
    usable_j: float
    rounds: int
    rounds_sure: int
    lasts_s: float | None  # with a period: until it is empty
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Payback:
    """After how many epochs profiling has paid for itself, compared with the factory default mode."""

    profiling_s: float
    profiling_j: float | None
    saved_s_per_epoch: float
    saved_j_per_epoch: float
    epochs_for_time: float | None  # None: never, the chosen mode is not faster
    epochs_for_energy: float | None  # None: never, or the energy of profiling is not known
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class WholeTraining:
    """A whole training in the chosen mode, with the wait between jobs, the battery and the payback of profiling."""

    epochs: float
    time_s: Estimate
    energy_j: Estimate
    energy_wh: float
    cold_extra_s: float | None
    baseload_j: float | None
    between: JobCycle | None
    battery: BatteryLife | None
    pay_off: Payback | None
    notes: tuple[str, ...]

    @staticmethod
    def of(
        cost: TrainingCost, between: JobCycle | None, battery: BatteryLife | None, pay_off: Payback | None
    ) -> WholeTraining:
        """Put the parts together."""
        notes = (*cost.notes, *(battery.notes if battery else ()), *(pay_off.notes if pay_off else ()))
        return WholeTraining(
            cost.epochs,
            cost.time_s,
            cost.energy_j,
            cost.energy_j.value / J_PER_WH,
            cost.cold_extra_s,
            cost.baseload_j,
            between,
            battery,
            pay_off,
            notes,
        )


def training_cost(mode: EpochCost, epochs: float) -> TrainingCost:
    """Return time and energy of a training whose first epoch is cold.

    The additional time of a cold epoch is waiting: its power lies between the mode's baseload and its training power,
    so the energy's interval includes both, with the middle as the value. All epochs have the same relative error, so
    intervals scale with their number.
    """
    if not epochs > 0:
        raise UsageError(f"--epochs must be above zero, not {epochs:g}")
    notes: list[str] = []
    warm = scaled(mode.epoch_s, epochs)
    extra: float | None = None
    if mode.cold_epoch_s is None:
        notes.append("the cold first epoch is counted as a warm one: its time was not measured")
    elif mode.cold_epoch_s < mode.epoch_s.value:
        extra = 0.0
        notes.append("the first epoch was no slower than the later ones: storage does not slow this training down")
    else:
        extra = mode.cold_epoch_s - mode.epoch_s.value
    waiting_s = extra or 0.0
    time_s = replace(
        warm,
        value=warm.value + waiting_s,
        lo=warm.lo + waiting_s,
        hi=warm.hi + waiting_s,
        origin=weakest([warm.origin, mode.cold_origin]) if waiting_s else warm.origin,
    )
    lowest = mode.baseload_w if mode.baseload_w is not None else 0.0
    if waiting_s and mode.baseload_w is None:
        notes.append("while waiting for a cold dataset half the training power is assumed: no baseload was measured")
    busy = energy_of(warm, mode.power_w)
    energy = replace(
        busy,
        value=busy.value + waiting_s * (lowest + mode.power_w.value) / 2,
        lo=busy.lo + waiting_s * lowest,
        hi=busy.hi + waiting_s * mode.power_w.value,
        origin=weakest([busy.origin, time_s.origin]),
    )
    baseload = None if mode.baseload_w is None else mode.baseload_w * time_s.value
    return TrainingCost(epochs, time_s, energy, extra, baseload, tuple(notes))


def scaled(estimate: Estimate, factor: float) -> Estimate:
    """Return an estimate times a known number."""
    return replace(estimate, value=estimate.value * factor, lo=estimate.lo * factor, hi=estimate.hi * factor)


def energy_of(time_s: Estimate, power_w: Estimate) -> Estimate:
    """Return the product of time and power, whose logarithms have independent errors."""
    value = time_s.value * power_w.value
    up = math.hypot(_log(time_s.hi, time_s.value), _log(power_w.hi, power_w.value))
    down = math.hypot(_log(time_s.value, time_s.lo), _log(power_w.value, power_w.lo))
    origin = weakest([time_s.origin, power_w.origin])
    return Estimate(value, value * math.exp(-down), value * math.exp(up), "J", origin, time_s.level)


def _log(above: float, below: float) -> float:
    return math.log(above / below) if above > 0 and below > 0 else 0.0


def job_cycle(training: TrainingCost, period_s: float, idle: IdleState) -> JobCycle:
    """Return what one job every `period_s` takes, the wait included."""
    waiting_s = period_s - training.time_s.value - idle.wake_s
    if waiting_s < 0:
        raise UsageError(
            f"a job every {spell_seconds(period_s)} is too often: one takes "
            f"{spell_seconds(training.time_s.value + idle.wake_s)}"
        )
    waiting_j = idle.power_w * (waiting_s + idle.wake_s)
    spent = training.energy_j
    energy = replace(
        spent,
        value=spent.value + waiting_j,
        lo=spent.lo + waiting_j,
        hi=spent.hi + waiting_j,
        origin=weakest([spent.origin, idle.origin]),
    )
    return JobCycle(
        idle.state,
        idle.power_w,
        idle.origin,
        idle.source,
        period_s,
        waiting_s,
        waiting_j,
        energy,
        energy.value / period_s,
    )


def battery_life(
    capacity_wh: float, energy_j: Estimate, period_s: float | None = None, usable_share: float = 1.0
) -> BatteryLife:
    """Return how many trainings a battery holds; `usable_share` accounts for losses of the regulator."""
    if not (math.isfinite(capacity_wh) and capacity_wh > 0):
        raise UsageError(f"--battery-wh must be above zero, not {capacity_wh:g}")
    if not 0 < usable_share <= 1:
        raise UsageError(f"the usable share of a battery must be above 0 and at most 1, not {usable_share:g}")
    usable = capacity_wh * J_PER_WH * usable_share
    rounds, sure = int(usable // energy_j.value), int(usable // energy_j.hi)
    notes: tuple[str, ...] = ()
    if rounds == 0:
        notes = (f"one training needs {spell(energy_j.value / J_PER_WH, 'Wh')}, more than the battery holds",)
    return BatteryLife(capacity_wh, usable, rounds, sure, None if period_s is None else rounds * period_s, notes)


def payback(profiling_s: float, profiling_j: float | None, stock: EpochCost, chosen: EpochCost) -> Payback:
    """Return after how many epochs the chosen mode has saved what profiling took."""
    saved_s = stock.epoch_s.value - chosen.epoch_s.value
    saved_j = stock.epoch_s.value * stock.power_w.value - chosen.epoch_s.value * chosen.power_w.value
    notes = []
    if saved_s <= 0:
        notes.append("the chosen mode is not faster than the factory default: profiling does not pay off in time")
    if saved_j <= 0:
        notes.append("the chosen mode takes no less energy than the factory default: profiling saves no energy")
    return Payback(
        profiling_s,
        profiling_j,
        saved_s,
        saved_j,
        profiling_s / saved_s if saved_s > 0 else None,
        profiling_j / saved_j if saved_j > 0 and profiling_j is not None else None,
        tuple(notes),
    )


# The visit of a mode by the runner: one second to switch, two windows of three seconds to settle, and 45 minibatches.
VISIT_S = 7.0
VISIT_MINIBATCHES = 45


def cost_of_measuring(measurements: Sequence[ModeMeasurement]) -> tuple[float, float]:
    """Return the seconds and joules that measuring these modes took; estimated where the duration was not recorded."""
    seconds = joules = 0.0
    for measurement in measurements:
        took = measurement.cost_s or VISIT_S + VISIT_MINIBATCHES * (measurement.time_mean_s or measurement.time_s)
        seconds += took
        joules += took * measurement.power_w
    return seconds, joules
