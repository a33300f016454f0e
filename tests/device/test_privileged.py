"""edgetrain-control: one file that only root can change, numbers instead of paths, and a board that comes back."""

from __future__ import annotations

import ast
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from edgetrain.device import Control, ModeRequest, install_control, open_device
from edgetrain.device.boot_unit import UNIT_LINK, install_unit, remove_unit
from edgetrain.device.jetson.board import JetsonDevice
from edgetrain.device.jetson.doctor import program_finding
from edgetrain.device.jetson.identity import identify
from edgetrain.device.privileged import PROGRAM, ControlError, Files, program_text, serve, unsafe_reason
from edgetrain.device.sessions import SudoSession, control_problem, sudoers_line
from edgetrain.device.tree import Tree
from edgetrain.errors import ControlRefused
from tests import boards

OLD_PYTHONS = [path for path in Path.home().glob(".pyenv/versions/3.[678].*/bin/python") if path.exists()]
SERVE = """
import sys
text = open({program!r}).read().replace("if __name__", "if False and __name__")
exec(text)
serve(Files({root!r}), sys.stdin, sys.stdout)
"""
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root owns files as root does")


def command(root: Path, folder: Path, python: str = sys.executable) -> list[str]:
    """Return how the program is started on a folder that serves as a board, without sudo and without its own check."""
    program = folder / "edgetrain-control"
    program.write_text(program_text())
    return [python, "-I", "-c", SERVE.format(program=str(program), root=str(root))]


class ReadOnlyTree(Tree):
    """A board whose files this user may read and not write."""

    def writable(self, name: str) -> bool:
        return False


def plain_users_board(root: Path) -> JetsonDevice:
    tree = ReadOnlyTree(root)
    identity = identify(tree)
    assert identity is not None
    return JetsonDevice(tree, identity)


@pytest.fixture
def board(tmp_path: Path) -> Path:
    return boards.build("orin-agx-jp6", tmp_path / "board")


@pytest.fixture
def safe_folder() -> Iterator[Path]:
    """A folder that only root can change, as /usr/local/sbin is."""
    if os.geteuid() != 0 or unsafe_reason("/var/lib") is not None:
        pytest.skip("there is no folder here that only root can change")
    folder = Path(tempfile.mkdtemp(dir="/var/lib", prefix="edgetrain-test-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def test_it_is_one_file_of_python_3_6_with_the_standard_library_only() -> None:
    tree = ast.parse(program_text(), feature_version=(3, 6))
    imported = {
        alias.name.split(".")[0] for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names
    }
    imported |= {str(node.module).split(".")[0] for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert imported <= set(sys.stdlib_module_names) and "edgetrain" not in imported
    assert program_text().startswith("#!/usr/bin/python3 -I\n")


@pytest.mark.parametrize("python", [sys.executable, *map(str, OLD_PYTHONS)])
def test_a_mode_is_set_and_restored_through_it(python: str, board: Path, tmp_path: Path) -> None:
    device = plain_users_board(board)
    before = device.state()
    control = Control(device, lambda: SudoSession(command(board, tmp_path, python)))
    space = device.modes()
    assert space is not None
    mode = space.find_mode("4/1113.6/408/2133")
    with control.hold(ModeRequest(mode)):
        now = device.current_mode()
        assert (now.cores, now.cpu_hz, now.gpu_hz, now.emc_hz) == (4, 1_113_600_000, 408_000_000, 2_133_000_000)
        assert control.drift() == []
    assert device.state() == before


def test_the_board_comes_back_when_the_caller_is_killed(board: Path, tmp_path: Path) -> None:
    before = open_device(f"jetson:{board}").state()
    code = (
        "import time; from pathlib import Path; from edgetrain.device import Control, ModeRequest\n"
        "from edgetrain.device.sessions import SudoSession\n"
        "from tests.device.test_privileged import plain_users_board\n"
        f"device = plain_users_board(Path({str(board)!r}))\n"
        f"control = Control(device, lambda: SudoSession({command(board, tmp_path)!r}))\n"
        "with control.hold(ModeRequest(device.modes().find_mode('4/1113.6/408/2133'))):\n"
        "    print('held', flush=True); time.sleep(60)\n"
    )
    repository = Path(__file__).parents[2]
    caller = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, cwd=repository)
    assert caller.stdout is not None and caller.stdout.readline() == "held\n"
    assert open_device(f"jetson:{board}").state() != before
    caller.send_signal(signal.SIGKILL)
    caller.wait()
    deadline = time.monotonic() + 10
    while open_device(f"jetson:{board}").state() != before and time.monotonic() < deadline:
        time.sleep(0.1)
    assert open_device(f"jetson:{board}").state() == before


@pytest.mark.parametrize(
    "request_text",
    [
        {"do": "write", "values": {"/etc/passwd": 1}},
        {"do": "write", "values": {"../etc/passwd": 1}},
        {"do": "write", "values": {"gpu.max_hz": "1; reboot"}},
        {"do": "write", "values": {"fan.pwm": 0}},
        {"do": "begin", "asked": "x", "keep": False, "instead": {"cpu1.online": 0}},
        {"do": "begin", "asked": "x", "keep": False, "instead": {"/etc/max_passwd": 0}},
        {"do": "set_stock", "number": "0; reboot"},
        {"do": "run", "program": "/bin/sh"},
        {"do": "write"},
        {},
        [],
    ],
)
def test_requests_that_are_no_mode_values_are_refused(request_text: object, board: Path) -> None:
    before = open_device(f"jetson:{board}").state()
    begin = {"do": "begin", "asked": "a test", "keep": False, "instead": {}}
    lines = "".join(json.dumps(request) + "\n" for request in (begin, request_text, {"do": "read"}))
    answers = io.StringIO()
    serve(Files(str(board)), io.StringIO(lines), answers)
    began, refused, read = (json.loads(line) for line in answers.getvalue().splitlines())
    assert began == {"answer": None} and "error" in refused
    assert read["answer"] == before == open_device(f"jetson:{board}").state()


def test_nothing_is_written_before_the_board_is_journaled(board: Path, tmp_path: Path) -> None:
    session = SudoSession(command(board, tmp_path))
    with pytest.raises(ControlError, match="journaled"):
        session.write({"gpu.max_hz": 408_000_000})
    session.close()


@needs_root
def test_it_refuses_to_work_as_root_where_others_could_change_it(tmp_path: Path, safe_folder: Path) -> None:
    program = tmp_path / "edgetrain-control"
    program.write_text(program_text())
    ran = subprocess.run(["/usr/bin/python3", "-I", program, "session"], capture_output=True, text=True, check=False)
    assert ran.returncode == 1 and "can be written by others than root" in ran.stderr
    installed = install_control(str(safe_folder / "edgetrain-control"))
    without_isolation = subprocess.run(
        ["/usr/bin/python3", installed, "session"], capture_output=True, text=True, check=False
    )
    assert without_isolation.returncode == 1 and "-I" in without_isolation.stderr
    answered = subprocess.run(
        [installed, "session"], input='{"do": "held"}\n', capture_output=True, text=True, check=False
    )
    assert json.loads(answered.stdout) == {"answer": None} and answered.returncode == 0
    assert subprocess.run([installed], capture_output=True, check=False).returncode == 2


@needs_root
def test_no_line_for_sudoers_while_anyone_but_root_can_write_the_file_or_its_folders(safe_folder: Path) -> None:
    path = str(safe_folder / "edgetrain-control")
    assert "not installed" in (control_problem(path) or "")
    install_control(path)
    assert control_problem(path) is None and os.stat(path).st_mode & 0o777 == 0o755
    assert "NOPASSWD" in (program_finding(path).fix or "")

    def changed(what: Path, mode: int) -> str:
        what.chmod(mode)
        finding = program_finding(path)
        assert finding.works is False and "NOPASSWD" not in f"{finding.fix} {finding.detail}"
        return finding.detail

    assert "written by others" in changed(Path(path), 0o775)
    Path(path).chmod(0o755)
    assert "written by others" in changed(safe_folder, 0o777)
    safe_folder.chmod(0o755)
    Path(path).write_text("# another version\n")
    assert "another version" in (control_problem(path) or "")
    os.chown(path, 12345, 0)
    assert "belongs to user 12345" in (control_problem(path) or "")


@needs_root
def test_it_is_not_installed_where_others_can_write(tmp_path: Path) -> None:
    with pytest.raises(ControlRefused, match="not installed"):
        install_control(str(tmp_path / "sbin/edgetrain-control"))


def test_a_dry_run_installs_nothing_and_needs_no_root(safe_folder: Path, tmp_path: Path) -> None:
    path = safe_folder / "sbin" / "edgetrain-control"
    assert install_control(str(path), dry_run=True) == str(path)
    assert not path.parent.exists()
    with pytest.raises(ControlRefused, match="not installed"):
        install_control(str(tmp_path / "edgetrain-control"), dry_run=True)


def test_the_line_for_sudoers_allows_one_command_without_wildcards() -> None:
    line = sudoers_line("ada")
    assert line == "ada ALL=(root) NOPASSWD: /usr/local/sbin/edgetrain-control session"


@needs_root
def test_the_unit_for_boot_time_starts_nothing_that_a_user_can_change(safe_folder: Path) -> None:
    tree = Tree(safe_folder)
    install_control(tree.at(PROGRAM))
    file = tree.path(install_unit(tree))
    assert f"ExecStart={PROGRAM} restore" in file.read_text()
    assert tree.path(UNIT_LINK).resolve() == file
    assert remove_unit(tree) and not file.exists() and not remove_unit(tree)
    Path(tree.at(PROGRAM)).chmod(0o777)
    with pytest.raises(ControlRefused, match="written by others"):
        install_unit(tree)
