"""The training program runs in a real Python 3.8 that has no edgetrain, as on JetPack 5."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import edgetrain
from edgetrain.errors import UsageError
from edgetrain.runner.checks import check
from edgetrain.runner.child import PROGRAM, read_message
from edgetrain.runner.job import write_job
from edgetrain.schema import Experiment, Workload
from edgetrain.workload import EpochEnded, Prepared, TrainingFailed, TrainingFinished, TrainingJob

PACKAGE = Path(edgetrain.__file__).parent
# Everything that needs neither numpy nor torch.
PLAIN = ("catalog", "errors", "job", "messages", "own", "pipe", "program", "slow_reads")
WITH_NUMPY = ("compact", "datasets", "drawing", "generate")


def find_python(*versions: str) -> str | None:
    for version in versions:
        named = os.environ.get(f"EDGETRAIN_PYTHON{version.replace('.', '')}")
        folders = sorted((Path.home() / ".pyenv" / "versions").glob(f"{version}.*/bin/python"))
        for candidate in (named, *map(str, folders), shutil.which(f"python{version}")):
            # pyenv puts a name on the PATH that may stand for no installed version.
            if candidate and run(candidate, "-c", "").returncode == 0:
                return candidate
    return None


@pytest.fixture
def python38() -> str:
    found = find_python("3.8")
    if found is None:
        pytest.skip("no Python 3.8 was found; EDGETRAIN_PYTHON38 names one")
    return found


def run(python: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    # Without our environment's paths: that Python has only what is installed in it.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return subprocess.run([python, *arguments], capture_output=True, text=True, env=environment, timeout=240)


def has(python: str, module: str) -> bool:
    return run(python, "-c", f"import {module}").returncode == 0


def imported(python: str, modules: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
    code = f"import runpy; runpy.run_path({str(PROGRAM)!r}); import importlib\n"
    code += "".join(f"importlib.import_module('edgetrain.workload.{module}')\n" for module in modules)
    return run(python, "-c", code)


def test_every_file_of_the_program_is_python_3_8(python38, tmp_path):
    files = [str(path) for package in ("workload", "inside") for path in (PACKAGE / package).rglob("*.py")]
    code = "import ast, sys\nfor name in sys.argv[1:]:\n    ast.parse(open(name, encoding='utf-8').read(), name)"
    done = run(python38, "-c", code, *files)
    assert done.returncode == 0, done.stderr


def test_what_needs_no_torch_is_imported_without_edgetrain_installed(python38):
    done = imported(python38, PLAIN)
    assert done.returncode == 0, done.stderr
    if has(python38, "numpy"):
        done = imported(python38, WITH_NUMPY)
        assert done.returncode == 0, done.stderr


def test_the_program_imports_nothing_of_ours_but_workload_and_inside(python38):
    code = f"import runpy; runpy.run_path({str(PROGRAM)!r}); import sys\n"
    code += "".join(f"import edgetrain.workload.{module}\n" for module in PLAIN)
    code += "print([name for name in sys.modules if name.startswith('edgetrain.')])"
    names = eval(run(python38, "-c", code).stdout)
    assert names and all(name.split(".")[1] in ("workload", "inside") for name in names)


def messages(done: subprocess.CompletedProcess[str]) -> list[object]:
    return [read_message(line.encode()) for line in done.stdout.splitlines()]


def test_a_job_trains_lenet_or_reports_that_torch_is_missing(python38, tmp_path):
    from edgetrain.workload import entry, generate_dataset, recipe_for

    pytest.importorskip("PIL")
    dataset = generate_dataset(tmp_path / "data", recipe_for(entry("lenet5"), 64 / 60_000))
    (tmp_path / "run").mkdir()
    job = TrainingJob(str(tmp_path / "run"), "lenet5", epochs=2, dataset=str(dataset), generated=True, workers=1)
    done = run(python38, str(PROGRAM), "--job", str(write_job(job)))
    reported = messages(done)
    if has(python38, "torch"):
        assert done.returncode == 0, done.stderr
        assert isinstance(reported[0], Prepared) and reported[0].python.startswith("3.8.")
        assert [message.epoch for message in reported if isinstance(message, EpochEnded)] == [0, 1]
        assert isinstance(reported[-1], TrainingFinished)
        assert list((tmp_path / "run").glob("minibatches-*.ets"))
    else:
        (failed,) = reported
        assert isinstance(failed, TrainingFailed) and failed.status == done.returncode == 1
        assert "training needs torch" in failed.reason and python38 in failed.reason


def test_a_wrong_job_file_is_reported_and_is_status_2(python38, tmp_path):
    (tmp_path / "job.json").write_text(json.dumps({"schema": "edgetrain/job/9"}))
    done = run(python38, str(PROGRAM), "--job", str(tmp_path / "job.json"))
    (failed,) = messages(done)
    assert isinstance(failed, TrainingFailed) and failed.status == done.returncode == 2


def test_an_older_python_is_told_which_version_is_needed(tmp_path):
    old = find_python("3.6", "3.7")
    if old is None:
        pytest.skip("no Python 3.6 or 3.7 was found")
    done = run(old, str(PROGRAM), "--job", str(tmp_path / "job.json"))
    assert done.returncode == 1 and "needs Python 3.8 or later" in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("workload", "simulated", "reason"),
    [
        (Workload("lenet5"), False, "cannot be run"),
        (Workload("lenet5"), True, "simulated board"),
        (Workload("train.py", command=("python", "train.py")), False, "in the command itself"),
    ],
)
def test_a_python_that_cannot_train_is_refused_before_anything_starts(workload, simulated, reason):
    with pytest.raises(UsageError, match=reason):
        check(Experiment(workload, python="/nowhere/python"), simulated)


def test_modules_beside_the_program_do_not_shadow_those_of_the_user(tmp_path):
    (tmp_path / "memory.py").write_text("def make():\n    raise ValueError('the module of the user')\n")
    (tmp_path / "run").mkdir()
    job = TrainingJob(str(tmp_path / "run"), "memory:make", epochs=1)
    pytest.importorskip("torch")
    done = subprocess.run(
        [sys.executable, str(PROGRAM), "--job", str(write_job(job))], capture_output=True, text=True, cwd=tmp_path
    )
    (failed,) = messages(done)
    assert isinstance(failed, TrainingFailed) and "the module of the user" in failed.reason
