"""A CSV of power modes becomes one campaign; units are converted, and rows that cannot be believed are kept apart."""

from __future__ import annotations

import csv

import pytest

from edgetrain.errors import BadTable, StoreError
from edgetrain.store import Store
from edgetrain.store.campaigns import read_table, tables
from edgetrain.store.importers import import_path

HEADER = "cores,cpu_khz,gpu_hz,emc_hz,time_ms,time_mean_ms,power_mw"
ROWS = [
    "2,268800,306000000,665600000,1500.5,1600,7800",
    "4,883200,510000000,2133000000,330.25,380,13800",
    "6,1510400,624750000,2133000000,260,262,17900",
]


def bring_in(tmp_path, rows, header=HEADER, name="orin_nano_resnet_train.csv", **options):
    path = tmp_path / name
    path.write_text("\n".join([header, *rows]) + "\n")
    store = Store(tmp_path / "store")
    (found,) = import_path(path, store, **options)
    return found, read_table(store, found.id)


def test_a_table_becomes_a_campaign_in_our_units(tmp_path):
    found, table = bring_in(tmp_path, ROWS)
    assert found.kind == "campaign" and found.problems == ()
    assert table.columns["cpu_hz"].tolist() == [268.8e6, 883.2e6, 1510.4e6]
    assert table.columns["time_s"].tolist() == pytest.approx([1.5005, 0.33025, 0.26])
    assert table.columns["power_w"].tolist() == pytest.approx([7.8, 13.8, 17.9])
    assert table.about["device"]["name"] == "orin-nano" and table.about["workload"]["network"] == "resnet18"
    assert table.about["origin"] == "replayed"


def test_the_row_file_is_read_by_the_predictors_as_the_source_would_be(tmp_path):
    from edgetrain.predict.table import read_table as read_for_prediction

    _, table = bring_in(tmp_path, ROWS)
    modes = read_for_prediction(table.modes_csv, need_results=True)
    assert modes.time_s == pytest.approx(table.columns["time_s"]) and modes.emc_hz[0] == 665.6e6
    assert [each.power_w for each in table.measurements()] == pytest.approx(modes.power_w.tolist())


def test_a_column_in_another_unit_than_it_names_is_converted_and_told(tmp_path):
    rows = ["2,268.8,306,665.6,1500.5,1600,7.8", "4,883.2,510,2133,330.25,380,13.8"]
    found, table = bring_in(tmp_path, rows)
    assert table.columns["cpu_hz"].tolist() == [268.8e6, 883.2e6]
    assert table.columns["power_w"].tolist() == pytest.approx([7.8, 13.8])
    assert sum("converted" in problem for problem in found.problems) == 4


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("4,883200,510000000,2133000000,330,380", "6 values under 7 columns"),
        ("4,883200,510000000,2133000000,fast,380,13800", "no number"),
        ("0,883200,510000000,2133000000,330,380,13800", "no count of cores"),
        ("4,883200000,510000000,2133000000,330,380,13800", "cannot be that"),
        ("4,883200,510000000,2133000000,-3,380,13800", "cannot be that"),
        ("4,883200,510000000,2133000000,330,380,13800000000", "cannot be that"),
        ("4,883200,510000000,2133000000,0.33,380,13800", "another unit"),
        ("2,268800,306000000,665600000,3000,1600,7800", "contradict"),
    ],
)
def test_a_row_that_cannot_be_believed_is_left_out_told_and_kept_beside_the_table(tmp_path, row, reason):
    found, table = bring_in(tmp_path, [*ROWS, *(r.replace("330.25", "331") for r in ROWS[1:]), row])
    assert any(reason in problem for problem in found.problems), found.problems
    kept = 2 if reason == "contradict" else 3
    assert len(table) == kept
    with (table.path / "left_out.csv").open() as file:
        assert len(list(csv.reader(file))) == 2


def test_batch_sizes_tell_rows_of_one_mode_apart(tmp_path):
    header = "cores,cpu_mhz,gpu_mhz,emc_mhz,batch_size,time_s,power_w"
    found, table = bring_in(tmp_path, ["4,422.4,114.75,665.6,1,0.09,11", "4,422.4,114.75,665.6,16,0.5,12"], header)
    assert len(table) == 2 and found.problems == ()


def test_columns_we_do_not_know_are_kept_and_told(tmp_path):
    header = HEADER + ",loss"
    found, table = bring_in(tmp_path, [row + ",0.5" for row in ROWS], header)
    assert table.columns["loss"].tolist() == [0.5] * 3
    assert any("loss" in problem for problem in found.problems)


def test_a_table_whose_subject_is_not_in_its_name_asks_for_it(tmp_path):
    found, _ = bring_in(tmp_path, ROWS, name="modes.csv")
    assert any("--device" in problem for problem in found.problems)
    found, table = bring_in(tmp_path, ROWS, name="modes.csv", about={"device": "orin-nano", "network": "resnet18"})
    assert found.problems == () and table.about["device"]["name"] == "orin-nano"


@pytest.mark.parametrize(
    "header", ["cores,cpu_khz,gpu_hz,time_ms,power_mw", "cores,cpu_khz,cpu_hz,gpu_hz,emc_hz,time_ms,power_mw"]
)
def test_a_table_that_lacks_or_repeats_a_clock_is_refused_by_its_line(tmp_path, header):
    with pytest.raises(BadTable, match=r"\.csv:1:"):
        bring_in(tmp_path, [], header)


def test_a_table_without_a_believable_row_is_refused(tmp_path):
    with pytest.raises(BadTable, match="no mode"):
        bring_in(tmp_path, ["a,b,c,d,e,f,g"])


def test_campaigns_are_found_by_the_start_of_their_id_and_listed(tmp_path):
    found, table = bring_in(tmp_path, ROWS)
    store = Store(tmp_path / "store")
    assert read_table(store, "orin_nano").id == found.id
    assert read_table(store, str(table.path)).id == found.id
    assert [each["campaign"] for each in tables(store)] == [found.id]
    with pytest.raises(StoreError, match=found.id):
        read_table(store, "nothing")
