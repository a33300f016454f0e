"""Units of a table of power modes: which unit a column is in, and which values are possible for a board."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgetrain.units import spell, spell_seconds

Array = NDArray[np.float64]

_UNITS: dict[str, dict[str, float]] = {
    "hz": {"hz": 1.0, "khz": 1e3, "mhz": 1e6, "ghz": 1e9},
    "s": {"s": 1.0, "ms": 1e-3, "us": 1e-6},
    "w": {"w": 1.0, "mw": 1e-3, "uw": 1e-6},
}
_BASE_UNIT = {"cpu": "hz", "gpu": "hz", "emc": "hz", "time": "s", "time_mean": "s", "power": "w"}
_COLUMN = re.compile(r"(cpu|gpu|emc|time|time_mean|power)_([a-z]+)")
_CLOCK_WITHOUT_UNIT = re.compile(r"(gpu|emc|mem|memory)(_?(clock|clk|freq|frequency|speed))?(_?[kmgt]?hz)?")
# The clock range is under a factor of 1000, so a clock is possible in one unit only.
_CLOCK_RANGE = (10e6, 9.9e9)
_TIME_RANGE = (50e-6, 86_400.0)  # a step of torch takes longer than 50 µs on any machine, whatever the network
# Minibatches on boards lie between these, the published ones included; times in another unit mostly do not.
_USUAL_TIME_RANGE = (1e-3, 60.0)


@dataclass(frozen=True, slots=True)
class PowerRange:
    """The total power that a board can draw while it trains; `board` is named in messages."""

    least_w: float = 0.5
    most_w: float = 1000.0
    board: str | None = None

    @staticmethod
    def of_board(board: str, peak_power_w: float | None) -> PowerRange:
        """Return the range for a board with a published peak power: a hundredth of it to twice as much."""
        if peak_power_w is None:
            return PowerRange(board=board)
        return PowerRange(max(0.2, peak_power_w / 100), 2 * peak_power_w, board)


ANY_BOARD = PowerRange()


@dataclass(frozen=True, slots=True)
class ColumnUnit:
    """A column of the file that edgetrain knows: `cpu_khz` is `cpu_hz` in kHz."""

    name: str  # in the file
    ours: str
    unit: str
    base: str  # hz | s | w
    least: float  # possible values, in the base unit
    most: float

    @staticmethod
    def of(column: str, power: PowerRange) -> ColumnUnit | None:
        """Return the known column and unit that a name denotes; None where it is not a known column."""
        match = _COLUMN.fullmatch(column)
        base = _BASE_UNIT[match[1]] if match else ""
        if match is None or match[2] not in _UNITS[base]:
            return None
        ranges = {"hz": _CLOCK_RANGE, "s": _TIME_RANGE, "w": (power.least_w, power.most_w)}
        return ColumnUnit(column, f"{match[1]}_{base}", match[2], base, *ranges[base])

    @property
    def units(self) -> Mapping[str, float]:
        """The units this column could be in, and their factor to the base unit."""
        return _UNITS[self.base]

    def found_in(self, values: Array) -> str:
        """Return the unit: the named one, or another if most values are impossible in it and all possible there."""
        known = values[np.isfinite(values)]

        def share(unit: str) -> float:
            converted = known * self.units[unit]
            return float(((converted >= self.least) & (converted <= self.most)).mean()) if len(known) else 0.0

        if share(self.unit) > 0.5:
            return self.unit
        return next((unit for unit in self.units if share(unit) == 1.0), self.unit)

    def impossible(self, power: PowerRange) -> str:
        """Return what is wrong with a value outside the range."""
        if self.base == "hz":
            return f"{self.name} is not a clock of 10 MHz to 9.9 GHz"
        if self.base == "s":
            return f"{self.name} is not a time of 50 µs to a day"
        whose = f"of {power.board}" if power.board else "of a board"
        return f"{self.name} is not a power {whose}, {spell(power.least_w)} to {spell(power.most_w, 'W')}"

    def unusual(self, converted: Array) -> str | None:
        """Return a remark where the values are possible, but look like times in another unit."""
        known = converted[np.isfinite(converted)]
        if self.base != "s" or not len(known):
            return None
        middle = float(np.median(known))
        if _USUAL_TIME_RANGE[0] <= middle <= _USUAL_TIME_RANGE[1]:
            return None
        return f"column {self.name}: a minibatch takes {spell_seconds(middle)} here; check that it is in {self.unit}"

    def hint(self, value: float, unit: str) -> str:
        """Return a value with the unit in which it would be possible."""
        other = [
            name for name, scale in self.units.items() if name != unit and self.least <= value * scale <= self.most
        ]
        more = f", which would be possible in {other[0]}; write one unit throughout" if other else ""
        return f"it is {value:g}{more}"


def clock_without_unit(clock: str, columns: list[str]) -> str | None:
    """Return a column that seems to give the GPU or memory clock (`gpu_hz`, `emc_hz`) under a name without its unit."""
    words = ("gpu",) if clock == "gpu_hz" else ("emc", "mem")
    return next((name for name in columns if name.startswith(words) and _CLOCK_WITHOUT_UNIT.fullmatch(name)), None)
