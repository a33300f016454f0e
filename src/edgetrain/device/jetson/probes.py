"""Reads a Jetson at one instant: rails, GPU, memory clock, temperatures, throttling.

Every file is opened once and read by pread. A reading that fails is NaN and counted: sensors of a powered-down
block answer EAGAIN, a core that went offline takes its cpufreq folder along, and neither may end a run.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from edgetrain.device.base import SLOW_S
from edgetrain.device.jetson.clocks import Clocks
from edgetrain.device.jetson.rails import Rails
from edgetrain.device.tree import Register, Tree
from edgetrain.errors import ProbeUnavailable
from edgetrain.units import C_PER_MC, HZ_PER_KHZ, US_PER_S, W_PER_MW

NAN = math.nan
OFF_C = -250.0  # a sensor of a powered-down block shows -256 °C
# PMIC zones show a constant 50 or 100 °C on every board before Orin: a placeholder, not a temperature.
DUMMY_ZONES = {"PMIC-Die", "PMIC", "pmic-die"}
MOST_REPEATS = 6  # readings that repeat before the phase is given up
GPU_S = 0.2  # one published table: 322 µs a reading on AGX Orin


class Reader:
    """A group of registers read together; failures are counted, and a file that vanished is opened again."""

    def __init__(self, tree: Tree, names: Sequence[str]) -> None:
        self._tree = tree
        self._names = list(names)
        self._open: list[Register | None] = []
        for name in names:
            try:
                self._open.append(tree.register(name))
            except ProbeUnavailable:
                self._open.append(None)
        self.failures = 0
        if names and not any(self._open):
            raise ProbeUnavailable(f"none of {', '.join(names[:3])} can be read")

    def text(self, index: int) -> str | None:
        """Return what a register says now, or None, counted."""
        register = self._open[index]
        try:
            if register is None:
                register = self._open[index] = self._tree.register(self._names[index])
            return register.read()
        except BlockingIOError:  # EAGAIN: the block is off; the descriptor stays good
            self.failures += 1
        except (OSError, ProbeUnavailable):
            # ENODEV after a core went offline: the descriptor never recovers, the path may.
            self.failures += 1
            if register is not None:
                register.close()
            self._open[index] = None
        return None

    def number(self, index: int, scale: float = 1.0) -> float:
        """Return a register as a number, NaN where it gave none."""
        text = self.text(index)
        try:
            return float(text) * scale if text else NAN
        except ValueError:
            self.failures += 1
            return NAN

    def close(self) -> None:
        for register in self._open:
            if register is not None:
                register.close()
        self._open = [None] * len(self._names)


class RailsProbe:
    """Every rail in watts, once per refresh of the sensor, just after it.

    A reading costs 0.55 ms of I2C a register, so reading faster than the sensor refreshes buys nothing. When a value
    changes we look twice a period until it changes again, then stay just behind the change, once a period; a run of
    repeats means that the board rests or the phase slipped.
    """

    name = "rails"

    def __init__(self, tree: Tree, rails: Rails) -> None:
        if not rails.rails:
            raise ProbeUnavailable("this board has no power monitor (INA3221 or INA238) that can be read")
        self.columns: Sequence[str] = [rail.column for rail in rails.rails]
        self.period_s = rails.refresh_s
        names: list[str] = []
        self._plan: list[tuple[int, int | None, float]] = []  # first register, second, scale
        for rail in rails.rails:
            if rail.power is not None:
                self._plan.append((len(names), None, rail.power_scale_w))
                names.append(rail.power)
            else:
                # The driver speaks millivolts and milliamperes, so the product is microwatts.
                self._plan.append((len(names), len(names) + 1, W_PER_MW * 1e-3))
                names.extend([rail.voltage or "", rail.current or ""])
        self._reader = Reader(tree, names)
        self._last: list[float] = []
        self._changed = False
        self._repeats = 0
        self._seeking = True
        self._locked = False

    @property
    def failures(self) -> int:
        """How many readings failed so far."""
        return self._reader.failures

    def read(self) -> Sequence[float]:
        row = []
        for first, second, scale in self._plan:
            value = self._reader.number(first, scale)
            if second is not None:
                value *= self._reader.number(second)
            # INA channels read negative by a quantum at no load; below that it is nonsense of a dead bus.
            row.append(value if math.isnan(value) or -1.0 < value < 1000.0 else NAN)
        fresh = [value for value in row if not math.isnan(value)]
        self._changed = bool(self._last) and fresh != self._last
        self._last = fresh
        return row

    def next_read_us(self, now_us: int) -> int:
        """Return when the sensor will have a new value: half a period on while seeking, else a whole one."""
        period_us = int(self.period_s * US_PER_S)
        if self._changed:
            # Seen while seeking, the refresh lies at most half a period back: stay here. Seen at rest, look closer.
            self._seeking = not self._seeking and not self._locked
            self._locked = not self._seeking
            self._repeats = 0
        else:
            self._repeats += 1
            if self._repeats >= MOST_REPEATS:
                # An idle board repeats itself: there is nothing to lock on to, and looking twice costs twice.
                self._seeking = self._locked = False
        return now_us + (period_us // 2 if self._seeking else period_us)

    def close(self) -> None:
        self._reader.close()


class GpuProbe:
    """Load, clock and clock cap of the GPU. Load files speak per mille."""

    name = "gpu"
    period_s = GPU_S

    def __init__(self, tree: Tree, clocks: Clocks) -> None:
        files = []
        self.columns: list[str] = []
        self._scales: list[float] = []
        for column, name, scale in (
            ("gpu_util_pct", clocks.gpu_load, 0.1),
            ("gpu_hz", f"{clocks.gpu}/cur_freq" if clocks.gpu else None, 1.0),
            ("gpu_cap_hz", f"{clocks.gpu}/max_freq" if clocks.gpu else None, 1.0),
        ):
            if name and tree.exists(name):
                files.append(name)
                self.columns.append(column)
                self._scales.append(scale)
        if not files:
            raise ProbeUnavailable("neither load nor clock of the GPU can be read here")
        self._reader = Reader(tree, files)
        self._told: list[tuple[str, str]] = []
        self._low = 0

    def read(self) -> Sequence[float]:
        row = [self._reader.number(index, scale) for index, scale in enumerate(self._scales)]
        seen = dict(zip(self.columns, row, strict=True))
        load, clock, cap = (seen.get(name, NAN) for name in ("gpu_util_pct", "gpu_hz", "gpu_cap_hz"))
        # Below the cap under full load is what throttling looks like; three readings, so that a ramp does not count.
        throttled = load > 95.0 and clock < 0.97 * cap
        self._low = self._low + 1 if throttled else 0
        if self._low == 3:
            self._told.append(("throttle", f"GPU at {clock / 1e6:g} MHz under full load, cap {cap / 1e6:g} MHz"))
        return row

    def told(self) -> Iterable[tuple[str, str]]:
        told, self._told = self._told, []
        return told

    def close(self) -> None:
        self._reader.close()


class EmcProbe:
    """Clock and load of the memory controller; debugfs, so root only on most boards."""

    name = "emc"
    period_s = GPU_S

    def __init__(self, tree: Tree, clocks: Clocks) -> None:
        names = [name for name in (clocks.emc.rate, clocks.emc.load) if name and tree.exists(name)]
        if not names or names[0] != clocks.emc.rate:
            raise ProbeUnavailable("the memory clock lies in debugfs, which this user may not read; sudo shows it")
        self.columns: Sequence[str] = ["emc_hz", "emc_util_pct"][: len(names)]
        self._reader = Reader(tree, names)

    def read(self) -> Sequence[float]:
        rate_hz = self._reader.number(0)
        if len(self.columns) == 1:
            return [rate_hz]
        activity_khz = self._reader.number(1)
        return [rate_hz, 100.0 * activity_khz * HZ_PER_KHZ / rate_hz if rate_hz > 0 else NAN]

    def close(self) -> None:
        self._reader.close()


class ThermalProbe:
    """Every thermal zone in °C; powered-down and placeholder zones are left out, those that fall asleep are NaN."""

    name = "thermal"
    period_s = SLOW_S

    def __init__(self, tree: Tree) -> None:
        names: list[str] = []
        self.columns: list[str] = []
        for zone in tree.glob("/sys/class/thermal/thermal_zone*"):
            kind = tree.text(f"{zone}/type")
            if kind is None or kind in DUMMY_ZONES:
                continue
            if (tree.number(f"{zone}/temp") or 0) * C_PER_MC <= OFF_C:
                # Its block is powered down and stays so in training. One that answers EAGAIN may wake up: it is kept.
                continue
            # `CPU-therm` to JetPack 5, `cpu-thermal` from 6: one word for both.
            word = kind.lower().replace("-thermal", "").replace("-therm", "").replace("-", "_")
            column = f"{word}_temp_c"
            self.columns.append(column if column not in self.columns else f"{word}{len(names)}_temp_c")
            names.append(f"{zone}/temp")
        if not names:
            raise ProbeUnavailable("this board shows no thermal zone")
        self._reader = Reader(tree, names)

    def read(self) -> Sequence[float]:
        row = [self._reader.number(index, C_PER_MC) for index in range(len(self.columns))]
        return [value if OFF_C < value < 200.0 else NAN for value in row]

    def close(self) -> None:
        self._reader.close()


class AlarmProbe:
    """Over-current alarms of the power monitors and cooling devices in action: 1 while raised."""

    name = "alarms"
    period_s = SLOW_S

    def __init__(self, tree: Tree, rails: Rails) -> None:
        names = [(f"{rail.label}_alarm", alarm) for rail in rails.rails for alarm in rail.alarms[:1]]
        for folder in tree.glob("/sys/class/thermal/cooling_device*"):
            kind = tree.text(f"{folder}/type") or ""
            # Fans cool without costing speed; the others are throttles.
            if kind and "fan" not in kind.lower() and tree.exists(f"{folder}/cur_state"):
                names.append((f"{kind}_state", f"{folder}/cur_state"))
        if not names:
            raise ProbeUnavailable("this board shows no over-current alarm and no cooling device")
        unique: dict[str, str] = {}
        for column, name in names:
            unique.setdefault(column, name)
        self.columns: Sequence[str] = list(unique)
        self._reader = Reader(tree, list(unique.values()))
        self._raised = [False] * len(self.columns)
        self._told: list[tuple[str, str]] = []

    def read(self) -> Sequence[float]:
        row = [self._reader.number(index) for index in range(len(self.columns))]
        for index, value in enumerate(row):
            raised = value > 0
            if raised and not self._raised[index]:
                kind = "throttle" if self.columns[index].endswith("_state") else "over_current"
                self._told.append((kind, f"{self.columns[index]} rose to {value:g}"))
            self._raised[index] = raised
        return row

    def told(self) -> Iterable[tuple[str, str]]:
        told, self._told = self._told, []
        return told

    def close(self) -> None:
        self._reader.close()
