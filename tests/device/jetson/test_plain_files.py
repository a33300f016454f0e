"""The code that writes a real board's files, on plain files; and the commands that docs/boards.md shows."""

from __future__ import annotations

import json
import os
import re
import shlex
from pathlib import Path

import pytest

from edgetrain.cli import main
from edgetrain.device import ModeRequest, open_device
from edgetrain.device.privileged import open_beneath
from edgetrain.device.tree import Tree
from tests import boards

DOCUMENT = Path(__file__).parents[3] / "docs/boards.md"


# tegra210 shows a held memory rate in another file than the one it is written to.
@pytest.mark.parametrize("name", [name for name in boards.PAIRS if name != "nano-jp4"])
def test_a_mode_is_written_and_put_back_through_the_real_file_code(name: str, tmp_path: Path) -> None:
    device = open_device(f"jetson:{boards.build(name, tmp_path)}")
    space, control = device.modes(), device.control()
    assert space is not None and control is not None
    before = device.state()
    mode = next(iter(space))  # one core, the lowest clocks
    with control.hold(ModeRequest(mode)):
        assert control.drift() == []
        assert device.current_mode().cpu_hz == mode.cpu_hz
    assert device.state() == before


def test_writing_follows_no_link_and_creates_nothing(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    (tmp_path / "sys").mkdir()
    (tmp_path / "sys/real").write_text("1\n")
    (tmp_path / "sys/link").symlink_to("real")
    (tmp_path / "alias").symlink_to("sys")
    tree.write("/sys/real", "22")
    assert tree.text("/sys/real") == "22"
    for name in ("/sys/link", "/alias/real", "/sys/none", "/sys/../sys/real", "/"):
        with pytest.raises(OSError):
            tree.write(name, "3")
    assert tree.text("/sys/real") == "22" and not (tmp_path / "sys/none").exists()


def test_no_descriptor_is_left_behind_by_a_refused_write(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        with pytest.raises(OSError):
            open_beneath(str(tmp_path), "/a/b/c", os.O_WRONLY)
    assert len(os.listdir("/proc/self/fd")) == before


def test_links_that_leave_the_root_end_nowhere(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    (tmp_path / "outside").write_text("secret")
    (tmp_path / "root/way").symlink_to(tmp_path / "outside")
    assert Tree(tmp_path / "root").real("/way") is None


def commands() -> list[str]:
    found = re.findall(r"^ +(?:sudo )?(edgetrain modes .+?)(?: {3,}.*| +#.*| \(.*)?$", DOCUMENT.read_text(), re.M)
    return [command.strip() for command in found]


def test_the_document_shows_commands_to_try() -> None:
    assert len(commands()) >= 6


@pytest.mark.parametrize("command", commands())
def test_every_command_on_modes_that_the_document_shows_works(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("EDGETRAIN_SIM_HOME", str(tmp_path / "sim"))
    root = boards.build("orin-agx-jp6", tmp_path / "board")
    arguments = shlex.split(command)[1:]
    if "install-control" in arguments:
        return  # writes to this machine; tests/device/test_privileged.py proves it
    dry = [] if "list" in arguments else ["--dry-run"]
    device = [] if "--device" in arguments else ["--device", f"jetson:{root}"]
    assert main([*arguments, *device, *dry]) == 0
    heard = capsys.readouterr()
    assert heard.out or heard.err


def test_the_plan_that_the_document_shows_runs_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("EDGETRAIN_SIM_HOME", str(tmp_path / "sim"))
    monkeypatch.setenv("EDGETRAIN_STORE", str(tmp_path / "store"))
    section = DOCUMENT.read_text().split("## 6.")[1].split("## 7.")[0]
    plan = tmp_path / "plan.yaml"
    plan.write_text(
        "\n".join(line[4:] for line in section.splitlines() if line.startswith("    ") and "edgetrain" not in line)
    )
    command = re.findall(r"^    (edgetrain campaign .*)$", section, re.M)[0]
    arguments = [str(plan) if word == "plan.yaml" else word for word in shlex.split(command)[1:]]
    assert main([*arguments, "--json"]) == 0
    done = json.loads(capsys.readouterr().out)
    assert done["planned"] == len(done["done"]) == 3 and not done["failed"]
