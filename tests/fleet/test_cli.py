"""The commands: a dry run names boards and runs, doctor and status print one document, nothing is started."""

import json

import pytest

from edgetrain.cli import main
from edgetrain.fleet import SCHEDULER, Fleet
from edgetrain.fleet.agent import ProcessIds
from edgetrain.report import fleet_line, show_fleet_doctor, show_fleet_progress
from edgetrain.schema import FleetBoardProgress, FleetCheck, FleetDoctor, FleetProgress
from edgetrain.units import spell_bytes
from tests.report.printing import printed
from tests.schemas import check_document


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("EDGETRAIN_FLEET_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("EDGETRAIN_STORE", str(tmp_path / "store"))
    return tmp_path / "home"


@pytest.fixture
def plan(tmp_path):
    path = tmp_path / "plan.yaml"
    path.write_text("name: p\nnetwork: lenet5\nminibatches: 8\nfactors: {workers: [0, 1]}\nplace: {board: nano}\n")
    return str(path)


def test_a_dry_run_on_a_fleet_lists_runs_and_boards_and_starts_nothing(plan, home, capsys):
    assert main(["campaign", plan, "--on", "local", "--dry-run", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["left"] == 2 and found["device"] == "fleet local: nano-1 (nano)"
    assert not home.exists()


def test_a_device_beside_a_fleet_is_refused(plan, capsys):
    assert main(["campaign", plan, "--on", "local", "--device", "host"]) == 2
    assert "leave --device out" in capsys.readouterr().err


def test_a_plan_that_fits_on_no_board_is_refused_before_anything_starts(tmp_path, home, capsys):
    path = tmp_path / "plan.yaml"
    path.write_text("name: p\nnetwork: lenet5\nplace: {label: [rack=9]}\n")
    assert main(["campaign", str(path), "--on", "local"]) == 2
    assert "no board of the fleet local fits" in capsys.readouterr().err and not home.exists()


def test_status_and_dry_runs_of_up_and_down_change_nothing(home, capsys):
    assert main(["fleet", "status", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert len(found["rows"]) == 5 and not any(row["running"] for row in found["rows"])
    assert main(["fleet", "down", "local", "--dry-run"]) == 0
    assert "nothing of the fleet local runs" in capsys.readouterr().out
    assert main(["fleet", "up", "local", "--dry-run"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "here: dask scheduler" in out and out.count("dask worker") == 4 and "--tls-ca-file" in out
    assert not home.exists()


def test_a_dry_run_of_down_names_every_process_that_would_be_stopped(monkeypatch, capsys):
    monkeypatch.setattr(Fleet, "pids", lambda self: {SCHEDULER: ProcessIds(1, 11), "nano-1": ProcessIds(2, 12)})
    assert main(["fleet", "down", "local", "--dry-run", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    check_document(["fleet", "down", "--dry-run"], found)
    assert found["commands"] == [
        "here: stop the worker of nano-1 (process 12)",
        "here: stop the scheduler (process 11)",
    ]


def test_doctor_prints_one_document_for_all_boards(capsys):
    pytest.importorskip("distributed")
    assert main(["fleet", "doctor", "local", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    check_document(["fleet", "doctor"], found)
    assert [check["problems"] for check in found["checks"]] == [[]] * 4


def test_doctor_shows_every_board_in_one_table_with_what_is_wrong_below_it():
    good = FleetCheck("a", "nano", None, "me", "sim:nano", "3.11", {"edgetrain": "0.1.0"}, 0, 0, 1 << 33, 300, False)
    bad = FleetCheck("b", "nano", "10.0.0.2", "me", None, None, {}, None, None, None, None, None, ("it is off",))
    text = printed(show_fleet_doctor(FleetDoctor("lab", {"edgetrain": "0.1.0"}, (good, bad))))
    assert "b: it is off" in text and spell_bytes(1 << 33) in text and "not made" not in text
    assert "1 problem" in text and "1 problems" not in text


def test_the_progress_of_all_boards_is_one_view():
    boards = (
        FleetBoardProgress("a", "nano", "working", 3.0, "k", {"workers": 1}, 2, 0, None),
        FleetBoardProgress("b", "nano", "disconnected", 70.0, None, {}, 0, 1, "b (10.0.0.2): cannot be reached by ssh"),
    )
    progress = FleetProgress("c", 5, {"x": "r"}, {"y": "no"}, {"a": "k"}, boards, {}, 60.0)
    text = printed(show_fleet_progress(progress))
    assert "working" in text and "cannot be reached" in text and "workers" in text
    assert fleet_line(progress).startswith("[1/5] done, 1 failed; 1 boards at work; disconnected: b")
