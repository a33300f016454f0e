"""Turns a folder of edge-train-bench logs into a run: minibatches, power mode, workload, telemetry.

A folder holds one run: `fetch`, `compute` and `epoch_stats` with one row per minibatch, the files of `jtop.py`,
`log_file*` (`jetson_clocks --show` after the mode was set: the truth about the clocks) and `train_log_file*` (the
console). All `log_time` are seconds since the script started, which is this run's clock.

The script logs a minibatch when it is over, and its timer is paused while it writes. So a minibatch ends at its
`log_time`, began `epochtime_ms` before that, waited `fetchtime_ms` for data and computed for the last
`computetime_ms`; what is left is overhead. The gap to the next one is the logger's own cost and belongs to neither.
"""

from __future__ import annotations

import bisect
import math
import re
import statistics
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from edgetrain.importers.base import Draft, Problems, instant_us, number, read_csv, read_text
from edgetrain.importers.folder_facts import manifest, power_mode
from edgetrain.importers.jtop import read_telemetry
from edgetrain.schema import PowerSource
from edgetrain.units import MS_PER_S

MINIBATCH_FILES = ("fetch", "compute", "epoch_stats")
TELEMETRY_FILES = (
    "tegrastats", "cpufreq_stats", "gpufreq_stats", "emc_stats", "ram_stats", "io_stats", "mem_stats", "swap_stats",
    "vmtouch_stats", "energy",
)  # fmt: skip
_KIND = re.compile(r"(?:^|_)(" + "|".join((*MINIBATCH_FILES, *TELEMETRY_FILES)) + r")\.csv$")
_LONGEST_MS = 24 * 3600 * MS_PER_S  # of one minibatch
_LATE_S = 0.5  # an epoch_stats file whose clock is off by more than this has another start
J_PER_MWH = 3.6


def is_run_folder(path: Path) -> bool:
    """Return whether a folder holds the minibatches of one run."""
    kinds = {kind for kind, _ in _files(path)}
    return bool(kinds & set(MINIBATCH_FILES)) or {"tegrastats", "cpufreq_stats"} <= kinds


def _files(path: Path) -> Iterator[tuple[str, Path]]:
    try:
        entries = sorted(path.iterdir())
    except OSError:
        return
    for entry in entries:
        match = _KIND.search(entry.name)
        if match and entry.is_file():
            yield match[1], entry


def read_folder(path: Path) -> Draft:
    """Read one run folder, however damaged; what is wrong is listed in the draft."""
    problems = Problems()
    files: dict[str, Path] = {}
    for kind, file in _files(path):
        if kind in files:
            problems.add(file.name, f"a second {kind} file; {files[kind].name} was taken")
        else:
            files[kind] = file
    texts = {kind: (file.name, read_text(file, problems)) for kind, file in files.items()}
    shown = _first_text(path, "log_file*", problems)
    console = _first_text(path, "train_log_file*", problems)
    mode = power_mode(path, shown, problems)
    draft = Draft(str(path), problems)
    draft.minibatches.extend(_minibatches(texts, problems))
    read_telemetry(draft, texts, mode[1] or mode[0])
    if "energy" in texts:
        _energy(draft, *texts["energy"])
    draft.manifest = replace(manifest(path, texts, shown, console, mode, problems), power=_power(draft))
    return draft


def _first_text(path: Path, pattern: str, problems: Problems) -> str:
    for file in sorted(path.glob(pattern)):
        if file.is_file():
            return read_text(file, problems)
    return ""


@dataclass(frozen=True, slots=True)
class _Row:
    """One row of a minibatch file; NaN where it was not readable."""

    epoch: int | None
    batch: int | None
    time_ms: float
    log_s: float


def _rows(texts: Mapping[str, tuple[str, str]], kind: str, column: str, problems: Problems) -> list[_Row]:
    if kind not in texts:
        problems.add(f"*_{kind}.csv", "is missing")
        return []
    name, text = texts[kind]
    header, rows = read_csv(text)
    missing = [wanted for wanted in (column, "log_time", "epoch") if wanted not in header]
    if missing:
        problems.add(name, f"has no column {', '.join(missing)}; not used")
        return []
    found = []
    for line, row in rows:
        cells = dict(zip(header, row, strict=False))
        time_ms = number(cells.get(column, ""))
        log_s = number(cells.get("log_time", ""))
        epoch, batch = _count(cells.get("epoch")), _count(cells.get("batch_idx"))
        sound = len(row) == len(header) and 0 <= time_ms < _LONGEST_MS and instant_us(log_s) is not None
        if not sound or epoch is None or ("batch_idx" in header and batch is None):
            # The row keeps its place: epoch_stats has no number of its own.
            problems.add(name, "a row that cannot be read; its values are left out", f"line {line}")
            time_ms = log_s = math.nan
        found.append(_Row(epoch, batch, time_ms, log_s))
    return found


def _count(cell: str | None) -> int | None:
    return int(cell) if cell is not None and re.fullmatch(r"\s*\d{1,9}\s*", cell) else None


def _minibatches(texts: Mapping[str, tuple[str, str]], problems: Problems) -> list[dict[str, int | None]]:
    fetch = _rows(texts, "fetch", "fetchtime_ms", problems)
    compute = _rows(texts, "compute", "computetime_ms", problems)
    whole = _rows(texts, "epoch_stats", "epochtime_ms", problems)
    counts = {
        kind: len(rows) for kind, rows in (("fetch", fetch), ("compute", compute), ("epoch_stats", whole)) if rows
    }
    if len(set(counts.values())) > 1:
        listed = ", ".join(f"{kind} {count}" for kind, count in counts.items())
        problems.add("minibatches", f"the files disagree on how many there are: {listed}")
    offset_s = _offset_s(compute or fetch, whole, texts, problems)
    placed = []
    for place in range(max(counts.values(), default=0)):
        at = {
            kind: part[place] if place < len(part) else _Row(None, None, math.nan, math.nan)
            for kind, part in (("fetch", fetch), ("compute", compute), ("whole", whole))
        }
        labels = {(row.epoch, row.batch) for row in (at["fetch"], at["compute"]) if row.batch is not None}
        if len(labels) > 1:
            problems.add("minibatches", "fetch and compute name different ones in one row", f"row {place}")
        ends = [at["compute"].log_s, at["whole"].log_s + offset_s, at["fetch"].log_s]
        end_us = next((end for end in map(instant_us, ends) if end is not None), None)
        if end_us is None:
            problems.add("minibatches", "one has no time at all; left out", f"row {place}")
        else:
            placed.append((place, end_us, at))
    rising = _rising([end_us for _, end_us, _ in placed])
    rows = []
    previous_us = 0
    for index, (place, end_us, at) in enumerate(placed):
        if index not in rising:
            problems.add("minibatches", "one ends before an earlier one; left out", f"row {place}")
            continue
        rows.append(_minibatch(place, end_us, previous_us, at, problems))
        previous_us = end_us
    return rows


def _rising(ends: list[int]) -> set[int]:
    """Return the most rows that can be kept so that their ends rise: one garbled instant costs one row."""
    tails: list[int] = []  # smallest end of a rising sequence of each length
    at: list[int] = []  # its row
    before: list[int | None] = []
    for row, end in enumerate(ends):
        length = bisect.bisect_left(tails, end)
        before.append(at[length - 1] if length else None)
        tails[length : length + 1] = [end]
        at[length : length + 1] = [row]
    kept: set[int] = set()
    row_or_none: int | None = at[-1] if at else None
    while row_or_none is not None:
        kept.add(row_or_none)
        row_or_none = before[row_or_none]
    return kept


def _minibatch(
    place: int, end_us: int, previous_us: int, at: Mapping[str, _Row], problems: Problems
) -> dict[str, int | None]:
    """Lay out one minibatch backwards from its end."""
    waited, busy, total = (_us(at[kind].time_ms) for kind in ("fetch", "compute", "whole"))
    parts = (waited or 0) + (busy or 0)
    if total is None and waited is not None and busy is not None:
        total = parts
    if total is not None and parts > total:
        # Three watches, rounded one by one: a microsecond apart is no contradiction, a millisecond is.
        if parts > total + 1000:
            problems.add(
                "minibatches", "fetch and compute take longer than the whole; the sum is taken", f"row {place}"
            )
        total = parts
    asked = None
    if total is not None:
        if end_us - total < previous_us - 1000:
            problems.add("minibatches", "one begins before the last one ended; cut", f"row {place}")
        asked = max(end_us - total, previous_us)
    ready = None if asked is None or waited is None else min(asked + waited, end_us)
    label = next((row for row in (at["compute"], at["fetch"], at["whole"]) if row.epoch is not None), at["whole"])
    return {
        "loader": 0,
        "generation": label.epoch or 0,
        "epoch": label.epoch,
        "batch": label.batch if label.batch is not None else place,
        "phase": 1,
        "asked_us": asked,
        "ready_us": ready,
        "copying_us": None if busy is None or ready is None else max(end_us - busy, ready),
        "done_us": end_us,
        "begin_us": asked,
    }


def _us(time_ms: float) -> int | None:
    return None if math.isnan(time_ms) else round(time_ms * 1000)


def _offset_s(anchor: list[_Row], whole: list[_Row], texts: Mapping[str, tuple[str, str]], problems: Problems) -> float:
    """Return how far the clock of epoch_stats lies behind the other files' (old scripts started it later)."""
    gaps = [
        a.log_s - b.log_s
        for a, b in zip(anchor, whole, strict=False)
        if not math.isnan(a.log_s) and not math.isnan(b.log_s)
    ]
    offset = statistics.median(gaps) if gaps else 0.0
    if abs(offset) > _LATE_S:
        name = texts["epoch_stats"][0]
        problems.add(name, f"its log_time runs {offset:.3f} s behind the other files; moved onto theirs")
        return offset
    return 0.0


def _power(draft: Draft) -> PowerSource | None:
    rails = draft.samples.get("rails")
    if rails is None or not any(not math.isnan(row.get("total_w", math.nan)) for row in rails.rows):
        draft.problems.add("*_tegrastats.csv", "holds no power: energy is not known")
        return None
    return PowerSource("rails", ("total_w",))


def _energy(draft: Draft, name: str, text: str) -> None:
    """Take the logged energy per minibatch, once its unit is confirmed by power times time."""
    values = [number(line) for line in text.split()]
    if len(values) != len(draft.minibatches) or any(math.isnan(value) for value in values):
        draft.problems.add(name, f"{len(values)} numbers for {len(draft.minibatches)} minibatches; not used")
        return
    rails = draft.samples.get("rails")
    watts = [row["total_w"] for row in rails.rows if not math.isnan(row.get("total_w", math.nan))] if rails else []
    ratios = []
    for joules, row in zip((value * J_PER_MWH for value in values), draft.minibatches, strict=True):
        if watts and row["asked_us"] is not None and row["done_us"] is not None and row["done_us"] > row["asked_us"]:
            ratios.append(joules / (statistics.median(watts) * (row["done_us"] - row["asked_us"]) / 1e6))
    if not ratios or not 0.5 < statistics.median(ratios) < 2:
        draft.problems.add(name, "is not power times time in mWh; its unit is not known, not used")
        return
    stream = draft.stream("logged_energy")
    for value, row in zip(values, draft.minibatches, strict=True):
        if row["done_us"] is not None:
            stream.add(row["done_us"], {"minibatch_j": value * J_PER_MWH})
