"""From a recorded run to its diagnosis, to predictions of other settings, and to a remedy that is tried."""

from __future__ import annotations

import json
import sys
from dataclasses import replace

import pytest

pytest.importorskip("torch")

import edgetrain as et
from edgetrain.cli import main
from edgetrain.documents import result_document
from edgetrain.errors import UsageError

PACED = ["--compute", "paced", "--compute-ms", "2", "--epochs", "2", "--dataset-scale", "0.02"]


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    folder = tmp_path_factory.mktemp("store")
    arguments = ["run", "lenet5", *PACED, "--workers", "1", "--cache", "warm", "--store", str(folder), "--json"]
    assert main(arguments) == 0
    return folder


def said(capfd):
    return json.loads(capfd.readouterr().out)


def test_a_diagnosis_names_a_cause_with_evidence_and_ranked_remedies(store, capfd):
    assert main(["diagnose", "last", "--store", str(store), "--json"]) == 0
    document = said(capfd)
    assert json.loads(json.dumps(result_document(et.diagnose("last", store=store)))) == document
    assert document["schema"] == "edgetrain/1"
    assert document["verdict"]
    assert sum(document["shares"].values()) == pytest.approx(1.0)
    assert document["evidence"]
    gains = [each["gain_pct"] for each in document["remedies"]]
    assert gains == sorted(gains, reverse=True)
    for each in document["remedies"]:
        assert each["e2e_lo"] <= each["e2e_s"] <= each["e2e_hi"]


def test_run_and_profile_end_with_what_limits_the_training(tmp_path, capfd, monkeypatch):
    monkeypatch.setenv("EDGETRAIN_SIM_HOME", str(tmp_path / "sim"))
    store = str(tmp_path / "store")
    board = ["--device", "sim:orin-agx", "--epochs", "1", "--minibatches", "40", "--workers", "4"]
    assert main(["run", "lenet5", *board, "--store", store]) == 0
    last = " ".join(capfd.readouterr().out.split("\n\n")[-1].split())
    assert "this training" in last and last.count(".") <= 1
    assert main(["profile", "--device", "host", "--store", store, "--", sys.executable, "-c", "pass"]) == 0
    assert "what limits this training is not known" in " ".join(capfd.readouterr().err.split())


def test_a_what_if_gives_first_and_later_epochs_with_intervals(store, capfd):
    assert main(["whatif", "last", "--set", "workers=0", "batch_size=32", "--store", str(store), "--json"]) == 0
    document = said(capfd)
    (row,) = document["settings"]
    assert row["changes"] == {"workers": 0, "batch_size": 32}
    for epoch in (row["first"], row["later"]):
        for part in ("e2e_s", "stall_s", "compute_s"):
            assert epoch[part]["lo"] <= epoch[part]["value"] <= epoch[part]["hi"]
            assert epoch[part]["origin"] == "predicted"
        assert epoch["energy_j"] is None or epoch["energy_j"]["value"] > 0
    assert any("batch size" in text for text in row["assumed"])
    assert len(document["recorded"]) == 2


def test_a_sweep_gives_a_row_per_value_and_a_drawing(store, capfd, tmp_path):
    drawing = tmp_path / "workers.svg"
    assert main(["whatif", "last", "--sweep", "workers=0..3", "-o", str(drawing), "--store", str(store)]) == 0
    text = capfd.readouterr().out
    for workers in range(4):
        assert f"workers={workers}" in text
    assert drawing.read_text().startswith("<svg")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--set", "wrokers=2"], "'wrokers' is not a setting; what can be changed: workers"),
        (["--set", "workers=0", "prefetch=4"], "contradict"),
        (["--set", "storage=ufs"], "storage=ufs is not a known medium; known: ssd, sd, hdd, emmc"),
        (["--set", "workers"], "NAME=VALUE"),
        ([], "nothing to change"),
        (["--sweep", "workers=4..1"], "ends before it begins"),
        (["--set", "workers=2", "--sweep", "workers=0..4"], "workers is given twice"),
        (["--set", "cache=keep"], "write cache=cold or cache=warm"),
        (["--set", "workers=2", "-o", "x.svg"], "-o needs --sweep"),
        (["--set", "storage=sd", "--media", "/nowhere.yaml"], "/nowhere.yaml"),
    ],
)
def test_wrong_changes_are_status_2_and_a_sentence(store, capfd, arguments, text):
    assert main(["whatif", "last", *arguments, "--store", str(store)]) == 2
    shown = capfd.readouterr()
    assert text in shown.err
    assert "Traceback" not in shown.err
    assert shown.out == ""


def test_a_run_that_is_too_short_is_diagnosed_without_remedies(store, capfd):
    short = [
        "--minibatches",
        "4",
        "--epochs",
        "1",
        "--dataset-scale",
        "0.02",
        "--compute",
        "paced",
        "--compute-ms",
        "2",
    ]
    assert main(["run", "lenet5", *short, "--workers", "0", "--store", str(store), "--json"]) == 0
    run = said(capfd)["run"]
    assert main(["whatif", run, "--set", "workers=1", "--store", str(store)]) == 1
    assert "has 4 minibatches; at least 16" in capfd.readouterr().err
    assert main(["diagnose", run, "--store", str(store), "--json"]) == 0
    document = said(capfd)
    assert document["remedies"] == []
    assert "at least 16" in document["remedies_reason"]
    with pytest.raises(UsageError, match="no remedy to try"):
        et.diagnose(run, verify=True, store=store)
    et.remove_run(run, store)


def test_a_run_without_minibatches_is_refused_with_a_sentence(tmp_path, capfd):
    store = str(tmp_path)
    assert main(["profile", "--device", "host", "--store", store, "--", sys.executable, "-c", "pass"]) == 0
    capfd.readouterr()
    assert main(["diagnose", "last", "--store", store]) == 1
    shown = capfd.readouterr()
    assert "holds no training minibatches" in shown.err and "Traceback" not in shown.err


def test_the_best_remedy_is_tried_and_compared(store, capfd):
    assert main(["diagnose", "last", "--verify", "--store", str(store), "--json"]) == 0
    document = said(capfd)
    tried = document["verified"]
    assert tried["predicted_lo"] <= tried["predicted_s"] <= tried["predicted_hi"]
    assert tried["measured_s"] > 0
    best = next(each for each in document["remedies"] if each["settings"])
    assert tried["change"] == best["change"]
    made = et.open_run(tried["run"], store)
    for name, value in best["settings"].items():
        assert getattr(made.manifest.experiment.loading, name) == value


def test_a_remedy_is_tried_on_the_board_of_the_run_and_nowhere_else(tmp_path, monkeypatch):
    monkeypatch.setenv("EDGETRAIN_SIM_HOME", str(tmp_path / "sim"))
    settings = {"workers": 0, "epochs": 2, "minibatches": 60}
    run = et.execute("mobilenet_v3", device="sim:orin-agx", store=tmp_path / "store", **settings)
    tried = et.diagnose(run, verify=True, store=tmp_path / "store").verified
    made = et.open_run(tried.run, tmp_path / "store")
    assert (made.manifest.device.kind, made.manifest.device.name) == ("simulated", "orin-agx")
    assert tried.gain_pct > 10
    elsewhere = replace(run.manifest, device=replace(run.manifest.device, kind="jetson"))
    with pytest.raises(UsageError, match=r"recorded on another machine \(orin-agx, serial"):
        et.diagnose(replace(run, manifest=elsewhere), verify=True, store=tmp_path / "store")


def test_a_command_is_tried_by_a_function_that_overrides_its_loader(store):
    run = et.runs(store)[0].run
    asked = []

    def measure(settings):
        asked.append(settings)
        return et.open_run(run, store)

    found = et.diagnose(run, verify=True, measure=measure, store=store)
    assert asked and found.verified is not None
    assert found.verified.run == run
