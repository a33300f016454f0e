"""The telemetry of an edge-train-bench folder: what jtop, iostat, free and vmtouch wrote beside training.

Units as the files have them: `tegrastats` percent, °C and mW; CPU clocks kHz; GPU and memory clocks kHz with limits in
Hz; `ram_stats` kB; `free` text with units. A value that no such board can have in that unit is left out and listed.
"""

from __future__ import annotations

import ast
import math
import re
import warnings
from collections.abc import Callable, Mapping
from typing import Any

from edgetrain.errors import UsageError
from edgetrain.importers.base import Draft, instant_us, number, read_csv
from edgetrain.schema import PowerMode
from edgetrain.units import HZ_PER_KHZ, W_PER_MW, parse_bytes

MAX_LITERAL_CHARS = 65_536  # a cell that jtop wrote is a few hundred; literal_eval is quadratic on hostile ones
_LEAST_HZ, _MOST_HZ = 10e6, 9.9e9
_LEAST_W, _MOST_W = 0.5, 150.0  # of a whole module that runs Linux
_BYTES_PER_KB = 1024  # jtop, free and iostat count in powers of two
_IOSTAT = {
    "r/s": ("reads_per_s", 1.0),
    "rkB/s": ("read_bytes_per_s", float(_BYTES_PER_KB)),
    "r_await": ("read_wait_s", 1e-3),
    "w/s": ("writes_per_s", 1.0),
    "wkB/s": ("write_bytes_per_s", float(_BYTES_PER_KB)),
    "w_await": ("write_wait_s", 1e-3),
    "%util": ("busy_share", 0.01),
}


def read_telemetry(draft: Draft, texts: Mapping[str, tuple[str, str]], mode: PowerMode | None) -> None:
    """Read every telemetry file that is there; `texts` maps a kind to (file name, text)."""
    readers: dict[str, Callable[[Draft, str, str, PowerMode | None], None]] = {
        "tegrastats": _tegrastats,
        "cpufreq_stats": _cpu_clocks,
        "gpufreq_stats": _gpu_clocks,
        "emc_stats": _emc_clocks,
        "ram_stats": _ram,
        "io_stats": _iostat,
        "mem_stats": _free,
        "swap_stats": _swap,
        "vmtouch_stats": _vmtouch,
    }
    for kind, reader in readers.items():
        if kind in texts:
            name, text = texts[kind]
            reader(draft, name, text, mode)


def _table(draft: Draft, name: str, text: str, exact: bool = True) -> list[tuple[int, int, dict[str, str], list[str]]]:
    """Return (line, instant, cells by column, raw row) of every sound row; repeats are reported and taken once."""
    header, rows = read_csv(text)
    found = []
    last: list[str] | None = None
    for line, row in rows:
        if exact and len(row) != len(header):
            draft.problems.add(name, f"a row has {len(row)} values under {len(header)} columns", f"line {line}")
            continue
        at_us = instant_us(number(row[-1])) if row else None
        if at_us is None:
            draft.problems.add(name, "a row has no log_time", f"line {line}")
            continue
        if row == last:
            draft.problems.add(name, "the same sample is there twice; taken once", f"line {line}")
            continue
        last = row
        found.append((line, at_us, dict(zip(header, row, strict=False)), row))
    return found


def _sane(draft: Draft, name: str, line: int, what: str, value: float, least: float, most: float) -> float:
    """Return the value, NaN with a problem where no board can have it."""
    if math.isnan(value) or least <= value <= most:
        return value
    draft.problems.add(name, f"{what} cannot be {value:g} in the unit of this file; left out", f"line {line}")
    return math.nan


def _percent(draft: Draft, name: str, line: int, what: str, text: str) -> float:
    if text.strip() in ("OFF", ""):
        return math.nan
    value = number(text)
    if math.isnan(value):
        draft.problems.add(name, f"{what} is not a number", f"line {line}: {text[:40]!r}")
    return _sane(draft, name, line, what, value, 0.0, 100.0)


def _tegrastats(draft: Draft, name: str, text: str, mode: PowerMode | None) -> None:
    rows = _table(draft, name, text)
    stale = 0
    started = False
    for line, at_us, cells, _ in rows:
        cpu: dict[str, float] = {}
        gpu: dict[str, float] = {}
        thermal: dict[str, float] = {}
        online = 0
        for column, cell in cells.items():
            core = re.fullmatch(r"CPU(\d+)", column)
            if core:
                online += cell.strip() != "OFF"
                cpu[f"cpu{int(core[1]) - 1}_share"] = _percent(draft, name, line, column, cell) / 100
            elif re.fullmatch(r"GPU\d*", column):
                gpu[f"gpu{column[3:]}_util_pct"] = _percent(draft, name, line, column, cell)
            elif column.startswith("Temp "):
                celsius = number(cell)
                if celsius != -256.0:
                    celsius = _sane(draft, name, line, column, celsius, -55.0, 150.0)
                    thermal[f"{column[5:].strip().lower()}_temp_c"] = celsius
        loads = [value for column, value in gpu.items() if not math.isnan(value)]
        if loads:
            gpu["gpu_util_pct"] = max(loads)
        if not started and mode is not None and online and online != mode.cores:
            stale += 1
        else:
            started = True
        power = {}
        for column, key in (("power cur", "total_w"), ("power avg", "total_mean_w")):
            if column in cells:
                watts = number(cells[column]) * W_PER_MW
                power[key] = _sane(draft, name, line, column, watts, _LEAST_W, _MOST_W)
        for stream, readings in (("rails", power), ("cpu", cpu), ("gpu", gpu), ("thermal", thermal)):
            if readings:
                draft.stream(stream).add(at_us, readings)
        if "EMC" in cells:
            emc = _percent(draft, name, line, "EMC", cells["EMC"])
            draft.stream("emc").add(at_us, {"emc_util_pct": emc})
    _told_stale(draft, name, stale)


def _told_stale(draft: Draft, name: str, count: int) -> None:
    if count:
        plural = "rows still show" if count > 1 else "row still shows"
        draft.problems.add(name, f"the first {count} {plural} the previous power mode (kept)")


def _literal(draft: Draft, name: str, line: int, cell: str) -> Any:
    """Read a Python literal that jtop printed; None where it is broken, too long or too deep."""
    if len(cell) > MAX_LITERAL_CHARS:
        draft.problems.add(name, f"a cell of more than {MAX_LITERAL_CHARS} characters; left out", f"line {line}")
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the parser comments on garbage; we name it ourselves
            return ast.literal_eval(cell)
    except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
        draft.problems.add(name, "a cell that is not a literal; left out", f"line {line}: {cell[:40]!r}")
        return None


def _number_in(literal: Any, key: str) -> float:
    value = literal.get(key) if isinstance(literal, dict) else None
    return float(value) if isinstance(value, (int, float)) and abs(value) < 1e15 else math.nan


def _clock_hz(draft: Draft, name: str, line: int, what: str, khz: float) -> float:
    # A gated clock reads 0, and that is a reading.
    return 0.0 if khz == 0 else _sane(draft, name, line, what, khz * HZ_PER_KHZ, _LEAST_HZ, _MOST_HZ)


def _cpu_clocks(draft: Draft, name: str, text: str, mode: PowerMode | None) -> None:
    stale, started = 0, False
    for line, at_us, cells, _ in _table(draft, name, text):
        row: dict[str, float] = {}
        limits: set[float] = set()
        online = 0
        for column, cell in cells.items():
            if not column.isdigit():
                continue
            core = _literal(draft, name, line, cell)
            if not isinstance(core, dict) or not core:
                continue  # {}: the core is offline
            online += 1
            row[f"cpu{int(column) - 1}_hz"] = _clock_hz(draft, name, line, f"CPU {column}", _number_in(core, "frq"))
            limits.add(_number_in(core, "max_freq") * HZ_PER_KHZ)
        if row:
            draft.stream("cpu_clock").add(at_us, row)
        other = mode is not None and bool(row) and (online != mode.cores or limits != {float(mode.cpu_hz)})
        stale, started = (stale + 1, False) if other and not started else (stale, True)
    _told_stale(draft, name, stale)


def _gpu_clocks(draft: Draft, name: str, text: str, mode: PowerMode | None) -> None:
    stale, started = 0, False
    for line, at_us, cells, _ in _table(draft, name, text):
        clocks = []
        limits: set[float] = set()
        for column, cell in cells.items():
            if column.isdigit():
                part = _literal(draft, name, line, cell)
                clocks.append(_clock_hz(draft, name, line, f"GPU {column}", _number_in(part, "frq")))
                limits.add(_number_in(part, "max_freq"))
        sound = [clock for clock in clocks if not math.isnan(clock)]
        if sound:
            draft.stream("gpu_clock").add(at_us, {"gpu_hz": max(sound)})
        other = mode is not None and bool(sound) and limits != {float(mode.gpu_hz or 0)}
        stale, started = (stale + 1, False) if other and not started else (stale, True)
    _told_stale(draft, name, stale)


def _emc_clocks(draft: Draft, name: str, text: str, mode: PowerMode | None) -> None:
    stale, started = 0, False
    for line, at_us, cells, _ in _table(draft, name, text):
        hertz = _clock_hz(draft, name, line, "memory", number(cells.get("frq", "")))
        draft.stream("emc_clock").add(at_us, {"emc_hz": hertz})
        other = mode is not None and number(cells.get("max_freq", "")) != float(mode.emc_hz or 0)
        stale, started = (stale + 1, False) if other and not started else (stale, True)
    _told_stale(draft, name, stale)


def _ram(draft: Draft, name: str, text: str, mode: PowerMode | None) -> None:
    scale = {"k": _BYTES_PER_KB, "M": 2**20, "G": 2**30}
    for line, at_us, cells, _ in _table(draft, name, text):
        unit = cells.get("unit", "").strip()
        if unit not in scale:
            draft.problems.add(name, f"memory in the unknown unit {unit[:10]!r}; left out", f"line {line}")
            continue
        used, total = number(cells.get("use", "")) * scale[unit], number(cells.get("tot", "")) * scale[unit]
        if not 0 <= used <= total <= 2**41:
            draft.problems.add(name, "more memory used than there is; left out", f"line {line}")
            continue
        row = {"used_bytes": used, "total_bytes": total, "shared_bytes": number(cells.get("shared", "")) * scale[unit]}
        held = _gpu_bytes(_literal(draft, name, line, cells.get("table", "[]")), scale)
        if held is not None:
            row["gpu_processes_bytes"] = held
        draft.stream("ram").add(at_us, row)


def _gpu_bytes(table: Any, scale: Mapping[str, int]) -> float | None:
    """Sum what processes hold through the GPU's allocator; None where the table is not one."""
    try:
        sizes = [(row["Size"]["val"], row["Size"]["unit"]) for row in table[1]]
        return float(sum(int(value) * scale[unit] for value, unit in sizes))
    except (TypeError, KeyError, IndexError, ValueError):
        return None


def _iostat(draft: Draft, name: str, text: str, mode: PowerMode | None) -> None:
    """Read iostat rows: values under the header, or fifteen names and then fifteen values in the order of those."""
    header, _ = read_csv(text)
    for line, at_us, _, row in _table(draft, name, text, exact=False):
        names, values = header[:-1], row[:-1]
        if len(row) == 2 * len(names) + 1:
            names, values = [cell.strip() for cell in row[: len(names)]], row[len(names) : -1]
        if len(values) != len(names) or any(not math.isnan(number(column)) for column in names):
            draft.problems.add(name, f"a row has {len(row)} values under {len(header)} columns", f"line {line}")
            continue
        readings = {}
        for column, cell in zip(names, values, strict=True):
            if column in _IOSTAT:
                key, scale = _IOSTAT[column]
                value = number(cell)
                if math.isnan(value) or value < 0:
                    draft.problems.add(name, f"{column} is not a number", f"line {line}: {cell[:40]!r}")
                    continue
                readings[key] = value * scale
        if readings:
            draft.stream("iostat").add(at_us, readings)


def _sizes(draft: Draft, name: str, text: str, wanted: Mapping[str, str]) -> list[tuple[int, dict[str, float]]]:
    found = []
    for line, at_us, cells, _ in _table(draft, name, text):
        row = {}
        for column, key in wanted.items():
            cell = cells.get(column, "").strip()
            try:
                # A bare number would be bytes to us and kibibytes to `free`: only a spelled unit is believed.
                if not re.fullmatch(r"[0-9.]+(?:B|[KMGT]i?)", cell):
                    raise UsageError(cell)
                # `G` of an older `free` is the `Gi` of a newer one: both count in powers of two.
                row[key] = float(parse_bytes(cell if cell.endswith(("B", "i")) else f"{cell}i"))
            except UsageError:
                draft.problems.add(name, f"{column} is not a size with a unit; left out", f"line {line}: {cell[:40]!r}")
        if row:
            found.append((at_us, row))
    return found


def _free(draft: Draft, name: str, text: str, mode: PowerMode | None) -> None:
    wanted = {"available": "available_bytes", "free": "free_bytes", "buff/cache": "cached_bytes", "used": "used_bytes"}
    for at_us, row in _sizes(draft, name, text, wanted):
        draft.stream("memory").add(at_us, row)


def _swap(draft: Draft, name: str, text: str, mode: PowerMode | None) -> None:
    for at_us, row in _sizes(draft, name, text, {"used": "swap_used_bytes", "total": "swap_total_bytes"}):
        draft.stream("swap").add(at_us, row)


def _vmtouch(draft: Draft, name: str, text: str, mode: PowerMode | None) -> None:
    header, _ = read_csv(text)
    for line, at_us, _, row in _table(draft, name, text, exact=False):
        pages = re.fullmatch(r"(\d{1,15})/(\d{1,15})", row[2].strip()) if len(row) > 3 else None
        if len(row) not in (len(header), len(header) - 1) or pages is None:
            draft.problems.add(name, "a row that is not vmtouch's", f"line {line}")
            continue
        resident, total = int(pages[1]), int(pages[2])
        if total == 0:
            draft.problems.add(name, "vmtouch ran on an empty folder: the cached share is not known", f"line {line}")
            continue
        share = _sane(draft, name, line, "the cached share", resident / total, 0.0, 1.0)
        draft.stream("residency").add(
            at_us, {"cached_share": share, "cached_bytes": resident * 4096.0, "dataset_bytes": total * 4096.0}
        )
