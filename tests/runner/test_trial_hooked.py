"""A Python that trains without the recorder is found, and nothing else is taken for one."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgetrain.runner.command_trainee import HOOK
from edgetrain.runner.trial_hooked import unhooked_trainer

WITH_HOOK = f"A=1\0PYTHONPATH={HOOK}/site:/mine\0".encode()
WITHOUT = b"A=1\0PYTHONPATH=/mine\0"
TORCH = "7f00-7f01 r-xp 0 08:01 1 /x/torch/lib/libtorch_cpu.so\n"
PID = 4000


def found(root: Path, command: str, environment: bytes, program: str = "/usr/bin/python3.11", maps: str = TORCH):
    folder = root / "proc" / str(PID)
    folder.mkdir(parents=True)
    (folder / "exe").symlink_to(program)
    (folder / "cmdline").write_bytes(b"".join(word.encode() + b"\0" for word in command.split()))
    (folder / "environ").write_bytes(environment)
    (folder / "maps").write_text(maps)
    return unhooked_trainer([PID, PID + 1], set(), root)


@pytest.mark.parametrize(
    ("command", "environment", "words"),
    [
        ("python -I train.py", WITH_HOOK, "with -I"),
        ("python train.py", WITHOUT, "without edgetrain's PYTHONPATH"),
        ("python train.py", b"", "without edgetrain's PYTHONPATH"),
    ],
)
def test_a_python_with_torch_that_cannot_have_loaded_the_recorder_is_named(
    tmp_path: Path, command: str, environment: bytes, words: str
) -> None:
    text = found(tmp_path, command, environment)
    assert text is not None and words in text and f"process {PID} ({command})" in text
    assert unhooked_trainer([PID], {PID}, tmp_path) is None  # it has said that the recorder is loaded


@pytest.mark.parametrize(
    ("command", "environment", "more"),
    [
        ("python train.py", WITH_HOOK, {}),
        ("python -I tool.py", WITHOUT, {"maps": "7f00-7f01 r-xp 0 08:01 1 /usr/lib/libc.so\n"}),
        ("train -I", WITHOUT, {"program": "/usr/bin/train"}),
        ("my-title", b"\0" * 90, {}),  # a process that names itself writes over its environment
    ],
)
def test_other_processes_are_left_alone(tmp_path: Path, command: str, environment: bytes, more: dict[str, str]) -> None:
    assert found(tmp_path, command, environment, **more) is None
