"""From somebody's logs to a shown run, and from a network to the boards it fits on, by the command line alone."""

from __future__ import annotations

import json
import random

import pytest

from edgetrain.cli import main
from tests.torture.folders import write_folder


@pytest.fixture
def store(tmp_path, monkeypatch):
    monkeypatch.setenv("EDGETRAIN_STORE", str(tmp_path / "store"))
    return tmp_path


def test_import_then_show_then_ls(store, capsys):
    folder = store / "resnet" / "pm_4_883200_510000000_2133000000"
    write_folder(folder, random.Random(1))
    assert main(["import", str(folder), "--window", "5:", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "edgetrain/1"
    (found,) = document["imported"]
    assert found["origin"] == "replayed" and found["minibatches"] == 12 and found["problems"]
    assert main(["show", found["id"], "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["origin"] == "replayed"
    assert shown["steady"] == {"first": 5, "last": 11, "rule": "asked: --window 5:"}
    assert shown["minibatch"]["median_ms"] == pytest.approx(233, rel=0.01)
    assert shown["power_w"]["median"] == pytest.approx(11, rel=0.05)
    assert main(["show", "last"]) == 0
    assert "replayed" in capsys.readouterr().out
    assert main(["ls", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["runs"][0]["device"] == "orin-nano"


def test_import_lists_what_was_wrong_for_people_too(store, capsys):
    folder = store / "resnet" / "pm_4_883200_510000000_2133000000"
    files = write_folder(folder, random.Random(2))
    files["ram_stats"].write_bytes(b"\x00\xff" * 50)
    assert main(["import", str(folder)]) == 0
    text = capsys.readouterr().out
    assert "what was wrong" in text and "NUL" in text and "edgetrain show" in text


def test_a_table_is_imported_as_a_campaign(store, capsys):
    table = store / "orin_nano_resnet_train.csv"
    table.write_text("cores,cpu_khz,gpu_hz,emc_hz,time_ms,power_mw\n4,883200,510000000,2133000000,330,13800\n")
    assert main(["import", str(table), "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["imported"]
    assert found["kind"] == "campaign" and found["samples"] == 1


@pytest.mark.parametrize("arguments", [["nowhere"], ["{store}"], ["{store}/x.log"], ["{store}/x.log", "--window", "5"]])
def test_a_users_mistake_is_a_sentence_and_status_2(store, capsys, arguments):
    (store / "x.log").write_text("not a log\n")
    assert main(["import", *(each.format(store=store) for each in arguments)]) == 2
    streams = capsys.readouterr()
    assert streams.out == "" and streams.err.startswith("edgetrain: ") and "Traceback" not in streams.err


def test_devices_lists_the_catalogue_with_sources(store, capsys):
    assert main(["devices", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    boards = {board["key"]: board for board in document["devices"]}
    assert {"nano", "tx2", "xavier-nx", "xavier-agx", "orin-nano", "orin-nx", "orin-agx", "thor"} <= set(boards)
    assert boards["orin-agx"]["mode_count"] == 18_096 and boards["orin-agx"]["origin"] == "published"
    assert boards["thor"]["cpu"] is None and boards["thor"]["mode_count"] is None
    assert set(boards["nano"]["sources"].values()) <= set(document["sources"])
    assert main(["devices"]) == 0
    assert "orin-agx" in capsys.readouterr().out


def test_devices_show_names_clocks_modes_and_sources(store, capsys):
    assert main(["devices", "show", "p3701-0000"]) == 0
    text = capsys.readouterr().out
    assert "2201.6" in text and "MAXN" in text and "[nvpmodel]" in text and "PowerTrain" in text
    assert main(["devices", "show", "toaster"]) == 2


def test_devices_says_whether_a_network_fits_and_on_what_that_stands(store, capsys):
    assert main(["devices", "--fits", "mobilenet_v3", "--batch-size", "16", "--workers", "4", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    verdicts = {fit["device"]: fit["verdict"] for fit in document["fits"]}
    # As published: MobileNet trains on Xavier NX and AGX, and not on a Nano.
    assert verdicts["nano"] == "does not fit" and verdicts["xavier-nx"] == verdicts["xavier-agx"] == "fits"
    assert document["need"]["origin"] == "predicted"
    assert main(["devices", "--fits", "lenet5", "--device", "nano"]) == 0
    text = capsys.readouterr().out
    assert "usable RAM of nano" in text and "meta device" in text


def test_devices_refuses_what_is_neither_network_nor_run(store, capsys):
    assert main(["devices", "--fits", "nothing"]) == 2
    assert main(["devices", "--fits", "lenet5", "--os", "lots"]) == 2
    assert main(["devices", "--fits", "lenet5", "--optimizer", "magic"]) == 2
    assert capsys.readouterr().out == ""
