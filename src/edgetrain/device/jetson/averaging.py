"""How power monitors average: the window behind a reading, from what each kernel's driver shows of it."""

from __future__ import annotations

import re

SHUNT_STEP_V = 40e-6  # INA3221: 13 bits over ±163.8 mV (datasheet)
INA238_SHUNT_STEP_V = 5e-6  # 16 bits over ±163.84 mV (datasheet)
# JetPack 4 and the INA238's driver show no shunt; 5 mΩ is what NVIDIA's device trees mostly say. Marked as assumed.
ASSUMED_SHUNT_OHM = 0.005
# What NVIDIA's boot script sets on tegra194 and tegra234: 512 conversions of three channels at 2 x 140 µs.
NVIDIA_WINDOW_S = 0.43
# The INA238 driver's default: 16 averages of bus, shunt and temperature at 1052 µs each. No file shows it.
INA238_WINDOW_S = 16 * 3 * 1.052e-3
# Times one conversion can take (INA3221 datasheet); the driver uses the same for bus and shunt.
CONVERSIONS_S = (140e-6, 204e-6, 332e-6, 588e-6, 1.1e-3, 2.116e-3, 4.156e-3, 8.244e-3)
# From this kernel on the file leaves the number of samples out and rounds what is left to milliseconds.
LEAVES_OUT_SAMPLES = (5, 15)
MS_PER_S = 1e3


def ina3221_window_s(samples: int | None, channels: int, interval_ms: int | None, kernel: str) -> tuple[float, bool]:
    """Return the time over which an INA3221 averages, and whether that is assumed.

    `interval_ms` is the file `update_interval`: up to kernel 5.10 the whole window, later the time of one round over
    the channels, rounded, so that NVIDIA's 430 ms read as 1.
    """
    if interval_ms is None or not samples or not channels:
        return NVIDIA_WINDOW_S, True
    shortest_ms = MS_PER_S * samples * channels * 2 * CONVERSIONS_S[0]
    if version_of(kernel) < LEAVES_OUT_SAMPLES and interval_ms >= 0.9 * shortest_ms:
        return interval_ms / MS_PER_S, False
    rounds_s = [channels * 2 * conversion_s for conversion_s in CONVERSIONS_S]
    fitting = [round_s for round_s in rounds_s if round(round_s * MS_PER_S) == interval_ms]
    if not fitting:
        return max(interval_ms, 1) / MS_PER_S * samples, True
    # Several conversion times round to the same millisecond: NVIDIA's where it set the chip up, else the longest.
    is_nvidias = samples == 512 and fitting[0] == rounds_s[0]
    return samples * (fitting[0] if is_nvidias else fitting[-1]), len(fitting) > 1 and not is_nvidias


def version_of(kernel: str) -> tuple[int, int]:
    """Return major and minor of a kernel's release; (0, 0) where it has none."""
    found = re.match(r"(\d+)\.(\d+)", kernel)
    return (int(found[1]), int(found[2])) if found else (0, 0)
