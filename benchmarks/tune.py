"""Scores `tune` against an exhaustive grid, on the scripts and points that tune.yaml lists.

    python benchmarks/tune.py [--only NAME] [--output results.json]

About 20 minutes, as root (lab limits, control groups). What was measured is kept in the output file, and a second call
goes on where the first one ended. Each script: the grid once, in random order; `tune`; then the start, the answer and
the three best points of the grid three times alternately, which is what the answer is judged by.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import statistics
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import yaml

from edgetrain.api import tune
from edgetrain.api.trial_measure import TrialMeasure
from edgetrain.errors import EdgetrainError
from edgetrain.recommendation import TuneTrial
from edgetrain.record import FolderStore
from edgetrain.runner import TrialGuard, TrialPlace, TrialRule, command_label
from edgetrain.schema import LoaderArguments, build_experiment
from edgetrain.units import parse_bytes

HERE = Path(__file__).parent
FILES, FILE_BYTES = 3000, 40_000
TOP = 3
GROUP = Path("/sys/fs/cgroup/memory/edgetrain-bench-tune")


def points(grid: dict[str, list[Any]]) -> list[LoaderArguments]:
    """Return the points of the grid."""
    found = [LoaderArguments(0, None, False, False)] if 0 in grid["workers"] else []
    for workers, prefetch, persistent in itertools.product(grid["workers"], grid["prefetch"], grid["persistent"]):
        if workers:
            found.append(LoaderArguments(workers, prefetch, False, persistent))
    return found


class Kept:
    """Results so far, by key, in a file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.values: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}

    def get(self, key: str, make: Any) -> Any:
        if key not in self.values:
            self.values[key] = make()
            self.path.write_text(json.dumps(self.values, indent=1))
        return self.values[key]


class Script:
    """One script under its limits."""

    def __init__(self, name: str, listed: dict[str, Any], folder: Path) -> None:
        self.name, self.listed, self.folder = name, listed, folder
        self.settings: dict[str, Any] = {key: listed[key] for key in ("cores", "storage", "cache") if key in listed}
        if "storage" in listed:
            self.settings["dataset"] = str(make_files(folder / "files"))
        self.store = FolderStore(folder / "store")

    def command(self, workers: int) -> list[str]:
        words = [sys.executable, str(HERE / "tune_scripts" / f"{self.name}.py"), "--workers", str(workers)]
        return [*words, *self.listed.get("arguments", ()), *(["{dataset}"] if "dataset" in self.settings else [])]

    def measure(self) -> TrialMeasure:
        """Return what measures a point, with the training loader already found."""
        workers = self.listed["start"]["workers"]
        command = tuple(self.command(workers))
        experiment = build_experiment({"network": command_label(command), **self.settings}, None, command)
        place = TrialPlace(self.store, guard=TrialGuard(), rule=TrialRule())
        found = TrialMeasure(experiment, place)
        found.first()
        return found


def make_files(folder: Path) -> Path:
    if not folder.exists():
        folder.mkdir(parents=True)
        data = random.Random(0).randbytes(FILE_BYTES)
        for number in range(FILES):
            (folder / f"{number:05d}.bin").write_bytes(data)
    return folder


def trial(measure: TrialMeasure, arguments: LoaderArguments) -> dict[str, Any]:
    """Return one measured point: its time per minibatch, or why there is none; and the load average."""
    try:
        found = {"s": measure(arguments).e2e_s}
    except EdgetrainError as error:
        found = {"s": None, "why": str(error)}
    return {**found, "load": os.getloadavg()[0]}


def score(script: Script, listed: dict[str, Any], kept: Kept) -> dict[str, Any]:
    """Measure grid, `tune` and the final repeats of one script."""
    name = script.name
    grid = points(listed["grid"])
    assert len(grid) == listed["points"]
    measure = script.measure()
    order = random.Random(name).sample(range(len(grid)), len(grid))
    seen = {}
    for place in order:
        found = kept.get(f"{name}|grid|{grid[place]}", lambda at=place: trial(measure, grid[at]))
        seen[place] = found["s"]
        print(name, grid[place], found, flush=True)
    workers = script.listed["start"]["workers"]

    def answer() -> dict[str, Any]:
        began_s = time.monotonic()
        result = tune(script.command(workers), store=script.store, trials=listed["most_trials"], **script.settings)
        return {
            "best": {name: value for name, value in asdict(result.best).items() if name != "power_mode"},
            "start": {name: value for name, value in asdict(result.baseline.setting).items() if name != "power_mode"},
            "gain": asdict(result.gain_pct),
            "trials": sum(row.state != "refused" for row in result.trials),
            "notes": result.notes,
            "took_s": time.monotonic() - began_s,
            "load": os.getloadavg()[0],
        }

    found = kept.get(f"{name}|tune", answer)
    print(name, found, flush=True)
    best, start = LoaderArguments(**found["best"]), LoaderArguments(**found["start"])
    fastest = sorted((at for at in seen if seen[at] is not None), key=lambda at: seen[at])[:TOP]
    rivals = list(dict.fromkeys([start, best, *(grid[at] for at in fastest)]))
    times: dict[LoaderArguments, list[float]] = {one: [] for one in rivals}
    for repeat in range(listed["repeats"]):
        for one in rivals:
            again = kept.get(f"{name}|final|{repeat}|{one}", lambda what=one: trial(measure, what))
            print(name, repeat, one, again, flush=True)
            if again["s"] is not None:
                times[one].append(again["s"])
    medians = {one: statistics.median(values) for one, values in times.items() if values}
    limit = min(medians.values())
    return {
        "script": name,
        "start": str(start),
        "start_ms": 1e3 * medians[start],
        "answer": str(best),
        "answer_ms": 1e3 * medians[best],
        "best": str(min(medians, key=lambda one: medians[one])),
        "best_ms": 1e3 * limit,
        "above_best_pct": 100 * (medians[best] / limit - 1),
        "faster_than_start_pct": 100 * (1 - medians[best] / medians[start]),
        "gain": found["gain"],
        "trials": found["trials"],
        "took_s": found["took_s"],
        "spread_pct": 100 * max((max(v) - min(v)) / statistics.median(v) for v in times.values() if len(v) > 1),
        "grid_failed": sum(value is None for value in seen.values()),
    }


def limit_memory(size: str) -> None:
    """Put this process and all it starts into a memory group with a hard limit."""
    GROUP.mkdir(exist_ok=True)
    (GROUP / "memory.limit_in_bytes").write_text(str(parse_bytes(size)))
    (GROUP / "cgroup.procs").write_text(str(os.getpid()))


def oom_kills() -> int:
    """Return how often the kernel killed a process of the group for memory."""
    words = (GROUP / "memory.oom_control").read_text().split()
    return int(words[words.index("oom_kill") + 1])


def tune_once(script: Script, workers: int, trials: int) -> Sequence[TuneTrial]:
    """Tune a script that begins with this number of workers."""
    return tune(script.command(workers), store=script.store, trials=trials, **script.settings).trials


def count_oom(
    listed: dict[str, Any],
    folder: Path,
    kept: Kept,
    kills_so_far: Callable[[], int] = oom_kills,
    search: Callable[[Script, int, int], Sequence[TuneTrial]] = tune_once,
) -> dict[str, Any]:
    """Tune under the memory limit from several starts; count trials and kills."""
    script = Script("ram_limited", listed["scripts"]["ram_limited"], folder)
    trials, refused, kills = 0, 0, 0
    for start in itertools.cycle(listed["oom"]["starts"]):
        if trials >= listed["oom"]["trials"]:
            break

        def once(workers: int = start) -> dict[str, Any]:
            # Kills are kept with the entry, and of a search that failed too: a session that goes on counts from zero.
            before, why = kills_so_far(), None
            rows: Sequence[TuneTrial] = ()
            try:
                rows = search(script, workers, listed["most_trials"])
            except EdgetrainError as error:
                why = str(error)
            ran = sum(row.state != "refused" for row in rows)
            return {"ran": max(1, ran), "refused": len(rows) - ran, "kills": kills_so_far() - before, "why": why}

        found = kept.get(f"oom|{trials}|{start}", once)
        trials, refused, kills = trials + found["ran"], refused + found["refused"], kills + found["kills"]
        print("oom", start, found, "kills", kills, flush=True)
    return {"trials": trials, "refused": refused, "kills": kills}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", help="one script of tune.yaml, or oom")
    parser.add_argument("--output", type=Path, default=Path("build/tune.json"))
    given = parser.parse_args()
    listed = yaml.safe_load((HERE / "tune.yaml").read_text())
    given.output.parent.mkdir(parents=True, exist_ok=True)
    kept = Kept(given.output)
    folder = Path(tempfile.gettempdir()) / "edgetrain-bench-tune"
    names = [*listed["scripts"], "oom"] if given.only is None else [given.only]
    for name in names:
        # A group of its own for each: a process cannot lift a limit that its parent has.
        child = os.fork()
        if child == 0:
            status = 1
            try:
                limit = listed["scripts"]["ram_limited" if name == "oom" else name].get("memory_limit")
                if limit:
                    limit_memory(limit)
                if name == "oom":
                    kept.get("score|oom", lambda now=kept: count_oom(listed, folder, now))
                else:
                    script = Script(name, listed["scripts"][name], folder)
                    kept.get(f"score|{name}", lambda one=script, now=kept: score(one, listed, now))
                status = 0
            except Exception:
                traceback.print_exc()
            finally:
                os._exit(status)
        _, status = os.waitpid(child, 0)
        kept = Kept(given.output)
        print(name, "status", status, json.dumps(kept.values.get(f"score|{name}"), indent=1), flush=True)


if __name__ == "__main__":
    main()
