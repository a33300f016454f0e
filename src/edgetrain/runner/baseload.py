"""Measures the idle power of a board, with clocks held or free, with and without edgetrain's logging.

Power is read from the board's own sensor, so its scope is the module's (or the board's) input; published figures and
Wake-on-LAN are measured at the wall socket. The two are never added, subtracted or put into one column.
"""

from __future__ import annotations

import contextlib
import math
import statistics
from collections.abc import Callable, Iterator

from edgetrain.device import Device, ModeRequest
from edgetrain.errors import ControlRefused, DeviceError, NeedsRoot, UsageError
from edgetrain.schema import IdlePreview, IdleRow, Origin, PowerSource
from edgetrain.units import NS_PER_S

SPARSE_S = 5.0  # between readings while logging is off: reading is itself what logging costs
REST_S = 5.0  # after a change, before readings count
FEWEST = 3


def preview_baseload(device: Device, seconds: float = 30.0, change: bool = True) -> IdlePreview:
    """Return what `measure_baseload` would do, without doing it."""
    source = _source(device)
    changes = change and device.control() is not None
    clocks = ("held", "free") if changes else ("as found",)
    states = tuple(f"clocks {each}, logging {logging}" for each in clocks for logging in ("on", "off"))
    return IdlePreview(device.spec.name, source.scope, states, len(states) * (seconds + REST_S), changes)


def _source(device: Device) -> PowerSource:
    source = device.total_power()
    if source is None:
        raise UsageError(f"{device.spec.name} has no power sensor that can be read; edgetrain doctor says why")
    return source


def measure_baseload(
    device: Device,
    seconds: float = 30.0,
    change: bool = True,
    tell: Callable[[str, int, int | None], None] = lambda stage, done, total: None,
) -> list[IdleRow]:
    """Measure the idle states one after another; the board is as before afterwards.

    Where the board cannot or must not be changed (no root, `change` false) the state it is in is measured, and the
    others carry the reason.
    """
    source = _source(device)
    origin = Origin.SIMULATED if device.spec.kind == "simulated" else Origin.MEASURED
    rows: list[IdleRow] = []
    reason: str | None = None
    control = device.control() if change else None
    if control is None:
        reason = "clocks were not changed, as asked" if not change else "this device's clocks cannot be set"
    for dvfs in (False, True):
        with contextlib.ExitStack() as stack:
            if control is not None and reason is None:
                try:
                    stack.enter_context(control.hold(ModeRequest(dvfs=dvfs)))
                except (NeedsRoot, ControlRefused) as refusal:
                    reason = str(refusal)
            if reason is not None:
                rows += [
                    IdleRow(logging, dvfs, None, None, 0, source.scope, origin, reason) for logging in (True, False)
                ]
                continue
            for logging in (True, False):
                tell(f"idle, clocks {'free' if dvfs else 'held'}, logging {'on' if logging else 'off'}", 0, None)
                rows.append(_measure(device, seconds, logging, dvfs, origin))
    if all(row.power_w is None for row in rows):
        rows += [_measure(device, seconds, logging, None, origin) for logging in (True, False)]
    return rows


def _measure(device: Device, seconds: float, logging: bool, dvfs: bool | None, origin: Origin) -> IdleRow:
    source = _source(device)
    values = list(_read(device, seconds, logging))
    if len(values) < FEWEST:
        raise DeviceError(f"only {len(values)} power readings came in {seconds:g} s; measure for longer with --seconds")
    spread_w = statistics.stdev(values)
    quantum_w = (source.quantum_w or 0.0) / math.sqrt(12)
    pm_w = 2 * math.hypot(spread_w, quantum_w) / math.sqrt(len(values))
    return IdleRow(logging, dvfs, statistics.fmean(values), pm_w, len(values), source.scope, origin)


def _read(device: Device, seconds: float, logging: bool) -> Iterator[float]:
    now_ns, sleep = device.clock.now_ns, device.clock.sleep
    source = _source(device)
    probes = device.probes()
    try:
        rails = next(probe for probe in probes if probe.name == source.stream)
        columns = [list(rails.columns).index(name) for name in source.columns]
        others = [probe for probe in probes if probe is not rails]
        sleep(REST_S)
        start_ns = now_ns()
        until_ns = start_ns + round(seconds * NS_PER_S)
        period_s = rails.period_s if logging else SPARSE_S
        due = {id(probe): start_ns for probe in others}
        rails_due_ns = start_ns
        while now_ns() < until_ns:
            if logging:
                for probe in others:
                    if due[id(probe)] <= now_ns():
                        probe.read()
                        due[id(probe)] += round(probe.period_s * NS_PER_S)
            if rails_due_ns <= now_ns():
                row = rails.read()
                total = sum(row[index] for index in columns)
                if math.isfinite(total):
                    yield total
                rails_due_ns += round(period_s * NS_PER_S)
            wake_ns = min([rails_due_ns, *(due.values() if logging else ())])
            sleep(max(0.001, (wake_ns - now_ns()) / NS_PER_S))
    finally:
        for probe in probes:
            probe.close()
