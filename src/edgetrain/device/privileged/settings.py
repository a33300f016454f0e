"""The settings of a board by name: which file each one is, reading them, and writing many so that each is read back.

Part of edgetrain-control: Python 3.6, standard library only.
"""

import re
from typing import Callable, Dict, List, Mapping, Optional, Set

from edgetrain.device.privileged.files import ControlError, Files, natural

MAX_VALUE = (1 << 63) - 1  # nvpmodel writes this for no limit
PASSES = 4  # a value may need its neighbours to change first (minimum and maximum), and BPMP answers late
PAUSE_S = 0.05
HOLD_CHECK_S = 0.2  # a held memory rate is read a second time after this
CLOCK_TOLERANCE = 0.005  # drivers round to their own table: 1331 MHz and 1331.2 MHz are one clock
SAMPLES = (1, 4, 16, 64, 128, 256, 512, 1024)  # conversions an INA3221 can average
FAN_SERVICE = "nvfancontrol"
FULL_FAN = {"fan.service": 0, "fan.automatic": 0, "fan.pwm": 255}
CPU = "/sys/devices/system/cpu"
BPMP = "/sys/kernel/debug/bpmp/debug"
T210_EMC = "/sys/kernel/debug/clk/override.emc"
BWMGR = "/sys/class/devfreq/bwmgr"
ISO_CAP = "/sys/kernel/nvpmodel_emc_cap/emc_iso_cap"  # JetPack 4 and 5: 0 is no cap
CLK_CAP = "/sys/kernel/nvpmodel_clk_cap/emc"  # JetPack 6: reads back the effective cap, 0 would be the lowest rate
GPU_NAMES = ("gpu", "gp10b", "gv11b", "ga10b", "gb10b")
# Where the GPU's device folder lies: JetPack 6 and later, JetPack 5, JetPack 4.
GPU_DEVICES = tuple(
    "%s/%s" % (folder, name)
    for folder in ("/sys/devices/platform/bus@0", "/sys/devices/platform", "/sys/devices")
    for name in ("*.gpu", "*.ga10b", "*.gv11b", "*.gp10b", "gpu.0")
)
Values = Dict[str, int]


def find_gpu(files: Files) -> Optional[str]:
    """Return the GPU's devfreq folder with links resolved, or None."""
    for folder in files.glob("/sys/class/devfreq/*"):
        name = folder.rsplit("/", 1)[1]
        node = files.text(folder + "/device/of_node/name") or ""
        if (node in GPU_NAMES or name == "gpu-gpc-0" or name.split(".")[-1] in GPU_NAMES) and files.exists(
            folder + "/max_freq"
        ):
            return files.real(folder)
    patterns = [device + tail for device in GPU_DEVICES for tail in ("/devfreq/*/max_freq", "/devfreq_dev/max_freq")]
    found = next((name for pattern in patterns for name in files.glob(pattern)), None)
    return files.real(found.rsplit("/", 1)[0]) if found else None


def find_settings(files: Files) -> Dict[str, str]:
    """Return every setting of this board by name, with its file; nothing else is ever written."""
    wanted: Dict[str, str] = {}
    clocks = files.glob(CPU + "/cpufreq/policy[0-9]*") + files.glob(CPU + "/cpu[0-9]*/cpufreq")
    seen: Set[Optional[str]] = set()
    for folder in clocks:
        real = files.real(folder)
        if real not in seen:
            seen.add(real)
            core = re.findall(r"(?:policy|cpu)(\d+)", folder)[-1]
            wanted["cpu%s.max_khz" % core] = folder + "/scaling_max_freq"
            wanted["cpu%s.min_khz" % core] = folder + "/scaling_min_freq"
    for name in files.glob(CPU + "/cpu[1-9]*/online"):
        wanted["cpu%s.online" % name.split("/")[-2][3:]] = name
    for name in files.glob(CPU + "/cpu[0-9]*/cpuidle/state[0-9]*/disable"):
        core, state = re.findall(r"/cpu(\d+)/cpuidle/state(\d+)/", name)[0]
        wanted["cpu%s.idle%s" % (core, state)] = name
    gpu = find_gpu(files)
    if gpu:
        wanted.update({"gpu.max_hz": gpu + "/max_freq", "gpu.min_hz": gpu + "/min_freq"})
        wanted["gpu.railgate"] = gpu.split("/devfreq")[0] + "/railgate_enable"
    if files.number(BWMGR + "/max_freq") is not None:
        wanted.update({"emc.max_hz": BWMGR + "/max_freq", "emc.min_hz": BWMGR + "/min_freq"})
    else:
        wanted.update({"emc.clk_cap_hz": CLK_CAP} if files.exists(CLK_CAP) else {"emc.iso_cap_hz": ISO_CAP})
    if files.exists(BPMP + "/clk/emc/rate"):
        held = BPMP + "/clk/emc/"
        wanted.update({"emc.lock": held + "mrq_rate_locked", "emc.state": held + "state", "emc.rate_hz": held + "rate"})
        wanted["emc.halt"] = BPMP + "/bwmgr/bwmgr_halt"
    else:
        wanted.update({"emc.lock": T210_EMC + "/clk_state", "emc.rate_hz": T210_EMC + "/clk_update_rate"})
    for name in files.glob("/sys/bus/i2c/drivers/ina3221/*/hwmon/hwmon*/samples"):
        wanted["monitor-%s.samples" % name.split("/")[-4]] = name
    for name in find_fans(files)[:1]:
        wanted["fan.pwm"] = name
    if files.exists("/sys/devices/pwm-fan/target_pwm"):
        wanted["fan.pwm"] = "/sys/devices/pwm-fan/target_pwm"
        wanted["fan.automatic"] = "/sys/devices/pwm-fan/temp_control"
    found = {name: files.real(path) for name, path in wanted.items()}
    return {name: path for name, path in found.items() if path is not None}


def find_fans(files: Files) -> List[str]:
    """Return the files that drive a fan on JetPack 5 and later: of the platform device, else of a hwmon named so."""
    named = [
        folder + "/pwm1"
        for folder in files.glob("/sys/class/hwmon/hwmon*")
        if files.text(folder + "/name") in ("pwmfan", "pwm-fan", "pwm_fan") and files.exists(folder + "/pwm1")
    ]
    return files.glob("/sys/devices/platform/pwm-fan*/hwmon/hwmon*/pwm1") + named


def is_throttle(kind: str) -> bool:
    """Return whether a cooling device slows something down: fans and the alert for a hot surface do not."""
    return bool(re.search(r"throttle|cpufreq|devfreq|balanced", kind)) and "hot-surface" not in kind


def active_throttles(files: Files) -> List[str]:
    """Return the cooling devices that slow the board down at this moment."""
    folders = files.glob("/sys/class/thermal/cooling_device*")
    kinds = [(files.text(folder + "/type") or "", folder) for folder in folders]
    return [kind for kind, folder in kinds if is_throttle(kind) and (files.number(folder + "/cur_state") or 0) > 0]


def rank(name: str, value: int) -> int:
    """Return when a value is written: cores go online first and offline last, a memory lock precedes its rate."""
    order = ("samples", "khz", "gpu.m", "railgate", "cap_hz", "emc.m", "lock", "state", "halt", "rate", "idle", "fan")
    if name.endswith(".online"):
        return 0 if value else len(order) + 1
    return next(index for index, word in enumerate(order, 1) if word in name)


def same(name: str, asked: int, found: Optional[int]) -> bool:
    """Return whether a value that was read back is the one asked for."""
    if found is None or not name.endswith("hz"):
        return found == asked
    return abs(found - asked) <= CLOCK_TOLERANCE * asked


class BoardSettings:
    """The settings of one board: reads them, and writes many of them so that every one is read back."""

    def __init__(self, files: Files) -> None:
        self.files = files
        self.paths = find_settings(files)

    def read(self) -> Values:
        """Return every setting that can be read now; an unlocked memory rate moves by itself and is none."""
        values: Values = {}
        for name, path in self.paths.items():
            if name == "emc.rate_hz" and values.get("emc.lock") != 1:
                continue
            # On tegra210 the rate is written in one file and read in another.
            number = self.files.number(path.replace("clk_update_rate", "clk_rate"))
            if number is not None:
                values[name] = number
        return values

    def check(self, values: Mapping[str, int]) -> None:
        """Refuse what is no setting of this board, and numbers that no setting can have."""
        for name, value in values.items():
            if name not in self.paths:
                raise ControlError("this board has no setting %r" % name)
            if not isinstance(value, int) or isinstance(value, bool) or not -1 <= value <= MAX_VALUE:
                raise ControlError("%s cannot be %r" % (name, value))
            if name.endswith(".samples") and value not in SAMPLES:
                raise ControlError("%s cannot be %d: power monitors average one of %s" % (name, value, SAMPLES))

    def write(self, values: Mapping[str, int], came_online: Callable[[], None] = lambda: None) -> Dict[str, str]:
        """Bring the board into these values; return those that did not take, with the reason.

        What already reads as asked is not written again. Minimum and maximum limit each other and one write may
        disturb another value, so the whole is read and written again a few times.
        """
        self.check(values)
        now = self.read()
        # Cores go offline last: the clock of a cluster that is offline cannot be read or written on newer kernels.
        last = {name: value for name, value in values.items() if name.endswith(".online") and value == 0}
        stay_off = [name.split(".")[0] for name in last if now.get(name) == 0]
        first = {
            name: value
            for name, value in values.items()
            if name not in last and (name in now or name.split(".")[0] not in stay_off)
        }
        wrong = self._write(first, came_online)
        wrong.update(self._write(last, came_online))
        if not wrong and values.get("emc.lock") == 1:
            self.files.sleep(HOLD_CHECK_S)  # bandwidth management may move the rate a moment later
            wrong = self._wrong({name: value for name, value in values.items() if name.startswith("emc.")}, {})
        return wrong

    def _write(self, values: Mapping[str, int], came_online: Callable[[], None]) -> Dict[str, str]:
        wrong: Dict[str, str] = {}
        for attempt in range(PASSES if values else 0):
            now, new_cores = self.read(), False
            errors: Dict[str, str] = {}
            for name in sorted(values, key=lambda each: (rank(each, values[each]), natural(each))):
                if new_cores and not name.endswith(".online"):
                    came_online()  # the clocks of these cores can be read, and so restored, from now on
                    now, new_cores = self.read(), False
                if same(name, values[name], now.get(name)):
                    continue
                try:
                    self.files.write(self.paths[name], str(values[name]))
                    new_cores |= name.endswith(".online") and values[name] == 1
                except OSError as error:
                    errors[name] = error.strerror or str(error)
            wrong = self._wrong(values, errors)
            if not wrong:
                break
            if attempt + 1 < PASSES:
                self.files.sleep(PAUSE_S)
        return wrong

    def _wrong(self, values: Mapping[str, int], errors: Mapping[str, str]) -> Dict[str, str]:
        now = self.read()
        odd = [name for name, value in values.items() if not same(name, value, now.get(name))]
        return {name: errors.get(name) or "it reads %s" % now.get(name, "nothing") for name in odd}

    def fan(self) -> Values:
        """Return what decides the fan's speed: the service that follows the temperature, and the present value."""
        names = ("fan.pwm", "fan.automatic")
        found = {name: self.files.number(self.paths[name]) for name in names if name in self.paths}
        answer = self.files.run("systemctl", ["is-active", FAN_SERVICE])
        found["fan.service"] = int(answer[0] == 0) if answer is not None else None
        return {name: value for name, value in found.items() if value is not None}

    def set_fan(self, values: Mapping[str, int]) -> Dict[str, str]:
        """Set the fan and start or stop its service; return what did not work."""
        wrong = {}
        service = values.get("fan.service")
        if service is not None and service != self.fan().get("fan.service"):
            answer = self.files.run("systemctl", ["start" if service else "stop", FAN_SERVICE])
            if answer is None or answer[0] != 0:
                wrong["fan.service"] = "systemctl ended with %s" % (answer[0] if answer else "nothing")
        numbers = {name: value for name, value in values.items() if name in self.paths and not service}
        # A service that runs, or JetPack 4's kernel, moves the fan itself: the speed found before is of no use then.
        if values.get("fan.automatic") == 1:
            numbers.pop("fan.pwm", None)
        wrong.update(self.write(numbers))
        return wrong
