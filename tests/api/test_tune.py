"""`tune` on scripts nobody changed: the setting it finds, what it refuses to touch, and what it says of bad input."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from edgetrain.api import open_run, tune
from edgetrain.api.trial_measure import ScriptWrites
from edgetrain.api.tuning import most_workers, trials_left
from edgetrain.cli import main
from edgetrain.errors import UsageError, WorkloadError
from edgetrain.recommendation import TuneResult
from edgetrain.report import console, show_tuned
from edgetrain.runner import TrialRule
from edgetrain.schema import LoaderArguments, LoaderMeasurement, Origin
from tests.schemas import check_document

SCRIPT = Path(__file__).parents[1] / "scripts" / "tunable.py"
PREFETCH = """
import queue, threading, torch
from torch.utils.data import DataLoader, TensorDataset
loader, batches = DataLoader(TensorDataset(torch.randn(4000, 4)), batch_size=4), queue.Queue(2)
threading.Thread(target=lambda: [batches.put(batch) for batch in loader], daemon=True).start()
network = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(network.parameters(), 0.1)
for _ in range(1000):
    optimizer.zero_grad()
    network(batches.get()[0]).sum().backward()
    optimizer.step()
"""
QUICK = TrialRule(warm_up=4, minibatches=12, seconds=0.3, limit_s=100, pass_seconds=0.2)


def measured(**more: Any) -> LoaderMeasurement:
    arguments = LoaderArguments(0, None, False, False)
    return LoaderMeasurement(
        arguments, (0.01,), 0.0, 0, 8, 0.5, None, None, None, Origin.MEASURED, False, False, "run", **more
    )


@pytest.fixture(autouse=True)
def own_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDGETRAIN_STORE", str(tmp_path / "store"))
    monkeypatch.setenv("EDGETRAIN_SIM_HOME", str(tmp_path / "sim"))


def tuned(*words: str, rule: TrialRule = QUICK, trials: int = 6, **options: Any) -> TuneResult:
    return tune([sys.executable, str(SCRIPT), *words], trials=trials, rule=rule, **options)


def test_a_script_that_waits_for_data_gets_workers_and_none_of_its_exit_handlers_runs(tmp_path: Path) -> None:
    saved, at_exit = tmp_path / "saved.pt", tmp_path / "at_exit.pt"
    result = tuned(
        *("--fetch-ms", "24", "--step-ms", "20", "--save", str(saved)),  # one worker is enough
        *("--anew", "at one place", "--samples", "24"),
        allow_writes=True,
        trial_args=f"--save-at-exit {at_exit}",
    )
    assert result.changes and result.best.workers >= 1
    gain = result.gain_pct
    assert 0 < gain.lo <= gain.value <= gain.hi
    assert result.e2e_s_per_minibatch < result.baseline.e2e_s_per_minibatch
    assert result.loader == 2  # one for validation and one that is not used were made first
    assert f"num_workers={result.best.workers}" in result.dataloader
    assert len(result.trials) <= 6
    assert [trial.role for trial in result.trials][-4:] == ["repeat"] * 4
    assert result.files_written == (str(saved),) and not at_exit.exists()
    for trial in result.trials:  # each epoch makes its loader anew, and each of them gets the arguments
        loaders = open_run(trial.run or "").main.facts.loaders[2:]
        assert len(loaders) > 1 and {one.workers for one in loaders} == {trial.setting.workers}


def test_tuning_stops_after_the_first_trial_of_a_script_that_writes(tmp_path: Path) -> None:
    saved = tmp_path / "saved.pt"
    with pytest.raises(ScriptWrites, match=r"saved\.pt.*--allow-writes") as refused:
        tuned("--save", str(saved))
    assert refused.value.files == (str(saved),)
    assert len(list((tmp_path / "store" / "runs").iterdir())) == 1


def test_a_script_that_sets_its_loader_itself_is_said_to_ignore_the_arguments() -> None:
    result = tuned("--insist")
    states = [trial.state for trial in result.trials if trial.role != "start"]
    assert states == ["ignored"]  # it is not tried again
    assert not result.changes and any("ignores arguments" in note for note in result.notes)


def test_a_trial_in_which_another_loader_trains_with_other_arguments_is_no_measurement() -> None:
    result = tuned("--anew", "at two places", "--samples", "24", "--fetch-ms", "20", "--step-ms", "2")
    tried = [trial for trial in result.trials if trial.role != "start"]
    assert [trial.state for trial in tried] == ["ignored"]
    assert "but the training used 0 workers" in str(tried[0].reason)
    assert not result.changes


def test_a_script_that_writes_later_on_in_its_first_trial_stops_tuning(tmp_path: Path) -> None:
    saved, long = tmp_path / "saved.pt", TrialRule(warm_up=4, minibatches=500, seconds=0.3, pass_seconds=0.0)
    with pytest.raises(ScriptWrites, match=r"before it changed .*saved\.pt"):
        tuned("--save", str(saved), "--save-after", "60", "--fetch-ms", "8", "--step-ms", "4", rule=long)
    assert not saved.exists()


def test_later_trials_that_end_before_the_script_writes_count_as_far_as_they_went(tmp_path: Path) -> None:
    saved, long = tmp_path / "saved.pt", TrialRule(warm_up=4, minibatches=80, seconds=0.3, pass_seconds=0.0)
    words = ("--save", str(saved), "--save-after", "60", "--save-with-workers", "--fetch-ms", "24", "--step-ms", "8")
    result = tuned(*words, rule=long, trials=6)
    assert result.trials[0].role == "start" and result.trials[0].minibatches is not None
    assert {trial.state for trial in result.trials} <= {"measured", "doubtful", "writes"}
    assert not saved.exists() and result.files_written == ()
    assert any("ended before the script changed" in note and str(saved) in note for note in result.notes)


def test_a_script_that_is_too_slow_for_a_trial_is_told_of_the_option() -> None:
    with pytest.raises(WorkloadError, match=r"within 1 s of the first one \(\d+ of at least 16; tune --trial-limit"):
        tuned("--step-ms", "300", trial_limit=1.0)


def test_a_script_that_fails_with_workers_is_left_as_it_is_and_its_words_are_shown() -> None:
    result = tuned("--fail-with-workers")
    tried = [trial for trial in result.trials if trial.role != "start"]
    assert {trial.state for trial in tried} == {"failed"}
    assert not result.changes and "cannot be shared" in (tried[0].reason or "")
    screen = console()
    with screen.capture() as shown:
        screen.print(show_tuned(result))
    assert "no other setting could be measured" in shown.get()


def test_the_workers_of_a_stream_are_never_raised() -> None:
    result = tuned("--stream")
    assert {trial.setting.workers for trial in result.trials} == {0}
    assert not result.changes and any("IterableDataset" in note for note in result.notes)


@pytest.mark.parametrize(
    ("words", "kind", "message"),
    [
        (("--without-loader",), UsageError, "uses no torch DataLoader"),
        (("--samples", "20", "--epochs", "1"), UsageError, "at least 8 are needed; give the script more epochs"),
        (("--nosuch",), WorkloadError, "fails as it is, with status 2.*unrecognized arguments"),
    ],
)
def test_what_cannot_be_tuned_is_refused_with_the_reason(words, kind, message) -> None:
    with pytest.raises(kind, match=message):
        tuned(*words)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"minimize": "cost"}, "--minimize is time or energy"),
        ({"trials": 3}, "needs at least 6"),
        ({"dry_run": True}, "give both"),
        ({"max_power_w": -1}, "above zero"),
        ({"trial_limit": 0.0}, "--trial-limit must be above zero"),
        ({"workers": 2, "batch_size": 64}, "^--workers, --batch-size cannot be set for a command.* apply --dataset"),
        ({"cache": "cold"}, "--cache cold needs to know .* --dataset PATH"),
        ({"like": "lenet5"}, "--like is for a simulated board"),
        ({"like": "nosuch", "device": "sim:orin-agx"}, "does not know the network 'nosuch'; it knows "),
        ({"apply": True}, "--apply sets a power mode, and .* has none that can be set"),
        ({"apply": True, "device": "sim:orin-agx", "power_mode": "30W"}, "--power-mode gives one; leave one out"),
        ({"trial_args": '--name "a b'}, "cannot read --trial-args .* No closing quotation"),
    ],
)
def test_wrong_options_are_refused_before_anything_runs(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        tune(["true"], **options)


def test_the_command_line_refuses_only_settings_that_it_names(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tune", "--workers", "2", "--", "true"]) == 2
    assert "--workers cannot be set for a command" in capsys.readouterr().err
    assert main(["tune", "--", "no-such-command"]) == 2
    assert "cannot find the command 'no-such-command'" in capsys.readouterr().err


@pytest.mark.parametrize(("asked", "starts", "left"), [(11, 1, 11), (11, 2, 10), (7, 2, 6), (6, 1, 6)])
def test_a_start_that_was_measured_again_is_one_of_the_trials(asked: int, starts: int, left: int) -> None:
    assert trials_left(asked, starts) == left


@pytest.mark.parametrize(("processes", "most"), [(1, 16), (2, 8), (4, 4), (16, 2)])
def test_training_processes_share_the_cores_that_bound_their_workers(processes: int, most: int) -> None:
    assert most_workers(8, measured(processes=processes)) == most


def test_a_network_that_is_not_known_is_refused_with_the_list() -> None:
    with pytest.raises(
        UsageError, match=r"cannot find the command 'mobilenet'.*name a network: lenet5, .*mobilenet_v3"
    ):
        tune("mobilenet")


def test_only_one_network_is_tuned_and_it_imitates_no_other() -> None:
    with pytest.raises(UsageError, match=r"tune takes one network, not 2 \(mobilenet_v3, resnet18\)"):
        tune(["mobilenet_v3", "resnet18"])
    with pytest.raises(UsageError, match="--like is for a command"):
        tune("lenet5", device="sim:orin-agx", like="resnet18")


def test_a_folder_to_write_in_that_does_not_exist_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tune", "--allow-writes-in", "/nosuch", "--", "no-such-command"]) == 2
    assert "there is no folder /nosuch (--allow-writes-in)" in capsys.readouterr().err


def test_a_script_that_a_signal_ended_is_told_by_its_name(tmp_path: Path) -> None:
    script = tmp_path / "crash.py"
    script.write_text("import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)\n")
    with pytest.raises(WorkloadError, match="fails as it is, ended by signal SIGSEGV: it printed nothing"):
        tune([sys.executable, str(script)])


def test_a_memory_limit_that_python_itself_exceeds_is_told_as_such() -> None:
    with pytest.raises(UsageError, match="uses more than the memory limit, 1 MB"):
        tuned(max_ram="1MB")


def test_a_loader_that_another_thread_iterates_is_named(tmp_path: Path) -> None:
    script = tmp_path / "prefetch.py"
    script.write_text(PREFETCH)
    with pytest.raises(UsageError, match=r"takes its minibatches from another thread.* in the training loop itself"):
        tune([sys.executable, str(script)], rule=QUICK)


def test_a_container_is_refused() -> None:
    engine = Path(os.environ["EDGETRAIN_STORE"]) / "docker"
    engine.parent.mkdir(parents=True)
    engine.write_text("#!/bin/sh\n")
    engine.chmod(0o755)
    with pytest.raises(UsageError, match="in a container or on another machine \\(docker\\)"):
        tune([str(engine), "run", "image", "python", "train.py"])


def test_a_shell_script_is_refused_before_it_runs(tmp_path: Path) -> None:
    script = tmp_path / "train.sh"
    script.write_text("#!/bin/sh\ntouch started\n")
    with pytest.raises(UsageError, match=r"the files that sh and the programs it starts write cannot be protected"):
        tune(["sh", str(script)])
    assert not (tmp_path / "started").exists() and not (tmp_path / "store" / "runs").exists()


def test_a_launcher_whose_trainer_has_no_recorder_is_refused(tmp_path: Path) -> None:
    launcher = tmp_path / "launch.py"
    launcher.write_text(f"import subprocess, sys\nsubprocess.run([sys.executable, '-E', {str(SCRIPT)!r}])\n")
    with pytest.raises(UsageError, match=r"protected in this command: process \d+ .* was started with -E"):
        tune([sys.executable, str(launcher)])


def processes_of(folder: Path) -> dict[int, str]:
    """Return the processes that have a folder in their command line or environment."""
    found = {}
    for one in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            words = " ".join(one.cmdline())
            if one.status() != psutil.STATUS_ZOMBIE and (
                str(folder) in words or str(folder) in one.environ().get("EDGETRAIN_STORE", "")
            ):
                found[one.pid] = words
    return found


def test_where_tune_is_killed_in_a_trial_nothing_of_it_runs_and_no_temporary_folder_is_left(tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    environment = {**os.environ, "TMPDIR": str(scratch)}
    command = [sys.executable, "-m", "edgetrain", "tune", "--allow-writes", "--", sys.executable, str(SCRIPT)]
    tool = subprocess.Popen([*command, "--workers", "2"], env=environment, stderr=subprocess.DEVNULL)
    until_s = time.monotonic() + 60
    # At least edgetrain, its guard, the sampler, the script and its two workers.
    while len(processes_of(tmp_path)) < 6 and time.monotonic() < until_s:
        time.sleep(0.1)
    folders, running = list(scratch.glob("et-*")), processes_of(tmp_path)
    os.kill(tool.pid, signal.SIGKILL)
    tool.wait()
    assert len(folders) == 1 and len(running) >= 6
    until_s = time.monotonic() + 20
    while (processes_of(tmp_path) or folders[0].exists()) and time.monotonic() < until_s:
        time.sleep(0.1)
    assert processes_of(tmp_path) == {} and not folders[0].exists()


def test_a_network_on_a_simulated_board_gets_loader_arguments_and_a_power_mode_within_the_limit() -> None:
    command = [sys.executable, "-m", "edgetrain", "tune", "mobilenet_v3", "--device", "sim:orin-agx", "--workers", "0"]
    done = subprocess.run(
        [*command, "--max-power-w", "25", "--apply", "--dry-run", "--json"], capture_output=True, text=True, timeout=250
    )
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    check_document(["tune"], document)
    assert set(document["best"]) == {"workers", "prefetch", "pin_memory", "persistent", "power_mode"}
    assert set(document["gain_pct"]) == {"value", "lo", "hi"}
    assert document["baseline"]["e2e_s_per_minibatch"] > 0 and document["origin"] == "simulated"
    assert document["best"]["power_mode"] and document["best"]["workers"] >= 1
    last = [trial for trial in document["trials"] if trial["setting"] == document["best"]]
    assert last and all(trial["power_w"] <= 25 for trial in last)
    assert document["applied"]["dry_run"] and document["applied"]["writes"]
