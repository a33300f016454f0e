"""`make torture`: every heavy count in full; writes docs/results/torture.md with seed and duration.

Each module in tests/torture offers `run(count, seed)`, which raises on failure and returns what it found, and `FULL`.
One area in full renews its row of the page: python benchmarks/torture.py --only record
A share of the counts is only printed: python benchmarks/torture.py --share 0.1
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


HEADS = ("area", "count", "verdict", "took", "date", "what happened")


def rows_of_page() -> dict[str, str]:
    """Return the rows of the present page by their area."""
    rows = {}
    for line in RESULT.read_text(encoding="utf-8").splitlines() if RESULT.is_file() else ():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| ") and len(cells) == len(HEADS) and cells[0] != HEADS[0]:
            rows[cells[0]] = line
    return rows


def page(rows: dict[str, str], seed: int) -> str:
    """Return the result page: verdict, one table, command."""
    failed = [area for area, row in rows.items() if "| held |" not in row]
    missing = [area for area in areas() if area not in rows]
    not_run = f"; not run: {', '.join(missing)}" if missing else ""
    verdict = f"**Failed: {', '.join(failed)}{not_run}.**" if failed else f"**All {len(rows)} areas held{not_run}.**"
    return "\n".join(
        [
            "# Fault injection",
            "",
            verdict,
            "",
            f"| {' | '.join(HEADS)} |",
            "|" + "---|" * len(HEADS),
            *(rows[area] for area in sorted(rows)),
            "",
            f"`make torture` (seed {seed}, the full counts); one area: `python benchmarks/torture.py --only AREA`."
            f" Python {platform.python_version()}, {platform.machine()}.",
            "",
        ]
    )


def main() -> int:
    """Run what was asked for; return 1 if anything failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", help="one area, repeatable; its row of the page is renewed")
    parser.add_argument("--share", type=float, default=1.0, help="of the full counts; less than 1 is only printed")
    parser.add_argument("--seed", type=int, default=20)
    parser.add_argument("--print", action="store_true", help="print instead of writing docs/results/torture.md")
    options = parser.parse_args()
    known = areas()
    if unknown := set(options.only or ()) - set(known):
        parser.error(f"there is no area {', '.join(sorted(unknown))}; known: {', '.join(known)}")
    rows = rows_of_page() if options.only else {}
    failed = 0
    for name, (run, full) in known.items():
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
        cells = (name, f"{count}", verdict, f"{took:.0f} s", time.strftime("%Y-%m-%d", time.gmtime()))
        rows[name] = f"| {' | '.join(cells)} | {' '.join(text.replace('|', '/').split())} |"
        if options.share == 1 and not options.print:  # after every area: a run that is cut off leaves what it had
            RESULT.write_text(page(rows, options.seed), encoding="utf-8")
    if options.share != 1 or options.print:
        print(page(rows, options.seed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
