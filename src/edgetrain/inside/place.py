"""Makes a run directory for a script that was not started by `profile` or `run`, with the layout of the store."""

from __future__ import annotations

import os
import platform
import re
import sys
import time
from typing import Any

from . import stream


def store() -> str:
    """Return the folder named by EDGETRAIN_STORE, else the user's own."""
    named = os.environ.get("EDGETRAIN_STORE")
    return os.path.expanduser(named or os.path.join("~", ".local", "share", "edgetrain"))


def make_run(name: str) -> tuple[str, dict[str, Any]]:
    """Make a run directory; return its path and manifest."""
    label = re.sub(r"[^A-Za-z0-9_.]+", "-", os.path.splitext(name)[0]).strip("-.")[:32] or "run"
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime())
    runs = os.path.join(store(), "runs")
    os.makedirs(runs, exist_ok=True)
    while True:
        run = "%s-%s-%s" % (stamp, label, os.urandom(2).hex())
        path = os.path.join(runs, run)
        try:
            os.mkdir(path)
            break
        except FileExistsError:
            continue
    manifest = {
        "schema": "edgetrain/1",
        "run": run,
        "state": "running",
        "origin": "measured",
        "started_wall": time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime()),
        "clock": {"start": {"monotonic_us": stream.now_us(), "wall_s": time.time()}, "end": None},
        "command": list(sys.argv),
        "workload": {"network": label},
        "loading": None,
        "timing": "async",
        "device": {"name": "host", "kind": "host", "model": None, "kernel": platform.release()},
        "power": None,
        "power_reason": "a loop watched from inside has no telemetry; use edgetrain profile for it",
        "doubts": [],
        "losses": [],
    }
    stream.write_json(os.path.join(path, "manifest.json"), manifest)
    return path, manifest
