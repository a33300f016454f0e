"""The commands of docs/tutorial.md run as written, on a simulated board."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "tutorial.md"


def test_the_tutorial_runs_from_top_to_bottom(tmp_path):
    blocks = re.findall(r"```console\n(.*?)```", PAGE.read_text(), re.S)
    commands = [line for block in blocks for line in block.splitlines() if line]
    assert len(commands) >= 10
    places = {"EDGETRAIN_STORE": "store", "EDGETRAIN_SIM_HOME": "sim", "XDG_STATE_HOME": "state"}
    env = {**os.environ, **{name: str(tmp_path / place) for name, place in places.items()}}
    for command in commands:
        words = [sys.executable, "-m", "edgetrain", *shlex.split(command)[1:]]
        done = subprocess.run(words, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=240)
        assert done.returncode == 0, f"{command}: {done.stderr[-1500:]}"
    made = {"report.html", "minibatches.csv", "samples.csv", "trace.json", "edgetrain.prom"}
    assert made <= {file.name for file in tmp_path.iterdir()}
