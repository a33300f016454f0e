"""Scales are converted and numbers spelled here, nowhere else."""

from __future__ import annotations

import math
import re

from edgetrain.errors import UsageError

NS_PER_S = 1_000_000_000
US_PER_S = 1_000_000
S_PER_US = 1e-6
MS_PER_S = 1e3
W_PER_MW = 1e-3
W_PER_UW = 1e-6
J_PER_WH = 3600.0
HZ_PER_KHZ = 1_000
HZ_PER_MHZ = 1_000_000
C_PER_MC = 1e-3

_BYTES = {
    "": 1, "b": 1,
    "k": 10**3, "kb": 10**3, "kib": 2**10, "ki": 2**10,
    "m": 10**6, "mb": 10**6, "mib": 2**20, "mi": 2**20,
    "g": 10**9, "gb": 10**9, "gib": 2**30, "gi": 2**30,
    "t": 10**12, "tb": 10**12, "tib": 2**40, "ti": 2**40,
}  # fmt: skip


def seconds_between(start_ns: int, stop_ns: int) -> float:
    """Return the seconds from one monotonic instant to another."""
    return (stop_ns - start_ns) / NS_PER_S


def parse_bytes(text: str) -> int:
    """Read `4GiB`, `300MB`, `7.2Gi` or a plain number of bytes."""
    match = re.fullmatch(r"\s*([0-9]*\.?[0-9]+)\s*([A-Za-z]*)\s*", text)
    if not match or match[2].lower() not in _BYTES:
        raise UsageError(f"cannot read {text!r} as a size; write for example 4GiB, 300MB or 1000000")
    return int(float(match[1]) * _BYTES[match[2].lower()])


def spell_bytes(count: float | None) -> str:
    """Spell a number of bytes for people: `122 kB`, `2.8 GB`."""
    if count is None or not math.isfinite(count):
        return "–"
    for limit, name in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if abs(count) >= limit:
            return f"{count / limit:.3g} {name}"
    return f"{count:.0f} B"


def spell_seconds(seconds: float | None) -> str:
    """Spell a duration for people: `31 µs`, `4.2 ms`, `12.3 s`, `3 min 20 s`, `2 h 05 min`."""
    if seconds is None or not math.isfinite(seconds):
        return "–"
    size = abs(seconds)
    if size < 1e-9:  # a rounding error: instants have whole microseconds
        return "0 s"
    if size < 1e-3:
        return f"{seconds * 1e6:.3g} µs"
    if size < 1:
        return f"{seconds * 1e3:.3g} ms"
    if size < 100:
        return f"{seconds:.3g} s"
    if size < 3600:
        return f"{int(seconds // 60)} min {int(seconds % 60):02d} s"
    return f"{int(seconds // 3600)} h {int(seconds % 3600 // 60):02d} min"


def spell_interval(seconds: float, lo: float, hi: float) -> str:
    """Spell a duration and its bounds in one unit: `153 [94.7, 212] ms`, `12.7 [10.6, 15.2] s`; minutes in full."""
    size = abs(seconds) or abs(hi)
    if size >= 100:
        return f"{spell_seconds(seconds)} [{spell_seconds(lo)}, {spell_seconds(hi)}]"
    scale, unit = (1e6, "µs") if size < 1e-3 else (1e3, "ms") if size < 1 else (1.0, "s")
    return f"{spell(seconds * scale)} [{spell(lo * scale)}, {spell(hi * scale)}] {unit}"


def spell_count(count: int, noun: str) -> str:
    """Return a count with its noun: 1 run, 2 runs."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def spell_gain_pct(gain_pct: float, digits: int = 0) -> str:
    """Spell a gain in time: `+12 %`; of what takes twice as long or longer: `53 times as long`."""
    if gain_pct <= -100.0:
        return f"{spell(1.0 - gain_pct / 100.0)} times as long"
    return f"{round(gain_pct, digits) + 0.0:+.{digits}f} %"  # + 0.0: no minus before a zero


def spell_hz(hertz: float | None) -> str:
    """Spell a clock for people, in MHz as boards' manuals do."""
    if hertz is None or not math.isfinite(hertz):
        return "–"
    return f"{hertz / HZ_PER_MHZ:g} MHz"


def spell(value: float | None, unit: str = "", digits: int = 3) -> str:
    """Spell any number with its unit; a dash where it was not measured."""
    if value is None or not math.isfinite(value):
        return "–"
    text = f"{value:.{digits}g}"
    if "e" in text:
        text = f"{value:,.0f}" if abs(value) >= 1 else f"{value:.{digits}f}"
    return f"{text} {unit}".rstrip()
