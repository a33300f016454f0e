"""Compares `edgetrain profile` with each script's own timer, on loops of every shape.

    python benchmarks/loops.py [--only NAME] [--markdown docs/results/loops.md]

The scripts are in tests/loops/scripts; fetches and steps are sleeps. A shape that disagrees is tried once more.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.loops.shapes import HEAD, SHAPES, run_shape  # noqa: E402  (with the repository's root)


def main() -> int:
    """Run the shapes and print a table; return 1 if one disagrees."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", help="one shape, repeatable")
    parser.add_argument("--markdown", type=Path)
    options = parser.parse_args()
    rows, wrong, again, missing = [], 0, 0, []
    for shape in SHAPES:
        if options.only and shape.name not in options.only:
            continue
        if shape.missing():
            missing.append(shape.name)
            continue
        outcome = run_shape(shape)
        if outcome.faults:
            again += 1
            outcome = run_shape(shape)
        wrong += bool(outcome.faults)
        rows.append(outcome.row())
        print(rows[-1], flush=True)
    import torch

    verdict = f"{len(rows) - wrong} of {len(rows)} shapes agree, {again} of them tried twice."
    lines = [
        "# Loops of every shape compared with their own timers",
        "",
        f"**{verdict}**",
        "",
        "Counts must be equal; loop time and waiting within 5 %, or 10 ms per epoch. On a CPU no wait is hidden.",
        *([f"Not installed here, so left out: {', '.join(missing)}."] if missing else []),
        "",
        HEAD,
        *rows,
        "",
        f"`python benchmarks/loops.py`, {time.strftime('%Y-%m-%d', time.gmtime())}, {os.cpu_count()} cores, Python "
        f"{platform.python_version()}, torch {torch.__version__}.",
    ]
    print(f"\n{verdict}")
    if options.markdown:
        options.markdown.write_text("\n".join(lines) + "\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
