"""Reads a Jetson at one instant: rails, GPU, memory clock, temperatures, fan."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from edgetrain.device.base import SLOW_S, ProbeEvent
from edgetrain.device.jetson.clocks import Clocks
from edgetrain.device.jetson.rails import Rails
from edgetrain.device.jetson.reader import Reader
from edgetrain.device.privileged import BWMGR, CLK_CAP, find_fans
from edgetrain.device.tree import Tree
from edgetrain.errors import ProbeUnavailable
from edgetrain.units import C_PER_MC, HZ_PER_KHZ, W_PER_MW

NAN = math.nan
OFF_C = -250.0  # a sensor of a powered-down block shows -256 °C
# PMIC zones show a constant 50 or 100 °C on every board before Orin: a placeholder, not a temperature.
DUMMY_ZONES = {"PMIC-Die", "PMIC", "pmic-die"}
# On Orin these always answer EAGAIN: the vision cluster is off unless a program uses it.
OFF_ZONES = ("cv",)
GPU_S = 0.2  # one published table: 322 µs per reading on AGX Orin
FULL_PWM = 255
THROTTLE_READINGS = 3  # below the cap under full load for this many readings, so that a ramp does not count


class RailsProbe:
    """Every rail in watts, once per averaging window.

    The chips keep a running average: there is no instant at which a value is new, so readings follow no phase. A
    reading costs 0.55 ms of I2C per register, and up to kernel 5.10 it waits for the next conversion: it blocks.
    """

    name = "rails"
    blocking = True

    def __init__(self, tree: Tree, rails: Rails) -> None:
        if not rails.rails and rails.root_only:
            raise ProbeUnavailable(
                f"only root may read the power monitors here ({rails.root_only[0]})", root_only=rails.root_only
            )
        if not rails.rails:
            raise ProbeUnavailable("this board has no power monitor (INA3221 or INA238) that can be read")
        self.columns: Sequence[str] = [rail.column for rail in rails.rails]
        self.period_s = rails.period_s
        names: list[str] = []
        self._plan: list[tuple[int, int | None, float]] = []  # first register, second, scale
        for rail in rails.rails:
            if rail.power is not None:
                self._plan.append((len(names), None, rail.power_scale_w))
                names.append(rail.power)
            else:
                # The driver reports millivolts and milliamperes, so the product is microwatts.
                self._plan.append((len(names), len(names) + 1, W_PER_MW * 1e-3))
                names.extend([rail.voltage or "", rail.current or ""])
        self._reader = Reader(tree, names)

    @property
    def failures(self) -> int:
        """How many readings failed so far."""
        return self._reader.failures

    def read(self) -> Sequence[float]:
        """Return watts per rail."""
        row = []
        for first, second, scale in self._plan:
            value = self._reader.number(first, scale)
            if second is not None:
                value *= self._reader.number(second)
            # INA channels read negative by a quantum at no load; below that it is nonsense of a dead bus.
            row.append(value if math.isnan(value) or -1.0 < value < 1000.0 else NAN)
        return row

    def close(self) -> None:
        """Close the registers."""
        self._reader.close()


class JetsonGpuProbe:
    """Load, clock and clock cap of the GPU. Load files give per mille."""

    name = "gpu"
    period_s = GPU_S
    blocking = False

    def __init__(self, tree: Tree, clocks: Clocks) -> None:
        files = []
        columns = []
        self._scales: list[float] = []
        for column, name, scale in (
            ("gpu_util_pct", clocks.gpu_load, 0.1),
            ("gpu_hz", f"{clocks.gpu}/cur_freq" if clocks.gpu else None, 1.0),
            ("gpu_cap_hz", f"{clocks.gpu}/max_freq" if clocks.gpu else None, 1.0),
        ):
            if name and tree.exists(name):
                files.append(name)
                columns.append(column)
                self._scales.append(scale)
        if not files:
            raise ProbeUnavailable("neither load nor clock of the GPU can be read here")
        self.columns: Sequence[str] = columns
        self._reader = Reader(tree, files)
        self._events: list[ProbeEvent] = []
        self._low = 0

    def read(self) -> Sequence[float]:
        """Return load, clock and cap."""
        row = [self._reader.number(index, scale) for index, scale in enumerate(self._scales)]
        seen = dict(zip(self.columns, row, strict=True))
        load, clock, cap = (seen.get(name, NAN) for name in ("gpu_util_pct", "gpu_hz", "gpu_cap_hz"))
        throttled = load > 95.0 and clock < 0.97 * cap
        self._low = self._low + 1 if throttled else 0
        if self._low == THROTTLE_READINGS:
            text = f"GPU at {clock / 1e6:g} MHz under full load, cap {cap / 1e6:g} MHz"
            self._events.append(ProbeEvent("throttle", text))
        return row

    def pop_events(self) -> Iterable[ProbeEvent]:
        """Return throttling noticed since the last call."""
        events, self._events = self._events, []
        return events

    def close(self) -> None:
        """Close the registers."""
        self._reader.close()


class EmcProbe:
    """Clock and load of the memory controller, for root; without root JetPack 6 shows the cap, JetPack 7 the clock."""

    name = "emc"
    period_s = GPU_S
    blocking = False

    def __init__(self, tree: Tree, clocks: Clocks) -> None:
        named = {"emc_hz": clocks.emc_rate, "emc_util_pct": clocks.emc_load if clocks.emc_rate else None}
        named["emc_cap_hz"] = next((name for name in (f"{BWMGR}/max_freq", CLK_CAP) if tree.number(name)), None)
        files = {column: name for column, name in named.items() if name is not None}
        if not files:
            raise ProbeUnavailable("the memory clock lies in debugfs, which this user may not read; sudo shows it")
        self.columns: Sequence[str] = list(files)
        self._reader = Reader(tree, list(files.values()))

    def read(self) -> Sequence[float]:
        """Return clock, load and cap, as far as they can be read."""
        row = [self._reader.number(index) for index in range(len(self.columns))]
        if "emc_util_pct" in self.columns:
            # The counter is in kHz of memory clock.
            rate_hz, activity_khz = row[0], row[1]
            row[1] = 100.0 * activity_khz * HZ_PER_KHZ / rate_hz if rate_hz > 0 else NAN
        return row

    def close(self) -> None:
        """Close the registers."""
        self._reader.close()


class JetsonThermalProbe:
    """Every thermal zone in °C; powered-down and placeholder zones are left out, those powered down later are NaN."""

    name = "thermal"
    period_s = SLOW_S
    blocking = False

    def __init__(self, tree: Tree) -> None:
        names: list[str] = []
        columns: list[str] = []
        for zone in tree.glob("/sys/class/thermal/thermal_zone*"):
            kind = tree.text(f"{zone}/type")
            if kind is None or kind in DUMMY_ZONES:
                continue
            found = tree.number(f"{zone}/temp")
            if found is None and kind.lower().startswith(OFF_ZONES):
                continue
            if found is not None and found * C_PER_MC <= OFF_C:
                continue
            # `CPU-therm` to JetPack 5, `cpu-thermal` from 6: one word for both.
            word = kind.lower().replace("-thermal", "").replace("-therm", "").replace("-", "_")
            column = f"{word}_temp_c"
            columns.append(column if column not in columns else f"{word}{len(names)}_temp_c")
            names.append(f"{zone}/temp")
        if not names:
            raise ProbeUnavailable("this board shows no thermal zone")
        self.columns: Sequence[str] = columns
        self._reader = Reader(tree, names)

    def read(self) -> Sequence[float]:
        """Return °C per zone."""
        row = [self._reader.number(index, C_PER_MC) for index in range(len(self.columns))]
        return [value if OFF_C < value < 200.0 else NAN for value in row]

    def close(self) -> None:
        """Close the registers."""
        self._reader.close()


class FanProbe:
    """How fast the fan turns: share of full speed as driven, and revolutions per minute where a tachometer is read."""

    name = "fan"
    period_s = SLOW_S
    blocking = False

    def __init__(self, tree: Tree) -> None:
        driven = find_fans(tree) + [name for name in ("/sys/devices/pwm-fan/cur_pwm",) if tree.exists(name)]
        monitors = tree.glob("/sys/class/hwmon/hwmon*")
        tach = [f"{folder}/rpm" for folder in monitors if (tree.text(f"{folder}/name") or "") == "pwm_tach"]
        tach += [name.replace("/rpm", "/fan1_input") for name in tach]
        tach += ["/sys/devices/pwm-fan/rpm_measured"]
        turned = [name for name in tach if tree.number(name) is not None]
        files = {**({"fan_share": driven[0]} if driven else {}), **({"fan_rpm": turned[0]} if turned else {})}
        if not files:
            raise ProbeUnavailable("this board shows no fan")
        self.columns: Sequence[str] = list(files)
        self._reader = Reader(tree, list(files.values()))

    def read(self) -> Sequence[float]:
        """Return share of full speed and revolutions per minute."""
        scales = {"fan_share": 1.0 / FULL_PWM, "fan_rpm": 1.0}
        return [self._reader.number(index, scales[column]) for index, column in enumerate(self.columns)]

    def close(self) -> None:
        """Close the registers."""
        self._reader.close()
