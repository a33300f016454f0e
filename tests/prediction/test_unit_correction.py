"""A kind's predictor, corrected for one unit by one or two of its modes."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from edgetrain import api
from edgetrain.cli import main
from edgetrain.errors import UsageError
from edgetrain.prediction import ModePredictor, ModeTable, bare, choose_modes, parse_predictor, write_table


@pytest.fixture(scope="module")
def kind(request: pytest.FixtureRequest) -> ModePredictor:
    table = request.getfixturevalue("network")
    return api.predict(table.take(choose_modes(bare(table), 8)), modes=bare(table))


def scaled(table: ModeTable, time: float, power: float) -> ModeTable:
    """Return what a unit measures that is slower and draws more by these factors."""
    mean = None if table.time_mean_s is None else table.time_mean_s * time
    assert table.time_s is not None and table.power_w is not None
    return replace(table, time_s=table.time_s * time, time_mean_s=mean, power_w=table.power_w * power)


def test_one_mode_of_a_unit_corrects_every_prediction(kind: ModePredictor, network: ModeTable) -> None:
    unit = scaled(kind.profiled.take([0]), 1.08, 0.93)
    corrected = api.predict_unit(kind, unit)
    assert corrected.unit is not None and corrected.unit.modes == 1
    assert corrected.unit.time.lo < 1.08 < corrected.unit.time.hi
    assert corrected.unit.power.lo < 0.93 < corrected.unit.power.hi
    assert network.time_s is not None
    before, after = (
        float(np.abs(one.predictions.time_s / (1.08 * network.time_s) - 1).mean()) for one in (kind, corrected)
    )
    assert after < before - 0.03
    mode = network.mode(40)
    assert corrected.at(mode).time_s.value == pytest.approx(corrected.table().columns.time_ms[40] / 1e3)


def test_a_correction_widens_intervals_by_what_it_leaves_open(kind: ModePredictor) -> None:
    corrected = api.predict_unit(kind, kind.profiled.take([0]))
    assert (corrected.predictions.time_log_sd > kind.predictions.time_log_sd).all()
    twice = api.predict_unit(kind, kind.profiled.take([0, 1]))
    assert (twice.predictions.time_log_sd < corrected.predictions.time_log_sd).all()


def test_a_unit_like_its_kind_stays_as_predicted(kind: ModePredictor) -> None:
    corrected = api.predict_unit(kind, kind.profiled.take([0, 1]))
    assert corrected.predictions.time_s == pytest.approx(kind.predictions.time_s)


def test_a_mode_that_the_kind_was_not_profiled_in_counts_for_less(kind: ModePredictor, network: ModeTable) -> None:
    known = api.predict_unit(kind, scaled(kind.profiled.take([0]), 1.1, 1.0))
    rest = [row for row in range(len(network)) if network.mode(row) not in [kind.profiled.mode(i) for i in range(8)]]
    other = api.predict_unit(kind, scaled(network.take(rest[:1]), 1.1, 1.0))
    assert known.unit is not None and other.unit is not None
    assert known.unit.time.hi - known.unit.time.lo < other.unit.time.hi - other.unit.time.lo


def test_modes_that_disagree_are_trusted_less(kind: ModePredictor) -> None:
    agree = scaled(kind.profiled.take([0, 1]), 1.1, 1.1)
    factors = np.asarray([1.0, 1.3])
    assert agree.time_s is not None
    mean = None if kind.profiled.time_mean_s is None else kind.profiled.time_mean_s[:2] * factors
    assert kind.profiled.time_s is not None
    disagree = replace(agree, time_s=kind.profiled.time_s[:2] * factors, time_mean_s=mean)
    first, second = (api.predict_unit(kind, table).unit for table in (agree, disagree))
    assert first is not None and second is not None
    assert second.time.hi - second.time.lo > 2 * (first.time.hi - first.time.lo)


def test_a_unit_that_differs_too_much_is_doubted(kind: ModePredictor) -> None:
    warnings = api.predict_unit(kind, scaled(kind.profiled.take([0, 1]), 2.0, 1.0)).table().warnings
    assert any("check that the same network and batch size" in text for text in warnings)


def test_a_saved_predictor_keeps_its_unit(kind: ModePredictor) -> None:
    corrected = api.predict_unit(kind, scaled(kind.profiled.take([0]), 1.08, 0.93))
    read = parse_predictor(corrected.dump()).predict(kind.board)
    assert read.time_s == pytest.approx(corrected.predictions.time_s)
    assert parse_predictor(kind.dump()).unit is None


def test_a_wrong_spread_of_units_is_refused(kind: ModePredictor) -> None:
    with pytest.raises(UsageError, match="between 0 and 100 %"):
        api.predict_unit(kind, kind.profiled.take([0]), deviation=5.0)


def test_the_command_says_how_the_unit_differs(kind: ModePredictor, tmp_path, capsys) -> None:
    (tmp_path / "kind.csv").write_text(write_table(kind.profiled))
    (tmp_path / "unit.csv").write_text(write_table(scaled(kind.profiled.take([0]), 1.08, 0.93)))
    (tmp_path / "modes.csv").write_text(write_table(kind.board))
    ask = ["predict", "table", "--profiled", str(tmp_path / "kind.csv"), "--modes", str(tmp_path / "modes.csv")]
    assert main([*ask, "--unit-profile", str(tmp_path / "unit.csv")]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "this unit against its kind, by 1 mode of" in out and re.search(r"time \+[5-8]\.", out)
