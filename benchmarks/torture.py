"""`make torture`: every heavy count in full; writes docs/results/torture.md with seed and duration.

Each module in tests/torture offers `run(count, seed)`, which raises on failure and returns what it found, and `FULL`.
One area, or a share of the counts: python benchmarks/torture.py --only record --share 0.1
"""

from __future__ import annotations

import argparse
import importlib
import pkgutil
import platform
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
RESULT = ROOT / "docs" / "results" / "torture.md"


def areas() -> dict[str, tuple[Callable[[int, int], str], int]]:
    """Return every torture by name, with its full count: the modules of tests/torture that have `run` and `FULL`."""
    package = importlib.import_module("tests.torture")
    names = sorted(name for _, name, _ in pkgutil.iter_modules(package.__path__))
    modules = [importlib.import_module(f"tests.torture.{name}") for name in names]
    return {
        module.__name__.rpartition(".")[2]: (module.run, module.FULL)
        for module in modules
        if hasattr(module, "run") and hasattr(module, "FULL")
    }


def main() -> int:
    """Run what was asked for; return 1 if anything failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", action="append", help="one area, repeatable")
    parser.add_argument("--share", type=float, default=1.0, help="of the full counts")
    parser.add_argument("--seed", type=int, default=20)
    parser.add_argument("--print", action="store_true", help="print instead of writing docs/results/torture.md")
    options = parser.parse_args()
    lines, failed = [], 0
    for name, (run, full) in areas().items():
        if options.only and name not in options.only:
            continue
        count = max(1, round(full * options.share))
        began = time.monotonic()
        print(f"{name}: {count} …", file=sys.stderr, flush=True)
        try:
            text = run(count, options.seed)
            verdict = "held"
        except Exception as error:
            traceback.print_exc()
            text, verdict, failed = f"{type(error).__name__}: {error}", "FAILED", failed + 1
        took = time.monotonic() - began
        print(f"{name}: {verdict} in {took:.0f} s: {text}", file=sys.stderr, flush=True)
        lines.append(f"| {name} | {count} | {verdict} | {took:.0f} s | {text} |")
    share = "" if options.share == 1 else f"{options.share:g} of "
    page = "\n".join(
        [
            "# Torture",
            "",
            f"`make torture` (seed {options.seed}, {share}the full counts), "
            f"Python {platform.python_version()}, {platform.machine()}, {time.strftime('%Y-%m-%d', time.gmtime())}.",
            "",
            "| area | count | verdict | took | what happened |",
            "|---|---|---|---|---|",
            *lines,
            "",
        ]
    )
    if options.print or options.only:
        print(page)
    else:
        RESULT.parent.mkdir(parents=True, exist_ok=True)
        RESULT.write_text(page)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
