"""Turns a folder of edge-train-bench logs into a run: minibatches, power mode, workload, telemetry.

A folder holds one run: `fetch`, `compute` and `epoch_stats` with one row per minibatch, the files of `jtop.py`,
`log_file*` (`jetson_clocks --show` after the mode was set: the truth about the clocks) and `train_log_file*` (the
console). All `log_time` are seconds since the script started, which is this run's clock.

The script logs a minibatch when it is over, and its watch stands still while it writes. So a minibatch ends at its
`log_time`, began `epochtime_ms` before that, waited `fetchtime_ms` for data and computed for the last
`computetime_ms`; what is left is overhead. The gap to the next one is the logger's own cost and belongs to neither.
"""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from edgetrain.schema import PowerMode
from edgetrain.store.importers.base import Draft, Problems, instant_us, number, read_csv, read_text
from edgetrain.store.importers.jtop import read_telemetry
from edgetrain.units import HZ_PER_KHZ, MS_PER_S

MINIBATCH_FILES = ("fetch", "compute", "epoch_stats")
TELEMETRY_FILES = (
    "tegrastats", "cpufreq_stats", "gpufreq_stats", "emc_stats", "ram_stats", "io_stats", "mem_stats", "swap_stats",
    "vmtouch_stats", "energy",
)  # fmt: skip
_KIND = re.compile(r"(?:^|_)(" + "|".join((*MINIBATCH_FILES, *TELEMETRY_FILES)) + r")\.csv$")
_FOLDER = re.compile(r"pm_(\d{1,3})_(\d{1,9})_(\d{1,12})_(\d{1,12})$")
_NETWORKS = {"mobnet": "mobilenet_v3", "mobilenet": "mobilenet_v3", "resnet": "resnet18", "lstm": "lstm"}
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
    mode = _power_mode(path, shown, problems)
    draft = Draft(str(path), {}, problems)
    draft.minibatches.extend(_minibatches(texts, problems))
    read_telemetry(draft, texts, mode[1] or mode[0])
    if "energy" in texts:
        _energy(draft, *texts["energy"])
    draft.manifest.update(_manifest(path, texts, shown, console, mode, draft))
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
    rows = []
    previous_end = 0
    for place in range(max(counts.values(), default=0)):
        at = {
            kind: part[place] if place < len(part) else _Row(None, None, math.nan, math.nan)
            for kind, part in (("fetch", fetch), ("compute", compute), ("whole", whole))
        }
        labels = {(row.epoch, row.batch) for row in (at["fetch"], at["compute"]) if row.batch is not None}
        if len(labels) > 1:
            problems.add("minibatches", "fetch and compute name different ones in one row", f"row {place}")
        ends = [at["compute"].log_s, at["whole"].log_s + offset_s, at["fetch"].log_s]
        end_us = next((instant_us(end) for end in ends if instant_us(end) is not None), None)
        if end_us is None:
            problems.add("minibatches", "one has no instant at all; left out", f"row {place}")
            continue
        waited, busy, total = (_us(at[kind].time_ms) for kind in ("fetch", "compute", "whole"))
        if total is None and waited is not None and busy is not None:
            total = waited + busy
        if total is not None and (waited or 0) + (busy or 0) > total:
            # Three watches, rounded one by one: a microsecond apart is no contradiction, a millisecond is.
            if (waited or 0) + (busy or 0) > total + 1000:
                problems.add(
                    "minibatches", "fetch and compute take longer than the whole; the sum is taken", f"row {place}"
                )
            total = (waited or 0) + (busy or 0)
        asked = None if total is None else max(end_us - total, previous_end)
        if total is not None and asked is not None and end_us - total < previous_end - 1000:
            problems.add("minibatches", "one begins before the last one ended; cut", f"row {place}")
        ready = None if asked is None or waited is None else min(asked + waited, end_us)
        previous_end = max(previous_end, end_us)
        label = next((row for row in (at["compute"], at["fetch"], at["whole"]) if row.epoch is not None), at["whole"])
        rows.append(
            {
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
        )
    return rows


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


def _power_mode(path: Path, shown: str, problems: Problems) -> tuple[PowerMode | None, PowerMode | None]:
    """Return the mode that the folder's name asked for, and the one that jetson_clocks read back."""
    asked = None
    named = _FOLDER.match(path.name)
    if named:
        cores, cpu_khz, gpu_hz, emc_hz = (int(part) for part in named.groups())
        asked = PowerMode(cores, cpu_khz * HZ_PER_KHZ, gpu_hz, emc_hz)
    if not shown.strip():
        problems.add("log_file*", "is missing: which clocks were really set is not known")
        return asked, None
    online = re.findall(r"^cpu\d+: Online=1 .*?MaxFreq=(\d+)", shown, re.M)
    gpu = re.search(r"^GPU .*?MaxFreq=(\d+)", shown, re.M)
    emc = re.search(r"^EMC .*?CurrentFreq=(\d+)", shown, re.M)
    if not online or not gpu or not emc or len(set(online)) != 1:
        problems.add("log_file*", "does not show cores and clocks as jetson_clocks does; the folder's name is taken")
        return asked, None
    found = PowerMode(len(online), int(online[0]) * HZ_PER_KHZ, int(gpu[1]), int(emc[1]))
    if not all(10e6 <= hertz <= 9.9e9 for hertz in (found.cpu_hz, found.gpu_hz or 0, found.emc_hz or 0)):
        problems.add("log_file*", f"shows clocks no board can have: {found}; the folder's name is taken")
        return asked, None
    if asked is not None and found != asked:
        problems.add("log_file*", f"the folder's name asks for {asked} but the board ran {found}")
    return asked, found


def _device(shown: str, texts: Mapping[str, tuple[str, str]], problems: Problems) -> dict[str, Any]:
    machine = re.search(r"SOC family:(\S+)\s+Machine:(.+)", shown)
    model = machine[2].strip() if machine else None
    cores = len(re.findall(r"^cpu\d+: Online=", shown, re.M)) or None
    key = None
    for pattern, name in (
        (r"Orin Nano", "orin-nano"),
        (r"Orin NX", "orin-nx"),
        (r"Jetson-Small|AGX Orin", "orin-agx"),
        (r"Xavier.*NX|NX", "xavier-nx"),
        (r"AGX|Xavier", "xavier-agx"),
        (r"Nano", "nano"),
    ):
        if model and re.search(pattern, model, re.I):
            key = name
            break
    if key is None:
        problems.add("log_file*", "does not name a board we know", model or "")
    return {
        "name": key or "unknown",
        "kind": "jetson",
        "model": model,
        "chip": machine[1] if machine else None,
        "cores": cores,
    }


def _manifest(
    path: Path,
    texts: Mapping[str, tuple[str, str]],
    shown: str,
    console: str,
    mode: tuple[PowerMode | None, PowerMode | None],
    draft: Draft,
) -> dict[str, Any]:
    problems = draft.problems
    names = [name for name, _ in texts.values()]
    loading = next((m for m in (re.search(r"_nw(\d{1,3})_pf(\d{1,3})_", name) for name in names) if m), None)
    word = next((part for part in reversed(path.parts[:-1]) if part.lower() in _NETWORKS), None)
    network = _NETWORKS[word.lower()] if word else None
    if network is None:
        problems.add(path.name, "the folder above does not name a network we know", path.parent.name)

    def said(pattern: str) -> str | None:
        match = re.search(pattern, console)
        return match[1] if match else None

    parameters, batches = said(r"model parameters = (\d{1,12})"), said(r"training batches = (\d{1,9})")
    batch_size = said(r"Batch size is\s+(\d{1,6})")
    if not console:
        problems.add("train_log_file*", "is missing: parameters and minibatches per epoch are not known")
    elif said(r"(Batch index = \d)") is None:
        problems.add("train_log_file*", "is not the console output of the training script; nothing taken from it")
    asked, found = mode
    return {
        "state": "finished",
        "started_wall": _started_wall(texts, said(r"Reference Time is (\d{9,10}\.\d+)")),
        "workload": {
            "network": network or path.parent.name,
            # 16 is the only one this logger's campaigns used; the older scripts do not print it.
            "batch_size": int(batch_size) if batch_size else 16,
            "dataset": said(r"(?m)^(/\S+)$"),
            "parameters": int(parameters) if parameters else None,
            "minibatches_per_epoch": int(batches) if batches else None,
        },
        "loading": {
            "workers": int(loading[1]) if loading else None,
            "prefetch": int(loading[2]) if loading else None,
        },
        "timing": "sync",
        "compute": {"kind": "cuda"},
        "device": _device(shown, texts, problems),
        "power": _power(draft),
        "power_mode": {
            "asked": asdict(asked) if asked else None,
            "start": asdict(found) if found else None,
            "end": None,
        },
    }


def _started_wall(texts: Mapping[str, tuple[str, str]], reference: str | None) -> str | None:
    """Return when the script started: as it printed it, else from the first sound jtop row, in the board's zone."""
    if reference is not None:
        return datetime.fromtimestamp(float(reference), timezone.utc).isoformat(timespec="seconds")
    header, rows = read_csv(texts.get("tegrastats", ("", ""))[1])
    for _, row in rows:
        cells = dict(zip(header, row, strict=False))
        at_s = number(cells.get("log_time", ""))
        try:
            wall = datetime.fromisoformat(cells.get("time", ""))
        except ValueError:
            continue
        if not math.isnan(at_s):
            return (wall - timedelta(seconds=at_s)).isoformat(timespec="seconds")
    return None


def _power(draft: Draft) -> dict[str, Any] | None:
    rails = draft.samples.get("rails")
    if rails is None or not any(not math.isnan(row.get("total_w", math.nan)) for row in rails.rows):
        draft.problems.add("*_tegrastats.csv", "holds no power: energy is not known")
        return None
    return {"stream": "rails", "columns": ["total_w"], "counter_column": None, "scope": "module"}


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
