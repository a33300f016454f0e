"""A user's command is recorded as a workload of ours is: in plans, on simulated boards, through bad days."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from edgetrain import api
from edgetrain.device import open_device
from edgetrain.errors import BadTable, UsageError
from edgetrain.record import Event, FolderStore, LoaderFacts, Manifest, Process, ProcessFacts, Run
from edgetrain.runner import Interrupted, execute
from edgetrain.runner.command_trainee import check_command, command_label, hook_environment, missing_doubt
from edgetrain.runner.plan_reading import plan_from_text
from edgetrain.schema import Experiment, Loading, Origin, PowerMode, Workload

PYTHON = sys.executable
MODE = "8/1728/624.75/2133"


@pytest.fixture(autouse=True)
def own_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDGETRAIN_STORE", str(tmp_path / "store"))
    monkeypatch.setenv("EDGETRAIN_SIM_HOME", str(tmp_path / "sim"))
    monkeypatch.setenv("EDGETRAIN_CAMPAIGN_LOCK", str(tmp_path))


def tool(*arguments: str, **more) -> subprocess.CompletedProcess[str]:
    command = [PYTHON, "-m", "edgetrain", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, **more)


# In plans


def test_a_plan_may_train_a_command_whose_placeholders_are_settings_or_its_own() -> None:
    text = (
        'name: mine\ncommand: [python, train.py, --lr, "{lr}", --workers, "{workers}", "{dataset}", "{}"]\n'
        "like: resnet18\ntiming: sync\nfactors:\n  lr: [0.1, 0.2]\n  workers: [0, 4]\n"
    )
    plan = plan_from_text(text)
    commands = sorted(run.experiment.workload.command for run in plan.runs())
    assert commands[0] == ("python", "train.py", "--lr", "0.1", "--workers", "0", "{dataset}", "{}")
    assert len(commands) == 4 and plan.like == "resnet18"
    experiment = plan.runs()[0].experiment
    assert experiment.workload.network == "train" and experiment.timing == "sync"
    assert set(experiment.factors) == {"lr", "workers"}
    assert plan.id != plan_from_text(text.replace("train.py", "other.py")).id


def test_the_plan_that_the_page_about_scripts_shows_is_understood() -> None:
    page = (Path(__file__).parents[2] / "docs" / "profile.md").read_text()
    (text,) = re.findall(r"^    name: my-script\n(?:    .*\n)+", page, re.M)
    runs = plan_from_text(textwrap.dedent(text)).runs(read_mode=lambda text: PowerMode(8, 1, name=text))
    assert {run.experiment.workload.command for run in runs} == {("python", "train.py", "--lr", "0.1")}
    assert len(runs) == 3


def test_power_mode_and_medium_are_placeholders_too(tmp_path: Path) -> None:
    plan = plan_from_text(
        'name: x\ncommand: [train, "{power_mode}", "{storage}"]\nfolders: {ssd: ' + str(tmp_path) + "}\nstorage: ssd\n"
        f"factors:\n  power_mode: [{MODE}]\n"
    )
    (run,) = plan.runs(read_mode=lambda text: PowerMode(8, 1))
    assert run.experiment.workload.command == ("train", MODE, "ssd")


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ('name: x\ncommand: [python, "{lr}"]\n', 2, "leaves {lr} open"),
        ("name: x\ncommand: [python]\nnetwork: lenet5\n", 2, "both a command and a network"),
        ("name: x\ncommand: python train.py\n", 2, "list in brackets"),
        ("name: x\ncommand: []\n", 2, "list in brackets"),
        ("name: x\ncommand: [python]\nfactors:\n  lr: [1]\n", 4, "there is no setting 'lr'"),
        ('name: x\ncommand: [python, "{lr}"]\npoints:\n  - {workers: 1}\n', 2, "leaves {lr} open"),
        ('name: x\ncommand: [python, "{name}"]\n', 2, "{name} cannot be filled in"),
        ("name: x\ncommand: [python]\nepochs: 3\n", 3, "epochs has no effect on a command"),
        ("name: x\ncommand: [python]\nfactors:\n  workers: [0, 4]\n", 4, "put {workers} into the command"),
        ("name: x\ncommand: [python]\npoints:\n  - {batch_size: 8}\n", 4, "batch_size has no effect"),
    ],
)
def test_a_plan_with_a_command_that_cannot_be_meant_is_refused_by_its_line(text: str, line: int, words: str) -> None:
    with pytest.raises(BadTable, match=f"plan line {line}: ") as raised:
        plan_from_text(text)
    assert words in str(raised.value)


def test_a_campaign_runs_a_script_in_every_mode_of_a_board_and_notes_what_failed(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import sys, time\ntime.sleep(0.3)\nsys.exit(int(sys.argv[1]) == 2)\n")
    (tmp_path / "plan.yaml").write_text(
        f'name: mine\ncommand: ["{PYTHON}", "{tmp_path}/train.py", "{{number}}"]\ndevice: sim:orin-agx\nretries: 0\n'
        f"factors:\n  number: [1, 2]\n  power_mode: [{MODE}, 4/1190.4/318.75/665.6]\n"
    )
    result = api.Campaign(tmp_path / "plan.yaml").run()
    assert (len(result.done), len(result.failed), result.planned) == (2, 2, 4)
    assert set(result.failed.values()) == {"the command ended with status 1"}
    runs = [api.open_run(run) for run in result.done.values()]
    assert {run.manifest.power_mode.held.cores for run in runs} == {8, 4}
    assert {run.manifest.factors["number"] for run in runs} == {"1"}
    assert {row.run for row in api.runs(campaign="mine") if row.state == "finished"} == {run.id for run in runs}


# What is recorded


def test_the_label_of_a_command_is_its_script_or_its_program() -> None:
    assert command_label(["python", "-u", "work/train.py", "a.py"]) == "train"
    assert command_label(["/usr/bin/env", "x"]) == "env"
    with pytest.raises(UsageError, match="nothing to profile"):
        check_command([])


def test_the_hook_comes_first_on_a_python_path_that_is_kept(tmp_path: Path) -> None:
    env = hook_environment(tmp_path / "run", "sync", {"PYTHONPATH": "/mine", "HOME": "/home"})
    first, *rest = env["PYTHONPATH"].split(os.pathsep)
    assert (Path(first) / "sitecustomize.py").exists() and rest == ["/mine"]
    assert env["HOME"] == "/home" and env["EDGETRAIN_TIMING"] == "sync"
    assert env["EDGETRAIN_RUN"] == str(tmp_path / "run")


def test_a_dataset_is_cooled_described_and_given_to_the_command(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    for number in range(12):
        (data / f"{number}.bin").write_bytes(os.urandom(20_000))
    code = "import pathlib, sys; print(sum(len(one.read_bytes()) for one in pathlib.Path(sys.argv[1]).iterdir()))"
    done = api.profile(
        [PYTHON, "-c", code, "{dataset}"], device="host", dataset=str(data), cache="cold", stdout=sys.stderr.fileno()
    )
    manifest = done.run.manifest
    assert done.status == 0 and manifest.state == "finished"
    assert (manifest.workload.dataset, manifest.workload.dataset_files) == (str(data), 12)
    assert manifest.workload.dataset_bytes == 240_000 and manifest.workload.filesystem
    assert manifest.cache.asked == "cold" and manifest.cache.cold_check is not None
    assert manifest.loading.cache == "cold"


def test_a_setting_that_has_no_effect_on_a_command_is_refused_before_anything_is_recorded() -> None:
    with pytest.raises(UsageError, match="--workers has no effect on a command"):
        api.profile([PYTHON, "-c", "pass"], device="host", workers=4)
    with pytest.raises(UsageError, match=r"lab limits do not apply to a simulated board \(cores 1\)"):
        api.profile([PYTHON, "-c", "pass"], device="sim:orin-agx", cores=1)
    assert len(api.runs()) == 0


def test_a_command_runs_under_lab_limits_and_they_are_recorded(tmp_path: Path) -> None:
    seen = tmp_path / "cores"
    code = f"import os; open({str(seen)!r}, 'w').write(str(len(os.sched_getaffinity(0))))"
    done = tool("profile", "--device", "host", "--cores", "1", "--json", "--", PYTHON, "-c", code)
    assert done.returncode == 0, done.stderr
    assert seen.read_text() == "1"
    manifest = api.open_run("last").manifest
    assert manifest.origin is Origin.EMULATED and manifest.limits.asked.cores == manifest.limits.got.cores.cores == 1


def test_a_relative_dataset_is_recorded_by_its_whole_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a").write_bytes(b"a")
    monkeypatch.chdir(tmp_path)
    done = api.profile([PYTHON, "-c", "pass"], device="host", dataset="data")
    assert done.run.manifest.workload.dataset == str(tmp_path / "data")


def test_a_dataset_that_is_not_there_is_refused_before_anything_is_recorded() -> None:
    with pytest.raises(UsageError, match="there is no dataset at /nowhere"):
        api.profile([PYTHON, "-c", "pass"], device="host", dataset="/nowhere")
    assert len(api.runs()) == 0


@pytest.mark.parametrize(
    ("processes", "events", "kind"),
    [
        ((Process(ProcessFacts(loaders=(LoaderFacts(0, trained=3),))),), (), None),
        ((Process(ProcessFacts(loaders=(LoaderFacts(0, trained=0),))),), (), "no_steps_seen"),
        ((), (Event("entered", "python"),), "no_loader"),
        ((), (), "not_entered"),
    ],
)
def test_what_was_not_seen_of_a_training_is_a_doubt_that_says_why(
    processes: tuple[Process, ...], events: tuple[Event, ...], kind: str | None
) -> None:
    doubt = missing_doubt(Run("r", Manifest(), processes, events=events), ["python", "train.py"])
    assert (doubt.kind if doubt else None) == kind
    isolated = missing_doubt(Run("r", Manifest()), ["python", "-I", "train.py"])
    assert isolated is not None and "-I" in isolated.text


# On a simulated board


def test_on_a_simulated_board_a_command_runs_in_the_mode_and_everything_is_simulated(tmp_path: Path) -> None:
    before = open_device("sim:orin-agx").current_mode()
    seen = tmp_path / "stretch"
    code = f"import os, time; open({str(seen)!r}, 'w').write(os.environ['EDGETRAIN_STRETCH']); time.sleep(2.5)"
    done = api.profile([PYTHON, "-c", code], device="sim:orin-agx", power_mode=MODE, like="resnet18", baseload_s=2.5)
    manifest = done.run.manifest
    assert manifest.origin is Origin.SIMULATED and manifest.device.kind == "simulated" and not done.run.lost
    mode = PowerMode(8, 1_728_000_000, 624_750_000, 2_133_000_000)
    assert manifest.power_mode.asked == mode
    for held in (manifest.power_mode.start, manifest.power_mode.end):
        assert (held.cores, held.cpu_hz, held.gpu_hz, held.emc_hz) == (8, mode.cpu_hz, mode.gpu_hz, mode.emc_hz)
    assert float(seen.read_text()) > 1.2  # slower than the top mode
    assert open_device("sim:orin-agx").current_mode() == before
    summary = api.summarize(done.run)
    assert summary.origin is Origin.SIMULATED
    assert summary.power_w.mean > summary.baseload_w + 1  # the board draws for the command, and idles before it


def test_a_mode_the_board_lacks_is_refused_before_anything_is_recorded() -> None:
    with pytest.raises(UsageError, match="nearest"):
        api.profile([PYTHON, "-c", "pass"], device="sim:orin-agx", power_mode=PowerMode(8, 17, 600, 3199))
    with pytest.raises(UsageError, match="0 MAXN"):
        api.profile([PYTHON, "-c", "pass"], device="sim:orin-agx", power_mode="turbo")
    assert len(api.runs()) == 0


def test_a_signal_on_a_simulated_board_closes_the_record_and_gives_the_mode_back(tmp_path: Path) -> None:
    board = open_device("sim:orin-agx")
    before = board.current_mode()
    mode = PowerMode(8, 1_728_000_000, 624_750_000, 2_133_000_000)
    experiment = Experiment(Workload("lenet5"), Loading(4), power_mode=mode, epochs=3, minibatches=30)

    def stop(stage: str, done: int, total: int | None) -> None:
        if stage == "epoch 2 of 3":
            os.kill(os.getpid(), signal.SIGTERM)

    store = FolderStore(tmp_path / "store")
    with pytest.raises(Interrupted) as raised:
        execute(experiment, "sim:orin-agx", store, stop)
    assert raised.value.signal == signal.SIGTERM
    assert store.manifest(raised.value.run).state == "interrupted"
    assert open_device("sim:orin-agx").current_mode() == before


# Bad days


def test_a_record_that_cannot_be_closed_costs_neither_the_status_nor_a_traceback() -> None:
    said = tool("profile", "--", "sh", "-c", 'rm -rf "$EDGETRAIN_RUN"; exit 3')
    assert said.returncode == 3
    assert "could not be closed" in said.stderr and "Traceback" not in said.stderr


def test_a_command_that_is_killed_ends_with_128_and_the_signal() -> None:
    said = tool("profile", "--", "sh", "-c", "kill -9 $$")
    assert said.returncode == 128 + signal.SIGKILL
    manifest = FolderStore().manifest("last")
    assert (manifest.state, manifest.exit_status) == ("interrupted", 137)
    assert manifest.reason == "the command was ended by SIGKILL"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_that_ends_the_command_is_the_status_of_the_tool(number: signal.Signals) -> None:
    arguments = [PYTHON, "-m", "edgetrain", "profile", "--", "sh", "-c", "echo up; exec sleep 60"]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "up\n"
        time.sleep(0.2)
        process.send_signal(number)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 128 + number and "Traceback" not in err
    assert number.name in FolderStore().manifest("last").reason
