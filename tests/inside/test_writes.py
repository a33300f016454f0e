"""Files that a script changes outside its temporary folder are listed; the rest of what it does is not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from edgetrain.record import read_run
from edgetrain.runner.command_trainee import hook_environment

SCRIPT = textwrap.dedent(
    """
    import os, sqlite3, subprocess, sys, tempfile
    import torch
    os.chdir(sys.argv[1])
    open("log.txt", "a").close()
    open("read.txt").read()
    torch.save({"a": torch.ones(2)}, "weights.pt")
    os.rename("old.txt", "new.txt")
    os.close(os.open("raw.bin", os.O_WRONLY | os.O_CREAT))
    sqlite3.connect("results.db").close()
    with tempfile.NamedTemporaryFile() as scratch:
        scratch.write(b"x")
    open(os.devnull, "w").close()
    subprocess.run([sys.executable, "-c", "open('from_child.txt', 'w')"], check=True)
    """
)


def test_files_that_are_written_renamed_or_saved_by_torch_are_listed_once(tmp_path: Path) -> None:
    work, run, scratch = tmp_path / "work", tmp_path / "run", tmp_path / "scratch"
    for folder in (work, run, scratch):
        folder.mkdir()
    (work / "old.txt").write_text("")
    (work / "read.txt").write_text("")
    (tmp_path / "script.py").write_text(SCRIPT)
    environment = hook_environment(run, "async", {**os.environ, "TMPDIR": str(scratch), "EDGETRAIN_LIST_WRITES": "1"})
    command = [sys.executable, str(tmp_path / "script.py"), str(work)]
    subprocess.run(command, env=environment, check=True, timeout=120)
    events = [event for event in read_run(run).events if event.kind == "write"]
    names = sorted(Path(event.file or "").name for event in events)
    assert names == sorted(["from_child.txt", "log.txt", "new.txt", "old.txt", "raw.bin", "results.db", "weights.pt"])


CHANGES = {
    "log.txt": "open('log.txt', 'a')",
    "log.txt emptied": "open('log.txt', 'w')",
    "new.txt": "open('new.txt', 'x')",
    "log.txt renamed": "os.rename('log.txt', 'other.txt')",
    "log.txt removed": "os.remove('log.txt')",
    "weights.pt": "torch.save({'a': torch.ones(2)}, 'weights.pt')",
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_program_that_must_not_write_is_killed_before_it_does(tmp_path: Path, change: str) -> None:
    work, run = tmp_path / "work", tmp_path / "run"
    work.mkdir()
    run.mkdir()
    (work / "log.txt").write_text("kept")
    script = tmp_path / "script.py"
    lines = ["import atexit, os", "import torch" if "torch" in change else "", "os.chdir('work')"]
    handler = "atexit.register(lambda: open('at_exit.txt', 'w'))"
    script.write_text("\n".join([*lines, handler, "try:", f"    {change}", "finally:", "    open('late.txt', 'w')"]))
    environment = hook_environment(run, "async", {**os.environ, "EDGETRAIN_LIST_WRITES": "stop"})
    environment["TMPDIR"] = str(run)
    done = subprocess.run([sys.executable, str(script)], cwd=tmp_path, env=environment, timeout=120)
    assert done.returncode == -signal.SIGKILL
    assert {path.name: path.read_text() for path in work.iterdir()} == {"log.txt": "kept"}
    assert [event.kind for event in read_run(run).events if event.kind == "write"] == ["write"]
