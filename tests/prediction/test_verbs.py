import json

import pytest
import yaml

from edgetrain.api.mode_plans import spell_plan_mode
from edgetrain.cli import main
from edgetrain.device import open_device
from edgetrain.prediction import bare, read_table, write_table
from edgetrain.schema import ModeSpace, PowerMode


@pytest.fixture
def files(tmp_path, network, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "all.csv").write_text(write_table(network))
    (tmp_path / "modes.csv").write_text(write_table(bare(network)))
    return tmp_path


def test_from_a_plan_to_a_table_of_every_mode(files, capsys):
    assert main(["predict", "plan", "--candidates", "modes.csv", "--count", "7", "-o", "ask.csv", "--json"]) == 0
    plan = json.loads(capsys.readouterr().out)
    asked = read_table("ask.csv", need_results=False)
    assert len(asked) == len(plan["modes"]) == 7
    assert sorted(row["rank"] for row in plan["modes"]) == list(range(1, 8))
    assert plan["cost"]["training_min"] is None and plan["cost"]["switching_min"] > 0
    truth = read_table("all.csv", need_results=True)
    rows = [row["row"] for row in plan["modes"]]
    (files / "mine.csv").write_text(write_table(truth.take(rows)))
    assert main(["predict", "table", "--profiled", "mine.csv", "--modes", "modes.csv", "-o", "out.csv"]) == 0
    header = (files / "out.csv").read_text().splitlines()[0].split(",")
    for column in ("time_ms", "power_mw", "energy_mj"):
        assert {column, f"{column}_lo", f"{column}_hi"} <= set(header)
    out = read_table("out.csv", need_results=True)
    assert len(out) == len(truth)
    assert abs(out.time_s / truth.time_s - 1).mean() < 0.08


def test_profiling_until_an_accuracy_is_reached_through_a_table(files, capsys):
    ask = ["predict", "plan", "--candidates", "modes.csv", "--truth", "all.csv", "--until", "6%", "--count", "25"]
    assert main([*ask, "-o", "got.csv", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["reached"] and document["origin"] == "replayed"
    assert len(read_table("got.csv", need_results=True)) == document["profiled"]
    assert main([*ask[:-1], "2"]) == 1


def test_a_plan_becomes_a_campaign_that_carries_its_device_and_its_workload(files, capsys):
    ask = ["predict", "plan", "--device", "sim:orin-agx", "--count", "3", "--campaign", "plan.yaml"]
    assert main([*ask, "--network", "resnet18"]) == 0
    plan = yaml.safe_load((files / "plan.yaml").read_text())
    assert plan["device"] == "sim:orin-agx" and plan["network"] == "resnet18" and "command" not in plan
    assert main(["campaign", "plan.yaml", "--dry-run", "--store", "store", "--json"]) == 0
    assert '"device": "sim:orin-agx"' in capsys.readouterr().out
    assert len(plan["factors"]["power_mode"]) == 3
    space = open_device("sim:orin-agx").modes()
    assert all(isinstance(space.find(text), PowerMode) for text in plan["factors"]["power_mode"])
    assert main([*ask, "--command", "python train.py --lr 0.1"]) == 0
    plan = yaml.safe_load((files / "plan.yaml").read_text())
    assert plan["command"] == ["python", "train.py", "--lr", "0.1"] and plan["name"] == "modes of train"
    assert "network" not in plan and "epochs" not in plan
    assert main(["campaign", "plan.yaml", "--dry-run", "--store", "store"]) == 0
    assert main(ask) == 2 and "--network or --command" in capsys.readouterr().err
    ask[3] = "orin-agx"
    assert main([*ask, "--network", "resnet18"]) == 0
    assert (files / "plan.yaml").read_text().startswith("# planned for orin-agx: run it on that board")
    assert yaml.safe_load((files / "plan.yaml").read_text())["device"] == "auto"


@pytest.mark.parametrize(
    ("mode", "spelled"),
    [
        (PowerMode(8, 1_728_000_000, 612_750_000, 3_199_000_000), "8/1728/612.75/3199"),
        (PowerMode(4, 1_500_000_000), "4/1500"),
        (PowerMode(4, 1_500_000_000, 900_000_000), "4/1500/900"),
        (PowerMode(4, 1_500_000_000, None, 1_600_000_000), "4/1500/-/1600"),
    ],
)
def test_clocks_that_do_not_exist_are_left_out_of_a_plan(mode, spelled):
    assert spell_plan_mode(mode) == spelled
    tables = [(clock,) if clock else () for clock in (mode.cpu_hz, mode.gpu_hz, mode.emc_hz)]
    assert ModeSpace((mode.cores,), *tables).find(spelled) == mode


def test_an_evaluation_is_one_document_with_the_agreed_names(files, capsys):
    assert main(["evaluate", "all.csv", "--profile", "6", "--seeds", "2", "--json", "--without", "resnet"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert len(found["time"]["mape"]["per_seed"]) == 2
    for quantity in ("time", "power", "energy"):
        assert {"mape", "median", "p95"} <= set(found[quantity])
    assert {"time", "power"} <= set(found["coverage90"]) and "width90" in found and "fit_s" in found
    assert not any("resnet" in held for held in found["prior"]["held"])
    assert main(["evaluate", "all.csv", "--profile", "5", "--seeds", "1", "--prior", "none", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["prior"]["held"] == []


def test_budgets_are_evaluated_in_the_same_document(files, capsys):
    ask = ["evaluate", "all.csv", "--profile", "6", "--seeds", "1", "--budgets", "25:27", "--json"]
    assert main(ask) == 0
    assert "penalty_pct" in json.loads(capsys.readouterr().out)["budgets"]


def test_a_network_can_be_added_to_a_prior_and_left_out_again(files, capsys):
    add = ["prior", "add", "all.csv", "--network", "mine", "--board", "orin-agx", "--to", "p.json"]
    assert main([*add, "--dry-run"]) == 0 and not (files / "p.json").exists()
    assert main(add) == 0
    capsys.readouterr()
    assert main(["prior", "list", "p.json", "--json"]) == 0
    shipped, own = json.loads(capsys.readouterr().out)["priors"]
    assert len(own["entries"]) == len(shipped["entries"]) + 1
    assert main(["evaluate", "all.csv", "--seeds", "1", "--prior", "p.json", "--without", "mine", "--json"]) == 0
    assert not any("mine" in held for held in json.loads(capsys.readouterr().out)["prior"]["held"])


@pytest.mark.parametrize(
    "ask",
    [
        ["evaluate", "none.csv"],
        ["evaluate", "modes.csv"],
        ["evaluate", "all.csv", "--profile", "441"],
        ["evaluate", "all.csv", "--prior", "nowhere"],
        ["evaluate", "all.csv", "--method", "magic"],
        ["evaluate", "all.csv", "--seeds", "1", "--budgets", "many"],
        ["evaluate", "all.csv", "--seeds", "1", "--budgets", "1:1e12"],
        ["evaluate", "all.csv", "--seeds", "1", "--budgets", "nan:inf"],
        ["predict", "plan", "--count", "3"],
        ["predict", "plan", "--candidates", "modes.csv", "--count", "900"],
        ["predict", "plan", "--candidates", "modes.csv", "--until", "never", "--truth", "all.csv"],
        ["predict", "plan", "--candidates", "modes.csv", "--until", "5%"],
        ["predict", "table", "--profiled", "none.csv", "--modes", "modes.csv"],
        ["prior", "add", "all.csv", "--network", "x", "--board", "y", "--kind", "sleep"],
    ],
)
def test_wrong_usage_is_said_in_one_line_and_ends_with_2(files, capsys, ask):
    assert main(ask) == 2
    said = capsys.readouterr().err
    assert "edgetrain: " in said or "Usage" in said
    assert "Traceback" not in said


def test_one_profiled_mode_is_too_few_and_that_is_said(files, capsys):
    (files / "one.csv").write_text("\n".join((files / "all.csv").read_text().splitlines()[:2]) + "\n")
    assert main(["predict", "table", "--profiled", "one.csv", "--modes", "modes.csv"]) == 1
    assert "too few" in capsys.readouterr().err
