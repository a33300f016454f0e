"""From runs on a simulated board to a mode that is set and undone; and the commands that docs/choosing.md shows."""

import json
import re
import shlex
from pathlib import Path

import pytest

from edgetrain.cli import main
from edgetrain.device import open_device
from edgetrain.prediction import write_table
from edgetrain.record import FolderStore
from edgetrain.runner import execute
from edgetrain.schema import Experiment, Loading, PowerMode, Workload

from .conftest import make_board

MODES = [
    (12, 2201.6, 1300.5, 3199), (12, 2201.6, 624.75, 3199), (4, 1190.4, 930.75, 2133), (8, 729.6, 624.75, 2133),
    (2, 2201.6, 1300.5, 3199), (12, 422.4, 1300.5, 3199), (12, 1190.4, 318.75, 665.6),
]  # fmt: skip


@pytest.fixture
def board(tmp_path, monkeypatch):
    monkeypatch.setenv("EDGETRAIN_SIM_HOME", str(tmp_path / "sim"))
    monkeypatch.setenv("EDGETRAIN_STORE", str(tmp_path / "store"))
    monkeypatch.setenv("EDGETRAIN_CAMPAIGN_LOCK", str(tmp_path))
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
            Workload("resnet18"), Loading(4), epochs=2, minibatches=50, power_mode=mode, campaign="modes"
        )
        execute(experiment, board, FolderStore())
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


def test_a_plan_is_carried_out_as_it_is_and_its_campaign_is_found_by_its_name(board, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    plan = ["predict", "plan", "--device", board, "--count", "5", "--network", "resnet18", "--campaign", "plan.yaml"]
    assert main(plan) == 0
    assert main(["campaign", "plan.yaml"]) == 0
    capsys.readouterr()
    asked = ("recommend", "--profiled", "modes of resnet18", "--device", board, "--max-power-w", 25)
    found = answer(capsys, *asked, "--apply")
    assert found["from"]["profiled"] == 5 and found["best"]["holds"]["power"] >= 0.95
    held = open_device(board).current_mode()
    assert held.gpu_hz == found["best"]["mode"]["gpu_hz"]
    assert main(["modes", "restore", "--device", board]) == 0


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


def blocks(page: str, language: str) -> list[str]:
    """Return the code blocks of a page of the documentation that are in one language."""
    text = (Path(__file__).parents[2] / "docs" / page).read_text(encoding="utf-8")
    return [code for kind, code in re.findall(r"^```(\w*)\n(.*?)^```$", text, re.M | re.S) if kind == language]


def shown_commands() -> list[str]:
    lines = [line for block in blocks("choosing.md", "") for line in block.splitlines()]
    return [line for line in lines if line.startswith("edgetrain ")]


def write_tables(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the files that the pages speak of, and work beside them."""
    monkeypatch.chdir(folder)
    table = make_board(cores=(2, 4, 6, 8))
    rows = [0, 13, 27, 38, 50, 61, 77, 95, 110, 127]
    (folder / "mine.csv").write_text(write_table(table.take(rows)))
    for name in ("all.csv", "table.csv"):
        (folder / name).write_text(write_table(table))


@pytest.mark.parametrize("page", ["choosing.md", "prediction.md"])
def test_the_python_of_the_pages_runs(page, tmp_path, monkeypatch):
    pytest.importorskip("pandas")
    write_tables(tmp_path, monkeypatch)
    (code,) = blocks(page, "python")
    exec(compile(code, page, "exec"), {})


@pytest.mark.parametrize("command", shown_commands())
def test_every_command_the_page_shows_runs(command, board, tmp_path, monkeypatch, capsys):
    write_tables(tmp_path, monkeypatch)
    # A board at hand is a simulated one here.
    words = [board if word == "auto" else word for word in shlex.split(command)[1:]]
    assert main(words) == 0, capsys.readouterr().err
