"""Goals and limits: what to minimize, within which limits, and checks that catch a mistaken limit early."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace

from edgetrain.errors import UsageError
from edgetrain.units import J_PER_WH, spell, spell_seconds

AXES = ("time", "energy", "power")

# A limit this many times beyond every mode is almost certainly in another unit (watts for milliwatts).
_SUSPICIOUS = 100.0

_UNITS: dict[str, dict[str, float]] = {
    "power": {"": 1.0, "w": 1.0, "mw": 1e-3, "kw": 1e3},
    "time": {"": 1.0, "s": 1.0, "ms": 1e-3, "min": 60.0, "h": 3600.0, "d": 86400.0},
    "energy": {"": 1.0, "j": 1.0, "mj": 1e-3, "kj": 1e3, "wh": J_PER_WH, "mwh": J_PER_WH * 1e-3, "kwh": J_PER_WH * 1e3},
}
_BASE = {"power": "W", "time": "s", "energy": "J"}


def parse_quantity(text: str | float | None, kind: str) -> float | None:
    """Read `20`, `20W`, `1500mW`, `2h` or `50Wh` into watts, seconds or joules; refuse any other dimension."""
    if text is None:
        return None
    match = re.fullmatch(r"\s*([-+]?[0-9]*\.?[0-9]+(?:[eE][-+]?[0-9]+)?)\s*([A-Za-zµ]*)\s*", str(text))
    units = _UNITS[kind]
    # A capital M would be mega, a million times what the lower-case letter says: never guessed.
    if not match or match[2].lower() not in units or match[2].startswith("M"):
        known = ", ".join(name for name in units if name)
        raise UsageError(
            f"cannot read {text!r} as {kind}; write a number in {_BASE[kind]}, or with one of the units {known}"
        )
    value = float(match[1]) * units[match[2].lower()]
    if not math.isfinite(value) or value <= 0:
        raise UsageError(f"a limit on {kind} must be above zero, not {text!r}")
    return value


@dataclass(frozen=True, slots=True)
class GoalLimits:
    """The limits; None: not limited. Time and energy limits are about the work of the goal (`Work`)."""

    max_power_w: float | None = None  # steady mean
    max_time_s: float | None = None
    max_energy_j: float | None = None
    max_cores: int | None = None
    max_temp_c: float | None = None  # only excludes modes that were measured hotter: temperature is not predicted
    peak: bool = False  # the power limit applies to 1 s peaks too
    stock_only: bool = False

    def __post_init__(self) -> None:
        for name, unit in (("max_power_w", "W"), ("max_time_s", "s"), ("max_energy_j", "J"), ("max_temp_c", "°C")):
            value = getattr(self, name)
            if value is not None and not (math.isfinite(value) and value > 0):
                raise UsageError(f"--{name.replace('_', '-')} must be above zero, not {value:g} {unit}")
        if self.max_cores is not None and self.max_cores < 1:
            raise UsageError(f"--max-cores must be at least 1, not {self.max_cores}")
        if self.peak and self.max_power_w is None:
            raise UsageError("--peak adds to a power limit; give --max-power-w too")
        if self.max_power_w and self.max_time_s and self.max_energy_j:
            # Energy is power times time: a limit far above that product has no effect and is probably mistaken.
            most_j = self.max_power_w * self.max_time_s
            if self.max_energy_j > most_j * _SUSPICIOUS:
                raise UsageError(
                    f"the energy limit of {spell(self.max_energy_j, 'J')} is more than {_SUSPICIOUS:g} times what the "
                    f"power and time limits allow ({spell(most_j, 'J')}); check its unit"
                )

    def estimated(self) -> dict[str, float]:
        """Return the limits that are checked against estimates, by the quantity that they limit."""
        limits = {"power": self.max_power_w, "time": self.max_time_s, "energy": self.max_energy_j}
        return {name: limit for name, limit in limits.items() if limit is not None}

    def with_limit(self, name: str, limit: float) -> GoalLimits:
        """Return the limits with the one on `power`, `time` or `energy` changed."""
        if name == "power":
            return replace(self, max_power_w=limit)
        return replace(self, max_time_s=limit) if name == "time" else replace(self, max_energy_j=limit)


@dataclass(frozen=True, slots=True)
class Work:
    """How much is trained: time and energy, and limits on them, are about this many minibatches."""

    minibatches: float = 1.0  # in total
    epochs: float | None = None
    label: str = "one minibatch"
    median: bool = False  # use the median minibatch, as published comparisons do; epochs follow the mean

    @classmethod
    def of(cls, minibatches_per_epoch: float | None, epochs: float | None) -> Work:
        """Return the work of some epochs; without the number of minibatches, one minibatch."""
        for option, value in (("--minibatches", minibatches_per_epoch), ("--epochs", epochs)):
            if value is not None and not (math.isfinite(value) and value > 0):
                raise UsageError(f"{option} must be above zero, not {value:g}")
        if minibatches_per_epoch is None:
            if epochs is not None:
                raise UsageError("--epochs needs to know how long an epoch is; give --minibatches (per epoch) too")
            return cls()
        count = 1.0 if epochs is None else epochs
        label = "one epoch" if count == 1 else f"{count:g} epochs"
        return cls(minibatches_per_epoch * count, count, label)


@dataclass(frozen=True, slots=True)
class Goal:
    """What to minimize, within which limits, with which confidence, for how much work."""

    minimize: str = "time"
    limits: GoalLimits = GoalLimits()
    confidence: float = 0.95
    work: Work = Work()

    def __post_init__(self) -> None:
        if self.minimize not in AXES:
            raise UsageError(f"cannot minimize {self.minimize!r}; choose one of {', '.join(AXES)}")
        if not 0.5 <= self.confidence < 1.0:
            raise UsageError(
                f"--confidence must be from 50 to below 100 %, not {100 * self.confidence:g} %: below 50 % limits "
                "would be exceeded more often than kept"
            )


def parse_confidence(value: float) -> float:
    """Read 95 or 0.95 as the probability with which each limit must hold."""
    return value / 100.0 if value > 1.0 else value


def check_against(
    limits: GoalLimits, least_power_w: float, greatest_power_w: float, idle_power_w: float | None = None
) -> list[str]:
    """Refuse a power limit below idle; return notes on limits without effect or in what seems to be another unit."""
    notes: list[str] = []
    limit = limits.max_power_w
    if limit is None:
        return notes
    if idle_power_w is not None and limit < idle_power_w:
        raise UsageError(
            f"the power limit of {spell(limit, 'W')} is below what the board draws when idle "
            f"({spell(idle_power_w, 'W')}); no mode can keep it",
        )
    if limit > _SUSPICIOUS * greatest_power_w:
        notes.append(
            f"the power limit of {spell(limit, 'W')} is far beyond any mode "
            f"({spell(greatest_power_w, 'W')}); is it in mW?"
        )
    elif limit * _SUSPICIOUS < least_power_w:
        notes.append(
            f"the power limit of {spell(limit, 'W')} is far below any mode ({spell(least_power_w, 'W')}); is it in kW?"
        )
    elif limit >= greatest_power_w:
        notes.append(
            f"the power limit of {spell(limit, 'W')} has no effect: no mode is expected above "
            f"{spell(greatest_power_w, 'W')}"
        )
    return notes


def spell_limit(name: str, value: float) -> str:
    """Spell one limit for people."""
    if name == "power":
        return f"power ≤ {spell(value, 'W')}"
    if name == "time":
        return f"time ≤ {spell_seconds(value)}"
    return f"energy ≤ {spell(value, 'J', 4)}"
