"""Temperatures of every thermal zone and hardware monitor, in °C."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from pathlib import Path

from edgetrain.device.base import SLOW_S
from edgetrain.device.kept import KeptFile, numbered, text_of
from edgetrain.errors import ProbeUnavailable
from edgetrain.units import C_PER_MC

# A zone that is switched off shows about -256 °C, and an unplugged one a huge number.
COLDEST_C, HOTTEST_C = -50.0, 200.0


class ThermalProbe:
    """Reads all zones once a second; temperatures do not move faster than that."""

    name = "thermal"
    period_s = SLOW_S
    blocking = False

    def __init__(self, root: Path = Path("/")) -> None:
        self._files: list[KeptFile] = []
        columns: list[str] = []
        for name, path in _sensors(root):
            try:
                file = KeptFile(path, 64)
            except ProbeUnavailable:
                continue
            columns.append(_unique(f"{name}_c", columns))
            self._files.append(file)
        if not columns:
            raise ProbeUnavailable(f"no temperature under {root / 'sys/class/thermal'} or {root / 'sys/class/hwmon'}")
        self.columns: Sequence[str] = tuple(columns)

    def read(self) -> list[float]:
        """Return °C per sensor; NaN where that is nonsense."""
        return [believable_c(file.number(C_PER_MC)) for file in self._files]

    def close(self) -> None:
        """Close the descriptors."""
        for file in self._files:
            file.close()


def believable_c(temp_c: float) -> float:
    """Return the temperature, or NaN where no running board can have it."""
    return temp_c if COLDEST_C <= temp_c <= HOTTEST_C else math.nan


def column_name(text: str) -> str:
    """Return a sensor's own label as part of a column name: `CPU-therm` becomes `cpu_therm`."""
    return re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_") or "sensor"


def _sensors(root: Path) -> list[tuple[str, Path]]:
    found = []
    for number, zone in numbered(root / "sys/class/thermal", "thermal_zone"):
        found.append((column_name(text_of(zone / "type") or f"zone{number}"), zone / "temp"))
    for number, monitor in numbered(root / "sys/class/hwmon", "hwmon"):
        chip = column_name(text_of(monitor / "name") or f"hwmon{number}")
        for path in sorted(monitor.glob("temp*_input")):
            label = text_of(path.with_name(path.name.replace("_input", "_label")))
            found.append((f"{chip}_{column_name(label or path.name[:-6])}", path))
    return found


def _unique(name: str, taken: Sequence[str]) -> str:
    """Return the name, numbered where another sensor has it already."""
    if name not in taken:
        return name
    stem = name[:-2]
    count = 2
    while f"{stem}_{count}_c" in taken:
        count += 1
    return f"{stem}_{count}_c"
