"""The lab's and the campaign's commands: what they print, what they refuse, and their exit status."""

import json

import pytest

from edgetrain.cli import main
from edgetrain.errors import LabError
from edgetrain.lab import find_sessions, images, sessions
from tests.schemas import check_document

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
    found = json.loads(capsys.readouterr().out)
    check_document(arguments, found)
    return found


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
        assert [one["session"] for one in would["would_remove"]] == [up["session"]] and find_sessions()
    finally:
        removed = document(capsys, "lab", "down", "--json")
    assert [one["session"] for one in removed["removed"]] == [up["session"]]
    assert not find_sessions()


def test_a_dry_run_sets_nothing_up(capsys, files):
    found = document(capsys, "lab", "up", "--storage", "hdd", "--dataset", str(files), "--dry-run", "--json")
    assert found["would_hold"]["storage"]["name"] == "hdd"
    assert not find_sessions()


def test_terminal_text_has_sentences_and_no_python_values(capsys, own_lab, files):
    arguments = ["lab", "up", "--storage", "sd", "--page-cache", "20MB", "--cores", "1", "--dataset", str(files)]
    assert main([*arguments, "--dry-run"]) == 0
    assert "would limit this machine: storage like sd, page cache 20 MB, 1 core" in capsys.readouterr().out
    try:
        assert main(arguments) == 0
        up = capsys.readouterr().out
        assert "storage: sd" in up and "page cache: 20 MB" in up and "edgetrain profile -- python train.py" in up
        assert main(["lab", "status"]) == 0
        status = capsys.readouterr().out
        assert "stays until `edgetrain lab down`; limits storage, page cache, cores" in status
    finally:
        assert main(["lab", "down"]) == 0
    down = capsys.readouterr().out
    assert down.startswith("removed ")
    assert not any(sign in text for text in (up.partition("to run a program")[0], status, down) for sign in "{}[]'")


@pytest.mark.parametrize(
    "arguments",
    [
        ["lab", "up"],
        ["lab", "up", "--storage", "sd"],
        ["lab", "up", "--storage", "floppy", "--dataset", "."],
        ["lab", "up", "--cores", "0"],
        ["lab", "up", "--cpu-share", "65"],
        ["lab", "up", "--preset", "xavier-nx", "--shrink", "0"],
        ["lab", "up", "--preset", "toaster"],
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


def test_a_full_disk_is_refused_before_an_image_is_begun(files, tmp_path):
    with pytest.raises(LabError, match="EDGETRAIN_LAB_IMAGES"):
        images.build_image(files, free=lambda folder: 1000)
    assert not list((tmp_path / "images").glob("*"))
