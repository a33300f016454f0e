"""How large a record is and how fast it shows: ten million minibatches with their workers' columns.

    python benchmarks/size.py [--minibatches 10000000] [--repeats 9] [--markdown docs/results/size.md]

Writes the record with the writer that real runs use, a frame a second as a real run at 1 ms a minibatch would, then
times `edgetrain show --json` on it in a fresh process. There is no cached summary to find.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from edgetrain.inside.stream import MINIBATCHES, WORKERS, StreamWriter, write_json

A_FRAME = 1000  # rows: one second of minibatches of 1 ms
AN_EPOCH = 1_000_000
MAX_BYTES, MAX_S = 50, 3  # what is promised


def write(path: Path, count: int, seed: int = 0) -> None:
    """Write a record whose instants and counters vary as those of real runs do."""
    draw = np.random.default_rng(seed)
    write_json(
        str(path / "manifest.json"),
        {"run": path.name, "state": "finished", "origin": "simulated", "workload": {"network": "lenet5"}},
    )
    main = StreamWriter(str(path / "minibatches-1.ets"), "minibatches", MINIBATCHES)
    sides = [StreamWriter(str(path / f"workers-0-{w}-{w + 2}.ets"), "workers", WORKERS) for w in range(2)]
    now = 1_000_000_000
    names = [name for name, _ in WORKERS]
    for start in range(0, count, A_FRAME):
        rows = min(A_FRAME, count - start)
        # A lognormal tail: now and then a wait of many milliseconds widens the columns of its frame.
        gaps = (900 + draw.lognormal(5, 1.2, rows)).astype(int)
        asked = now + np.cumsum(gaps)
        now = int(asked[-1])
        ready = asked + draw.lognormal(5, 1.5, rows).astype(int)
        batch = np.arange(start, start + rows)
        worker = {name: np.zeros(rows, int) for name in names}
        worker["generation"] = np.full(rows, start // AN_EPOCH)
        worker["batch"], worker["worker"] = batch % AN_EPOCH, batch % 2
        worker["began_us"] = asked - 2900 + draw.integers(0, 200, rows)
        worker["fetched_us"] = worker["began_us"] + draw.lognormal(7.2, 0.3, rows).astype(int)
        worker["shipped_us"] = worker["fetched_us"] + draw.integers(60, 400, rows)
        worker["pickled_us"] = worker["fetched_us"] + draw.integers(20, 60, rows)
        for name, most in (("cpu_us", 1500), ("system_us", 300), ("queued_us", 200), ("read_bytes", 200_000)):
            worker[name] = draw.integers(0, most, rows)
        for name, most in (("switches", 12), ("collate_us", 90), ("feeder_cpu_us", 80), ("waking_us", 60)):
            worker[name] = draw.integers(0, most, rows)
        launched = ready + draw.integers(150, 280, rows)
        main_rows = {
            "loader": np.zeros(rows, int), "generation": worker["generation"], "epoch": worker["generation"],
            "batch": worker["batch"], "phase": np.ones(rows, int), "asked_us": asked, "ready_us": ready,
            "copied_us": ready + draw.integers(10, 40, rows), "launched_us": launched, "done_us": launched + 300,
            "copying_us": ready + 2, "sent_us": asked - 3000, "worker": worker["worker"],
            "samples": np.full(rows, 16), "queued_us": draw.integers(0, 30, rows),
            "cpu_us": draw.integers(0, 100, rows), "thread": np.zeros(rows, int), "site": np.zeros(rows, int),
            "forwards": np.full(rows, 212), "forwards_after": np.zeros(rows, int), "backwards": np.ones(rows, int),
            "steps": np.ones(rows, int), "other_steps": np.zeros(rows, int),
        }  # fmt: skip
        columns = [main_rows[name].tolist() if name in main_rows else [None] * rows for name, _ in MINIBATCHES]
        for row in zip(*columns, strict=True):
            main.add(row)
        if (start + rows) % AN_EPOCH == 0:
            end = dict.fromkeys((name for name, _ in MINIBATCHES), None)
            end |= {"loader": 0, "generation": start // AN_EPOCH, "epoch": start // AN_EPOCH, "phase": 0, "site": 0}
            end |= {"asked_us": now + 400, "ready_us": now + 9000, "thread": 0, "backwards": 0, "steps": 0}
            main.add(tuple((end | {"other_steps": 0}).values()))
            now += 10_000
        for row in zip(*(worker[name].tolist() for name in names), strict=True):
            sides[row[3]].add(row)
        for writer in (main, *sides):
            writer.flush()
    for writer in (main, *sides):
        writer.close()


def main() -> None:
    """Print bytes a minibatch and the seconds that `show` takes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minibatches", type=int, default=10_000_000)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--markdown", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "long"
        path.mkdir()
        write(path, options.minibatches)
        size = sum(os.path.getsize(file) for file in path.glob("*.ets")) / options.minibatches
        times = []
        for _ in range(options.repeats):
            began = time.monotonic()
            shown = subprocess.run(
                [sys.executable, "-m", "edgetrain", "show", str(path), "--json"], capture_output=True, check=True
            )
            times.append(time.monotonic() - began)
            document = json.loads(shown.stdout)
            assert sum(epoch["minibatches"] for epoch in document["epochs"]) == options.minibatches
    median = sorted(times)[len(times) // 2]
    kept = size <= MAX_BYTES and median <= MAX_S
    lines = [
        "# How large a long record is, and how fast it shows\n",
        f"`{' '.join(['python', *sys.argv])}` on {os.cpu_count()} cores, Linux {platform.release()}, "
        f"Python {platform.python_version()}, numpy {np.__version__}.\n",
        "| minibatches | bytes each, with workers' columns | `show --json`, no cached summary: median (range) | kept |",
        "|---|---|---|---|",
        f"| {options.minibatches:,} | {size:.1f} (≤ {MAX_BYTES}) | {median:.2f} s ({min(times):.2f}–{max(times):.2f}, "
        f"{len(times)} fresh processes) | {'yes' if kept else '**no**'}, ≤ {MAX_S} s |",
        "",
        "The first process of a while pays for memory that a virtual machine has yet to get from its host: "
        + ", ".join(f"{seconds:.2f}" for seconds in times) + " s in the order they ran.",
    ]  # fmt: skip
    print("\n".join(lines))
    if options.markdown:
        options.markdown.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
