"""Turns a CSV table of power modes into one campaign with one row file.

Columns name their unit: `cpu_khz`, `gpu_hz`, `emc_mhz`, `time_ms`, `power_mw`, … in any of the usual ones. A column
whose values only make sense in another unit than it names is converted and told; a row that makes sense in none is
left out, told, and kept beside the table.
"""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from edgetrain.errors import BadTable
from edgetrain.schema import Origin
from edgetrain.store.campaigns import MODE_COLUMNS, write_table
from edgetrain.store.directory import Store
from edgetrain.store.importers.base import Imported, Problems, number, read_csv, read_text

_HZ_PER = {"hz": 1.0, "khz": 1e3, "mhz": 1e6, "ghz": 1e9}
_S_PER = {"s": 1.0, "ms": 1e-3, "us": 1e-6}
_W_PER = {"w": 1.0, "mw": 1e-3, "uw": 1e-6}
_MOST_CORES = 1024
# What each quantity of a board that trains can be, in our unit. The clock range is under a factor of 1000, so a clock
# is plausible in one unit only.
_RANGES: dict[str, tuple[float, float]] = {
    "hz": (10e6, 9.9e9),
    "s": (1e-6, 86_400.0),
    "w": (0.5, 1_000.0),
}
_UNIT_JUMP = 300.0  # no board's modes differ by so much
_REPEAT_SPREAD = 0.3  # two rows of one mode further apart than this contradict each other


def looks_like_table(path: Path) -> bool:
    """Return whether a file's first line names cores and clocks."""
    header, _ = read_csv(_head(path))
    names = {name.lower() for name in header}
    return "cores" in names and any(re.fullmatch(r"cpu_[kmg]?hz", name) for name in names)


def _head(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(4096).decode("utf-8-sig", errors="replace")
    except OSError:
        return ""


def import_table(path: Path, store: Store, about: Mapping[str, str | None]) -> Imported:
    """Read a table and write it as a campaign; `about` may name device, network and batch size."""
    problems = Problems()
    text = read_text(path, problems)
    header, lines = read_csv(text)
    columns = _columns([name.lower() for name in header], lines, path.name, problems)
    rows: list[dict[str, float]] = []
    left_out: list[tuple[int, str, Sequence[str]]] = []
    for line, cells in lines:
        row, reason = _row(columns, header, cells)
        if reason:
            problems.add(path.name, f"a row was left out: {reason}", f"line {line}")
            left_out.append((line, reason, cells))
        else:
            rows.append(row)
    rows, strangers = _one_unit(rows)
    for mode, what in strangers:
        problems.add(
            path.name, f"{what} of a row is hundreds of times away from the others': another unit; left out", mode
        )
        left_out.append((0, f"{what} is in another unit than the other rows", [mode]))
    rows, contradictions = _agreeing(rows)
    for mode, what in contradictions:
        problems.add(path.name, f"rows of one mode contradict each other in {what}; both left out", mode)
        left_out.append((0, f"contradicts another row in {what}", [mode]))
    if not rows:
        raise BadTable(f"{path} holds no mode that can be believed: {'; '.join(problems.listed()[:3])}")
    document = {
        "state": "finished",
        "origin": Origin.REPLAYED.value,
        **_subject(path, about, problems),
        "imported": {"source": str(path), "window": None, "problems": problems.listed()},
    }
    table = write_table(store, path.stem, document, rows, left_out)
    return Imported(str(path), "campaign", table.id, table.path, None, len(rows), tuple(problems.listed()))


def _columns(
    header: Sequence[str], lines: Sequence[tuple[int, Sequence[str]]], name: str, problems: Problems
) -> dict[int, tuple[str, float]]:
    """Return, for each column, the name we keep it under and the factor to our unit."""
    found: dict[int, tuple[str, float]] = {}
    for place, column in enumerate(header):
        if column in ("cores", "batch_size"):
            found[place] = (column, 1.0)
            continue
        match = re.fullmatch(r"(cpu|gpu|emc|time|time_mean|power)_([a-z]+)", column)
        units = {"time": _S_PER, "time_mean": _S_PER, "power": _W_PER}.get(match[1], _HZ_PER) if match else {}
        if match is None or match[2] not in units:
            problems.add(name, f"the column {column[:40]!r} is not one we know; kept where it is a number")
            found[place] = (column, 1.0)
            continue
        base = next(iter(units))
        unit = _unit(match[2], units, _RANGES[base], [cells[place] for _, cells in lines if place < len(cells)])
        if unit != match[2]:
            problems.add(name, f"column {column} holds {unit}, not {match[2]}; converted")
        found[place] = (f"{match[1]}_{base}", units[unit])
    missing = [wanted for wanted in MODE_COLUMNS if wanted not in {kept for kept, _ in found.values()}]
    if missing:
        raise BadTable(f"{name}:1: no column for {', '.join(missing)}; found {', '.join(header)[:200]}")
    names = [kept for kept, _ in found.values()]
    twice = next((kept for kept in names if names.count(kept) > 1), None)
    if twice:
        raise BadTable(f"{name}:1: more than one column for {twice}; keep one")
    return found


def _unit(named: str, units: Mapping[str, float], sane: tuple[float, float], cells: Sequence[str]) -> str:
    """Return the unit the values are in: the named one unless none of them fits it and all fit another."""
    values = [value for value in map(number, cells) if not math.isnan(value)]

    def share(unit: str) -> float:
        fits = sum(sane[0] <= value * units[unit] <= sane[1] for value in values)
        return fits / len(values) if values else 0.0

    if share(named) > 0.5:
        return named
    return next((unit for unit in units if share(unit) == 1.0), named)


def _row(
    columns: Mapping[int, tuple[str, float]], header: Sequence[str], cells: Sequence[str]
) -> tuple[dict[str, float], str | None]:
    if len(cells) != len(header):
        return {}, f"{len(cells)} values under {len(header)} columns"
    row: dict[str, float] = {}
    for place, (name, scale) in columns.items():
        value = number(cells[place]) * scale
        kind = name.rpartition("_")[2]
        needed = name in MODE_COLUMNS or name in ("time_s", "power_w")
        if math.isnan(value):
            if needed or (kind in _RANGES and cells[place].strip()):
                return {}, f"{header[place]} is no number"
            continue
        if name == "cores" and not (value == int(value) and 1 <= value <= _MOST_CORES):
            return {}, "cores is no count of cores"
        if name == "batch_size" and not (value == int(value) and value >= 1):
            return {}, "batch_size is no count"
        if kind in _RANGES and name != "batch_size":
            least, most = _RANGES[kind]
            if not least <= value <= most:
                return {}, f"{header[place]} cannot be that in its unit"
        row[name] = float(round(value)) if name in MODE_COLUMNS else value
    return row, None


def _spell(row: Mapping[str, float]) -> str:
    return " ".join(f"{row[name]:g}" for name in (*MODE_COLUMNS, "batch_size") if name in row)


def _one_unit(rows: Sequence[dict[str, float]]) -> tuple[list[dict[str, float]], list[tuple[str, str]]]:
    """Leave out rows whose time or power is so far from the middle of the column that its unit must be another."""
    kept = list(rows)
    strangers = []
    for name in ("time_s", "time_mean_s", "power_w"):
        values = [row[name] for row in kept if name in row]
        if not values:
            continue
        middle = statistics.median(values)
        far = [row for row in kept if name in row and not 1 / _UNIT_JUMP < row[name] / middle < _UNIT_JUMP]
        strangers += [(_spell(row), name) for row in far]
        kept = [row for row in kept if row not in far] if far else kept
    return kept, strangers


def _agreeing(rows: Sequence[dict[str, float]]) -> tuple[list[dict[str, float]], list[tuple[str, str]]]:
    """Average rows that repeat a mode; leave out those that contradict each other, and say which."""
    groups: dict[tuple[float, ...], list[dict[str, float]]] = {}
    for row in rows:
        key = tuple(row.get(name, math.nan) for name in (*MODE_COLUMNS, "batch_size") if name in row)
        groups.setdefault(key, []).append(row)
    kept = []
    contradictions = []
    for group in groups.values():
        first = dict(group[0])
        for name in ("time_s", "time_mean_s", "power_w"):
            values = [row[name] for row in group if name in row]
            if len(values) > 1:
                if max(values) > min(values) * (1 + _REPEAT_SPREAD):
                    contradictions.append((_spell(first), name))
                    break
                first[name] = statistics.fmean(values)
        else:
            kept.append(first)
    return kept, contradictions


def _subject(path: Path, about: Mapping[str, str | None], problems: Problems) -> dict[str, Any]:
    """Say which device and network a table is about: as asked, else by the file's name."""
    stem = path.stem.lower().replace("-", "_")
    device, network = about.get("device"), about.get("network")
    if device is None:
        for word, key in (
            ("orin_agx", "orin-agx"), ("orin_nano", "orin-nano"), ("orin_nx", "orin-nx"), ("thor", "thor"),
            ("xavier_agx", "xavier-agx"), ("agx_xavier", "xavier-agx"), ("xavier_nx", "xavier-nx"), ("nano", "nano"),
        ):  # fmt: skip
            if word in stem:
                device = key
                break
    if network is None:
        words = {"mobnet": "mobilenet_v3", "mobilenet": "mobilenet_v3", "resnet": "resnet18", "lstm": "lstm",
                 "lenet": "lenet5", "vgg": "vgg11"}  # fmt: skip
        network = next((name for word, name in words.items() if word in stem), None)
    for what, value, option in (("device", device, "--device"), ("network", network, "--network")):
        if value is None:
            problems.add(path.name, f"does not say which {what} it is about; name it with {option}")
    phase = "infer" if "infer" in stem else "train"
    return {"device": {"name": device or "unknown"}, "workload": {"network": network, "phase": phase}}
