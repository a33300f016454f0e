"""Energy counters of x86 processor packages (RAPL), through the kernel's powercap tree.

The counters wrap: at 65 W and the usual range of 262 kJ after about an hour, so they are unwrapped here. Since
2020 (CVE-2020-8694) only root may read them; `PERMISSION_FIX` is the command that allows every user to.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from edgetrain.device.base import FAST_S
from edgetrain.device.kept import KeptFile, numbered, text_of
from edgetrain.device.thermal import column_name
from edgetrain.errors import ProbeUnavailable
from edgetrain.schema import PowerSource
from edgetrain.units import NS_PER_S

J_PER_UJ = 1e-6
# The coarsest energy unit that Intel and AMD parts report is 2^-14 J.
QUANTUM_J = 61e-6
# No package draws more; a step beyond it is no energy. The slack is for readings close upon each other.
MAX_W = 5_000.0
SLACK_J = 50.0
PERMISSION_FIX = "sudo chmod a+r /sys/class/powercap/*/energy_uj"


class RaplProbe:
    """Reads each domain's energy, and the packages' sum as the processor's power."""

    name = "rapl"
    period_s = FAST_S
    blocking = False

    def __init__(self, root: Path = Path("/"), now_ns: Callable[[], int] = time.monotonic_ns) -> None:
        self._now_ns = now_ns
        self._domains: list[_Domain] = []
        refused: list[str] = []
        for label, folder in domains(root):
            try:
                self._domains.append(_Domain(label, folder))
            except ProbeUnavailable as error:
                refused.append(str(error))
        if not any(domain.is_package for domain in self._domains):
            self.close()
            why = refused[0] if refused else f"no package under {root / 'sys/class/powercap'}"
            raise ProbeUnavailable(f"{why}; to allow it: {PERMISSION_FIX}" if refused else why)
        self.columns: Sequence[str] = ("package_w", "package_j", *(f"{d.label}_j" for d in self._domains))
        self._before_j = math.nan
        self._at_ns = 0

    def read(self) -> list[float]:
        """Return the packages' mean power since the previous reading, their energy, and each domain's."""
        now_ns = self._now_ns()
        each_j = [domain.energy_j(now_ns) for domain in self._domains]
        package_j = sum(energy_j for domain, energy_j in zip(self._domains, each_j, strict=True) if domain.is_package)
        elapsed_s = (now_ns - self._at_ns) / NS_PER_S
        package_w = (package_j - self._before_j) / elapsed_s if elapsed_s > 0 else math.nan
        if not math.isnan(package_j):
            self._before_j, self._at_ns = package_j, now_ns
        return [package_w, package_j, *each_j]

    def close(self) -> None:
        """Close the descriptors."""
        for domain in self._domains:
            domain.file.close()


class _Domain:
    """One counter, unwrapped, in joules since the first reading of it."""

    def __init__(self, label: str, folder: Path) -> None:
        self.label = label
        self.is_package = label.startswith("package")
        self.file = KeptFile(folder / "energy_uj", 64)
        self._range_uj = float(text_of(folder / "max_energy_range_uj") or 0) or 2.0**32
        self._last_uj = self.file.number()
        if math.isnan(self._last_uj):
            self.file.close()
            raise ProbeUnavailable(f"{self.file.path} holds no number")
        self._sum_uj = 0.0
        self._at_ns: int | None = None

    def energy_j(self, now_ns: int) -> float:
        """Return the joules since the first reading; NaN where the counter shows what cannot be."""
        now_uj = self.file.number()
        if not 0 <= now_uj <= self._range_uj:
            return math.nan
        step_uj = now_uj - self._last_uj
        step_uj += self._range_uj if step_uj < 0 else 0.0
        elapsed_s = math.inf if self._at_ns is None else (now_ns - self._at_ns) / NS_PER_S
        self._last_uj, self._at_ns = now_uj, now_ns
        if step_uj * J_PER_UJ > MAX_W * elapsed_s + SLACK_J:
            return math.nan  # a counter that was reset, or garbled, looks like a wrap but is not one
        self._sum_uj += step_uj
        return self._sum_uj * J_PER_UJ


def domains(root: Path) -> list[tuple[str, Path]]:
    """Return (label, folder) of each domain: packages, and what is inside them (`package_0_dram`)."""
    found = []
    powercap = root / "sys/class/powercap"
    for _, package in numbered(powercap, "intel-rapl:"):
        # `intel-rapl-mmio` shows the same package a second time: counting both would double it.
        label = column_name(text_of(package / "name") or package.name)
        found.append((label, package))
        for _, part in numbered(package, f"{package.name}:"):
            found.append((f"part_of_{label}_{column_name(text_of(part / 'name') or part.name)}", part))
    return found


def power_source(period_s: float = FAST_S) -> PowerSource:
    """Return the packages' sum as a source of power."""
    return PowerSource(
        stream="rapl",
        columns=("package_w",),
        counter_column="package_j",
        scope="cpu package",
        # The counter itself moves every millisecond (Intel's manual); we see it once a period.
        refresh_s=period_s,
        quantum_w=QUANTUM_J / period_s,
    )
