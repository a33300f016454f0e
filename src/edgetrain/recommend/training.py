"""Whole trainings: N epochs with a cold first one, idle time between jobs, a battery, and when profiling has paid off.

Inputs are per-epoch estimates of one mode; every number that was not measured or published must be given or
stays unknown. Idle and wake-on-LAN powers are those of the whole board: a power at the socket and a power of
the module must not be mixed, and the caller says which.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from edgetrain.errors import UsageError
from edgetrain.predict.base import Estimate
from edgetrain.schema import ModeMeasurement, Origin, weakest
from edgetrain.units import J_PER_WH, spell, spell_seconds

S_PER_DAY = 86_400.0


@dataclass(frozen=True, slots=True)
class Mode:
    """What one epoch in one mode takes: warm, and cold where that is known."""

    epoch_s: Estimate
    power_w: Estimate
    cold_epoch_s: float | None = None  # the first epoch, reading from the storage medium
    cold_origin: Origin = Origin.MEASURED
    baseload_w: float | None = None  # what the board draws in this mode while it waits


@dataclass(frozen=True, slots=True)
class Training:
    """Time and energy of a whole training."""

    epochs: float
    time_s: Estimate
    energy_j: Estimate
    cold_extra_s: float | None  # what the cold first epoch added; None: not known, and left out
    baseload_j: float | None  # the part of the energy that the board would have drawn anyway
    notes: tuple[str, ...] = ()


def whole_training(mode: Mode, epochs: float) -> Training:
    """Return what so many epochs take, the first of them cold.

    The extra time of a cold epoch is waiting: its power lies between the mode's baseload and its training
    power, so the energy's interval is widened to hold both, with the middle as the value. Epochs share their
    error (it is the mode's, not the epoch's), so intervals scale with them.
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
        notes.append("the first epoch was no slower than the later ones: storage does not hold this training up")
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
        notes.append(
            "while waiting on a cold dataset half the training power is assumed: the baseload was not measured"
        )
    busy = product(warm, mode.power_w)
    energy = replace(
        busy,
        value=busy.value + waiting_s * (lowest + mode.power_w.value) / 2,
        lo=busy.lo + waiting_s * lowest,
        hi=busy.hi + waiting_s * mode.power_w.value,
        origin=weakest([busy.origin, time_s.origin]),
    )
    baseload = None if mode.baseload_w is None else mode.baseload_w * time_s.value
    return Training(epochs, time_s, energy, extra, baseload, tuple(notes))


def scaled(estimate: Estimate, factor: float) -> Estimate:
    """Return an estimate times a known number."""
    return replace(estimate, value=estimate.value * factor, lo=estimate.lo * factor, hi=estimate.hi * factor)


def product(left: Estimate, right: Estimate) -> Estimate:
    """Return the product of two estimates whose logarithms err independently."""
    value = left.value * right.value
    up = math.hypot(_log(left.hi, left.value), _log(right.hi, right.value))
    down = math.hypot(_log(left.value, left.lo), _log(right.value, right.lo))
    origin = weakest([left.origin, right.origin])
    return Estimate(value, value * math.exp(-down), value * math.exp(up), left.level, origin)


def _log(above: float, below: float) -> float:
    return math.log(above / below) if above > 0 and below > 0 else 0.0


@dataclass(frozen=True, slots=True)
class Between:
    """What the board does between two jobs."""

    state: str  # idle | wake-on-lan | off
    power_w: float
    origin: Origin
    wake_s: float = 0.0  # from asleep to training, at idle power
    source: str | None = None


@dataclass(frozen=True, slots=True)
class Cycle:
    """One job and the wait until the next."""

    period_s: float
    training: Training
    between: Between
    waiting_s: float
    waiting_j: float
    energy_j: Estimate
    mean_power_w: float


def cycle(training: Training, period_s: float, between: Between) -> Cycle:
    """Return what one job every `period_s` takes, the wait included."""
    waiting_s = period_s - training.time_s.value - between.wake_s
    if waiting_s < 0:
        raise UsageError(
            f"a job every {spell_seconds(period_s)} is too often: one takes "
            f"{spell_seconds(training.time_s.value + between.wake_s)}"
        )
    waiting_j = between.power_w * (waiting_s + between.wake_s)
    spent = training.energy_j
    energy = replace(
        spent,
        value=spent.value + waiting_j,
        lo=spent.lo + waiting_j,
        hi=spent.hi + waiting_j,
        origin=weakest([spent.origin, between.origin]),
    )
    return Cycle(period_s, training, between, waiting_s, waiting_j, energy, energy.value / period_s)


@dataclass(frozen=True, slots=True)
class Battery:
    """How far a battery goes. Whole rounds; `sure` is the number that the upper end of the interval allows."""

    capacity_wh: float
    usable_j: float
    rounds: int
    rounds_sure: int
    lasts_s: float | None  # with a period: until it is empty
    notes: tuple[str, ...] = ()


def on_battery(
    capacity_wh: float, energy_j: Estimate, period_s: float | None = None, usable_share: float = 1.0
) -> Battery:
    """Return how many rounds a battery holds; losses of the regulator are the caller's to take off (`usable_share`)."""
    if not capacity_wh > 0:
        raise UsageError(f"--battery-wh must be above zero, not {capacity_wh:g}")
    if not 0 < usable_share <= 1:
        raise UsageError(f"the usable share of a battery lies above 0 and up to 1, not at {usable_share:g}")
    usable = capacity_wh * J_PER_WH * usable_share
    rounds, sure = int(usable // energy_j.value), int(usable // energy_j.hi)
    notes: tuple[str, ...] = ()
    if rounds == 0:
        notes = (f"one round needs {spell(energy_j.value / J_PER_WH, 'Wh')}, more than the battery holds",)
    return Battery(capacity_wh, usable, rounds, sure, None if period_s is None else rounds * period_s, notes)


@dataclass(frozen=True, slots=True)
class PayOff:
    """When profiling has paid for itself, against staying in the mode the board came in."""

    profiling_s: float
    profiling_j: float | None
    saved_s_per_epoch: float
    saved_j_per_epoch: float
    epochs_for_time: float | None  # None: never, the chosen mode is not faster
    epochs_for_energy: float | None  # None: never, or the profiling's energy is not known
    notes: tuple[str, ...] = field(default=())


def pay_off(profiling_s: float, profiling_j: float | None, stock: Mode, chosen: Mode) -> PayOff:
    """Return after how many epochs the chosen mode has won back what finding it took."""
    saved_s = stock.epoch_s.value - chosen.epoch_s.value
    saved_j = stock.epoch_s.value * stock.power_w.value - chosen.epoch_s.value * chosen.power_w.value
    notes = []
    if saved_s <= 0:
        notes.append("the chosen mode is not faster than the stock one: profiling does not pay off in time")
    if saved_j <= 0:
        notes.append("the chosen mode takes no less energy than the stock one: profiling does not pay off in energy")
    return PayOff(
        profiling_s,
        profiling_j,
        saved_s,
        saved_j,
        profiling_s / saved_s if saved_s > 0 else None,
        profiling_j / saved_j if saved_j > 0 and profiling_j is not None else None,
        tuple(notes),
    )


# A visit of a mode: one second to switch, two windows of three seconds to settle, and 45 minibatches, as the
# runner does it.
VISIT_S = 7.0
VISIT_MINIBATCHES = 45


def profiling_cost(measurements: Sequence[ModeMeasurement]) -> tuple[float, float, bool]:
    """Return the seconds and joules that measuring these modes took, and whether that had to be estimated."""
    seconds = joules = 0.0
    estimated = False
    for measurement in measurements:
        took = measurement.cost_s
        if not took:
            estimated = True
            took = VISIT_S + VISIT_MINIBATCHES * (measurement.time_mean_s or measurement.time_s)
        seconds += took
        joules += took * measurement.power_w
    return seconds, joules, estimated
