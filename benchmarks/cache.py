"""Scores the loader cache: RAM for half the dataset, the SD model, no workers; a plain loader beside it.

    python benchmarks/cache.py [--output build/cache.json]

About 8 minutes, as root (lab limits). Four settings alternately, three times: plain and `cached(read=...)` on files as
they are, plain and `cached(load=...)` with decoding and resizing. Every setting has the same memory for data: half the
dataset, and the 8 MiB of page cache that the lab cannot go below.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from edgetrain.analysis import summarize
from edgetrain.record import FolderStore
from edgetrain.runner import execute
from edgetrain.schema import build_experiment

HERE = Path(__file__).parent
FILES, REPEATS, EPOCHS = 1000, 3, 4
MIN_CACHE_BYTES = 8 << 20
MAX_READ_PCT, MAX_STALL_PCT = 52, 72


def make_pictures(folder: Path) -> int:
    """Make JPEG files of about 100 kB where there are none; return their size in all."""
    if not folder.exists():
        folder.mkdir(parents=True)
        base = np.random.default_rng(0).normal(0, 18, (600, 800, 3))
        slope = np.linspace(0, 255, 800)[None, :, None]
        pixels = Image.fromarray(np.clip(base + slope, 0, 255).astype(np.uint8))
        file = folder / "first"
        pixels.save(file, "JPEG", quality=60)
        data = file.read_bytes()
        file.unlink()
        for number in range(FILES):
            (folder / f"{number:05d}.jpg").write_bytes(data)
    return sum(entry.stat().st_size for entry in os.scandir(folder))


def train(folder: Path, store: FolderStore, decode: bool, ram_bytes: int | None, memory_bytes: int) -> dict[str, Any]:
    """Record one training; return what its later epochs read, waited and took."""
    words = [sys.executable, str(HERE / "cache_script.py"), "{dataset}", "--epochs", str(EPOCHS)]
    words += ["--decode"] if decode else []
    words += ["--ram", str(ram_bytes)] if ram_bytes else []
    page_cache = memory_bytes - (ram_bytes or 0)
    # The lab waits for as many readers as there are workers before it limits the page cache exactly.
    settings = {"dataset": str(folder), "storage": "sd", "page_cache": str(page_cache), "cache": "cold", "workers": 0}
    experiment = build_experiment({"network": "cache", **settings}, None, tuple(words))
    done = execute(experiment, "host", store, stdout=sys.stderr.fileno())
    assert done.status == 0, done.run
    summary = summarize(store.open(done.run))
    later = summary.epochs[1:]
    return {
        "read_bytes": statistics.fmean(epoch.read_bytes or 0 for epoch in later),
        "stall_s": statistics.fmean(epoch.fetch_stall_s or 0.0 for epoch in later),
        "e2e_s": statistics.fmean(epoch.e2e_s for epoch in later),
        "load": os.getloadavg()[0],
        "doubts": [doubt.text for doubt in summary.doubts],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=Path("build/cache.json"))
    given = parser.parse_args()
    work = Path(tempfile.gettempdir()) / "edgetrain-bench-cache"
    folder, store = work / "pictures", FolderStore(work / "store")
    size = make_pictures(folder)
    half = size // 2
    memory = half + MIN_CACHE_BYTES
    settings = {
        "plain, files": (False, None),
        "cached, files": (False, half),
        "plain, decoded": (True, None),
        "cached, decoded": (True, half),
    }
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in settings}
    given.output.parent.mkdir(parents=True, exist_ok=True)
    for repeat in range(REPEATS):
        for name, (decode, ram_bytes) in settings.items():
            found[name].append(train(folder, store, decode, ram_bytes, memory))
            print(repeat, name, found[name][-1], flush=True)
            given.output.write_text(json.dumps({"dataset_bytes": size, "runs": found}, indent=1))
    middle = {
        name: {key: statistics.median(run[key] for run in runs) for key in ("read_bytes", "stall_s", "e2e_s", "load")}
        for name, runs in found.items()
    }
    for name, one in middle.items():
        print(
            f"{name}: {100 * one['read_bytes'] / size:.1f} % read, stall {one['stall_s']:.2f} s, {one['e2e_s']:.2f} s"
        )
    read_pct = 100 * middle["cached, files"]["read_bytes"] / size
    stall_pct = 100 * middle["cached, files"]["stall_s"] / middle["plain, files"]["stall_s"]
    ok = read_pct <= MAX_READ_PCT and stall_pct <= MAX_STALL_PCT
    print(f"{'holds' if ok else 'MISSED'}: {read_pct:.1f} % re-read, stall {stall_pct:.1f} % of the plain loader's")
    decoded_pct = 100 * middle["cached, decoded"]["read_bytes"] / size
    faster = middle["plain, decoded"]["e2e_s"] / middle["cached, decoded"]["e2e_s"]
    print(f"decoded: {decoded_pct:.1f} % re-read, epochs {faster:.2f} times as fast")


if __name__ == "__main__":
    main()
