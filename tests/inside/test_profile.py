"""`edgetrain profile` records scripts nobody changed, and changes nothing about them."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import venv
from pathlib import Path

import numpy as np
import pytest

from edgetrain.analysis import find_loops
from edgetrain.record import FolderStore, Table, read_run
from edgetrain.runner.command_trainee import HOOK, hook_environment
from tests.inside import records
from tests.schemas import check_document

SCRIPTS = Path(__file__).parents[1] / "scripts"
PYTHON = sys.executable


def profile(store: Path, *command: str, options: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    arguments = [PYTHON, "-m", "edgetrain", "profile", "--store", str(store), *options, "--", *command]
    return subprocess.run(arguments, capture_output=True, text=True, timeout=120)


def run_of(store: Path) -> Path:
    return FolderStore(store).locate("last")


def phases(rows: Table, loader: int) -> list[int]:
    return list(rows["phase"][rows["loader"] == loader].tolist())


def test_the_scripts_output_and_status_are_its_own_and_the_summary_goes_to_stderr(tmp_path: Path) -> None:
    bare = subprocess.run([PYTHON, str(SCRIPTS / "plain.py"), "1", "3"], capture_output=True, text=True)
    profiled = profile(tmp_path, PYTHON, str(SCRIPTS / "plain.py"), "1", "3")
    assert (profiled.returncode, profiled.stdout) == (3, bare.stdout)
    assert "fetch" in profiled.stderr
    rows = records.batches(run_of(tmp_path))
    assert phases(rows, 0) == [1] * 10
    assert phases(rows, 1) == [2] * 4
    assert records.loop(run_of(tmp_path)).parts.epoch.tolist() == [0] * 5 + [1] * 5
    manifest = json.loads((run_of(tmp_path) / "manifest.json").read_text())
    assert (manifest["state"], manifest["exit_status"]) == ("failed", 3)
    assert manifest["workload"]["parameters"] == 8 * 16 + 16 + 16 * 2 + 2
    assert manifest["loading"]["workers"] == 1


def test_with_json_stdout_is_one_document_and_the_scripts_exception_is_still_its_own(tmp_path: Path) -> None:
    profiled = profile(tmp_path, PYTHON, str(SCRIPTS / "plain.py"), "0", "raise", options=("--json",))
    assert profiled.returncode == 1
    document = json.loads(profiled.stdout)
    check_document(["profile"], document)
    assert [epoch["minibatches"] for epoch in document["epochs"]] == [5, 5]
    assert "epoch 1 right" in profiled.stderr
    assert "RuntimeError: the script's own trouble" in profiled.stderr
    for epoch in document["epochs"]:
        if epoch["stall_by"] is not None:
            assert sum(epoch["stall_by"].values()) == pytest.approx(epoch["fetch_stall_s"])


def test_loops_of_many_shapes_are_told_apart(tmp_path: Path) -> None:
    assert profile(tmp_path, PYTHON, str(SCRIPTS / "loops.py")).returncode == 0
    run = run_of(tmp_path)
    loop, rows = records.loop(run), records.batches(run)
    loader = loop.process.minibatches["loader"]
    minibatches = [np.count_nonzero(loader[loop.parts.rows] == number) for number in range(8)]
    # Accumulation, two optimizers, validation within an epoch, a pair of loaders, an endless one, features only.
    assert minibatches == [8, 4, 6, 0, 5, 0, 7, 0]
    assert loop.parts.trained is None
    assert phases(rows, 3) == [3] * 3 and phases(rows, 7) == [0] * 4
    waits = loader[loop.parts.wait_rows]
    assert np.count_nonzero(waits == 5) == 5  # the second of a pair waits within the same minibatch
    epochs = loop.parts.epoch[loader[loop.parts.rows] == 6].tolist()
    assert [len(set(epochs[start : start + 3])) for start in (0, 3, 6)] == [1, 1, 1]
    assert len(set(epochs)) == 3  # each pass over an endless loader is an epoch
    joined, _ = records.joined(run)
    assert len(joined["batch"]) == len(rows["batch"])


def test_training_in_child_processes_is_recorded_process_by_process(tmp_path: Path) -> None:
    profiled = profile(tmp_path, PYTHON, str(SCRIPTS / "family.py"), options=("--json",))
    assert profiled.returncode == 0, profiled.stderr
    run = run_of(tmp_path)
    loops = find_loops(read_run(run))
    assert sorted(len(loop.parts) for loop in loops) == [3, 4, 5, 6]
    assert len(list(run.glob("minibatches-*.ets"))) == 4
    assert all(loop.parts.trained is None for loop in loops)
    document = json.loads(profiled.stdout)
    check_document(["profile"], document)
    assert sorted(process["minibatches"] for process in document["processes"]) == [3, 4, 5, 6]


def test_a_python_without_edgetrain_is_entered_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTHONPATH", raising=False)  # it may name our source folder
    other = tmp_path / "other"
    venv.create(other, with_pip=False, symlinks=True)
    libraries = tmp_path / "libraries"
    libraries.mkdir()
    for entry in Path(np.__file__).parents[1].iterdir():
        if "edgetrain" not in entry.name and entry.suffix != ".pth":
            (libraries / entry.name).symlink_to(entry)
    (site,) = other.glob("lib/python*/site-packages")
    (site / "libraries.pth").write_text(f"{libraries}\n")
    python = str(other / "bin" / "python")
    found = subprocess.run([python, "-c", "import torch, edgetrain"], capture_output=True, text=True)
    assert "No module named 'edgetrain'" in found.stderr
    store = tmp_path / "store"
    profiled = profile(store, python, str(SCRIPTS / "plain.py"), "1", "0")
    assert profiled.returncode == 0, profiled.stderr
    rows, _ = records.joined(run_of(store))
    assert phases(rows, 0) == [1] * 10
    assert records.facts(run_of(store))["executable"] == python


def test_a_sitecustomize_of_the_users_still_runs(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.users_own = 'here'\n")
    env = hook_environment(tmp_path, "async", {**os.environ, "PYTHONPATH": str(tmp_path)})
    command = "import sys, sitecustomize; print(sys.users_own, sitecustomize.__file__)"
    said = subprocess.run([PYTHON, "-c", command], env=env, capture_output=True, text=True)
    assert said.stdout.split() == ["here", str(tmp_path / "sitecustomize.py")], said.stderr


@pytest.mark.parametrize("version", ["3.8", "3.9", "3.13"])
def test_what_enters_training_is_understood_by_old_and_new_pythons(version: str, tmp_path: Path) -> None:
    candidates = [
        shutil.which(f"python{version}"),
        *map(str, Path.home().glob(f".pyenv/versions/{version}.*/bin/python")),
    ]
    python = next((path for path in candidates if path and _works(path)), None)
    if python is None:
        pytest.skip(f"no Python {version} here")
    command = (
        "import sys; from edgetrain_inside import counters, facts, hook, loaders, place, process, session, sites\n"
        "from edgetrain_inside import accelerator, rows, steps, stream, timeline, watch, worker\n"
        "writer = stream.StreamWriter(sys.argv[1], 'workers', stream.WORKERS);"
        "c = counters.ThreadCounters(); c.begin(); print(len(c.end(1)), sites.Sites().number(sys._getframe()))"
    )
    said = subprocess.run(
        [python, "-c", command, str(tmp_path / "x.ets")],
        env=hook_environment(tmp_path, "async", os.environ),
        capture_output=True,
        text=True,
    )
    assert said.stdout.strip() == "10 0", said.stderr


def _works(python: str) -> bool:
    return subprocess.run([python, "-c", ""], capture_output=True).returncode == 0


def test_where_it_cannot_enter_the_run_says_so(tmp_path: Path) -> None:
    profiled = profile(tmp_path, PYTHON, "-I", "-c", "print('alone')", options=("--json",))
    document = json.loads(profiled.stdout)
    assert [doubt["kind"] for doubt in document["doubts"] if doubt["kind"] == "not_entered"] == ["not_entered"]
    assert document["epochs"] == []


def test_a_command_that_does_not_exist_is_a_users_mistake(tmp_path: Path) -> None:
    profiled = profile(tmp_path, "no-such-command-anywhere")
    assert profiled.returncode == 2
    assert "cannot find the command 'no-such-command-anywhere'" in profiled.stderr
    assert "Traceback" not in profiled.stderr


def test_a_signal_reaches_the_script_and_the_record_says_interrupted(tmp_path: Path) -> None:
    script = tmp_path / "waits.py"
    script.write_text(
        "import signal, sys, time\n"
        "def stop(*_):\n    print('tidied up', flush=True)\n    sys.exit(5)\n"
        "signal.signal(signal.SIGTERM, stop)\nprint('up', flush=True)\ntime.sleep(60)\n"
    )
    arguments = [PYTHON, "-m", "edgetrain", "profile", "--store", str(tmp_path / "store"), "--", PYTHON, str(script)]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        time.sleep(0.2)
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=60)
    assert (out, process.returncode) == ("tidied up\n", 5)
    manifest = json.loads((run_of(tmp_path / "store") / "manifest.json").read_text())
    assert (manifest["state"], manifest["reason"]) == ("interrupted", "the command was ended by SIGTERM")


def test_the_hook_folder_holds_nothing_but_what_enters() -> None:
    assert {path.name for path in (HOOK / "site").iterdir() if path.name != "__pycache__"} == {
        "sitecustomize.py",
        "edgetrain_inside",
    }
