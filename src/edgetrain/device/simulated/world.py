"""What the simulated board's sensors see: power, heat and load over (virtual) time, through averaging registers.

A register gives what the chip would: a running average with its window as time constant, in steps of the shunt's
quantum, after 0.55 ms on the bus. Silicon leaks more when warm, so power creeps up for the first minutes.
"""

from __future__ import annotations

import functools
import math
import random
from collections.abc import Callable
from pathlib import Path

from edgetrain.device.base import DeviceClock
from edgetrain.device.simulated.announced import read_load
from edgetrain.device.simulated.build import BPMP_EMC, T210_EMC, chip_folder, stat_text
from edgetrain.device.simulated.kernel import SimulatedKernel
from edgetrain.device.simulated.physics import REFERENCE_BATCH, Physics, coefficients, idle_w, unit_factors
from edgetrain.device.simulated.shapes import CPU, Chip, Shape
from edgetrain.device.simulated.timeline import Load, LoadTimeline, RunningAverage
from edgetrain.schema import PowerMode
from edgetrain.units import HZ_PER_KHZ, NS_PER_S

REGISTER_S = 0.00055  # one INA register over I2C, published for AGX Orin and JetPack 6
TRIP_C = 99.0  # software throttling begins
SURFACE_C = 70.0  # hot-surface-alert, which slows nothing down
INA238_WINDOW_S = 0.05
SENSOR_NOISE = 0.004
TICKS_PER_S = 100


class World:
    """What a simulated board does and what its sensors show."""

    def __init__(
        self,
        root: Path,
        shape: Shape,
        clock: DeviceClock,
        seed: int = 0,
        ambient_c: float = 25.0,
        unit: int = 0,
        spread: float | None = None,
    ) -> None:
        self.root, self.shape, self.seed, self.unit, self.spread = root, shape, seed, unit, spread
        self.kernel = SimulatedKernel(root, shape)
        self.clock = clock
        self._mode: PowerMode | None = None
        self._held = False
        self._mode_at_ns = 0
        self._on: list[int] = []  # cores online
        self._gpu_limits = (0, 0)
        self._shown_loaded: bool | None = None
        facts = coefficients()[shape.name]
        self._power_factor = unit_factors(shape.name, unit, spread)[1]
        self._start_ns = clock.now_ns()
        self.timeline = LoadTimeline(
            self._start_ns, ambient_c, facts["heat_c_per_w"], facts["heat_s"], self._idle_w(self.mode())
        )
        self._averages: dict[float, RunningAverage] = {}

    def physics(self, network: str, batch_size: int = REFERENCE_BATCH) -> Physics:
        """Return the time and power of a network on this unit."""
        return Physics(self.shape.name, network, batch_size, unit=self.unit, spread=self.spread)

    def run_name(self, *parts: int | str) -> str:
        """Return the name by which the noise of one run is drawn: each unit has noise of its own."""
        unit = (f"unit {self.unit}",) if self.unit else ()
        return "|".join(str(part) for part in (*unit, self.seed, *parts))

    def now_ns(self) -> int:
        """Return the board's time."""
        return self.clock.now_ns()

    def sleep(self, seconds: float) -> None:
        """Let the board's time pass."""
        self.clock.sleep(seconds)

    def _idle_w(self, mode: PowerMode) -> float:
        return self._power_factor * idle_w(self.shape.name, mode, not self._held)

    @property
    def held(self) -> bool:
        """Whether the clocks are held; else the governors move them."""
        self.mode()
        return self._held

    def changed(self) -> None:
        """Note that a file was written: what happened so far happened in the mode before."""
        self.catch_up()
        self._mode = self._shown_loaded = None

    def mode(self) -> PowerMode:
        """Return the mode in force, read from the tree; other processes may have changed it."""
        now_ns = self.clock.now_ns()
        if self._mode is None or now_ns - self._mode_at_ns > 3 * NS_PER_S:
            self._mode, self._mode_at_ns = self._read_mode(), now_ns
        return self._mode

    def _read_mode(self) -> PowerMode:
        get, shape = self.kernel.get, self.shape
        on = self._on = [core for core in shape.cores if get(f"{CPU}/cpu{core}/online")]
        limits = [
            (get(f"{folder}/scaling_max_freq"), get(f"{folder}/scaling_min_freq"))
            for folder in self._running_policies()
        ]
        # Of clusters that differ the lowest clock counts, as on a board.
        top_khz, bottom_khz = min(limits, default=(shape.cpu_khz[-1], shape.cpu_khz[0]))
        self._held = top_khz == bottom_khz
        gpu_hz = get(f"{shape.gpu_folder}/max_freq")
        self._gpu_limits = (gpu_hz, get(f"{shape.gpu_folder}/min_freq"))
        emc_hz = get(f"{BPMP_EMC}/rate") or get(f"{T210_EMC}/clk_rate") or self.kernel.cap_hz()
        return PowerMode(len(on), top_khz * HZ_PER_KHZ, gpu_hz, emc_hz)

    def _running_policies(self) -> list[str]:
        clusters = [cluster for cluster in self.shape.clusters if set(cluster) & set(self._on)]
        return [f"{CPU}/cpufreq/policy{cluster[0]}" for cluster in clusters]

    def catch_up(self) -> None:
        """Let the board carry the load announced for it, or idle, from the end of the timeline until now."""
        now_ns = self.clock.now_ns()
        if now_ns > self.timeline.end_ns:
            announced = read_load(self.root)
            if announced is not None:
                load = Load(announced.watts, announced.gpu_share, announced.busy_cores, announced.emc_share)
            else:
                load = Load(self._idle_w(self.mode()))
            self.timeline.append(now_ns, load)

    def temp_c(self) -> float:
        """Return the temperature now."""
        self.catch_up()
        return self.timeline.temp_c(self.clock.now_ns())

    def throttled(self) -> bool:
        """Return whether the board is hot enough to lower its clocks."""
        return self.temp_c() >= TRIP_C

    def rail_w(self, share: float, window_s: float, name: str) -> float:
        """Return what a power monitor shows now for a rail with this share of the total."""
        self.catch_up()
        now_ns = self.clock.now_ns()
        average = self._averages.setdefault(window_s, RunningAverage(self.timeline, window_s))
        conversion = round((now_ns - self._start_ns) / NS_PER_S / window_s)
        noise = random.Random(f"{self.seed}|{conversion}|{name}").gauss(1.0, SENSOR_NOISE)
        return share * average.at(now_ns) * noise

    def registers(self) -> dict[str, Callable[[], str]]:
        """Return what the dynamic files of the tree show, by name."""
        found: dict[str, Callable[[], str]] = {}
        for chip in self.shape.chips:
            for index, (_, millivolts, share) in enumerate(chip.channels):
                self._chip_registers(found, chip, index, millivolts, share)
        shape = self.shape
        if shape.gpu_load:
            found[shape.gpu_load] = lambda: str(round(1000 * self._load_now().gpu_share))
        found[f"{shape.gpu_folder}/cur_freq"] = self._gpu_clock
        for index, (kind, fixed) in enumerate(shape.zones):
            name = f"/sys/class/thermal/thermal_zone{index}/temp"
            if fixed is not None and fixed > -200_000 and not kind.startswith("PMIC"):
                found[name] = functools.partial(self._zone, 1.5 * math.sin(index))
        for index, kind in enumerate(shape.cooling):
            if kind != "pwm-fan":
                limit_c = SURFACE_C if kind == "hot-surface-alert" else TRIP_C
                found[f"/sys/class/thermal/cooling_device{index}/cur_state"] = functools.partial(self._above, limit_c)
        for name in (
            "/sys/kernel/debug/bpmp/debug/actmon/mc_all_avg_activity",
            "/sys/kernel/actmon_avg_activity/mc_all",
        ):
            found[name] = lambda: str(round(self._load_now().emc_share * (self.mode().emc_hz or 0) / HZ_PER_KHZ))
        return found

    def _zone(self, offset_c: float) -> str:
        return str(round(1000 * (self.temp_c() + offset_c)))

    def _above(self, limit_c: float) -> str:
        return str(int(self.temp_c() >= limit_c))

    def _chip_registers(
        self, found: dict[str, Callable[[], str]], chip: Chip, index: int, millivolts: int, share: float
    ) -> None:
        folder = f"/{chip_folder(chip)}"
        step_ma = 40.0 / chip.shunt_uohm * 1000.0  # 40 µV over the shunt
        name = f"{chip.address}.{index}"

        def window_s() -> float:
            if chip.driver == "ina238":
                return INA238_WINDOW_S
            return (self.kernel.get(f"{folder}/samples") or chip.samples) * chip.round_ms / 1000

        def milliamperes() -> int:
            self.clock.sleep(REGISTER_S)
            if not millivolts:
                return 0
            exact = self.rail_w(share, window_s(), name) * 1e6 / millivolts
            return round(round(exact / step_ma) * step_ma)

        def volts() -> str:
            self.clock.sleep(REGISTER_S)
            return str(millivolts)

        if chip.driver == "ina3221x":
            found[f"{folder}/in_voltage{index}_input"] = volts
            found[f"{folder}/in_current{index}_input"] = lambda: str(milliamperes())
            found[f"{folder}/in_power{index}_input"] = lambda: str(round(milliamperes() * millivolts / 1000))
        elif chip.driver == "ina238":
            found[f"{folder}/in1_input"] = volts
            found[f"{folder}/power1_input"] = lambda: str(milliamperes() * millivolts)
        else:
            found[f"{folder}/in{index + 1}_input"] = volts
            found[f"{folder}/curr{index + 1}_input"] = lambda: str(milliamperes())

    def _load_now(self) -> Load:
        self.catch_up()
        return self.timeline.load(self.clock.now_ns())

    def _gpu_clock(self) -> str:
        busy = self._load_now().gpu_share > 0.05
        self.mode()
        top, bottom = self._gpu_limits
        if self.throttled():
            return str(max((hertz for hertz in self.shape.gpu_hz if hertz <= 0.85 * top), default=bottom))
        return str(top if busy else bottom)

    def show_cpu(self) -> None:
        """Bring /proc/stat and the cores' clocks up to date, for probes that read the files themselves."""
        self.catch_up()
        now_ns = self.clock.now_ns()
        busy = self.timeline.busy_until_s(now_ns)
        seconds = (now_ns - self._start_ns) / NS_PER_S
        mode = self.mode()
        each = min(seconds, busy / max(1, mode.cores))
        ticks = {core: (round(each * TICKS_PER_S), round((seconds - each) * TICKS_PER_S)) for core in self._on}
        self.kernel.put("proc/stat", stat_text(ticks))
        loaded = self.timeline.load(now_ns).busy_cores > 0.3
        if loaded != self._shown_loaded:
            self._shown_loaded = loaded
            for folder in self._running_policies():
                khz = mode.cpu_hz // HZ_PER_KHZ if loaded else self.kernel.get(f"{folder}/scaling_min_freq")
                self.kernel.put(f"{folder}/scaling_cur_freq", str(khz))
