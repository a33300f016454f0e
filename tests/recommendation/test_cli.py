"""The deciding verbs, driven as a user would, on a board that is a table."""

import json
from dataclasses import replace

import numpy as np
import pytest

from edgetrain.cli import main
from edgetrain.prediction import fit, write_table
from edgetrain.prediction.modes.saved import dump_predictor

from .conftest import make_board


@pytest.fixture
def files(tmp_path):
    board = make_board()
    rows = np.array([0, 13, 27, 38, 50, 61, 77, 95])
    (tmp_path / "truth.csv").write_text(write_table(board))
    (tmp_path / "profiled.csv").write_text(write_table(board.take(rows)))
    (tmp_path / "modes.csv").write_text(write_table(replace(board, time_s=None, time_mean_s=None, power_w=None)))
    return tmp_path


def run(capsys, *arguments: object) -> tuple[int, str, str]:
    status = main([str(argument) for argument in arguments])
    out = capsys.readouterr()
    return status, out.out, out.err


def answer(capsys, *arguments: object) -> dict:
    status, out, err = run(capsys, *arguments, "--json")
    assert status == 0, err
    document = json.loads(out)
    assert document["schema"] == "edgetrain/1"
    return document


def asked(files, *more: object) -> tuple[object, ...]:
    return ("recommend", "--profiled", files / "profiled.csv", "--modes", files / "modes.csv", "--prior", "none", *more)


def test_a_recommendation_names_mode_costs_probabilities_runner_up_and_what_relaxing_buys(files, capsys):
    document = answer(capsys, *asked(files, "--max-power-w", 9))
    best = document["best"]
    assert best["power_w"]["origin"] == "predicted" and best["power_w"]["lo"] < best["power_w"]["hi"]
    assert best["holds"]["power"] >= 0.95
    assert document["runner_up"] is not None
    assert document["relaxed"][0]["to"] == pytest.approx(9.9)
    assert document["from"] == {
        "profiled": 8,
        "predictor": None,
        "left_out": None,
        "prior": None,
        "board": str(files / "modes.csv"),
        "modes": 96,
    }


def test_confirming_on_a_table_returns_what_was_measured_within_the_limit(files, capsys):
    document = answer(capsys, *asked(files, "--max-power-w", "9W", "--confirm", 3, "--truth", files / "truth.csv"))
    assert document["confirmed"] and document["best"]["power_w"]["value"] <= 9
    assert 1 <= len(document["trail"]) <= 3
    assert document["best"]["power_w"]["origin"] == "replayed"


def test_the_text_explains_itself_with_the_numbers(files, capsys):
    status, out, _ = run(capsys, *asked(files, "--max-power-w", 9, "--explain", "--frontier"))
    assert status == 0
    for words in (
        "you asked for the least time with power ≤ 9 W",
        "probability",
        "runner-up",
        "relaxing the power limit",
        "knee",
    ):
        assert words in " ".join(out.split())


def test_a_table_measured_in_full_needs_no_prediction(files, capsys):
    document = answer(capsys, "recommend", "--profiled", files / "truth.csv", "--max-power-w", 9)
    board = make_board()
    assert document["best"]["time_s"]["value"] == pytest.approx(board.time_mean_s[board.power_w <= 9].min(), rel=1e-4)
    assert document["best"]["time_s"]["origin"] == "replayed"


def test_a_saved_predictor_answers_for_its_board_and_is_refused_by_another(files, capsys):
    board = make_board()
    bare = replace(board, time_s=None, time_mean_s=None, power_w=None)
    rows = np.array([0, 13, 27, 38, 50, 61, 77, 95])
    (files / "mine.json").write_text(dump_predictor(fit(board.take(rows), None, 0, bare)))
    document = answer(
        capsys, "recommend", "--predictor", files / "mine.json", "--modes", files / "modes.csv", "--max-power-w", 9
    )
    assert document["best"] is not None and document["from"]["predictor"].endswith("mine.json")
    status, _, err = run(
        capsys, "recommend", "--predictor", files / "mine.json", "--device", "orin-agx", "--max-power-w", 9
    )
    assert status == 2 and "does not match" in err


def test_minimize_has_one_meaning_in_both_spellings(files, capsys):
    found = [answer(capsys, *asked(files, spelling, "energy")) for spelling in ("--minimize", "--minimise")]
    assert found[0]["goal"]["minimize"] == "energy" and found[0]["best"] == found[1]["best"]


def test_limits_nothing_keeps_end_with_status_1_and_name_the_nearest(files, capsys):
    status, out, _ = run(capsys, *asked(files, "--max-power-w", 3))
    assert status == 1
    assert "no mode keeps the limits" in out and "the nearest mode is" in " ".join(out.split())


def test_a_search_starts_from_nothing(files, capsys):
    document = answer(
        capsys,
        "recommend",
        "--search",
        7,
        "--modes",
        files / "modes.csv",
        "--truth",
        files / "truth.csv",
        "--max-power-w",
        9,
    )
    assert document["from"]["profiled"] == 0 and document["confirmed"]
    assert document["best"]["power_w"]["value"] <= 9


def test_whole_trainings_batteries_and_phases_are_added_when_asked(files, capsys):
    document = answer(
        capsys,
        *asked(files, "--max-power-w", 10, "--minibatches", 1000, "--epochs", 5, "--cold-epoch-s", "20min"),
        *("--baseload-w", 4, "--battery-wh", 50, "--period", "24h", "--between-w", 1.5),
    )
    training = document["training"]
    assert training["cold_extra_s"] > 0
    assert training["between"]["waiting_s"] == pytest.approx(86400 - training["time_s"]["value"])
    assert training["battery"]["rounds"] >= training["battery"]["rounds_sure"]
    assert document["phases"]["reason"]
    assert document["goal"]["work"]["minibatches"] == 5000
    status, out, _ = run(
        capsys, *asked(files, "--minibatches", 1000, "--epochs", 5, "--battery-wh", 50, "--max-power-w", 10)
    )
    assert status == 0 and "on 50 Wh" in out


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--max-power-w", "-4"], "above zero"),
        (["--max-power-w", "9J"], "cannot read"),
        (["--max-power-w", 3, "--baseload-w", 4], "below what the board draws when idle"),
        (["--minimize", "speed"], "cannot minimize"),
        (["--confidence", 10], "confidence"),
        (["--confirm", 2, "--max-power-w", 9], "--confirm needs something to measure with"),
        (["--epochs", 3], "--minibatches"),
        (["--minibatches", "inf"], "--minibatches is inf; write a finite number"),
        (["--minibatches", 9, "--epochs", 3, "--baseload-w", "nan"], "--baseload-w is nan; write a finite number"),
        (["--minibatches", 9, "--epochs", 3, "--switch-s", -1], "--switch-s must be zero or more"),
        (["--seed", -1], "--seed"),
        (["--profiled", ""], "which modes were profiled"),
        (["--battery-wh", 50], "whole trainings"),
        (["--peak", "--max-power-w", 9], "peak"),
        (["--stock-only"], "stock"),
        (["--search", 5], "--search starts from nothing"),
        (["--device", "orin-agx"], "either --modes or --device"),
    ],
)
def test_a_mistaken_command_ends_with_status_2_and_says_what_to_do(files, capsys, more, words):
    status, out, err = run(capsys, *asked(files, *more))
    assert status == 2 and words in err and "Traceback" not in err and out == ""


def test_an_unknown_board_or_one_that_cannot_be_meant_is_refused(files, capsys):
    status, _, err = run(
        capsys, "recommend", "--profiled", files / "profiled.csv", "--device", "toaster", "--max-power-w", 9
    )
    assert status == 2 and "toaster" in err
    status, _, err = run(
        capsys, "recommend", "--profiled", files / "profiled.csv", "--device", "nano", "--max-power-w", 9
    )
    assert status == 2 and "another board" in err
    status, _, err = run(capsys, "recommend", "--profiled", files / "nowhere.csv", "--max-power-w", 9)
    assert status == 2 and "neither a CSV file nor a campaign" in err


def test_sensitivity_tells_which_clock_rules(files, capsys):
    document = answer(capsys, "sensitivity", files / "truth.csv")
    assert document["rules"]["power"] in ("gpu_hz", "cpu_hz", "cores", "emc_hz")
    cells = {(e["quantity"], e["factor"]): e for e in document["elasticities"]}
    assert cells["time", "gpu_hz"]["value"] < 0 < cells["power", "gpu_hz"]["value"]
    status, out, _ = run(capsys, "sensitivity", files / "truth.csv")
    assert status == 0 and "GPU clock" in out
    predicted = answer(
        capsys, "sensitivity", files / "profiled.csv", "--predict", "--modes", files / "modes.csv", "--prior", "none"
    )
    assert predicted["origin"] == "predicted" and predicted["modes"] == 96
