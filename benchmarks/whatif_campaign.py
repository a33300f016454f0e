"""Runs the settings of benchmarks/whatif.yaml in interleaved rounds and keeps a journal; started again, it goes on.

A run counts when other processes and the host of a virtual machine took less than 15 % of the cores; one that does not
is repeated later.
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from edgetrain.analysis import summarize
from edgetrain.api import execute, make_dataset
from edgetrain.errors import EdgetrainError
from edgetrain.record import FolderStore, Run

HERE = Path(__file__).parent
MAX_OTHER_LOAD = 0.15
QUIET = 0.15  # of the cores busy while no training runs: a run may begin
QUIET_FOR_S = 1.0
ATTEMPTS = 4  # of one run, other load permitting
NOT_SETTINGS = ("id", "changes", "half", "network")


@dataclass(frozen=True, slots=True)
class BenchmarkSetting:
    """One setting of a family: what is asked of `execute`."""

    id: str
    family: str
    network: str
    settings: dict[str, Any]
    base: bool
    changes: int
    half: str | None


@dataclass(frozen=True, slots=True)
class Recorded:
    """One run of a setting that counts."""

    id: str
    repeat: int
    run: str
    other_load: float | None


def read_settings(device_set: str, path: Path = HERE / "whatif.yaml") -> list[BenchmarkSetting]:
    """Return the settings of one machine, in the order of the file."""
    found = []
    for family, about in yaml.safe_load(path.read_text())["families"].items():
        if about["set"] != device_set:
            continue
        for base, entries in ((True, about["bases"]), (False, about["targets"])):
            for entry in entries:
                merged = {**about["common"], **entry}
                settings = {name: value for name, value in merged.items() if name not in NOT_SETTINGS}
                found.append(
                    BenchmarkSetting(
                        entry["id"],
                        family,
                        merged["network"],
                        settings,
                        base,
                        entry.get("changes", 0),
                        entry.get("half"),
                    )
                )
    return found


class Journal:
    """Which runs were made, one JSON line each."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> list[Recorded]:
        """Return the runs that count."""
        if not self.path.exists():
            return []
        lines = [json.loads(line) for line in self.path.read_text().splitlines()]
        return [
            Recorded(each["id"], each["repeat"], each["run"], each["other_load"]) for each in lines if each["counts"]
        ]

    def add(self, setting: BenchmarkSetting, repeat: int, run: str, other_load: float | None, counts: bool) -> None:
        """Append one run."""
        line = {"id": setting.id, "repeat": repeat, "run": run, "other_load": other_load, "counts": counts}
        with self.path.open("a") as file:
            file.write(json.dumps(line) + "\n")


def say(text: str) -> None:
    """Print one line of progress."""
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def other_load(run: Run) -> float | None:
    """Return the share of the cores that other processes and the host took while the run trained.

    A host that gives a virtual machine no CPU time delays a training as another process does ("steal").
    """
    epochs = summarize(run).epochs
    shares = []
    for probe, column in (("load", "other_share"), ("cpu", "steal_share")):
        samples = run.samples(probe)
        if not epochs or not len(samples) or column not in samples:
            continue
        inside = (samples["at_us"] >= epochs[0].begin_us) & (samples["at_us"] <= epochs[-1].end_us + 1_000_000)
        read = samples[column][inside]
        read = read[read == read]
        if len(read):
            shares.append(float(read.mean()))
    return sum(shares) if shares else None


def busy_share(for_s: float) -> float:
    """Return the share of all cores that was busy over the next seconds."""

    def read() -> tuple[int, int]:
        fields = [int(each) for each in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
        return sum(fields) - fields[3] - fields[4], sum(fields)

    busy, total = read()
    time.sleep(for_s)
    later_busy, later_total = read()
    return (later_busy - busy) / max(1, later_total - total)


def wait_until_quiet(longest_s: float, for_s: float = QUIET_FOR_S) -> bool:
    """Wait until the machine has been idle for some seconds; return whether it has."""
    until_s, said = time.monotonic() + longest_s, False
    while (share := busy_share(for_s)) > QUIET:
        if time.monotonic() > until_s:
            return False
        if not said:
            say(f"{share:.0%} of the cores are busy: waiting")
            said = True
    return True


def dataset_for(setting: BenchmarkSetting, store: FolderStore) -> dict[str, Any]:
    """Return the settings with the dataset of an own network filled in: the same pictures as the catalogue's."""
    settings = dict(setting.settings)
    if ":" in setting.network:
        scale = settings.pop("dataset_scale")
        folder = store.path / "pictures" / f"{scale:g}"
        if not folder.exists():
            make_dataset("mobilenet_v3", scale, output=folder)
        settings["dataset"] = str(folder)
    return settings


def measure(
    settings: list[BenchmarkSetting],
    store: FolderStore,
    journal: Journal,
    repeats: int = 3,
    budget_s: float | None = None,
    quiet_wait_s: float = 3600.0,
    quiet_for_s: float = QUIET_FOR_S,
) -> bool:
    """Make the runs that are missing, round by round; return whether all are there."""
    os.environ["PYTHONPATH"] = os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])
    began_s = time.monotonic()

    for repeat in range(repeats):
        order = list(settings)
        random.Random(repeat).shuffle(order)
        for _attempt in range(ATTEMPTS):
            done = {(each.id, each.repeat) for each in journal.read()}
            for setting in [each for each in order if (each.id, repeat) not in done]:
                if budget_s is not None and time.monotonic() - began_s > budget_s:
                    say("the time given is over; start it again to go on")
                    return False
                if not wait_until_quiet(quiet_wait_s, quiet_for_s):
                    say("the machine does not become quiet; start it again to go on")
                    return False
                try:
                    run = execute(setting.network, store=store, **dataset_for(setting, store))
                except EdgetrainError as error:
                    say(f"{setting.id}: {error}")
                    continue
                load = other_load(run)
                counts = load is None or load < MAX_OTHER_LOAD
                journal.add(setting, repeat, run.id, load, counts)
                shown = "?" if load is None else f"{load:.0%}"
                later = [f"{epoch.e2e_s:.2f}" for epoch in summarize(run).epochs]
                again = "" if counts else ": will be repeated"
                say(f"round {repeat + 1} {setting.id}: {' '.join(later)} s, other load {shown}{again}")
    return len({(each.id, each.repeat) for each in journal.read()}) >= repeats * len(settings)
