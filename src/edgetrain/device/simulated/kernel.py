"""The simulated board's kernel: takes writes as a board's does, with its roundings, refusals and side effects.

Limits are clamped and rounded to the clock table, older kernels refuse a minimum above the maximum, newer ones answer
EBUSY for the clock of a cluster that is offline, and a held memory rate is ignored unless it is locked. Every effect is
one write to one file, so a process killed half-way leaves files that a board could show.
"""

from __future__ import annotations

import errno
import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from edgetrain.device.privileged import open_beneath
from edgetrain.device.simulated.build import BPMP_EMC, BWMGR, FAN_PWM, JP4_FAN, SHAPE, T210_EMC, chip_folder
from edgetrain.device.simulated.shapes import CPU, ISO_CAP, Shape, read_shape

FAULTS = ".sim/faults.json"


class SimulatedKernel:
    """What happens when a file of the board is read or written."""

    def __init__(self, root: Path, shape: Shape | None = None) -> None:
        self.root = root
        self.shape = shape or read_shape((root / SHAPE).read_text())
        self._faults = os.path.join(root, FAULTS)
        self._strict = not self.shape.at_least(5, 0)
        self._busy_offline = self.shape.at_least(5, 19)
        self._asleep = {
            f"sys/class/thermal/thermal_zone{index}/temp"
            for index, (_, millidegrees) in enumerate(self.shape.zones)
            if millidegrees is None
        }

    def faults(self) -> Mapping[str, Any]:
        """Return what is to go wrong.

        `ignore`: paths whose writes do nothing; `errors`, `read_errors`: path → errno; `closed`: paths that cannot be
        written; `nvpmodel`: silent, refuse or chroot; `hot`: file name → cap.
        """
        if not os.path.exists(self._faults):
            return {}
        try:
            document = json.loads(Path(self._faults).read_text())
        except (OSError, ValueError):
            return {}
        return document if isinstance(document, dict) else {}

    def read_error(self, name: str) -> int | None:
        """Return the error that reading a file gives, or None."""
        relative = name.lstrip("/")
        injected = self.faults().get("read_errors", {})
        if name in injected:
            return int(injected[name])
        if relative in self._asleep:
            return errno.EAGAIN
        return errno.EBUSY if self._offline_policy(relative) else None

    def lowered(self, name: str, text: str) -> str:
        """Return what a file shows while the board is hot: heat lowers maximum clocks and raises cooling states."""
        hot = self.faults().get("hot", {})
        word = name.rsplit("/", 1)[1]
        if word == "cur_state" and hot:
            kind = (self.root / name.lstrip("/")).with_name("type").read_text()
            return "3" if re.search("cpufreq|devfreq", kind) else text
        return str(min(int(text), int(hot[word]))) if word in hot and text.strip().isdigit() else text

    def _offline_policy(self, relative: str) -> bool:
        found = re.match(rf"{CPU}/(?:cpufreq/policy|cpu)(\d+)/(?:cpufreq/)?scaling_", relative)
        if not found or not self._busy_offline:
            return False
        cluster = next(cluster for cluster in self.shape.clusters if int(found[1]) in cluster)
        return not any(self.get(f"{CPU}/cpu{core}/online") for core in cluster)

    def write(self, name: str, text: str) -> None:
        """Write a file as a process of the board would; raises OSError as its kernel would."""
        value = text.strip()
        relative = name.lstrip("/")
        os.close(open_beneath(os.fspath(self.root), name, os.O_RDONLY))  # no link, and it must be there
        faults = self.faults()
        if name in faults.get("ignore", ()):
            return
        if name in faults.get("errors", {}):
            raise _error(int(faults["errors"][name]))
        core = re.fullmatch(rf"{CPU}/cpu(\d+)/online", relative)
        if self._offline_policy(relative):
            raise _error(errno.EBUSY)
        if core:
            self._online(int(core[1]), value)
        elif relative.endswith(("scaling_max_freq", "scaling_min_freq")):
            self._limit(relative, value, self.shape.cpu_khz, "scaling_")
        elif relative.startswith(self.shape.gpu_folder.lstrip("/")) and relative.endswith(("max_freq", "min_freq")):
            self._limit(relative, value, self.shape.gpu_hz, "")
        elif relative.startswith(BWMGR) and relative.endswith(("max_freq", "min_freq")):
            self._limit(relative, value, self.shape.emc_hz, "")
        elif relative in (f"{BPMP_EMC}/rate", f"{T210_EMC}/clk_update_rate"):
            self._rate(relative, value)
        elif name == self.shape.emc_cap:
            self._set_cap(relative, value)
        else:
            self._plain(name, relative, value)

    def _plain(self, name: str, relative: str, value: str) -> None:
        if name.endswith("railgate_enable") and value == "1" and self.shape.railgate_refuses_1:
            raise _error(errno.EINVAL)
        if any(path == name for _, _, path in self.shape.masks) and not name.startswith("/opt/"):
            golden = f"{self.shape.gpu_folder.split('/devfreq')[0]}/golden_img_status"
            if self.get(golden) and _integer(value) != self.get(name):
                raise _error(errno.EBUSY)
        if relative == f"{JP4_FAN}/target_pwm" and self.get(f"{JP4_FAN}/temp_control"):
            return  # the kernel moves the fan itself
        self.put(relative, value)
        if relative == f"{JP4_FAN}/temp_control" and value == "1":
            self.put(f"{JP4_FAN}/target_pwm", str(FAN_PWM))
        if relative.endswith(("mrq_rate_locked", "clk_state")):
            self._follow_cap()
        for chip in self.shape.chips:
            if relative == f"{chip_folder(chip)}/samples":
                interval_ms = self.shape.interval_ms(chip, _integer(value))
                self.put(relative.replace("samples", "update_interval"), str(interval_ms))

    def put(self, name: str, value: str) -> None:
        """Change a file's text in place, so that descriptors others hold see it; one write is one step."""
        fd = open_beneath(os.fspath(self.root), name, os.O_WRONLY)
        try:
            data = value.encode() + b"\n"
            os.pwrite(fd, data, 0)
            os.ftruncate(fd, len(data))
        finally:
            os.close(fd)

    def get(self, name: str) -> int:
        """Return a file's number, 0 where it has none."""
        try:
            return int((self.root / name.lstrip("/")).read_text().split()[0])
        except (OSError, ValueError, IndexError):
            return 0

    def _online(self, core: int, value: str) -> None:
        if value not in ("0", "1") or (core == 0 and value == "0"):
            raise _error(errno.EINVAL)
        self.put(f"{CPU}/cpu{core}/online", value)
        online = [each for each in self.shape.cores if self.get(f"{CPU}/cpu{each}/online")]
        self.put(f"{CPU}/online", ",".join(map(str, online)))

    def _limit(self, name: str, value: str, table: Sequence[int], prefix: str) -> None:
        folder = name.rsplit("/", 1)[0]
        asked = _integer(value)
        top, bottom = self.get(f"{folder}/{prefix}max_freq"), self.get(f"{folder}/{prefix}min_freq")
        # NVIDIA's files write 918 MHz for the clock that the table lists as 921.6: half a per cent is one clock.
        rounded = max((step for step in table if step <= 1.005 * asked), default=table[0])
        if name.endswith("max_freq"):
            if rounded < bottom and self._strict:
                raise _error(errno.EINVAL)
            top = rounded
            bottom = min(bottom, top)
        else:
            if rounded > top and self._strict:
                raise _error(errno.EINVAL)
            bottom = min(rounded, top)
        for which, number in (("max", top), ("min", bottom)):
            if self.get(f"{folder}/{prefix}{which}_freq") != number:
                self.put(f"{folder}/{prefix}{which}_freq", str(number))
        # An idle board sits at the minimum; under load the governors go to the maximum, which the world shows.
        self.put(f"{folder}/{prefix}cur_freq", str(bottom))

    def _set_cap(self, relative: str, value: str) -> None:
        asked = _integer(value)
        if self.shape.emc_cap == ISO_CAP:
            self.put(relative, str(asked))  # shows what was written; 0 is no cap
        else:
            if asked < 0:
                raise _error(errno.EINVAL)
            rounded = max((step for step in self.shape.emc_hz if step <= asked), default=self.shape.emc_hz[0])
            self.put(relative, str(rounded))
        self._follow_cap()

    def cap_hz(self) -> int:
        """Return the memory cap that holds."""
        name = f"{BWMGR}/max_freq" if self.shape.emc_cap == "bwmgr" else self.shape.emc_cap
        return self.get(name or "none") or self.shape.emc_hz[-1]

    def _rate(self, name: str, value: str) -> None:
        asked = _integer(value)
        locked = self.get(f"{BPMP_EMC}/mrq_rate_locked") or self.get(f"{T210_EMC}/clk_state")
        # BPMP ignores a rate that is not in its table, and one that is not locked, without an error.
        if locked and asked in self.shape.emc_hz:
            held = min(asked, self.cap_hz())
            self.put(name, str(held))
            if name.startswith(T210_EMC):
                self.put(f"{T210_EMC}/clk_rate", str(held))

    def _follow_cap(self) -> None:
        """Bring the rate under the cap, and to the maximum where nothing holds it."""
        name = f"{BPMP_EMC}/rate" if (self.root / BPMP_EMC).exists() else f"{T210_EMC}/clk_rate"
        if not (self.root / name).exists():
            return
        locked = self.get(f"{BPMP_EMC}/mrq_rate_locked") or self.get(f"{T210_EMC}/clk_state")
        cap, now = self.cap_hz(), self.get(name)
        wanted = min(now, cap) if locked else max((hz for hz in self.shape.emc_hz if hz <= cap), default=now)
        if wanted != now:
            self.put(name, str(wanted))


def _error(code: int) -> OSError:
    return OSError(code, os.strerror(code))


def _integer(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise _error(errno.EINVAL) from None
