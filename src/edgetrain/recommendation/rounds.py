"""Federated rounds: devices, rules, the plan of a round and what simulated rounds of it show, as types."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from edgetrain.errors import UsageError
from edgetrain.prediction import Array, ModeTable
from edgetrain.schema import Doubt, Origin, PowerMode

TRAINS, LITTLE_MARGIN, SITS_OUT = "trains", "little margin", "sits out"
PLAN, ALL_MAXN, RACE_TO_IDLE, ALL_DEFAULT = "plan", "all MAXN", "race to idle", "all default"


@dataclass(frozen=True, slots=True, eq=False)
class RoundModes:
    """The power modes that devices of one kind can train in, and what they draw while they wait.

    Devices of one kind share one object: planning works once per object. None: not known.
    """

    name: str  # board and source
    modes: ModeTable
    time_s: Array  # mean minibatch
    power_w: Array | None
    origin: Origin
    top: int  # row with all cores and the highest clocks
    default: int | None = None  # row of the factory default
    batch_size: int = 16
    time_log_sd: Array | None = None  # of a predicted time; None: measured
    rest_w: float | None = None  # waiting, clocks low
    top_idle_w: float | None = None  # waiting with the highest clocks held
    default_idle_w: float | None = None  # waiting with the default's clocks held

    def __post_init__(self) -> None:
        if not len(self.modes) or len(self.time_s) != len(self.modes):
            raise UsageError(f"{self.name}: {len(self.modes)} modes and {len(self.time_s)} times; give one per mode")
        if not (np.isfinite(self.time_s).all() and (self.time_s > 0).all()):
            raise UsageError(f"{self.name}: every mode needs a time above zero")

    def error_sd(self) -> Array:
        """Return the error of each mode's time, as standard deviation of the logarithm."""
        return np.zeros(len(self.modes)) if self.time_log_sd is None else self.time_log_sd


@dataclass(frozen=True, slots=True)
class KindSpread:
    """How training times and powers of one kind of board vary: standard deviations of the logarithm."""

    unit_time: float = 0.0  # between units, the same in every round
    run_time: float = 0.0  # between rounds of one unit
    unit_power: float = 0.0
    run_power: float = 0.0
    origin: Origin = Origin.SIMULATED


@dataclass(frozen=True, slots=True)
class SharedSlowdown:
    """Slow-downs that reach every device of a group in the same round: heat in a rack, neighbours on a link."""

    chance: float  # per group and round
    least: float  # factor on the time, uniform from least to most
    most: float

    def __post_init__(self) -> None:
        if not 0 <= self.chance <= 1 or not 1 <= self.least <= self.most:
            raise UsageError(
                f"a shared slow-down has a chance from 0 to 1 and factors from 1 up, ascending; not {self.chance:g}, "
                f"{self.least:g} and {self.most:g}"
            )


@dataclass(frozen=True, slots=True, eq=False)
class RecordedRounds:
    """Observed over predicted training time of earlier rounds: one row per round, column per device; NaN: no answer."""

    devices: tuple[str, ...]
    ratios: Array

    def factor(self, device: str) -> float | None:
        """Return a device's own factor: the median over its rounds; None where it never answered."""
        if device not in self.devices:
            return None
        column = self.ratios[:, self.devices.index(device)]
        known = column[np.isfinite(column)]
        return float(np.median(known)) if len(known) else None

    def within(self) -> Array:
        """Return the ratios with each device's own factor taken out: what differs from round to round."""
        factors = [self.factor(device) or math.nan for device in self.devices]
        return np.asarray(self.ratios / np.asarray(factors), float)


@dataclass(frozen=True, slots=True)
class RoundDevice:
    """One device in a round."""

    name: str
    board: str
    modes: RoundModes
    samples: int  # of its own data
    download_s: float = 0.0
    upload_s: float = 0.0
    available_s: float = 0.0  # after the start of the round
    takes_part: bool = True
    answers: float = 1.0  # share of rounds in which it answers
    max_power_w: float | None = None
    time_factor: float | None = None  # this unit's time over its kind's; None: not known
    group: str | None = None  # devices of one group are slow together
    spread: KindSpread = field(default_factory=KindSpread)

    def __post_init__(self) -> None:
        if self.samples < 1:
            raise UsageError(f"{self.name} needs at least one sample to train on, not {self.samples}")
        if not 0 <= self.answers <= 1:
            raise UsageError(
                f"{self.name}: the share of rounds it answers must be between 0 and 1, not {self.answers:g}"
            )
        if self.time_factor is not None and not self.time_factor > 0:
            raise UsageError(f"{self.name}: the time factor must be above zero, not {self.time_factor:g}")

    def minibatches(self, epochs: int) -> int:
        """Return the minibatches of a number of local epochs."""
        return epochs * math.ceil(self.samples / self.modes.batch_size)


@dataclass(frozen=True, slots=True)
class RoundRules:
    """What a round must keep, and what the planner may change."""

    deadline_s: float | None = None  # None: as early as possible
    epochs: int = 1
    least_epochs: int | None = None  # None: every device trains all epochs
    sit_out: bool = False  # devices that cannot finish may be left out
    least_devices: int | None = None  # with sit_out and no deadline: the round waits for this many
    late: float = 0.05  # largest share of rounds in which a device may be late
    rounds: int = 200  # rounds over which that is judged
    shared: SharedSlowdown | None = None
    transfer_log_sd: float = 0.0
    recorded: RecordedRounds | None = None

    def __post_init__(self) -> None:
        least = self.epochs if self.least_epochs is None else self.least_epochs
        if not 1 <= least <= self.epochs:
            raise UsageError(f"local epochs: at least 1 and at most {self.epochs}, not {least}")
        if not 0 < self.late < 1:
            raise UsageError(f"the share of late rounds must be between 0 and 1, not {self.late:g}")
        if self.rounds < 1:
            raise UsageError(f"lateness is judged over at least one round, not {self.rounds}")
        if self.deadline_s is not None and not self.deadline_s > 0:
            raise UsageError(f"the deadline must be above zero, not {self.deadline_s:g} s")


@dataclass(frozen=True, slots=True)
class RoundAssignment:
    """What one device does in the round; None: it sits out, or the value is not known."""

    device: str
    board: str
    status: str  # trains | little margin | sits out
    mode: PowerMode | None
    row: int | None  # of its modes
    epochs: int
    available_s: float  # after the start of the round
    begin_s: float  # training begins: available and downloaded
    train_s: float | None  # expected
    finish_s: float | None  # expected, uploaded
    latest_s: float | None  # with the margin
    slack_s: float | None  # from the expected finish to the deadline
    needs_s: float | None  # finish in its fastest allowed mode, with the margin, all epochs
    power_w: float | None  # while training
    energy_j: float | None  # from the start of the round to the deadline
    origin: Origin
    reason: str = ""


@dataclass(frozen=True, slots=True)
class RoundEnergy:
    """The energy of a round under one policy; each device counts from its start to the deadline, waiting included."""

    name: str  # plan | all MAXN | race to idle | all default
    energy_j: float | None  # None: not known for some device
    known_j: float  # of the devices where it is known
    known_devices: int
    late: int  # devices that are expected to miss the deadline
    plan_saves: float | None  # share by which the plan needs less, over the known devices; None: not comparable

    def spell_saving(self) -> str:
        """Spell by how much less the plan needs, and of how many devices where not all are known."""
        if self.plan_saves is None:  # devices that are late did less work
            return "not comparable" if self.late and self.name != PLAN else "–"
        return f"{self.plan_saves:.1%}" + ("" if self.energy_j is not None else f" of {self.known_devices} known")


@dataclass(frozen=True, slots=True)
class RoundPlan:
    """The plan of a round: every device's mode, and what else the round could have cost."""

    deadline_s: float
    given_deadline: bool
    late: float
    assignments: tuple[RoundAssignment, ...]
    energies: tuple[RoundEnergy, ...]
    stragglers: tuple[str, ...]  # devices that decide the deadline or have little margin, slowest first
    origin: Origin
    doubts: tuple[Doubt, ...]

    def energy(self, name: str) -> RoundEnergy:
        """Return the energy under the policy of that name."""
        return next(one for one in self.energies if one.name == name)


@dataclass(frozen=True, slots=True)
class DeviceRounds:
    """One device over the simulated rounds; None where it never answered or sat out."""

    device: str
    answered: int
    late_share: float | None  # of all rounds
    finish_s: float | None  # median
    finish_p95_s: float | None


@dataclass(frozen=True, slots=True)
class RoundSimulation:
    """What simulated rounds of a plan show."""

    rounds: int
    seed: int
    worst_late_share: float | None  # of the device that is late most often
    worst_device: str | None
    rounds_with_late: float  # share of rounds in which any device is late
    most_late: int  # devices late in the worst round
    no_answer: float  # share of device-rounds without an answer
    energies: tuple[RoundEnergy, ...]  # means over the rounds
    devices: tuple[DeviceRounds, ...]
    doubts: tuple[Doubt, ...] = ()


@dataclass(frozen=True, slots=True)
class RoundAnswer:
    """The answer of `edgetrain round`."""

    name: str
    fleet: str
    network: str
    plan: RoundPlan
    simulation: RoundSimulation | None
