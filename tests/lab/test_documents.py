"""The commands and the plan that docs/lab.md shows are understood as written."""

import re
import shlex
import textwrap
from pathlib import Path

import pytest

from edgetrain.cli import main
from edgetrain.runner.plan_reading import plan_from_text

TEXT = (Path(__file__).parents[2] / "docs" / "lab.md").read_text()
COMMANDS = [match.strip() for match in re.findall(r"^    sudo edgetrain (.*?)(?:  .*)?$", TEXT, re.M)]


def test_the_plan_shown_is_read():
    (plan,) = re.findall(r"^    name: workers-by-storage\n(?:    .*\n)+", TEXT, re.M)
    read = plan_from_text(textwrap.dedent(plan))
    assert len(read.runs()) == 3 * (4 * 3 + 1)


def test_every_command_of_the_opening_is_found():
    assert [command.split()[0] for command in COMMANDS] == ["lab", "run", "lab", "lab"]


@pytest.mark.parametrize("command", COMMANDS)
def test_the_options_shown_exist(command, capsys):
    words = shlex.split(command)
    options = [word for word in words if word.startswith("--")]
    names = words[:2] if words[0] == "lab" else words[:1]
    assert main([*names, "--help"]) == 0
    shown = capsys.readouterr().out
    assert all(option in shown for option in options)
