"""From the command line to the record: run, show, bad days, quickstart."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("torch")

from edgetrain import api
from edgetrain.cli import main
from edgetrain.inside.stream import MAGIC
from edgetrain.record import FolderStore
from edgetrain.report.document import emit
from edgetrain.runner import characterise
from tests.schemas import check_document

SMALL = ["--dataset-scale", "0.01", "--minibatches", "6", "--epochs", "1"]


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return tmp_path_factory.mktemp("store")


def test_run_and_show_give_the_same_document(store, capfd):
    assert main(["run", "lenet5", *SMALL, "--workers", "1", "--cache", "warm", "--store", str(store), "--json"]) == 0
    ran = capfd.readouterr()
    assert main(["show", "last", "--store", str(store), "--json"]) == 0
    assert json.loads(ran.out) == json.loads(capfd.readouterr().out)
    document = json.loads(ran.out)
    (epoch,) = document["epochs"]
    assert epoch["minibatches"] == 6
    assert document["loading"]["workers"] == 1
    parts = epoch["fetch_stall_s"] + (epoch["copy_s"] or 0) + epoch["compute_s"] + epoch["overhead_s"]
    assert parts == pytest.approx(epoch["e2e_s"])
    assert sum(epoch["stall_by"].values()) == pytest.approx(epoch["fetch_stall_s"])
    assert epoch["energy_j"] is None or epoch["energy_j"] > 0
    assert "generating the dataset" in ran.err


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["run", "alexnet"], "no workload is called 'alexnet'"),
        (["run", "lenet5", "--dataset", "/nowhere"], "there is no dataset at /nowhere"),
        (
            ["run", "lenet5", "--dataset-scale", "0.001", "--batch-size", "64"],
            "60 samples, fewer than one minibatch of 64",
        ),
        (["run", "lenet5", "--compute", "paced"], "--compute-ms"),
        (["run", "lenet5", "--batch-size", "0"], "--batch-size is 0; the minimum is 1"),
        (["run", "lenet5", "--workers", "many"], "--workers"),
        (["run", "lenet5", "--optimizer", "nope"], "one of sgd, adam, adamw"),
        (["run", "lenet5", "--learning-rate", "nan"], "--learning-rate is nan; write a finite number"),
        (["run", "lenet5", "--classes", "0"], "--classes is 0; the minimum is 1"),
        (["run", ":make"], "write module:function"),
        (["run", "mine:"], "write module:function"),
        (["run", "lenet5", "--dataset-scale", "0.01", "--storage", "tape"], "tape"),
        (["run", "lenet5", "--workers", "100000"], "--workers is 100000; the maximum is 512"),
        (["data", "lenet5", "/nowhere"], "there is no dataset"),
        (["quickstart", "-o", "/nowhere/page.html"], "no folder /nowhere"),
    ],
)
def test_wrong_usage_is_status_2_and_a_sentence_without_a_traceback(store, capfd, arguments, text):
    assert main([*arguments, "--store", str(store)]) == 2
    caught = capfd.readouterr()
    assert text in caught.err and "Traceback" not in caught.err and caught.out == ""


def test_a_store_that_cannot_be_written_is_status_1_and_a_sentence(store, capfd):
    dataset = str(store / "small")
    assert main(["data", "lenet5", "-o", dataset, "--dataset-scale", "0.01"]) == 0
    assert main(["run", "lenet5", "--dataset", dataset, "--store", "/proc/edgetrain"]) == 1
    caught = capfd.readouterr().err
    assert "--store" in caught and "Traceback" not in caught


def start(store):
    """Start a run that would take minutes, and wait until its first minibatches are on disk."""
    command = [sys.executable, "-m", "edgetrain", "run", "lenet5", "--dataset-scale", "0.01", "--epochs", "9999"]
    command += ["--compute", "paced", "--compute-ms", "5", "--workers", "1", "--store", str(store)]
    tool = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    until_s = time.monotonic() + 60
    while time.monotonic() < until_s:
        for stream in Path(store).glob("runs/*/minibatches-*.ets"):
            pid = int(stream.stem.partition("-")[2])
            if Path(f"/proc/{pid}").exists() and MAGIC in stream.read_bytes():
                return tool, pid
        assert tool.poll() is None, tool.stderr.read()
        time.sleep(0.05)
    raise AssertionError("no minibatch was recorded within a minute")


def gone(pid):
    """Return whether a process is gone, or waits for nobody but its parent."""
    for _ in range(300):
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except OSError:
            return True
        time.sleep(0.1)
    return False


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_run_ends_with_128_and_the_signal_and_a_readable_record(store, number, status):
    tool, pid = start(store)
    tool.send_signal(number)
    out, err = tool.communicate(timeout=60)
    assert tool.returncode == status and out == ""
    assert "interrupted" in err and "edgetrain show" in err and "Traceback" not in err
    run = FolderStore(store).open("last")
    assert run.manifest.state == "interrupted" and not run.lost
    assert len(run.minibatches()["asked_us"]) > 0
    assert gone(pid)


def test_a_killed_tool_leaves_a_closed_record_and_no_process(store):
    tool, pid = start(store)
    tool.kill()
    tool.communicate(timeout=60)
    assert gone(pid)
    run = FolderStore(store).open("last")
    assert run.manifest.state == "interrupted"
    assert "edgetrain itself was killed" in run.manifest.reason
    assert len(run.minibatches()["asked_us"]) > 0


def test_data_generates_once_and_says_what_there_is(tmp_path, capfd):
    arguments = ["data", "mobilenet_v3", "--dataset-scale", "0.0005", "--store", str(tmp_path)]
    assert main([*arguments, "--dry-run"]) == 0
    assert "would generate 12 samples, about 1.46 MB" in capfd.readouterr().out and not any(tmp_path.iterdir())
    assert main([*arguments, "--dry-run", "--json"]) == 0
    assert json.loads(capfd.readouterr().out)["samples"] == 12 and not any(tmp_path.iterdir())
    documents = []
    for _ in range(2):
        assert main([*arguments, "--json"]) == 0
        documents.append(json.loads(capfd.readouterr().out))
    assert documents[0] == documents[1]
    assert (documents[0]["samples"], documents[0]["files"], documents[0]["classes"]) == (12, 12, 203)


def test_ctrl_c_while_a_dataset_is_drawn_says_that_what_there_is_stays(tmp_path):
    command = [
        sys.executable,
        "-m",
        "edgetrain",
        "data",
        "mobilenet_v3",
        "--dataset-scale",
        "0.1",
        "--store",
        str(tmp_path),
    ]
    tool = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True)
    until_s = time.monotonic() + 60
    while not any(tmp_path.glob("data/*/images/*")) and time.monotonic() < until_s:
        time.sleep(0.02)
    # As a terminal does: to every process of the foreground.
    os.killpg(tool.pid, signal.SIGINT)
    out, err = tool.communicate(timeout=60)
    assert tool.returncode == 130 and out == ""
    assert "the same command continues from there" in err and "Traceback" not in err


def test_a_characterisation_trains_and_writes_its_report(tmp_path, capsys):
    subject = characterise.Subject("lenet5", 0.01, 4, 4, 6, 1.0)
    page, announced = tmp_path / "page.html", []
    found = api.characterise(
        page, store=tmp_path / "store", announce=announced.append, subjects=(subject,), workers=(1,), caches=("cold",)
    )
    assert [(run.loading.workers, run.loading.cache) for run in found.runs] == [(1, "cold")]
    assert not found.failed and found.report == str(page)
    assert len(announced) == 2 and "per minibatch" in announced[1]
    text = page.read_text()
    assert "lenet5" in text and "<svg" in text
    emit(found)
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "edgetrain/1" and document["runs"][0]["run"] == found.runs[0].run
    check_document(["quickstart"], document)


def test_the_characterisation_crosses_workers_with_cold_and_warm():
    for subject in characterise.SUBJECTS:
        made = list(characterise.plan_characterisation(subject, 7, "mine"))
        settings = {(experiment.loading.workers, experiment.loading.cache) for experiment in made}
        assert settings == {(workers, cache) for workers in (0, 1, 2) for cache in ("cold", "warm")}
        assert len(made) == 6 and {experiment.minibatches for experiment in made} == {7}


def test_the_budget_decides_the_minibatches_within_bounds():
    subject = characterise.SUBJECTS[1]
    assert characterise.affordable(subject, 1e-9, 140) == subject.most
    assert characterise.affordable(subject, 1e9, 140) == subject.least
    counts = [characterise.affordable(subject, step_s, 140) for step_s in (0.2, 0.5, 1.0, 2.0)]
    assert counts == sorted(counts, reverse=True)
