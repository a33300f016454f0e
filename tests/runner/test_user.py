"""The user for whom sudo works."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import edgetrain as edgetrain_package
from edgetrain.runner.campaign_journal import MachineLock
from edgetrain.runner.child import TrainingChild
from edgetrain.runner.user import SudoUser, give, sudo_user, use_store_of

SOMEBODY = next((entry for entry in pwd.getpwall() if entry.pw_uid != 0), None)


@pytest.mark.skipif(SOMEBODY is None, reason="this machine knows no user but root")
def test_the_user_who_called_sudo_is_found_with_the_home_folder() -> None:
    assert SOMEBODY is not None
    user = sudo_user({"SUDO_USER": SOMEBODY.pw_name}, euid=0)
    assert user is not None and (user.name, user.uid, user.gid) == (SOMEBODY.pw_name, SOMEBODY.pw_uid, SOMEBODY.pw_gid)
    assert user.environment()["HOME"] == SOMEBODY.pw_dir


@pytest.mark.parametrize(
    ("environment", "euid"),
    [({}, 0), ({"SUDO_USER": "root"}, 0), ({"SUDO_USER": "no such user"}, 0), ({"SUDO_USER": "daemon"}, 1000)],
)
def test_without_sudo_there_is_no_other_user(environment: dict[str, str], euid: int) -> None:
    assert sudo_user(environment, euid) is None


NOBODY = next((entry for entry in pwd.getpwall() if entry.pw_name == "nobody"), None)
SYSTEM_PYTHON = Path("/usr/bin/python3")
under_sudo = pytest.mark.skipif(
    os.geteuid() != 0 or NOBODY is None or not SYSTEM_PYTHON.exists(), reason="needs root, a user nobody and a python3"
)


def others_may_read(path: Path) -> bool:
    """Whether any user may read this folder: a home folder or a temporary one may be its owner's alone."""
    return all(folder.stat().st_mode & 0o005 == 0o005 for folder in (path, *path.parents))


SCRIPT = "import os; print('trained as', os.getuid(), os.getgid(), os.getgroups(), os.environ['HOME'])"


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder of root's that every user may enter; pytest's own are root's alone."""
    path = Path(tempfile.mkdtemp(prefix="edgetrain-sudo-"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


def edgetrain(*words: str, store: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "SUDO_USER": "nobody", "EDGETRAIN_STORE": str(store)}
    environment["EDGETRAIN_SIM_HOME"] = str(store.parent / "sim")
    command = [sys.executable, "-m", "edgetrain", *words]
    return subprocess.run(command, env=environment, capture_output=True, text=True)


def owners(folder: Path) -> set[int]:
    return {path.lstat().st_uid for path in (folder, *folder.rglob("*"))}


@under_sudo
def test_under_sudo_a_command_trains_as_the_user_and_the_store_is_that_users(folder: Path) -> None:
    assert NOBODY is not None
    done = edgetrain("profile", "--", str(SYSTEM_PYTHON), "-c", SCRIPT, store=folder / "store")
    assert done.returncode == 0, done.stderr
    who = [str(NOBODY.pw_uid), str(NOBODY.pw_gid), str(os.getgrouplist("nobody", NOBODY.pw_gid)), NOBODY.pw_dir]
    assert done.stdout.strip() == " ".join(["trained as", *who])
    assert edgetrain("ls", store=folder / "store").returncode == 0
    assert owners(folder / "store") == {NOBODY.pw_uid}
    [run] = (folder / "store" / "runs").iterdir()
    names = {path.name for path in run.iterdir()}
    assert {"manifest.json", "samples-cpu.ets"} <= names  # by root
    if others_may_read(Path(edgetrain_package.__file__).parent):
        assert "events-inside.jsonl" in names  # by the training


@under_sudo
def test_under_sudo_the_mode_is_set_by_root_and_the_record_is_the_users(folder: Path) -> None:
    assert NOBODY is not None
    words = ("run", "lenet5", "--device", "sim:orin-agx", "--power-mode", "MODE_30W", "--epochs", "1")
    done = edgetrain(*words, "--minibatches", "20", store=folder / "store")
    assert done.returncode == 0, done.stderr
    assert owners(folder / "store") == {NOBODY.pw_uid}
    assert owners(folder / "sim") == {0}


@under_sudo
def test_under_sudo_a_workload_of_ours_is_started_as_the_user(folder: Path) -> None:
    assert NOBODY is not None
    user = sudo_user({"SUDO_USER": "nobody"}, euid=0)
    assert user is not None
    run = folder / "run"
    run.mkdir()
    give(run, user)
    python = folder / "python"  # in the place of a Python with torch, which this user could not read in our tests
    python.write_text(f"#!/bin/sh\nid -u > {run}/who\n")
    python.chmod(0o755)
    child = TrainingChild(run / "job.json", [], dict(os.environ), str(python), user)
    child.process.wait()
    child.close()
    assert (run / "who").read_text().strip() == str(NOBODY.pw_uid)
    assert (run / "who").stat().st_uid == NOBODY.pw_uid


@under_sudo
def test_under_sudo_a_store_the_user_may_not_enter_is_refused(folder: Path) -> None:
    closed = folder / "closed"
    closed.mkdir(mode=0o700)
    done = edgetrain("run", "lenet5", "--device", "sim:orin-agx", store=closed / "store")
    assert done.returncode == 2 and f"may not enter {closed}" in done.stderr


@under_sudo
def test_what_root_gives_away_is_neither_linked_nor_anothers(folder: Path) -> None:
    user = sudo_user({"SUDO_USER": "nobody"}, euid=0)
    assert user is not None
    (folder / "secret").write_text("root's")
    run = folder / "run"
    run.mkdir()
    (run / "soft").symlink_to(folder / "secret")
    os.link(folder / "secret", run / "hard")
    (run / "own").write_text("")
    give(run, user)
    assert (folder / "secret").stat().st_uid == 0
    assert (run / "own").stat().st_uid == run.stat().st_uid == user.uid


@under_sudo
def test_root_and_the_user_take_turns_with_the_lock_of_campaigns(folder: Path) -> None:
    assert NOBODY is not None
    folder.chmod(0o1777)
    with MachineLock(folder):
        assert (folder / "edgetrain-campaign.lock").stat().st_mode & 0o666 == 0o666
    os.chown(folder / "edgetrain-campaign.lock", NOBODY.pw_uid, NOBODY.pw_gid)
    with MachineLock(folder):
        pass


def test_the_store_of_the_user_is_the_default_unless_one_is_named() -> None:
    user = SudoUser("somebody", 1000, 1000, Path("/home/somebody"))
    environment: dict[str, str] = {}
    use_store_of(user, environment)
    assert environment["EDGETRAIN_STORE"] == "/home/somebody/.local/share/edgetrain"
    use_store_of(SudoUser("other", 1001, 1001, Path("/home/other")), environment)
    assert environment["EDGETRAIN_STORE"] == "/home/somebody/.local/share/edgetrain"
