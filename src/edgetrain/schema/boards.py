"""What is said about a board: what can be measured and set on it, its modes, what was changed, what it draws idle."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from edgetrain.schema.device import DeviceSpec, PowerMode
from edgetrain.schema.modes import StockMode
from edgetrain.schema.origin import Origin
from edgetrain.schema.power import PowerSource


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that can or cannot be measured or set here; `edgetrain doctor` is a list of these."""

    area: str  # cpu | memory | memory clock | storage | gpu | power | temperature | control | lab | training | record
    what: str
    works: bool | None  # None: not examined, or not needed here
    detail: str = ""  # what was found, or why not
    fix: str | None = None  # the exact command that would fix it


@dataclass(frozen=True, slots=True)
class ProbeCost:
    """What reading one probe costs."""

    read_s: float  # duration of one reading
    period_s: float  # sampling interval
    cpu_share: float  # of one core


@dataclass(frozen=True, slots=True)
class SamplingCost:
    """What sampling costs here, summed over probes at their own intervals."""

    cpu_share: float  # of one core
    per_probe: Mapping[str, ProbeCost]


@dataclass(frozen=True, slots=True)
class DoctorReport:
    """What a machine is, what can be measured and set on it, what is missing and how to get it."""

    version: str
    device: DeviceSpec
    power: PowerSource | None
    findings: tuple[Finding, ...]
    overhead: SamplingCost


@dataclass(frozen=True, slots=True)
class ModeClocks:
    """The tables that span a board's custom modes."""

    cores: tuple[int, ...]
    cpu_hz: tuple[int, ...]
    gpu_hz: tuple[int, ...]
    emc_hz: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ModeListing:
    """The power modes of a board and what is in force."""

    device: DeviceSpec
    origin: Origin
    stock: tuple[StockMode, ...]
    clocks: ModeClocks
    custom_modes: int
    now: PowerMode
    held: str | None  # what edgetrain holds, in words
    problems: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SettingWrite:
    """One value that is or would be written to the board."""

    name: str  # gpu.max_hz
    path: str
    value: int
    before: int | None  # None: cannot be read yet

    def __str__(self) -> str:
        return f"{self.path}: {self.before if self.before is not None else '–'} → {self.value}"


@dataclass(frozen=True, slots=True)
class ModeChange:
    """What setting a mode did, or would do."""

    device: str
    asked: str
    dry_run: bool
    program: str | None  # nvpmodel -m 2
    writes: tuple[SettingWrite, ...]
    needs_root: tuple[str, ...]  # files that this user may not write
    needs_reboot: str | None
    now: PowerMode
    doubts: tuple[str, ...] = ()  # what did not work and does not change the mode, what else to know


@dataclass(frozen=True, slots=True)
class Restored:
    """What restoring a board did."""

    asked: str  # what had been set
    written: int
    nvpmodel: int | None
    left: tuple[str, ...] = ()  # what could not be put back
    later: tuple[str, ...] = ()  # what was written and takes effect when the board has cooled down


@dataclass(frozen=True, slots=True)
class ModeRestore:
    """What `modes restore` did, or would do."""

    device: str
    dry_run: bool
    restored: Restored | None
    asked: str | None  # what had been set
    writes: tuple[SettingWrite, ...]
    now: PowerMode | None = None
    unit: str | None = None  # the file of the unit that restores at boot, where it was installed


@dataclass(frozen=True, slots=True)
class IdleRow:
    """One idle state. `power_w` is None where it was not measured, with the reason."""

    logging: bool
    dvfs: bool | None  # None: as found
    power_w: float | None
    pm_w: float | None  # 95 %
    readings: int
    scope: str | None
    origin: Origin
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class SocketRow:
    """Idle power at the socket: published, or given by the user."""

    state: str
    power_w: float
    origin: str  # published | given


@dataclass(frozen=True, slots=True)
class IdlePreview:
    """What `baseload` would measure, how long that takes, and whether it changes the clocks meanwhile."""

    device: str
    scope: str
    states: tuple[str, ...]
    takes_s: float
    changes_clocks: bool


@dataclass(frozen=True, slots=True)
class IdleTable:
    """What a board draws idle, at its own sensor and at the socket; the two scopes are never mixed."""

    device: str
    origin: Origin
    scope: str
    seconds: float
    rows: tuple[IdleRow, ...]
    socket: tuple[SocketRow, ...]
