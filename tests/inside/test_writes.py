"""Files that a script changes outside its temporary folder are listed; the rest of what it does is not."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import edgetrain
from edgetrain.inside.writes import WATCHED, WriteList
from edgetrain.record import read_run
from edgetrain.runner.command_trainee import hook_environment

SCRIPT = textwrap.dedent(
    """
    import importlib.util, os, sqlite3, subprocess, sys, tempfile
    importlib.util.find_spec("torch")  # as libraries do that can use it
    import torch
    os.chdir(sys.argv[1])
    open("log.txt", "a").close()
    open("read.txt").read()
    torch.save({"a": torch.ones(2)}, "weights.pt")
    script = torch.jit.script(torch.nn.Linear(1, 1))
    script.save("script.pt")
    torch.jit.save(script, "saved.pt")
    torch.from_file("read.txt", size=1)
    torch.from_file("mapped.bin", shared=True, size=1)
    torch.UntypedStorage.from_file("storage.bin", True, 4)
    torch.load("weights.pt", mmap=True)
    with torch.profiler.profile() as profiled:
        torch.ones(1)
    profiled.export_chrome_trace("trace.json")
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
    (work / "read.txt").write_text("read")
    (tmp_path / "script.py").write_text(SCRIPT)
    environment = hook_environment(run, "async", {**os.environ, "TMPDIR": str(scratch), "EDGETRAIN_LIST_WRITES": "1"})
    command = [sys.executable, str(tmp_path / "script.py"), str(work)]
    subprocess.run(command, env=environment, check=True, timeout=120)
    events = [event for event in read_run(run).events if event.kind == "write"]
    names = sorted(Path(event.file or "").name for event in events)
    by_torch = ["weights.pt", "script.pt", "saved.pt", "mapped.bin", "storage.bin", "trace.json"]
    assert names == sorted(["from_child.txt", "log.txt", "new.txt", "old.txt", "raw.bin", "results.db", *by_torch])


def run_strictly(script: Path, run: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a script that must not change files, beside it; its temporary folder is that of the run."""
    given = {**os.environ, "EDGETRAIN_LIST_WRITES": "stop", "TMPDIR": str(run), **environment}
    command = [sys.executable, str(script)]
    return subprocess.run(
        command,
        cwd=script.parent,
        env=hook_environment(run, "async", given),
        timeout=120,
        text=True,
        capture_output=True,
    )


CHANGES = {
    "log.txt": "open('log.txt', 'a')",
    "log.txt emptied": "open('log.txt', 'w')",
    "new.txt": "open('new.txt', 'x')",
    "log.txt renamed": "os.rename('log.txt', 'other.txt')",
    "log.txt removed": "os.remove('log.txt')",
    "weights.pt": "torch.save({'a': torch.ones(2)}, 'weights.pt')",
    "torch.jit.save to log.txt": "torch.jit.save(torch.jit.script(torch.nn.Linear(1, 1)), 'log.txt')",
    "torch.from_file": "torch.from_file('log.txt', shared=True, size=1).fill_(7)",
    "a file in a new folder": "os.makedirs('runs/1', exist_ok=True) or open('runs/1/log.txt', 'w')",
    "a link": "os.symlink('log.txt', 'link')",
    "a second name": "os.link('log.txt', 'link')",
    "permissions": "os.chmod('log.txt', 0o600)",
    "times": "os.utime('log.txt')",
    "an attribute": "os.setxattr('log.txt', 'user.a', b'1')",
    "a log in a folder by its descriptor": "os.remove('log.txt', dir_fd=os.open('.', os.O_RDONLY))",
    "a database": "__import__('sqlite3').connect('file:log.txt?mode=rw', uri=True)",
    "a file by the folder of the process": "open('/proc/self/cwd/log.txt', 'a')",
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
    done = run_strictly(script, run)
    assert done.returncode == -signal.SIGKILL
    assert {path.name: path.read_text() for path in work.rglob("*") if path.is_file()} == {"log.txt": "kept"}
    (noted,) = [event.file for event in read_run(run).events if event.kind == "write"]
    assert noted is not None and noted.startswith(str(work)) and not noted.endswith("late.txt")


HARMLESS = {
    "a temporary folder with a file": (
        "with tempfile.TemporaryDirectory() as folder:\n    open(folder + '/file', 'w').close()\n"
        "    os.makedirs(folder + '/a/b'); os.symlink('/etc/hostname', folder + '/link')\n"
    ),
    "a temporary folder that is removed by its descriptor": (
        "folder = tempfile.mkdtemp(); open(folder + '/file', 'w').close(); at = os.open(folder, os.O_RDONLY)\n"
        "os.rename('file', 'other', src_dir_fd=at, dst_dir_fd=at); os.mkdir('below', dir_fd=at)\n"
        "os.chmod('other', 0o600, dir_fd=at); os.symlink('other', 'link', dir_fd=at)\n"
        "os.unlink('link', dir_fd=at); shutil.rmtree(folder)\n"
    ),
    "a link in the temporary folder to a file elsewhere": (
        "link = tempfile.gettempdir() + '/link'; os.symlink(os.path.abspath('log.txt'), link); os.remove(link)"
    ),
    "a database in memory": (
        "sqlite3.connect(':memory:').execute('create table a (b)'); sqlite3.connect('')\n"
        "sqlite3.connect('file::memory:?cache=shared', uri=True); sqlite3.connect('file:x?mode=memory', uri=True)"
    ),
    "a database that is only read": (
        "sqlite3.connect('file:data.db?mode=ro', uri=True).execute('select 1')\n"
        "sqlite3.connect('file:' + os.path.abspath('data.db') + '?immutable=1', uri=True)"
    ),
    "folders that exist": (
        "os.makedirs('kept', exist_ok=True)\n"
        "with contextlib.suppress(FileExistsError): os.mkdir('kept')\n"
        "pathlib.Path('kept').mkdir(parents=True, exist_ok=True)"
    ),
    "what does not exist": (
        "for call in (os.remove, os.rmdir, os.utime, shutil.rmtree, lambda name: os.rename(name, 'other')):\n"
        "    with contextlib.suppress(FileNotFoundError): call('nosuch')\n"
        "with contextlib.suppress(FileNotFoundError): open('nosuch', 'r+')\n"
        "with contextlib.suppress(FileExistsError): open('log.txt', 'x')"
    ),
    "a file in memory, opened again by its descriptor": (
        "fd = os.memfd_create('edgetrain-cache'); os.ftruncate(fd, 4096)\n"
        "os.open('/proc/%d/fd/%d' % (os.getpid(), fd), os.O_RDWR); open('/dev/stdout', 'w')"
    ),
    "a shared cache in a worker that was spawned": (
        "from edgetrain.inside import shared_cache\nimport pickle\ncache = shared_cache.SharedCache(1 << 20, 10)\n"
        "shared_cache._open.clear()  # as in another process\npickle.loads(pickle.dumps(cache)).put(b'key', b'value')"
    ),
    "a file without a name": "os.write(os.open(tempfile.gettempdir(), os.O_TMPFILE | os.O_RDWR), b'1')",
}


@pytest.mark.parametrize("code", HARMLESS.values(), ids=HARMLESS)
def test_what_changes_nothing_of_the_users_is_let_be(tmp_path: Path, code: str) -> None:
    run = tmp_path / "run"
    (run / "t").mkdir(parents=True)
    (tmp_path / "kept").mkdir()
    (tmp_path / "log.txt").write_text("kept")
    sqlite3.connect(tmp_path / "data.db").close()
    script = tmp_path / "script.py"
    script.write_text(f"import contextlib, os, pathlib, shutil, sqlite3, tempfile\n{code}\nprint('done')\n")
    source = str(Path(edgetrain.__file__).parents[1])
    done = run_strictly(script, run, TMPDIR=str(run / "t"), PYTHONPATH=source)
    assert (done.stdout, done.stderr) == ("done\n", "")
    assert [event.file for event in read_run(run).events if event.kind == "write"] == []


def test_folders_that_a_program_makes_are_listed_and_may_be_changed_by_it(tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    script = tmp_path / "script.py"
    script.write_text(
        "import os\nos.makedirs('out/models')\nos.chmod('out', 0o700)\nos.rmdir('out/models')\nprint('done')\n"
    )
    assert run_strictly(script, run).stdout == "done\n"
    made = [event.file for event in read_run(run).events if event.kind == "folder"]
    assert made == [str(tmp_path / "out"), str(tmp_path / "out/models")]


def test_an_entry_of_a_folder_that_links_to_the_temporary_folder_is_a_change(tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    (run / "scratch").write_text("")
    (tmp_path / "link").symlink_to(run / "scratch")
    script = tmp_path / "script.py"
    script.write_text("import os\nos.remove('link')\n")
    assert run_strictly(script, run).returncode == -signal.SIGKILL
    assert (tmp_path / "link").is_symlink()


def test_folders_in_which_writing_is_allowed_are_left_out(tmp_path: Path) -> None:
    run, cache = tmp_path / "run", tmp_path / "cache"
    run.mkdir()
    script = tmp_path / "script.py"
    script.write_text(
        "import os\nos.makedirs('cache/locks')\nopen('cache/locks/a', 'w').close()\nprint('done')\n"
        "open('cached', 'w')\n"
    )
    done = run_strictly(script, run, EDGETRAIN_WRITES_IN=json.dumps([str(cache)]), PYTHONUNBUFFERED="1")
    assert done.returncode == -signal.SIGKILL and done.stdout == "done\n"
    assert [event.file for event in read_run(run).events if event.kind == "write"] == [str(tmp_path / "cached")]


def test_programs_that_a_script_starts_are_named_once_if_what_they_write_is_not_seen(tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    script = tmp_path / "script.py"
    script.write_text(
        "import os, subprocess, sys\n"
        "for _ in range(2): subprocess.run(['true', 'secret'])\n"
        "subprocess.run('sleep 0', shell=True); os.system('cd . && echo')\n"
        "subprocess.run([sys.executable, '-c', ''])\n"
        "subprocess.run([sys.executable, '-Ic', ''])\n"
        "subprocess.run(['env', 'A=1', 'true'], env={})\n"
        "subprocess.run(['uname'], stdout=subprocess.DEVNULL); os.system('uname -r')\n"
        "os.waitpid(os.posix_spawn('/bin/cat', ['cat', '/dev/null'], os.environ), 0)\n"
        "os.execv('/bin/ls', ['ls', '/dev/null'])\n"
    )
    done = run_strictly(script, run)
    assert done.returncode == 0, done.stderr
    named = [event.program for event in read_run(run).events if event.kind == "program"]
    assert named == ["true", "sleep", "sh", Path(sys.executable).name, "env", "cat", "ls"]


@pytest.mark.parametrize("event", sorted(WATCHED))
def test_the_audit_hook_never_raises(tmp_path: Path, event: str) -> None:
    found = WriteList(str(tmp_path), [])
    for arguments in ((), (None,), (object(),) * 4, (b"\0", 1, -7, "x"), ("a" * 10_000, "w", 1 << 40, 3)):
        found.audit(event, arguments)
