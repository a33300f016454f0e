"""The sampler beside a board whose registers take their time."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from edgetrain.device import open_simulated
from edgetrain.record.decoder import read_stream


def test_the_sampler_reads_a_live_board_once_per_window_and_accounts_for_itself(tmp_path: Path) -> None:
    open_simulated("orin-nano", tmp_path / "board")
    run = tmp_path / "run"
    run.mkdir()
    watched = subprocess.Popen(["sleep", "4"])
    command = [sys.executable, "-m", "edgetrain.sampling", "--run", str(run)]
    command += ["--device", f"sim:orin-nano+live@{tmp_path / 'board'}", "--watch-pid", str(watched.pid)]
    subprocess.run(command, check=True, timeout=60)
    watched.wait()
    account = json.loads((run / "sampler.json").read_text())
    rails = read_stream(run / "samples-rails.ets").table
    assert 6 <= len(rails["at_us"]) <= 2.2 * 4 / 0.43
    assert 5.0 < float(rails["VDD_IN_w"].mean()) < 9.0
    # Six registers of 0.55 ms every 430 ms are 0.8 %; the bound allows for a busy machine.
    assert account["per_probe"]["rails"]["mean_s"] >= 6 * 0.00055
    assert account["read_wall_share"] < 0.1 and account["reads_failed"] == {}
