"""The lab's and the campaign's commands: what they print, what they refuse, and their exit status."""

import json

import pytest

from edgetrain.cli import main
from edgetrain.errors import LabError
from edgetrain.lab import sessions, storage

PLAN = """
name: seen
network: lenet5
compute: paced
compute_ms: 2
factors:
  workers: [0, 1]
"""


@pytest.fixture(autouse=True)
def own_state(tmp_path, monkeypatch):
    monkeypatch.setenv("EDGETRAIN_LAB_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("EDGETRAIN_LAB_IMAGES", str(tmp_path / "images"))
    monkeypatch.setenv("EDGETRAIN_STORE", str(tmp_path / "store"))


def document(capsys, *arguments, status=0):
    assert main([*arguments]) == status
    return json.loads(capsys.readouterr().out)


def test_a_lab_that_is_down_says_so(capsys):
    found = document(capsys, "lab", "status", "--json")
    assert found["schema"] and found["sessions"] == [] and "cgroups" in found["mechanisms"]
    assert document(capsys, "lab", "down", "--json")["removed"] == []


def test_lab_up_holds_until_lab_down(capsys, own_lab, files):
    up = document(capsys, "lab", "up", "--storage", "sd", "--page-cache", "20MB", "--dataset", str(files), "--json")
    try:
        assert up["origin"] == "emulated" and up["got"]["storage"]["medium"] == "sd"
        (session,) = document(capsys, "lab", "status", "--json")["sessions"]
        assert session["held"] and not session["leftover"] and session["loops"]
        assert sessions.sweep() == []
        would = document(capsys, "lab", "down", "--dry-run", "--json")
        assert [one["session"] for one in would["would_remove"]] == [up["session"]] and sessions.sessions()
    finally:
        removed = document(capsys, "lab", "down", "--json")
    assert [one["session"] for one in removed["removed"]] == [up["session"]]
    assert not sessions.sessions()


def test_a_dry_run_sets_nothing_up(capsys, files):
    found = document(capsys, "lab", "up", "--storage", "hdd", "--dataset", str(files), "--dry-run")
    assert found["would_hold"]["storage"]["name"] == "hdd"
    assert not sessions.sessions()


@pytest.mark.parametrize(
    "arguments",
    [
        ["lab", "up"],
        ["lab", "up", "--storage", "sd"],
        ["lab", "up", "--storage", "floppy", "--dataset", "."],
        ["lab", "up", "--cores", "0"],
        ["lab", "up", "--as", "toaster"],
        ["lab", "up", "--storage", "sd", "--dataset", "/nowhere/at/all"],
        ["campaign"],
        ["campaign", "/nowhere/plan.yaml"],
        ["reproduce", "hipc", "--section", "nothing"],
        ["reproduce", "another-paper"],
    ],
)
def test_wrong_usage_is_a_sentence_and_status_2(capsys, arguments):
    assert main(arguments) == 2
    seen = capsys.readouterr()
    assert seen.err.strip() and "Traceback" not in seen.err and not seen.out


def test_a_campaign_shows_its_runs_and_their_cost_before_it_starts(capsys, tmp_path):
    plan = tmp_path / "plan.yaml"
    plan.write_text(PLAN)
    found = document(capsys, "campaign", str(plan), "--dry-run", "--json")
    assert found["left"] == 2 and found["cost"]["time_s"] > 0 and found["cost"]["energy_j"] is None
    assert main(["campaign", str(plan), "--dry-run"]) == 0
    assert "2 runs to do" in capsys.readouterr().out
    assert not (tmp_path / "store" / "runs").exists()


def test_the_schema_is_printed_for_editors(capsys):
    assert document(capsys, "campaign", "--schema")["properties"]["factors"]


def test_a_mistake_in_a_plan_is_named_with_its_line(capsys, tmp_path):
    plan = tmp_path / "plan.yaml"
    plan.write_text(PLAN.replace("workers", "wrkers"))
    assert main(["campaign", str(plan)]) == 2
    assert "plan.yaml line 7" in capsys.readouterr().err


def test_a_full_disk_is_said_before_an_image_is_begun(files, tmp_path, monkeypatch):
    monkeypatch.setattr(storage.shutil, "disk_usage", lambda path: type("Usage", (), {"free": 1000})())
    with pytest.raises(LabError, match="EDGETRAIN_LAB_IMAGES"):
        storage.build_image(files)
    assert not list((tmp_path / "images").glob("*"))
