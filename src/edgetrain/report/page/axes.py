"""Round numbers for axes, and how a value with a unit is spelled beside a picture."""

from __future__ import annotations

import math

from edgetrain.report.page.plot import Extent
from edgetrain.units import spell, spell_bytes, spell_seconds

GIGA, MEGA = 1e9, 1e6
MIN_TICKS = 3


def ticks(span: Extent, most: int = 6, base: float = 10.0) -> list[float]:
    """Return round values along an axis, at most about `most` of them."""
    if span.log:
        return _powers(span, most)
    rough = (span.hi - span.lo) / max(most, 1)
    if rough <= 0 or not math.isfinite(rough):
        return [span.lo]
    power = base ** math.floor(math.log(rough, base))
    step = next((power * factor for factor in _factors(base) if rough <= power * factor * 1.0001), power * base)
    first = math.ceil(span.lo / step - 1e-9)
    count = math.floor(span.hi / step + 1e-9) - first + 1
    return [round((first + place) * step, 12) for place in range(max(0, count))]


def _factors(base: float) -> tuple[float, ...]:
    return (1, 2, 5) if base == 10.0 else (1, 2, 3, 6, 10, 15, 30)


def _powers(span: Extent, most: int) -> list[float]:
    first, last = math.floor(math.log10(span.lo)), math.ceil(math.log10(span.hi))
    for factors in ((1, 2, 5), (1, 3), (1,)):
        found = [factor * 10.0**power for power in range(first, last + 1) for factor in factors]
        inside = [value for value in found if span.lo * 0.999 <= value <= span.hi * 1.001]
        if len(inside) < MIN_TICKS:
            return ticks(Extent(span.lo, span.hi), most)  # less than a decade: even steps
        if len(inside) <= most + 2:
            return inside
    step = max(1, len(inside) // most)
    return inside[::step]


def seconds_ticks(span: Extent, most: int = 6) -> list[float]:
    """Return round values along an axis of seconds: above a minute, round minutes."""
    wide = span.hi - span.lo
    return ticks(span, most, 60.0) if wide > 120 and not span.log else ticks(span, most)


def axis_ticks(span: Extent, unit: str, most: int = 6, whole: bool = False) -> list[float]:
    """Return round values along an axis of this unit; `whole`: only whole numbers."""
    found = seconds_ticks(span, most) if unit == "s" else ticks(span, most)
    return [value for value in found if value == round(value)] if whole else found


def spell_value(value: float | None, unit: str) -> str:
    """Spell a value in its unit, as a reader says it: 4.2 ms, 1.3 GHz, 41 %."""
    if value is None or not math.isfinite(value):
        return "–"
    if unit == "s":
        return spell_seconds(value) if value >= 0 else f"−{spell_seconds(-value)}"
    if unit == "1":
        return f"{100 * value:.3g} %"
    if unit in ("B", "B/s"):
        return spell_bytes(value) + unit[1:]
    if unit == "Hz":
        return f"{value / GIGA:.3g} GHz" if abs(value) >= GIGA else f"{value / MEGA:.4g} MHz"
    if unit == "1/s":
        return f"{spell(value)} /s"
    return spell(value, unit)
