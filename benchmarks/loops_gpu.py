"""An ImageNet-style script, a Hugging Face Trainer and a Lightning one compared with their own timers, on this machine.

python benchmarks/loops_gpu.py [--only imagenet] [--markdown docs/results/loops_gpu.md]
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

SCRIPTS = Path(__file__).resolve().parent / "loop_scripts"
NEEDS = {"imagenet": "torch", "hugging_face": "transformers", "lightning": "pytorch_lightning"}
WITHIN, OF_LOOP = 0.05, 0.01  # of the script's own figure; a wait also within this share of the loop's time
HEAD = (
    "| script | minibatches | its own | loop s | its own | stall s | its own wait s | hidden s | median ms | agrees |\n"
    "|---|---|---|---|---|---|---|---|---|---|"
)


def profile(name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Profile one script; return our document and its own figures."""
    with tempfile.TemporaryDirectory(prefix="edgetrain-loops-") as store:
        command = [sys.executable, "-m", "edgetrain", "profile", "--json", "--store", store, "--"]
        done = subprocess.run(
            [*command, sys.executable, str(SCRIPTS / f"{name}.py")], capture_output=True, text=True, timeout=300
        )
    lines = [line.partition("STOPWATCH ")[2] for line in done.stderr.splitlines() if "STOPWATCH " in line]
    if not lines:
        raise RuntimeError(f"{name} ended with status {done.returncode}: {done.stderr[-2000:]}")
    return json.loads(done.stdout), json.loads(lines[0])


def row(name: str) -> tuple[str, bool]:
    """Return one line of the table, and whether the figures agree."""
    document, own = profile(name)
    ours = {
        part: sum(epoch[part] or 0.0 for epoch in document["epochs"])
        for part in ("minibatches", "e2e_s", "fetch_stall_s", "hidden_wait_s")
    }
    waited_s = ours["fetch_stall_s"] + ours["hidden_wait_s"]
    agrees = (
        ours["minibatches"] == own["count"]
        and abs(ours["e2e_s"] - own["loop_s"]) <= max(WITHIN * own["loop_s"], 0.01 * own["loops"])
        and abs(waited_s - own["waited_s"]) <= max(WITHIN * own["waited_s"], OF_LOOP * own["loop_s"])
    )
    kind = (document["compute"] or {}).get("kind")
    cells = [
        f"{name} ({kind})",
        f"{ours['minibatches']:.0f}",
        str(own["count"]),
        f"{ours['e2e_s']:.3f}",
        f"{own['loop_s']:.3f}",
        f"{ours['fetch_stall_s']:.3f}",
        f"{own['waited_s']:.3f}",
        f"{ours['hidden_wait_s']:.3f}",
        f"{document['minibatch']['median_ms']:.2f}",
        "yes" if agrees else "**no**",
    ]
    return f"| {' | '.join(cells)} |", agrees


def main() -> int:
    """Run the scripts whose libraries are here and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=sorted(NEEDS), help="one script, repeatable")
    parser.add_argument("--markdown", type=Path)
    options = parser.parse_args()
    import importlib.util

    rows, good, missing = [], 0, []
    for name in options.only or NEEDS:
        if importlib.util.find_spec(NEEDS[name]) is None:
            missing.append(f"{name} ({NEEDS[name]} is not installed)")
            continue
        line, agrees = row(name)
        rows.append(line)
        good += agrees
        print(line, flush=True)
    lines = [
        "# Scripts compared with their own timers",
        "",
        f"**{good} of {len(rows)} scripts agree within 5 %, waits within 1 % of the loop's time.**",
        "",
        HEAD,
        *rows,
        "",
    ]
    lines += [f"Left out: {', '.join(missing)}.", ""] if missing else []
    lines.append(
        f"`python benchmarks/loops_gpu.py`, {time.strftime('%Y-%m-%d', time.gmtime())}, Python "
        f"{platform.python_version()}. The scripts wait for the accelerator after each step; their wait is our stall "
        "and hidden wait together."
    )
    print("\n".join(lines))
    if options.markdown:
        options.markdown.write_text("\n".join(lines) + "\n")
    return 0 if good == len(rows) else 1


if __name__ == "__main__":
    sys.exit(main())
