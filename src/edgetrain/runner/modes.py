"""Visits power modes one after the other: in an order boards allow, settled in each, with skips and second tries.

    for result in visit(device, modes, train):
        ...

`train(mode)` does what a visit is for (N minibatches, a whole run) and returns it. Control journals the board first, so
it is as before when the loop ends, however it ends.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from edgetrain.device import Control, Device, DeviceClock, ModeRequest, Probe
from edgetrain.errors import DeviceError, EdgetrainError, NeedsRoot, UsageError
from edgetrain.schema import PowerMode, PowerSource
from edgetrain.units import NS_PER_S

T = TypeVar("T")

WINDOW_S = 3.0  # power is steady when it does not change over this
MAX_SETTLE_S = 60.0
STILL_C = 1.0  # and the temperature moves less than this over the window
STEADY_SHARE = 0.03  # of the mean, between the halves of the window, or two quanta where those are larger
CLOCK_SHARE = 0.03  # clocks read back may differ by rounding of the counters behind them
SWITCH_S = 1.0  # what a switch itself costs, for the estimate beforehand


@dataclass(frozen=True, slots=True)
class Settled:
    """A mode in force: how long it took to settle, and doubts about it."""

    waited_s: float
    power_w: float | None
    temp_c: float | None
    doubts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Visit(Generic[T]):
    """One mode visited. `result` is what `train` gave; None where it failed, with the reason."""

    mode: PowerMode
    result: T | None
    settled: Settled | None
    seconds: float
    tries: int
    reason: str | None = None
    doubts: tuple[str, ...] = field(default=())


def visit_order(modes: Sequence[PowerMode]) -> list[PowerMode]:
    """Return the modes in descending clocks with the fewest settings changed between neighbours.

    Some boards take a lower clock at once but a higher one late or after a reboot, so every run of neighbours
    descends. The setting with the fewest values changes slowest, which makes the changes fewest.
    """
    keys = ("cores", "emc_hz", "gpu_hz", "cpu_hz")
    distinct = {key: len({getattr(mode, key) for mode in modes}) for key in keys}
    slowest_first = sorted(keys, key=lambda key: (distinct[key], keys.index(key)))
    return sorted(modes, key=lambda mode: tuple(-(getattr(mode, key) or 0) for key in slowest_first))


def switches(modes: Sequence[PowerMode]) -> int:
    """Return how many settings change on the way through the modes."""
    keys = ("cores", "cpu_hz", "gpu_hz", "emc_hz")
    pairs = itertools.pairwise(modes)
    return sum(getattr(before, key) != getattr(after, key) for before, after in pairs for key in keys)


def cost_s(modes: Sequence[PowerMode], seconds_each: Callable[[PowerMode], float]) -> float:
    """Return what visiting the modes will take: switching, settling and the training itself."""
    return sum(SWITCH_S + 2 * WINDOW_S + seconds_each(mode) for mode in modes)


def settle(
    device: Device,
    mode: PowerMode | None = None,
    window_s: float = WINDOW_S,
    most_s: float = MAX_SETTLE_S,
) -> Settled:
    """Wait until power and temperature are steady over a sliding window; then read the clocks back.

    A board that never settles is not an error but a doubt: it is measured all the same, and the record says so.
    """
    clock = device.clock
    source = device.total_power()
    probes = {probe.name: probe for probe in device.probes()}
    try:
        doubts: list[str] = []
        began_ns = clock.now_ns()
        power_w: float | None = None
        if source is not None and source.stream in probes:
            rails, thermal = probes[source.stream], probes.get("thermal")
            moving, power_w = _wait_steady(rails, thermal, source, window_s, most_s, clock)
            if moving:
                doubts.append(f"{moving} did not settle within {most_s:g} s")
        else:
            clock.sleep(window_s)
        waited_s = (clock.now_ns() - began_ns) / NS_PER_S
        temp_c = _hottest(probes.get("thermal"))
        if mode is not None:
            doubts += _clock_doubts(probes, mode)
            doubts += _gating_doubts(device)
        return Settled(waited_s, power_w, temp_c, tuple(doubts))
    finally:
        for probe in probes.values():
            probe.close()


def _wait_steady(
    rails: Probe,
    thermal: Probe | None,
    source: PowerSource,
    window_s: float,
    most_s: float,
    clock: DeviceClock,
) -> tuple[str | None, float | None]:
    """Wait for a window in which power and temperature are steady; return what still moves, and the power."""
    columns = [list(rails.columns).index(name) for name in source.columns]
    period_s = max(0.05, rails.period_s)
    need = max(4, math.ceil(window_s / period_s))
    powers: list[float] = []
    temps: list[float] = []
    moving: str | None = "power"
    until_ns = clock.now_ns() + round(most_s * NS_PER_S)
    while clock.now_ns() < until_ns:
        row = rails.read()
        total = sum(row[index] for index in columns)
        if math.isfinite(total):
            powers.append(total)
            temps.append(_hottest(thermal) or 0.0)
        if len(powers) >= need:
            window, half = powers[-need:], need // 2
            apart = abs(statistics.fmean(window[:half]) - statistics.fmean(window[half:]))
            mean = statistics.fmean(window)
            if apart > max(STEADY_SHARE * mean, 2 * (source.quantum_w or 0.0)):
                moving = "power"
            elif max(temps[-need:]) - min(temps[-need:]) > STILL_C:
                moving = "temperature"
            else:
                return None, mean
        clock.sleep(period_s)
    return moving, statistics.fmean(powers[-need:]) if powers else None


def _hottest(probe: Probe | None) -> float | None:
    values = [value for value in probe.read() if math.isfinite(value)] if probe else []
    return max(values, default=None)


def _gating_doubts(device: Device) -> list[str]:
    """Return whether the stock mode underneath has switched parts of the GPU off: custom clocks do not undo that."""
    space = device.modes()
    for stock in space.stock if space is not None else ():
        if stock.active and stock.gates_gpu:
            masks = ", ".join(f"{name} {mask}" for name, mask in stock.gated)
            return [f"the stock mode in force, {stock.name}, keeps parts of the GPU off ({masks})"]
    return []


def _clock_doubts(probes: dict[str, Probe], mode: PowerMode) -> list[str]:
    """Return where clocks read now differ from the mode: GPU, memory, and each CPU cluster by its cap."""
    doubts = []
    caps = probes.get("alarms")
    if caps is not None:
        for column, found in zip(caps.columns, caps.read(), strict=True):
            if column.endswith("_cap_hz") and math.isfinite(found) and found < (1 - CLOCK_SHARE) * mode.cpu_hz:
                doubts.append(_differs("CPU", mode.cpu_hz, found, column))
    for label, name, column, asked in (
        ("GPU", "gpu", "gpu_hz", mode.gpu_hz),
        ("memory", "emc", "emc_hz", mode.emc_hz),
    ):
        probe = probes.get(name)
        if probe is None or asked is None or column not in probe.columns:
            continue
        found = dict(zip(probe.columns, probe.read(), strict=True))[column]
        if math.isfinite(found) and abs(found - asked) > CLOCK_SHARE * asked:
            doubts.append(_differs(label, asked, found, column))
    return doubts


def _differs(label: str, requested_hz: float, found_hz: float, column: str) -> str:
    return f"{label} clock: requested {requested_hz / 1e6:g} MHz, read back {found_hz / 1e6:g} MHz ({column})"


def visit(
    device: Device,
    modes: Sequence[PowerMode],
    train: Callable[[PowerMode], T],
    skip: Callable[[PowerMode], bool] = lambda mode: False,
    tries: int = 2,
    settling: bool = True,
    tell: Callable[[str, int, int | None], None] = lambda stage, done, total: None,
    full_fan: bool = False,
) -> Iterator[Visit[T]]:
    """Visit modes in the order that `visit_order` gives; those that failed are tried again at the end, then given up.

    `skip` says which are done already (a campaign that resumes). A mode that needs root ends the visit at once; the
    board is put back first. `full_fan` runs the fan at full speed meanwhile.
    """
    control = device.control()
    space = device.modes()
    if control is None or space is None:
        raise UsageError(f"{device.spec.name} has no power modes that can be set")
    for mode in modes:
        space.check(mode)
    waiting = [(mode, 1) for mode in visit_order(modes) if not skip(mode)]
    total = len(waiting)
    control.repair()
    with control.session(full_fan):
        done = 0
        while waiting:
            mode, attempt = waiting.pop(0)
            tell(str(mode), done, total)
            result = _visit_one(device, control, mode, attempt, train, settling)
            if result.reason is not None and attempt < tries:
                waiting.append((mode, attempt + 1))
                continue
            done += 1
            yield result


def _visit_one(
    device: Device, control: Control, mode: PowerMode, attempt: int, train: Callable[[PowerMode], T], settling: bool
) -> Visit[T]:
    began_ns = device.clock.now_ns()

    def seconds() -> float:
        return (device.clock.now_ns() - began_ns) / NS_PER_S

    settled: Settled | None = None
    try:
        control.apply(ModeRequest(mode))
        doubts = control.doubts
        settled = settle(device, mode) if settling else None
        trained = train(mode)
    except NeedsRoot:
        raise
    except (DeviceError, EdgetrainError) as error:
        return Visit(mode, None, settled, seconds(), attempt, str(error))
    drift = tuple(f"another tool changed the board meanwhile: {text}" for text in control.drift()[:3])
    found = (*doubts, *(settled.doubts if settled else ()), *drift)
    return Visit(mode, trained, settled, seconds(), attempt, None, found)
