"""Waits until a machine is quiet enough to measure on: CPU use and temperature; gives up with a doubt."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from edgetrain.device import text_of

INTERVAL_S = 0.5
COLDEST_C = -40.0  # a zone that is off shows -256


@dataclass(frozen=True, slots=True)
class Quiet:
    """How long the wait was, and why it was given up, if it was."""

    waited_s: float
    doubt: str | None = None


def busy_share(
    interval_s: float = INTERVAL_S, stat: Path = Path("/proc/stat"), sleep: Callable[[float], None] = time.sleep
) -> float:
    """Return the share of all CPUs in use over half a second."""

    def read() -> tuple[int, int]:
        numbers = [int(word) for word in stat.read_text().split("\n", 1)[0].split()[1:9]]
        return sum(numbers), numbers[3] + numbers[4]

    before = read()
    sleep(interval_s)
    after = read()
    total = after[0] - before[0]
    return 0.0 if total <= 0 else 1 - (after[1] - before[1]) / total


def hottest_c(zones: Path = Path("/sys/class/thermal")) -> float | None:
    """Return the highest temperature a zone shows; None where there is none."""
    seen = []
    for file in zones.glob("thermal_zone*/temp"):
        # Unbuffered: zones of a powered-down block answer EAGAIN, for which a buffered read returns None.
        with contextlib.suppress(ValueError):
            value = int(text_of(file) or "") / 1000
            if value > COLDEST_C:
                seen.append(value)
    return max(seen, default=None)


def wait_until_quiet(
    busy: float | None,
    temp_c: float | None,
    wait_s: float,
    read_busy: Callable[[], float] = busy_share,
    read_temp: Callable[[], float | None] = hottest_c,
    now_s: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Quiet:
    """Wait until both are below their limits, at most `wait_s`."""
    start_s = now_s()
    if busy is None and temp_c is None:
        return Quiet(0.0)
    while True:
        share = read_busy() if busy is not None else 0.0
        heat_c = read_temp() if temp_c is not None else None
        too_busy = busy is not None and share > busy
        too_hot = temp_c is not None and heat_c is not None and heat_c > temp_c
        if not too_busy and not too_hot:
            return Quiet(now_s() - start_s)
        if now_s() - start_s >= wait_s:
            what = f"CPUs {100 * share:.0f} % busy (limit {100 * busy:.0f} %)" if too_busy and busy is not None else ""
            heat = f"{heat_c:.0f} °C (limit {temp_c:.0f} °C)" if too_hot and temp_c is not None else ""
            reasons = ", ".join(part for part in (what, heat) if part)
            return Quiet(now_s() - start_s, f"the machine did not settle within {wait_s:g} s: {reasons}")
        sleep(INTERVAL_S)
