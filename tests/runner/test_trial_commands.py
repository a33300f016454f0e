"""Commands whose trials could not be measured, ended or kept from changing files are refused before they start."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgetrain.errors import UsageError
from edgetrain.runner import writable_folders
from edgetrain.runner.trial_commands import check_trial_command, unwatched_program


@pytest.fixture(autouse=True)
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put programs on the PATH: binaries, and scripts by their first lines."""
    scripts = {
        "torchrun": "#!/usr/bin/env python3\n",
        "far": '#!/bin/sh\n\'\'\'exec\' "/a/long path/python" "$0" "$@"\n',
        "isolated": "#!/usr/bin/env -S python3 -I\n",
        "train.sh": "#!/bin/bash -e\n",
        "shims/accelerate": "#!/usr/bin/env bash\n",
    }
    binaries = ("python", "python3", "nice", "taskset", "timeout", "env", "sudo", "sh", "bash", "make", "uv", "setsid")
    for name, text in {**scripts, **dict.fromkeys(binaries, "\x7fELF")}.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{tmp_path / 'shims'}")


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("python -I train.py", "started with -I"),
        ("python -uE train.py", "started with -E"),
        ("/usr/bin/python3.11 -W ignore -BS train.py", "started with -S"),
        ("nice -n 5 python -X dev -I train.py", "started with -I"),
        ("isolated train.py", "started with -I"),
        ("env -i python train.py", "env -i takes away"),
        ("env A=1 -u PYTHONPATH python train.py", "env PYTHONPATH takes away"),
        ("env --ignore-environment python train.py", "takes away"),
        ("nice env PYTHONPATH=/mine python train.py", "PYTHONPATH=/mine edgetrain tune"),
        ("sudo python train.py --lr 1", r"sudo edgetrain tune -- python train\.py --lr 1"),
        ("nice sudo -u me python train.py", r"sudo edgetrain tune -- python train\.py"),
        ("setsid python train.py", "leave setsid out"),
        ("docker run image python train.py", r"in a container or on another machine \(docker\)"),
    ],
)
@pytest.mark.parametrize("allow_writes", [False, True])
def test_a_command_that_cannot_be_measured_or_ended_is_refused(command: str, words: str, allow_writes: bool) -> None:
    with pytest.raises(UsageError, match=words):
        check_trial_command(command.split(), allow_writes)


@pytest.mark.parametrize(
    "command",
    [
        "bash train.sh",
        "sh -c train",
        "make train",
        "nice -n 5 make",
        "timeout 60 bash x.sh",
        "train.sh",
        "env A=1 sh x",
    ],
)
def test_a_shell_is_refused_unless_writing_is_allowed(command: str) -> None:
    with pytest.raises(UsageError, match=r"give the Python command itself.*or --allow-writes"):
        check_trial_command(command.split(), allow_writes=False)
    check_trial_command(command.split(), allow_writes=True)


@pytest.mark.parametrize(
    ("command", "unwatched"),
    [
        ("python train.py", None),
        ("python -u -W ignore train.py -I", None),
        ("python -c I", None),
        ("python -m package -E", None),
        ("nice -n 5 python train.py bash", None),
        ("taskset -c 0 timeout 60 python train.py", None),
        ("env A=/bin/bash python train.py", None),
        ("torchrun --nproc-per-node 2 train.py", None),
        ("far train.py", None),
        ("accelerate launch train.py", None),
        ("uv run train.py", "uv"),
        ("nice uv run train.py", "uv"),
    ],
)
def test_other_commands_may_run_and_a_first_program_that_is_no_python_is_named(command, unwatched) -> None:
    check_trial_command(command.split(), allow_writes=False)
    assert unwatched_program(command.split()) == unwatched


def test_folders_for_writing_are_whole_names_and_no_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")
    assert writable_folders(["~/.cache/new", Path("cache")]) == (f"{tmp_path}/.cache/new", f"{tmp_path}/cache")
    with pytest.raises(UsageError, match=r"takes a folder, and .*file is a file"):
        writable_folders(["file"])
