"""What a user meets on a bad day: full disks, readers that have gone, a killed sampler, signals."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from edgetrain.analysis import summarize
from edgetrain.record import FolderStore

EDGETRAIN = [sys.executable, "-m", "edgetrain"]
SIMULATED = ("run", "lenet5", "--device", "sim:orin-agx", "--epochs", "1", "--minibatches", "20")
FILL = """
import os, sys
with open(os.path.join(os.environ["EDGETRAIN_RUN"], "..", "fill"), "wb", buffering=0) as file:
    try:
        while True:
            file.write(bytes(1 << 16))
    except OSError:
        pass
sys.exit(3)
"""
KILL_SAMPLER = """
import json, os, signal, sys, time
path = os.path.join(os.environ["EDGETRAIN_RUN"], "sampler.json")
while not os.path.exists(path):
    time.sleep(0.05)
os.kill(json.load(open(path))["pid"], signal.SIGKILL)
time.sleep(0.5)
sys.exit(5)
"""
full = pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full")


@pytest.fixture
def env(tmp_path: Path) -> Mapping[str, str]:
    return {**os.environ, "EDGETRAIN_STORE": str(tmp_path / "store"), "EDGETRAIN_SIM_HOME": str(tmp_path / "sim")}


def run(env: Mapping[str, str], *words: str, **more: Any) -> subprocess.CompletedProcess[str]:
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **more}
    return subprocess.run([*EDGETRAIN, *words], env=env, text=True, **streams)


@full
@pytest.mark.parametrize("words", [("--version",), ("devices",), ("devices", "--json")])
def test_a_full_stdout_is_said_in_one_line(env: Mapping[str, str], words: tuple[str, ...]) -> None:
    with open("/dev/full", "w") as nowhere:
        done = run(env, *words, stdout=nowhere)
    assert (done.returncode, done.stderr) == (1, "edgetrain: cannot write the output: No space left on device\n")


@full
def test_a_full_stderr_does_not_end_a_run(env: Mapping[str, str]) -> None:
    with open("/dev/full", "w") as nowhere:
        done = run(env, *SIMULATED, "--json", stderr=nowhere)
    assert done.returncode == 0 and json.loads(done.stdout)["state"] == "finished"


def test_a_reader_that_has_gone_is_not_an_error(env: Mapping[str, str]) -> None:
    read, write = os.pipe()
    os.close(read)
    done = run(env, "devices", stdout=write)
    os.close(write)
    assert (done.returncode, done.stderr) == (0, "")


@full
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_profiled_command_keeps_its_status_where_the_summary_cannot_be_written(
    env: Mapping[str, str], unbuffered: str
) -> None:
    with open("/dev/full", "w") as nowhere:
        done = run(
            {**env, "PYTHONUNBUFFERED": unbuffered}, "profile", "--json", "--", "sh", "-c", "exit 7", stdout=nowhere
        )
    assert done.returncode == 7 and "No space left" in done.stderr and "Traceback" not in done.stderr


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=20m", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True).returncode:
        pytest.skip("needs the right to mount a small disk")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_store_that_fills_up_does_not_change_the_status_of_the_command(
    env: Mapping[str, str], small_disk: Path
) -> None:
    store = small_disk / "store"
    done = run(env, "profile", "--store", str(store), "--", sys.executable, "-c", FILL)
    assert done.returncode == 3 and "Traceback" not in done.stderr
    kinds = {doubt.kind for doubt in summarize(FolderStore(store).open("last")).doubts}
    assert {"store_full", "failed"} <= kinds


def test_a_simulated_run_that_cannot_be_recorded_fails_with_the_reason(env: Mapping[str, str]) -> None:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, 60_000))

    run(env, "modes", "list", "--device", "sim:orin-agx")  # builds the board
    words = ("run", "lenet5", "--device", "sim:orin-agx", "--epochs", "2")
    done = run(env, *words, preexec_fn=limit)
    assert done.returncode == 1 and "File too large" in done.stderr and "Traceback" not in done.stderr
    manifest = FolderStore(env["EDGETRAIN_STORE"]).manifest("last")
    assert manifest.state == "failed" and "File too large" in (manifest.reason or "")


def test_a_killed_sampler_is_a_doubt_and_not_an_overhead(env: Mapping[str, str]) -> None:
    done = run(env, "profile", "--json", "--", sys.executable, "-c", KILL_SAMPLER)
    assert done.returncode == 5
    document = json.loads(done.stdout)
    assert "sampler_died" in {doubt["kind"] for doubt in document["doubts"]}
    assert document["overhead"]["sampler_cpu_share"] is None
    assert document["overhead_pct"] is None or document["overhead_pct"] < 100


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_restores_the_mode_of_a_simulated_board(env: Mapping[str, str], number: signal.Signals) -> None:
    words = ("run", "lenet5", "--device", "sim:orin-agx", "--epochs", "2000", "--power-mode", "MODE_30W")
    child = subprocess.Popen([*EDGETRAIN, *words], env=env, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    runs = Path(env["EDGETRAIN_STORE"]) / "runs"
    while not list(runs.glob("*/minibatches-0.ets")):
        assert child.poll() is None
        time.sleep(0.05)
    child.send_signal(number)
    assert child.wait(60) == 128 + number
    modes = json.loads(run(env, "modes", "list", "--device", "sim:orin-agx", "--json").stdout)
    assert [mode["name"] for mode in modes["stock"] if mode["active"]] == ["MAXN"] and modes["held"] is None


def test_escapes_in_names_do_not_reach_the_terminal(env: Mapping[str, str], tmp_path: Path) -> None:
    red = "\x1b[31mred"
    (tmp_path / f"{red}.csv").write_text("cores,cpu_khz,time_ms,power_mw\n2,729600,50,9.1\n4,729600,40,12.5\n")
    (tmp_path / "plan.yaml").write_text('name: "\\e[31mred"\nnetwork: "\\e[2Jlenet5"\n')
    commands = (
        ("sensitivity", str(tmp_path / f"{red}.csv")),
        ("import", str(tmp_path / f"{red}.csv"), "--network", red),
        ("campaign", str(tmp_path / "plan.yaml"), "--dry-run"),
        ("ls", red),
        ("show", red),
    )
    for words in commands:
        done = run(env, *words)
        assert "red" in done.stdout + done.stderr or "lenet5" in done.stderr
        assert "\x1b" not in done.stdout + done.stderr, words
