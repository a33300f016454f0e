"""From runs on a simulated board to a mode that is set and undone; and the commands that docs/choosing.md shows."""

import json
import re
import shlex
from pathlib import Path

import numpy as np
import pytest

from edgetrain.cli import main
from edgetrain.device import open_device
from edgetrain.predict import write_table
from edgetrain.runner import execute
from edgetrain.schema import Experiment, Loading, PowerMode, Workload
from edgetrain.store import Store

from .conftest import make_board

MODES = [
    (12, 2201.6, 1300.5, 3199), (12, 2201.6, 624.75, 3199), (4, 1190.4, 930.75, 2133), (8, 729.6, 624.75, 2133),
    (2, 2201.6, 1300.5, 3199), (12, 422.4, 1300.5, 3199), (12, 1190.4, 318.75, 665.6),
]  # fmt: skip


@pytest.fixture
def board(tmp_path, monkeypatch):
    monkeypatch.setenv("EDGETRAIN_SIM_HOME", str(tmp_path / "sim"))
    monkeypatch.setenv("EDGETRAIN_STORE", str(tmp_path / "store"))
    return "sim:orin-agx"


def answer(capsys, *arguments: object) -> dict:
    status = main([*map(str, arguments), "--json"])
    out = capsys.readouterr()
    assert status == 0, out.err
    return json.loads(out.out)


def test_runs_become_a_choice_that_is_confirmed_set_and_undone(board, capsys):
    for cores, *mhz in MODES:
        mode = PowerMode(cores, *(round(each * 1e6) for each in mhz))
        experiment = Experiment(
            Workload("resnet18"), Loading(4), epochs=2, max_minibatches=50, power_mode=mode, campaign="modes"
        )
        execute(experiment, board, Store())
    asked = ("recommend", "--profiled", "modes", "--device", board, "--max-power-w", 25)
    measured = (*asked, "--confirm", 2, "--measure-on", board, "--network", "resnet18", "--apply")
    document = answer(capsys, *measured, "--dry-run")
    assert document["confirmed"] and document["best"]["power_w"]["origin"] == "simulated"
    assert document["best"]["power_w"]["value"] <= 25 and document["applied"]["dry_run"]
    applied = answer(capsys, *measured)
    best = applied["best"]["mode"]
    held = open_device(board).current_mode()
    assert (held.cores, held.cpu_hz, held.gpu_hz) == (best["cores"], best["cpu_hz"], best["gpu_hz"])
    assert main(["modes", "restore", "--device", board]) == 0
    after = open_device(board).current_mode()
    assert (after.cores, after.gpu_hz) == (12, 1_300_500_000)
    capsys.readouterr()
    cool = answer(capsys, *asked, "--peak", "--max-temp-c", 20)
    assert any("too hot" in note for note in cool["notes"]) and any("1 s peaks" in note for note in cool["notes"])
    stalls = answer(capsys, "sensitivity", "modes")
    quantities = {each["quantity"] for each in stalls["elasticities"]}
    assert {"fetch stall", "compute"} <= quantities and stalls["origin"] == "simulated"


def test_a_search_on_the_board_itself_holds_the_limit_for_peaks_too(board, capsys):
    asked = (
        "recommend",
        "--search",
        5,
        "--measure-on",
        board,
        "--network",
        "mobilenet_v3",
        "--max-power-w",
        30,
        "--peak",
    )
    found = answer(capsys, *asked)
    assert found["best"]["power_w"]["value"] < 30 and found["from"]["modes"] == 18096
    assert any("1 s peaks" in note for note in found["notes"])


def shown_commands() -> list[str]:
    text = (Path(__file__).parents[2] / "docs" / "choosing.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```\n(.*?)```", text, re.S)
    return [line for block in blocks for line in block.splitlines() if line.startswith("edgetrain ")]


@pytest.mark.parametrize("command", shown_commands())
def test_every_command_the_page_shows_runs(command, board, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    table = make_board(cores=(2, 4, 6, 8))
    rows = np.array([0, 13, 27, 38, 50, 61, 77, 95, 110, 127])
    (tmp_path / "mine.csv").write_text(write_table(table.take(rows)))
    (tmp_path / "all.csv").write_text(write_table(table))
    # A board at hand is a simulated one here.
    words = [board if word == "auto" else word for word in shlex.split(command)[1:]]
    assert main(words) == 0, capsys.readouterr().err
