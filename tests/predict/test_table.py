import numpy as np
import pytest

from edgetrain.errors import BadTable
from edgetrain.predict.table import parse_table, write_table
from tests.predict.conftest import grid, measured

HEAD = "cores,cpu_khz,gpu_hz,emc_hz,time_ms,power_mw\n"
ROW = "4,1190400,624750000,2133000000,100.0,20000\n"


def read(text, need_results=True):
    return parse_table(text, "t.csv", need_results)


def test_a_table_reads_back_as_it_was_written():
    table = measured(grid())
    again = read(write_table(table))
    for column in ("cores", "cpu_hz", "gpu_hz", "emc_hz"):
        assert getattr(again, column) == pytest.approx(getattr(table, column), abs=1000)
    assert again.time_s == pytest.approx(table.time_s, rel=1e-5)
    assert again.power_w == pytest.approx(table.power_w, rel=1e-5)


def test_units_are_converted_where_the_number_is_read():
    table = read(HEAD + ROW)
    assert (table.cpu_hz[0], table.gpu_hz[0], table.emc_hz[0]) == (1190.4e6, 624.75e6, 2133e6)
    assert table.time_s[0] == pytest.approx(0.1) and table.power_w[0] == pytest.approx(20.0)
    other = read("cores,cpu_mhz,gpu_khz,emc_mhz,time_s,power_w\n4,1190.4,624750,2133,0.1,20\n")
    assert (other.cpu_hz[0], other.gpu_hz[0], other.time_s[0]) == (1190.4e6, 624.75e6, 0.1)


@pytest.mark.parametrize("column", ["1190.4", "1190400", "1190400000"])
def test_a_whole_column_in_another_unit_is_told_apart_and_converted(column, caplog):
    table = read(HEAD + f"4,{column},624750000,2133000000,100,20000\n" + f"6,{column},624750000,2133000000,90,21000\n")
    assert table.cpu_hz == pytest.approx([1190.4e6] * 2)
    assert ("converted" in caplog.text) == (column != "1190400")


@pytest.mark.parametrize(
    ("second", "said"),
    [
        ("6,1190400000,624750000,2133000000,100,20000", "t.csv:3: cpu_khz is 1.1904e+09, which looks like hz"),
        ("6,1190400,624750000,2133000000,0,20000", "t.csv:3: time_ms is 0"),
        ("6,1190400,624750000,2133000000,-5,20000", "t.csv:3: time_ms is -5"),
        ("6,1190400,624750000,2133000000,100,nan", "t.csv:3: power_mw is nan"),
        ("6,1190400,624750000,2133000000,100,", "t.csv:3: power_mw is ''"),
        ("6,1190400,624750000,2133000000,100", "t.csv:3: 5 values under 6 columns"),
        ("6.5,1190400,624750000,2133000000,100,20000", "t.csv:3: 6.5 cores"),
        ("6,fast,624750000,2133000000,100,20000", "t.csv:3: cpu_khz is 'fast'"),
        ("4,1190400,624750000,2133000000,900,20000", "t.csv:3: contradicts line 2"),
        ("4,11\x0090400,624750000,2133000000,900,20000", "t.csv:3: holds a NUL byte"),
    ],
)
def test_a_bad_row_is_refused_with_its_line(second, said):
    with pytest.raises(BadTable) as refusal:
        read(HEAD + ROW + second + "\n")
    assert str(refusal.value).startswith(said)


def test_a_time_in_another_unit_than_the_rest_is_refused_with_its_line():
    rows = "".join(f"{2 * k},1190400,624750000,2133000000,{100 + k},20000\n" for k in range(1, 6))
    with pytest.raises(BadTable, match=r"t\.csv:7: time_ms is 0\.1 .* check the unit"):
        read(HEAD + rows + "12,1190400,624750000,2133000000,0.1,20000\n")


@pytest.mark.parametrize("missing", ["cores", "cpu_khz", "gpu_hz", "emc_hz", "time_ms", "power_mw"])
def test_a_missing_column_is_named(missing):
    with pytest.raises(BadTable, match=missing.split("_")[0]):
        read(HEAD.replace(missing, "x") + ROW)


def test_repeats_of_a_mode_are_averaged_and_results_may_be_absent_where_not_needed():
    table = read(HEAD + ROW + ROW.replace("100.0", "104.0"))
    assert len(table) == 1 and table.time_s[0] == pytest.approx(np.sqrt(0.1 * 0.104))
    assert read("cores,cpu_khz,gpu_hz,emc_hz\n4,1190400,624750000,2133000000\n", False).time_s is None


@pytest.mark.parametrize("text", ["", "cores\n", HEAD])
def test_an_empty_table_is_refused(text):
    with pytest.raises(BadTable):
        read(text)
