import json
from dataclasses import replace

import numpy as np
import pytest

from edgetrain.errors import PredictError, UsageError
from edgetrain.prediction import dump_prior, learn_entry, load_prior
from edgetrain.prediction.modes.prior_files import SHIPPED
from tests.prediction.conftest import grid, measured


def test_a_network_left_out_is_left_out_on_every_board():
    left = load_prior("orin", without=("resnet",))
    assert left.entries and all(entry.network != "resnet" for entry in left.entries)
    assert any(entry.network == "resnet" for entry in load_prior("orin").entries)


def test_one_network_on_one_board_or_a_whole_board_can_be_left_out():
    left = load_prior("orin", without=("resnet@orin-nano",))
    assert {e.board for e in left.entries if e.network == "resnet"} == {"orin-agx"}
    assert {e.board for e in load_prior("orin", without=("orin-nano",)).entries} == {"orin-agx"}


def test_leaving_out_what_is_not_there_changes_nothing_and_warns(caplog):
    assert load_prior("orin", without=("bert",)).entries == load_prior("orin").entries
    assert "bert" in caplog.text


def test_a_network_is_left_out_by_its_name_in_our_catalogue_too():
    for ours, published in (("resnet18", "resnet"), ("mobilenet_v3", "mobnet")):
        assert load_prior("orin", without=(ours,)).entries == load_prior("orin", without=(published,)).entries


def test_the_shipped_prior_holds_coefficients_and_no_values_at_modes():
    document = json.loads((SHIPPED / "orin.json").read_text())
    assert document["provenance"]
    for entry in document["entries"]:
        numbers = sum(len(v) if isinstance(v, dict) else isinstance(v, (int, float)) for v in entry.values())
        assert numbers < 90 < entry["modes"] or entry["modes"] == 90
        assert entry["source"]


def test_a_prior_reads_back_as_it_was_written(tmp_path):
    prior = load_prior("orin")
    path = tmp_path / "orin.json"
    path.write_text(dump_prior(prior))
    assert load_prior(str(path)) == prior


def test_what_is_learned_from_a_whole_table_does_not_depend_on_its_scale():
    table = measured(grid(), 2)
    one = learn_entry(table, "x", "y")
    other = learn_entry(replace(table, time_s=5 * table.time_s, power_w=table.power_w / 3), "x", "y")
    assert np.array(other.time) == pytest.approx(np.array(one.time), abs=0.05)
    assert 0.0 < one.time_scatter < 0.015  # of modes that the accelerator dominates; the table was made with 1 %


def test_too_small_a_table_teaches_nothing():
    with pytest.raises(PredictError, match="too few"):
        learn_entry(measured(grid()).take(slice(0, 12)), "x", "y")


@pytest.mark.parametrize("text", ["", "{}", '{"schema": "edgetrain-prior-1", "entries": [{}]}', "[]", "[" * 5000])
def test_a_broken_prior_file_is_refused(tmp_path, text):
    path = tmp_path / "p.json"
    path.write_text(text)
    with pytest.raises(UsageError):
        load_prior(str(path))
