"""A CSV of power modes becomes one campaign; units are converted, and rows that cannot be used are kept apart."""

from __future__ import annotations

import csv

import pytest

from edgetrain.errors import BadTable, StoreError
from edgetrain.importers import PowerRange, import_path
from edgetrain.record import FolderStore, read_table, tables
from edgetrain.schema import Origin, PowerMode

HEADER = "cores,cpu_khz,gpu_hz,emc_hz,time_ms,time_mean_ms,power_mw"
ROWS = [
    "2,268800,306000000,665600000,1500.5,1600,7800",
    "4,883200,510000000,2133000000,330.25,380,13800",
    "6,1510400,624750000,2133000000,260,262,17900",
]


def bring_in(tmp_path, rows, header=HEADER, name="orin_nano_resnet_train.csv", **options):
    path = tmp_path / name
    path.write_text("\n".join([header, *rows]) + "\n")
    store = FolderStore(tmp_path / "store")
    (found,) = import_path(path, store, **options)
    return found, read_table(store, found.id)


def test_a_table_becomes_a_campaign_in_our_units(tmp_path):
    found, table = bring_in(tmp_path, ROWS)
    assert found.kind == "campaign" and found.problems == ()
    assert table.columns["cpu_hz"].tolist() == [268.8e6, 883.2e6, 1510.4e6]
    assert table.columns["time_s"].tolist() == pytest.approx([1.5005, 0.33025, 0.26])
    assert table.columns["power_w"].tolist() == pytest.approx([7.8, 13.8, 17.9])
    assert table.about.device.name == "orin-nano" and table.about.workload.network == "resnet18"
    assert table.about.origin is Origin.REPLAYED


def test_the_row_file_is_read_by_the_predictors_as_the_source_would_be(tmp_path):
    from edgetrain.prediction import read_table as read_for_prediction

    _, table = bring_in(tmp_path, ROWS)
    modes = read_for_prediction(table.modes_csv, need_results=True)
    assert modes.time_s == pytest.approx(table.columns["time_s"]) and modes.emc_hz[0] == 665.6e6
    assert [each.power_w for each in table.measurements()] == pytest.approx(modes.power_w.tolist())


def test_a_column_in_another_unit_than_it_names_is_converted_and_listed(tmp_path):
    rows = ["2,268.8,306,665.6,1500.5,1600,7.8", "4,883.2,510,2133,330.25,380,13.8"]
    found, table = bring_in(tmp_path, rows)
    assert table.columns["cpu_hz"].tolist() == [268.8e6, 883.2e6]
    assert table.columns["power_w"].tolist() == pytest.approx([7.8, 13.8])
    assert sum("converted" in problem for problem in found.problems) == 4


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("4,883200,510000000,2133000000,330,380", "6 values under 7 columns"),
        ("4,883200,510000000,2133000000,fast,380,13800", "time_ms is not a number"),
        ("0,883200,510000000,2133000000,330,380,13800", "cores is not a whole number"),
        ("4,883200000,510000000,2133000000,330,380,13800", "cpu_khz is not a clock"),
        ("4,883200,510000000,2133000000,-3,380,13800", "time_ms is not above 0"),
        ("4,883200,510000000,2133000000,330,380,13800000000", "power_mw is not a power of a board"),
        ("4,883200,510000000,2133000000,0.33,380,13800", "check the unit of this line"),
        ("2,268800,306000000,665600000,3000,1600,7800", "contradict"),
    ],
)
def test_a_row_that_cannot_be_used_is_left_out_listed_and_kept_beside_the_table(tmp_path, row, reason):
    found, table = bring_in(tmp_path, [*ROWS, *(r.replace("330.25", "331") for r in ROWS[1:]), row])
    assert any(reason in problem for problem in found.problems), found.problems
    contradict = reason == "contradict"
    assert len(table) == (2 if contradict else 3)
    with (table.path / "left_out.csv").open() as file:
        assert len(list(csv.reader(file))) == (3 if contradict else 2)


def test_rows_of_one_mode_with_different_batch_sizes_are_kept(tmp_path):
    header = "cores,cpu_mhz,gpu_mhz,emc_mhz,batch_size,time_s,power_w"
    found, table = bring_in(tmp_path, ["4,422.4,114.75,665.6,1,0.09,11", "4,422.4,114.75,665.6,16,0.5,12"], header)
    assert len(table) == 2 and found.problems == ()


def test_columns_we_do_not_know_are_kept_and_listed(tmp_path):
    header = HEADER + ",loss"
    found, table = bring_in(tmp_path, [row + ",0.5" for row in ROWS], header)
    assert table.columns["loss"].tolist() == [0.5] * 3
    assert any("loss" in problem for problem in found.problems)


def test_a_table_whose_subject_is_not_in_its_name_asks_for_it(tmp_path):
    found, _ = bring_in(tmp_path, ROWS, name="modes.csv")
    assert any("--device" in problem for problem in found.problems)
    found, table = bring_in(tmp_path, ROWS, name="modes.csv", about={"device": "orin-nano", "network": "resnet18"})
    assert found.problems == () and table.about.device.name == "orin-nano"


@pytest.mark.parametrize(
    "header", ["cores,gpu_hz,emc_hz,cpu_hz,cpu_khz,time_ms,power_mw", "cores,cpu_khz,gpu_clock,emc_hz,time_ms,power_mw"]
)
def test_a_table_that_repeats_a_clock_or_gives_it_without_unit_is_refused_by_its_line(tmp_path, header):
    with pytest.raises(BadTable, match=r"\.csv:1:"):
        bring_in(tmp_path, [], header)


def test_a_table_without_a_usable_row_is_refused(tmp_path):
    with pytest.raises(BadTable, match="no mode"):
        bring_in(tmp_path, ["a,b,c,d,e,f,g"])


def test_campaigns_are_found_by_the_start_of_their_id_and_listed(tmp_path):
    found, table = bring_in(tmp_path, ROWS)
    store = FolderStore(tmp_path / "store")
    assert read_table(store, "orin_nano").id == found.id
    assert read_table(store, str(table.path)).id == found.id
    assert [each.campaign for each in tables(store)] == [found.id]
    with pytest.raises(StoreError, match=found.id):
        read_table(store, "nothing")


def test_a_board_without_gpu_and_memory_clock_is_imported_and_read_back(tmp_path):
    found, table = bring_in(tmp_path, ["2,1000000,100,5000", "4,2000000,60,9000"], "cores,cpu_khz,time_ms,power_mw")
    assert found.problems == ()
    assert [each.mode for each in table.measurements()] == [PowerMode(2, 10**9), PowerMode(4, 2 * 10**9)]


def test_powers_are_checked_against_the_board(tmp_path):
    with pytest.raises(BadTable, match="not a power of Jetson Nano"):
        bring_in(tmp_path, [row.replace(",7800", ",78000").replace(",13800", ",138000").replace(",17900", ",179000")
                            for row in ROWS], power=PowerRange.of_board("Jetson Nano", 10.0))  # fmt: skip


@pytest.mark.parametrize("damage", [b"4,88\xe9200,510000000,2133000000,330,380,13800\n", b"4,\x00,1,1,1,1,1\n"])
def test_a_damaged_line_is_left_out_and_listed_with_its_number(tmp_path, damage):
    path = tmp_path / "orin_nano_resnet_train.csv"
    path.write_bytes("\n".join([HEADER, *ROWS, ""]).encode() + damage)
    (found,) = import_path(path, FolderStore(tmp_path / "store"))
    assert any("line 5" in problem for problem in found.problems), found.problems
    assert found.samples == 3


def test_seconds_in_a_column_of_milliseconds_are_converted_where_no_step_is_that_short(tmp_path):
    rows = ["2,268800,306000000,665600000,0.0405,,7800", "4,883200,510000000,2133000000,0.0303,,13800"]
    found, table = bring_in(tmp_path, rows)
    assert table.columns["time_s"].tolist() == pytest.approx([0.0405, 0.0303])
    assert any("time_ms" in str(problem) and "converted" in str(problem) for problem in found.problems)


@pytest.mark.parametrize("factor", [1e-3, 1e3])
def test_times_that_are_possible_but_improbable_are_doubted(tmp_path, factor):
    def scaled(row):
        cells = row.split(",")
        return ",".join([*cells[:4], *(str(float(cell) * factor) for cell in cells[4:6]), cells[6]])

    found, _ = bring_in(tmp_path, [scaled(row) for row in ROWS])
    assert any("check that it is in ms" in str(problem) for problem in found.problems)
