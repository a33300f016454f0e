"""What an edge-train-bench folder says about itself: board, power mode, workload, loading, when it started.

`log_file*` is `jetson_clocks --show` after the mode was set, so it is believed over the folder's name; the console
output names parameters, minibatches and batch size where the script printed them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime, timedelta, timezone
from pathlib import Path

from edgetrain.importers.base import Problems, instant_us, number, read_csv
from edgetrain.record import ComputeFacts, DeviceFacts, LoadingFacts, Manifest, PowerModeRecord, WorkloadFacts
from edgetrain.schema import PowerMode
from edgetrain.units import HZ_PER_KHZ

_FOLDER = re.compile(r"pm_(\d{1,3})_(\d{1,9})_(\d{1,12})_(\d{1,12})$")
_NETWORKS = {"mobnet": "mobilenet_v3", "mobilenet": "mobilenet_v3", "resnet": "resnet18", "lstm": "lstm"}


def power_mode(path: Path, shown: str, problems: Problems) -> tuple[PowerMode | None, PowerMode | None]:
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


def _device(shown: str, texts: Mapping[str, tuple[str, str]], problems: Problems) -> DeviceFacts:
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
    return DeviceFacts(key or "unknown", "jetson", model, chip=machine[1] if machine else None, cores=cores)


def manifest(
    path: Path,
    texts: Mapping[str, tuple[str, str]],
    shown: str,
    console: str,
    mode: tuple[PowerMode | None, PowerMode | None],
    problems: Problems,
) -> Manifest:
    """Return the manifest of a folder, except for its power."""
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
    return Manifest(
        state="finished",
        started_wall=_started_wall(texts, said(r"Reference Time is (\d{9,10}\.\d+)")),
        workload=WorkloadFacts(
            network=network or path.parent.name,
            # 16 is the only one this logger's campaigns used; the older scripts do not print it.
            batch_size=int(batch_size) if batch_size else 16,
            dataset=said(r"(?m)^(/\S+)$"),
            parameters=int(parameters) if parameters else None,
            minibatches_per_epoch=int(batches) if batches else None,
        ),
        loading=LoadingFacts(int(loading[1]), int(loading[2])) if loading else LoadingFacts(),
        timing="sync",
        compute=ComputeFacts("cuda"),
        device=_device(shown, texts, problems),
        power_mode=PowerModeRecord(asked, found),
    )


def _started_wall(texts: Mapping[str, tuple[str, str]], reference: str | None) -> str | None:
    """Return when the script started: as it printed it, else from the first sound jtop row, in the board's zone."""
    if reference is not None:
        return datetime.fromtimestamp(float(reference), timezone.utc).isoformat(timespec="seconds")
    header, rows = read_csv(texts.get("tegrastats", ("", ""))[1])
    for _, row in rows:
        cells = dict(zip(header, row, strict=False))
        at_us = instant_us(number(cells.get("log_time", "")))
        try:
            wall = datetime.fromisoformat(cells.get("time", ""))
            if at_us is not None:
                return (wall - timedelta(microseconds=at_us)).isoformat(timespec="seconds")
        except (ValueError, OverflowError):
            continue
    return None
