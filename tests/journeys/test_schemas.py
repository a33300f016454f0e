"""Programs that read us: every --json document fits its published schema, and --help --json lists all there is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from edgetrain.api import document_names, document_schema
from edgetrain.cli import main
from tests.recording import write_record

jsonschema = pytest.importorskip("jsonschema")
# Checked where these commands are tested, because they limit this machine or take long.
ELSEWHERE = {
    "lab up": "lab/test_lab_cli.py",
    "lab measure": "report/test_lab.py",
    "quickstart": "journeys/test_run.py",
    "tune": "api/test_tune.py",
    "profile": "inside/test_profile.py",
    "reproduce": "journeys/test_findings.py",
    "reproduce --dry-run": "journeys/test_findings.py",
    "predict plan --until": "api/test_documents.py",
    "evaluate": "api/test_documents.py",
    "choose-device": "api/test_documents.py",
    "fleet up": "fleet/test_campaign.py",
    "fleet doctor": "fleet/test_cli.py",
}
BOARD = ("--device", "sim:orin-agx")
MINE = ("--network", "mine", "--board", "orin-agx")
SHORT = ("--epochs", "1", "--minibatches", "20", "--workers", "1")


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("schemas")
    for workers in (1, 2):
        for seed in range(2):
            manifest = {"campaign": "grid-0123abcd", "factors": {"workers": workers}}
            write_record(root / "store", workers=workers, seed=10 * workers + seed, **manifest)
    rows = ["cores,cpu_khz,gpu_hz,emc_hz,time_ms,power_mw"]
    for gpu in (114_750_000, 420_750_000, 624_750_000, 828_750_000, 1_032_750_000, 1_300_500_000):
        for cores in (4, 8, 12):
            rows.append(f"{cores},1651200,{gpu},3199000000,{2e10 / gpu + 40 / cores:.3f},{8000 + gpu / 4e4:.0f}")
    (root / "modes.csv").write_text("\n".join(rows) + "\n")
    more = [row.replace(",3199000000,", ",2133000000,") for row in rows[1:]]
    more += [row.replace(",3199000000,", ",665600000,") for row in rows[1:]]
    (root / "many.csv").write_text("\n".join([*rows, *more]) + "\n")
    (root / "plan.yaml").write_text("name: tiny\nnetwork: lenet5\nepochs: 1\nfactors: {workers: [0, 1]}\n")
    (root / "board.yaml").write_text(
        "name: board\nnetwork: lenet5\ndevice: sim:orin-agx\nepochs: 1\nminibatches: 20\nfactors: {workers: [0, 1]}\n"
    )
    return root


def printed(place: Path, capfd: pytest.CaptureFixture[str], *words: str):
    """Run a command in the folder; return what it printed as JSON."""
    assert main([word.format(store=place / "store", root=place) for word in words]) in (0, None)
    return json.loads(capfd.readouterr().out)


COMMANDS = {
    "--help": ("--help", "--json"),
    "schema": ("schema", "--json"),
    "doctor": ("doctor", "--device", "sim:orin-agx", "--store", "{store}", "--json"),
    "ls": ("ls", "--store", "{store}", "--json"),
    "show": ("show", "last", "--store", "{store}", "--json"),
    "diagnose": ("diagnose", "last", "--store", "{store}", "--json"),
    "whatif": ("whatif", "last", "--set", "workers=4", "--store", "{store}", "--json"),
    "findings": ("findings", "grid", "--store", "{store}", "--json"),
    "export": ("export", "last", "--csv", "-o", "{root}/out.csv", "--store", "{store}", "--json"),
    "prune": ("prune", "--state", "failed", "--dry-run", "--store", "{store}", "--json"),
    "report": ("report", "grid", "-o", "{root}/page.html", "--store", "{store}", "--json"),
    "import": ("import", "{root}/modes.csv", "--store", "{store}", "--json"),
    "run": ("run", "resnet18", *BOARD, *SHORT, "--store", "{store}", "--json"),
    "figures": ("figures", "grid", "--out", "{root}/figures", "--store", "{store}", "--json"),
    "campaign": ("campaign", "{root}/board.yaml", "--store", "{store}", "--json"),
    "data": ("data", "lenet5", "--dataset-scale", "0.001", "--store", "{store}", "--json"),
    "prior add": ("prior", "add", "{root}/many.csv", *MINE, "--to", "{root}/prior.json", "--json"),
    "modes set": ("modes", "set", "8/1728/624.75/2133", *BOARD, "--json"),
    "modes restore": ("modes", "restore", *BOARD, "--json"),
    "baseload": ("baseload", *BOARD, "--seconds", "20", "--json"),
    "baseload --dry-run": ("baseload", *BOARD, "--dry-run", "--json"),
    "campaign --dry-run": ("campaign", "{root}/plan.yaml", "--dry-run", "--store", "{store}", "--json"),
    "data --dry-run": ("data", "lenet5", "--dataset-scale", "0.01", "--dry-run", "--store", "{store}", "--json"),
    "predict table": ("predict", "table", "--profiled", "{root}/modes.csv", "--json"),
    "predict plan": ("predict", "plan", "--candidates", "{root}/modes.csv", "--count", "4", "--json"),
    "recommend": ("recommend", "--profiled", "{root}/modes.csv", "--max-power-w", "30", "--json"),
    "variability": ("variability", "grid", "--store", "{store}", "--json"),
    "sensitivity": ("sensitivity", "{root}/modes.csv", "--json"),
    "prior list": ("prior", "list", "--json"),
    "lab status": ("lab", "status", "--json"),
    "lab up --dry-run": ("lab", "up", "--storage", "sd", "--dry-run", "--json"),
    "lab down": ("lab", "down", "--dry-run", "--json"),
    "devices": ("devices", "--json"),
    "round": ("round", "docs/examples/round.yaml", "--rounds", "20", "--json"),
    "devices show": ("devices", "show", "orin-agx", "--json"),
    "devices --fits": ("devices", "--fits", "lenet5", "--json"),
    "modes list": ("modes", "list", "--device", "sim:orin-agx", "--json"),
    "fleet status": ("fleet", "status", "local", "--json"),
    "fleet up --dry-run": ("fleet", "up", "local", "--dry-run", "--json"),
    "fleet down": ("fleet", "down", "local", "--json"),
    "fleet down --dry-run": ("fleet", "down", "local", "--dry-run", "--json"),
    "plan": ("campaign", "--schema"),
}


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_what_a_command_prints_fits_its_schema(name: str, place: Path, capfd, monkeypatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(place / "state"))
    document = printed(place, capfd, *COMMANDS[name])
    schema = document_schema(name)
    jsonschema.Draft202012Validator.check_schema(schema)
    if name != "plan":  # that one is a schema itself
        jsonschema.validate(document, schema)
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({}, schema)


def test_two_sides_compared_fit_their_schema(place: Path, capfd) -> None:
    rows = printed(place, capfd, "ls", "--store", "{store}", "--json")["runs"]
    names = [row["run"] for row in rows]
    document = printed(place, capfd, "compare", *names[:2], "--", *names[2:], "--store", "{store}", "--json")
    jsonschema.validate(document, document_schema("compare"))


def test_every_schema_is_a_valid_one_and_is_printed_and_written(tmp_path: Path, capfd) -> None:
    for name in document_names():
        jsonschema.Draft202012Validator.check_schema(document_schema(name))
    assert main(["schema", "predict", "table"]) == 0
    assert json.loads(capfd.readouterr().out)["title"] == "edgetrain predict table --json"
    assert main(["schema", "--all-to", str(tmp_path / "schemas")]) == 0
    assert len(list((tmp_path / "schemas").glob("*.json"))) == len(document_names())
    assert main(["schema", "nosuch"]) == 2


def test_help_for_programs_lists_every_command_that_prints_json_with_its_schema(place: Path, capfd) -> None:
    found = printed(place, capfd, "--help", "--json")["commands"]
    assert len(found) > 30 and all(one["help"] and one["group"] for one in found)
    assert all(one["schema"] for one in found if one["json"])
    run = next(one for one in found if one["command"] == "run")
    assert {"--workers", "--json"} <= {name for option in run["options"] for name in option["names"]}


def test_every_document_is_checked_against_its_schema(place: Path, capfd) -> None:
    assert set(document_names()) - set(COMMANDS) - set(ELSEWHERE) == {"compare"}  # below, with names of runs
    for name, file in ELSEWHERE.items():
        assert "check_document(" in (Path(__file__).parents[1] / file).read_text(), name
    found = printed(place, capfd, "--help", "--json")["commands"]
    assert {one["command"] for one in found if one["json"]} <= set(document_names())
