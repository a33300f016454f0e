"""What the simulated board's sensors see: power, heat and load over (virtual) time, through averaging registers.

The timeline is what really happened, as segments of constant power. A register gives what the chip would: the mean
over its refresh period, leaning on the one before (INA chips average as they run), in steps of the shunt's quantum,
after 0.55 ms on the bus. Silicon leaks more when warm, so power creeps up for the first minutes.
"""

from __future__ import annotations

import bisect
import math
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from edgetrain.device.simulated.build import BPMP_EMC, CPU, T210_EMC, chip_folder, stat_text
from edgetrain.device.simulated.kernel import Kernel
from edgetrain.device.simulated.physics import coefficients, idle_w
from edgetrain.device.simulated.shapes import Chip, Shape
from edgetrain.schema import PowerMode
from edgetrain.units import HZ_PER_KHZ, NS_PER_S

REGISTER_S = 0.00055  # one INA register over I2C, published for AGX Orin and JetPack 6
LEAK_PER_C = 0.0012  # share of power per °C above the temperature at which the formulas were fitted
FITTED_AT_C = 50.0
TRIP_C = 97.0  # soft throttling begins
LATEST_SHARE = 0.7  # of a register's value, what the last refresh period contributes
SENSOR_NOISE = 0.004
TICKS_PER_S = 100


class VirtualClock:
    """A clock that moves only when somebody sleeps on it."""

    def __init__(self, start_ns: int = 1_000 * NS_PER_S) -> None:
        self._now_ns = start_ns

    def now_ns(self) -> int:
        return self._now_ns

    def sleep(self, seconds: float) -> None:
        self._now_ns += max(0, round(seconds * NS_PER_S))

    def move_to(self, at_ns: int) -> None:
        """Go forward to an instant; never back."""
        self._now_ns = max(self._now_ns, at_ns)


@dataclass(frozen=True, slots=True)
class Load:
    """What the board does for a while."""

    watts: float
    gpu_share: float = 0.0
    busy_cores: float = 0.1
    emc_share: float = 0.02


class Timeline:
    """What happened: power, heat and load, piece by piece; instants in ns, never falling."""

    def __init__(self, start_ns: int, ambient_c: float, heat_c_per_w: float, heat_s: float, watts: float) -> None:
        self.ambient_c, self._rise, self._heat_s = ambient_c, heat_c_per_w, heat_s
        settled_c = ambient_c + heat_c_per_w * watts
        self.ends: list[int] = [start_ns]
        self.energy_j: list[float] = [0.0]
        self.temps: list[float] = [settled_c]
        self.busy_s: list[float] = [0.0]
        self.loads: list[Load] = [Load(watts)]  # loads[i] lasts from ends[i-1] to ends[i]

    @property
    def end_ns(self) -> int:
        return self.ends[-1]

    def append(self, until_ns: int, load: Load) -> None:
        """Let a load last until an instant; the temperature follows with its time constant."""
        seconds = (until_ns - self.ends[-1]) / NS_PER_S
        if seconds <= 0:
            return
        warm_c = self.temps[-1]
        watts = load.watts * (1 + LEAK_PER_C * (warm_c - FITTED_AT_C))
        goal_c = self.ambient_c + self._rise * watts
        self.ends.append(until_ns)
        self.energy_j.append(self.energy_j[-1] + watts * seconds)
        self.temps.append(goal_c + (warm_c - goal_c) * math.exp(-seconds / self._heat_s))
        self.busy_s.append(self.busy_s[-1] + load.busy_cores * seconds)
        self.loads.append(load)

    def _between(self, values: list[float], at_ns: int) -> float:
        index = bisect.bisect_left(self.ends, at_ns)
        if index == 0:
            return values[0]
        if index >= len(self.ends):
            return values[-1]
        before, after = self.ends[index - 1], self.ends[index]
        share = (at_ns - before) / (after - before)
        return values[index - 1] + share * (values[index] - values[index - 1])

    def energy_until_j(self, at_ns: int) -> float:
        """Return the energy spent up to an instant."""
        if at_ns <= self.ends[0]:
            # Before the beginning the board idled as it did at the beginning.
            return -(self.ends[0] - at_ns) / NS_PER_S * self.loads[0].watts
        return self._between(self.energy_j, at_ns)

    def temp_c(self, at_ns: int) -> float:
        return self._between(self.temps, at_ns)

    def busy_until_s(self, at_ns: int) -> float:
        return self._between(self.busy_s, at_ns)

    def load(self, at_ns: int) -> Load:
        """Return what the board does at an instant."""
        index = bisect.bisect_left(self.ends, at_ns)
        return self.loads[min(index, len(self.loads) - 1)]


class World:
    """The board's insides."""

    def __init__(
        self,
        root: Path,
        shape: Shape,
        seed: int = 0,
        ambient_c: float = 25.0,
        now_ns: Callable[[], int] = time.monotonic_ns,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.root, self.shape, self.seed = root, shape, seed
        self.kernel = Kernel(root, shape)
        self.now_ns, self.sleep = now_ns, sleep
        self._mode: PowerMode | None = None
        self._held = False
        self._mode_at_ns = 0
        self._on: list[int] = []  # cores online
        self._gpu_limits = (0, 0)
        self._shown_loaded: bool | None = None
        self._folders: list[str] = []  # of the cores' clocks
        facts = coefficients()[shape.name]
        self._start_ns = now_ns()
        self.timeline = Timeline(
            self._start_ns,
            ambient_c,
            facts["heat_c_per_w"],
            facts["heat_s"],
            idle_w(shape.name, self.mode(), not self._held),
        )

    def changed(self) -> None:
        """Note that a file was written: what happened so far happened in the mode before."""
        self.catch_up()
        self._mode = self._shown_loaded = None

    def mode(self) -> PowerMode:
        """Return the mode in force, read from the tree; other processes may have changed it."""
        now_ns = self.now_ns()
        if self._mode is None or now_ns - self._mode_at_ns > 3 * NS_PER_S:
            self._mode, self._mode_at_ns = self._read_mode(), now_ns
        return self._mode

    def _read_mode(self) -> PowerMode:
        get, shape = self.kernel.get, self.shape
        on = self._on = [core for core in shape.cores if get(f"{CPU}/cpu{core}/online")]
        home = self.root.resolve()
        folders = {(self.root / CPU / f"cpu{core}/cpufreq").resolve() for core in on}
        self._folders = [str(folder.relative_to(home)) for folder in sorted(folders) if folder.exists()]
        tops = [
            (get(f"{CPU}/cpu{core}/cpufreq/scaling_max_freq"), get(f"{CPU}/cpu{core}/cpufreq/scaling_min_freq"))
            for core in on
        ]
        top_khz, bottom_khz = max(tops, default=(shape.cpu_khz[-1], shape.cpu_khz[0]))
        self._held = top_khz == bottom_khz
        gpu_hz = get(f"{shape.gpu_folder}/max_freq")
        self._gpu_limits = (gpu_hz, get(f"{shape.gpu_folder}/min_freq"))
        emc_hz = get(f"{BPMP_EMC}/rate") or get(f"{T210_EMC}/clk_rate") or shape.emc_hz[-1]
        return PowerMode(len(on), top_khz * HZ_PER_KHZ, gpu_hz, emc_hz)

    def catch_up(self) -> None:
        """Let the board idle from the end of the timeline until now."""
        now_ns = self.now_ns()
        if now_ns > self.timeline.end_ns:
            mode = self.mode()
            self.timeline.append(now_ns, Load(idle_w(self.shape.name, mode, not self._held)))

    def temp_c(self) -> float:
        """Return the temperature now."""
        self.catch_up()
        return self.timeline.temp_c(self.now_ns())

    def throttled(self) -> bool:
        """Return whether the board is hot enough to give way."""
        return self.temp_c() >= TRIP_C

    def rail_w(self, share: float, period_s: float, salt: str) -> float:
        """Return what a power monitor shows now for a rail with this share of the total."""
        self.catch_up()
        period_ns = round(period_s * NS_PER_S)
        refresh = (self.now_ns() - self._start_ns) // period_ns
        means = []
        for back in (0, 1):
            stop_ns = self._start_ns + (refresh - back) * period_ns
            spent_j = self.timeline.energy_until_j(stop_ns) - self.timeline.energy_until_j(stop_ns - period_ns)
            means.append(spent_j / period_s)
        noise = random.Random(f"{self.seed}|{refresh}|{salt}").gauss(1.0, SENSOR_NOISE)
        return share * (LATEST_SHARE * means[0] + (1 - LATEST_SHARE) * means[1]) * noise

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
            if fixed > -200_000 and not kind.startswith("PMIC"):
                offset = 1.5 * math.sin(index)
                found[name] = lambda offset=offset: str(round(1000 * (self.temp_c() + offset)))  # type: ignore[misc]
        found["/sys/class/thermal/cooling_device0/cur_state"] = lambda: str(int(self.throttled()))
        for name in (
            "/sys/kernel/debug/bpmp/debug/actmon/mc_all_avg_activity",
            "/sys/kernel/actmon_avg_activity/mc_all",
        ):
            found[name] = lambda: str(round(self._load_now().emc_share * (self.mode().emc_hz or 0) / HZ_PER_KHZ))
        return found

    def _chip_registers(
        self, found: dict[str, Callable[[], str]], chip: Chip, index: int, millivolts: int, share: float
    ) -> None:
        folder = f"/{chip_folder(chip)}"
        interval = f"{chip_folder(chip)}/update_interval"
        period_s = (self.kernel.get(interval) or chip.update_ms) / 1000
        step_ma = 40.0 / chip.shunt_uohm * 1000.0  # 40 µV over the shunt
        salt = f"{chip.address}.{index}"

        def milliamperes() -> int:
            self.sleep(REGISTER_S)
            if not millivolts:
                return 0
            exact = self.rail_w(share, period_s, salt) * 1e6 / millivolts
            return round(round(exact / step_ma) * step_ma)

        def volts() -> str:
            self.sleep(REGISTER_S)
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
        return self.timeline.load(self.now_ns())

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
        now_ns = self.now_ns()
        busy = self.timeline.busy_until_s(now_ns)
        seconds = (now_ns - self._start_ns) / NS_PER_S
        mode = self.mode()
        each = min(seconds, busy / max(1, mode.cores))
        ticks = {core: (round(each * TICKS_PER_S), round((seconds - each) * TICKS_PER_S)) for core in self._on}
        self.kernel.put("proc/stat", stat_text(ticks))
        loaded = self.timeline.load(now_ns).busy_cores > 0.3
        if loaded != self._shown_loaded:
            self._shown_loaded = loaded
            for folder in self._folders:
                khz = mode.cpu_hz // HZ_PER_KHZ if loaded else self.kernel.get(f"{folder}/scaling_min_freq")
                self.kernel.put(f"{folder}/scaling_cur_freq", str(khz))
