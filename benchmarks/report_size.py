"""How large the page of a long run is, and how long it takes to write: a million minibatches, every sensor of a board.

    python benchmarks/report_size.py [--minibatches 1000000] [--repeats 3]

The run is recorded on a simulated AGX Orin, whose power rails, clocks, loads, temperatures and fan are sampled as on a
board; then `edgetrain report` is timed in a fresh process.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

EPOCHS = 10
MAX_MB, MAX_S = 6.0, 10.0  # what is required, and the aim


def main() -> int:
    """Record the run, write its page, print a line of the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minibatches", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--store", type=Path, help="keep the run in this store and use it again")
    options = parser.parse_args()
    edgetrain = [sys.executable, "-m", "edgetrain"]
    with tempfile.TemporaryDirectory(prefix="edgetrain-report-") as folder:
        store = options.store or Path(folder) / "store"
        if not list(store.glob("runs/*")):
            command = ["run", "lenet5", "--device", "sim:orin-agx", "--epochs", str(EPOCHS), "--workers", "2"]
            command += ["--minibatches", str(options.minibatches // EPOCHS), "--dataset-scale", "30"]
            subprocess.run([*edgetrain, *command, "--store", str(store)], check=True, stdout=subprocess.DEVNULL)
        (run,) = store.glob("runs/*")
        size_mb = sum(os.path.getsize(file) for file in run.iterdir()) / 1e6
        page, took_s = Path(folder) / "page.html", []
        for _ in range(options.repeats):
            began = time.monotonic()
            subprocess.run([*edgetrain, "report", "last", "-o", str(page), "--store", str(store)], check=True)
            took_s.append(time.monotonic() - began)
        page_mb = page.stat().st_size / 1e6
        streams = len(list(run.glob("samples-*.ets")))
    median_s = statistics.median(took_s)
    print("| minibatches | streams of sensors | record | page (< 6 MB) | written in, median (range) (≤ 10 s) |")
    print("|---|---|---|---|---|")
    print(
        f"| {options.minibatches:,} | {streams} | {size_mb:.1f} MB | {page_mb:.2f} MB | {median_s:.1f} s "
        f"({min(took_s):.1f}–{max(took_s):.1f}, {len(took_s)} processes) |"
    )
    print(f"{os.cpu_count()} cores, Linux {platform.release()}, Python {platform.python_version()}")
    return 0 if page_mb < MAX_MB and median_s <= MAX_S else 1


if __name__ == "__main__":
    sys.exit(main())
