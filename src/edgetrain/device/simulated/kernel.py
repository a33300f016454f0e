"""The simulated board's kernel: takes writes as a board's does, with its roundings, refusals and side effects.

Limits are clamped and rounded to the clock table, a core that goes offline takes its clock folder along, older
kernels refuse a minimum above the maximum, a held memory rate is ignored unless it is locked. Every single effect is
one write to one file, so a process killed half-way leaves a tree that a board could show.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from edgetrain.device.simulated.build import BPMP_EMC, CPU, SHAPE, T210_EMC, show_clock
from edgetrain.device.simulated.shapes import Shape, read_shape
from edgetrain.device.tree import open_beneath

FAULTS = ".sim/faults.json"


class Kernel:
    """What happens when a file of the tree is written."""

    def __init__(self, root: Path, shape: Shape | None = None) -> None:
        self.root = root
        self.shape = shape or read_shape((root / SHAPE).read_text())
        self._strict = self.shape.kernel.startswith("4.")

    def faults(self) -> Mapping[str, Any]:
        """Return what is to go wrong: `ignore` (paths whose writes do nothing), `nvpmodel`, `errors` (path → errno)."""
        try:
            document = json.loads((self.root / FAULTS).read_text())
        except (OSError, ValueError):
            return {}
        return document if isinstance(document, dict) else {}

    def write(self, name: str, text: str) -> None:
        """Write a file as a process of the board would; raises OSError as its kernel would."""
        value = text.strip()
        relative = name.lstrip("/")
        os.close(open_beneath(self.root, name, os.O_RDONLY))  # no link, and it must be there
        faults = self.faults()
        if name in faults.get("ignore", ()):
            return
        if name in faults.get("errors", {}):
            code = int(faults["errors"][name])
            raise OSError(code, os.strerror(code))
        core = re.fullmatch(rf"{CPU}/cpu(\d+)/online", relative)
        if core:
            self._online(int(core[1]), value)
        elif relative.endswith(("scaling_max_freq", "scaling_min_freq")):
            self._limit(relative, value, self.shape.cpu_khz, "scaling_")
        elif relative.startswith(self.shape.gpu_folder.lstrip("/")) and relative.endswith(("max_freq", "min_freq")):
            self._limit(relative, value, self.shape.gpu_hz, "")
        elif relative in (f"{BPMP_EMC}/rate", f"{T210_EMC}/clk_update_rate"):
            self._rate(relative, value)
        elif relative == (self.shape.emc_cap or "").lstrip("/"):
            self.put(relative, str(_integer(value)))
            self._cap()
        else:
            self.put(relative, value)
            if relative.endswith(("mrq_rate_locked", "clk_state")):
                self._cap()
            elif relative.endswith("/samples"):
                # Two conversions of 140 µs on three channels, averaged: the driver says how long that takes.
                self.put(relative.replace("samples", "update_interval"), str(max(1, round(0.84 * _integer(value)))))

    def put(self, name: str, value: str) -> None:
        """Change a file's text in place, so that descriptors others hold see it; one write is one step."""
        fd = open_beneath(self.root, name, os.O_WRONLY)
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
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        if value == "1":
            show_clock(self.shape, self.root, core)
            self.put(f"{CPU}/cpu{core}/online", "1")
        else:
            self.put(f"{CPU}/cpu{core}/online", "0")
            self._hide_clock(core)
        online = [each for each in self.shape.cores if self.get(f"{CPU}/cpu{each}/online")]
        self.put(f"{CPU}/online", ",".join(map(str, online)))

    def _hide_clock(self, core: int) -> None:
        folder = self.root / CPU / f"cpu{core}/cpufreq"
        if not self.shape.policy_links:
            with contextlib.suppress(OSError):
                (folder / "related_cpus").unlink()
            shutil.rmtree(folder, ignore_errors=True)
            return
        with contextlib.suppress(FileNotFoundError):
            folder.unlink()
        cluster = next(cluster for cluster in self.shape.clusters if core in cluster)
        if not any(self.get(f"{CPU}/cpu{each}/online") for each in cluster):
            policy = self.root / CPU / f"cpufreq/policy{cluster[0]}"
            with contextlib.suppress(OSError):
                (policy / "related_cpus").unlink()
            shutil.rmtree(policy, ignore_errors=True)

    def _limit(self, name: str, value: str, table: Sequence[int], prefix: str) -> None:
        folder = name.rsplit("/", 1)[0]
        asked = _integer(value)
        top, bottom = self.get(f"{folder}/{prefix}max_freq"), self.get(f"{folder}/{prefix}min_freq")
        rounded = max((step for step in table if step <= asked), default=table[0])
        if name.endswith("max_freq"):
            if rounded < bottom and self._strict:
                raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
            top = rounded
            bottom = min(bottom, top)
        else:
            if rounded > top and self._strict:
                raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
            bottom = min(rounded, top)
        for which, number in (("max", top), ("min", bottom)):
            if self.get(f"{folder}/{prefix}{which}_freq") != number:
                self.put(f"{folder}/{prefix}{which}_freq", str(number))
        # An idle board sits at the minimum; under load the governors go to the maximum, which the world shows.
        self.put(f"{folder}/{prefix}cur_freq", str(bottom))

    def _rate(self, name: str, value: str) -> None:
        asked = _integer(value)
        if self.get(f"{BPMP_EMC}/mrq_rate_locked") or self.get(f"{T210_EMC}/clk_state"):
            rounded = max((step for step in self.shape.emc_hz if step <= asked), default=self.shape.emc_hz[0])
            cap = self.get(self.shape.emc_cap or "none")
            rounded = min(rounded, cap) if cap else rounded
            self.put(name, str(rounded))
            if name.startswith(T210_EMC):
                self.put(f"{T210_EMC}/clk_rate", str(rounded))

    def _cap(self) -> None:
        """Bring the rate under the cap, and to the maximum where nothing holds it."""
        name = f"{BPMP_EMC}/rate" if (self.root / BPMP_EMC).exists() else f"{T210_EMC}/clk_rate"
        if not (self.root / name).exists():
            return
        locked = self.get(f"{BPMP_EMC}/mrq_rate_locked") or self.get(f"{T210_EMC}/clk_state")
        cap = self.get(self.shape.emc_cap or "none") or self.shape.emc_hz[-1]
        now = self.get(name)
        wanted = min(now, cap) if locked else max((hz for hz in self.shape.emc_hz if hz <= cap), default=now)
        if wanted != now:
            self.put(name, str(wanted))


def _integer(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL)) from None
