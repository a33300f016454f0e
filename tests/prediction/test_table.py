import numpy as np
import pytest

from edgetrain.errors import BadTable
from edgetrain.importers import PowerRange
from edgetrain.prediction import ModeTable, parse_table, read_table, write_table
from edgetrain.schema import PowerMode
from tests.prediction.conftest import grid, measured

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
def test_a_whole_column_in_another_unit_is_recognised_and_converted(column, caplog):
    table = read(HEAD + f"4,{column},624750000,2133000000,100,20000\n" + f"6,{column},624750000,2133000000,90,21000\n")
    assert table.cpu_hz == pytest.approx([1190.4e6] * 2)
    assert ("converted" in caplog.text) == (column != "1190400")


@pytest.mark.parametrize(
    ("second", "said"),
    [
        ("6,1190400000,624750000,2133000000,100,20000", "t.csv:3: cpu_khz is not a clock of 10 MHz to 9.9 GHz"),
        ("6,1190400,624750000,2133000000,0,20000", "t.csv:3: time_ms is not above 0 (it is 0)"),
        ("6,1190400,624750000,2133000000,-5,20000", "t.csv:3: time_ms is not above 0 (it is -5)"),
        ("6,1190400,624750000,2133000000,100,nan", "t.csv:3: power_mw is not a number ('nan')"),
        ("6,1190400,624750000,2133000000,100,", "t.csv:3: power_mw is empty"),
        ("6,1190400,624750000,2133000000,100", "t.csv:3: 5 values under 6 columns"),
        ("6.5,1190400,624750000,2133000000,100,20000", "t.csv:3: cores is not a whole number from 1 to 1024 ('6.5')"),
        ("6,fast,624750000,2133000000,100,20000", "t.csv:3: cpu_khz is not a number ('fast')"),
        ("6,1190400,,2133000000,100,20000", "t.csv:3: gpu_hz is empty while other lines give it"),
        ("4,11\x0090400,624750000,2133000000,900,20000", "t.csv:3: holds a NUL byte"),
        ("4," + 140_000 * "1" + ",624750000,2133000000,900,20000", "t.csv:3: a cell is longer than 131,072 characters"),
        ('4,"1190400,624750000,2133000000,900,20000', "t.csv:3: is not CSV"),
        (
            "4,1190400,624750000,2133000000,900,20000",
            "t.csv:2: time_ms contradicts another line of the same mode (line 3",
        ),
    ],
)
def test_a_bad_row_is_refused_with_its_line(second, said):
    with pytest.raises(BadTable) as refusal:
        read(HEAD + ROW + second + "\n")
    assert str(refusal.value).startswith(said)


def test_a_value_that_is_possible_in_another_unit_is_refused_with_that_unit():
    with pytest.raises(BadTable, match="possible in hz; write one unit throughout"):
        read(HEAD + ROW + "6,1190400000,624750000,2133000000,100,20000\n")


@pytest.mark.parametrize("header", [b"\xff\xfec\0o\0r\0e\0s\0", b"cores,cpu_khz\xe9,time_ms,power_mw\n"])
def test_a_table_that_is_not_utf8_is_refused_with_the_line(header):
    with pytest.raises(BadTable, match=r"t\.csv:1: .*(NUL|UTF-8)"):
        read(header)
    with pytest.raises(BadTable, match=r"t\.csv:3: is not UTF-8 text: byte 0xe9 at position 3"):
        read((HEAD + ROW).encode() + b"6,\xe9,624750000,2133000000,100,20000\n")


def test_a_time_in_another_unit_than_the_rest_is_refused_with_its_line():
    rows = "".join(f"{2 * k},1190400,624750000,2133000000,{100 + k},20000\n" for k in range(1, 6))
    with pytest.raises(BadTable, match=r"t\.csv:7: time_ms is far away .* check the unit .*it is 0\.1"):
        read(HEAD + rows + "12,1190400,624750000,2133000000,0.1,20000\n")


@pytest.mark.parametrize("missing", ["cores", "cpu_khz", "time_ms", "power_mw"])
def test_a_missing_column_is_named(missing):
    with pytest.raises(BadTable, match=missing.split("_")[0]):
        read(HEAD.replace(missing, "x") + ROW)


@pytest.mark.parametrize("name", ["gpu", "gpu_clock", "gpu_freq_thz"])
def test_a_clock_without_a_unit_is_not_taken_for_a_board_without_that_clock(name):
    with pytest.raises(BadTable, match="does not name its unit; write gpu_hz"):
        read(HEAD.replace("gpu_hz", name) + ROW)


ORIN = PowerRange.of_board("Jetson AGX Orin", 60.0)


@pytest.mark.parametrize("power", [PowerRange(), ORIN])
def test_watts_in_a_column_of_milliwatts_are_converted_with_a_warning_never_read_as_milliwatts(power, caplog):
    text = HEAD + ROW.replace("20000", "22.6") + ROW.replace("4,", "6,", 1).replace("20000", "31.4")
    table = parse_table(text, "t.csv", True, power)
    assert table.power_w == pytest.approx([22.6, 31.4])
    assert "column power_mw holds w, not mw; converted" in caplog.text


def test_a_power_that_the_board_cannot_draw_in_any_unit_is_refused_with_its_range():
    with pytest.raises(
        BadTable, match=r"t\.csv:2: power_mw is not a power of Jetson AGX Orin, 0\.6 to 120 W \(it is 250\)"
    ):
        parse_table(HEAD + ROW.replace("20000", "250"), "t.csv", True, ORIN)
    assert parse_table(HEAD + ROW, "t.csv", True, ORIN).power_w[0] == 20


def test_a_board_without_gpu_or_memory_clock_has_neither_column_nor_value_and_reads_back():
    modes = [PowerMode(2, 1_000_000_000), PowerMode(4, 2_000_000_000)]
    table = ModeTable.of_modes(modes)
    assert np.isnan(table.gpu_hz).all() and np.isnan(table.emc_hz).all()
    text = write_table(table)
    assert text.splitlines()[0] == "cores,cpu_khz"
    again = read(text, need_results=False)
    assert [again.mode(row) for row in range(2)] == modes == [table.mode(row) for row in range(2)]
    empty = read("cores,cpu_khz,gpu_hz,emc_hz,time_ms,power_mw\n2,1000000,,,100,20000\n4,2000000,,,60,25000\n")
    assert empty.mode(1) == PowerMode(4, 2_000_000_000)


def test_a_file_that_cannot_be_read_is_refused_by_its_name(tmp_path):
    for path in (tmp_path / "none.csv", tmp_path):
        with pytest.raises(BadTable, match=f"cannot read {path}"):
            read_table(path, need_results=True)


def test_repeats_of_a_mode_are_averaged_and_results_may_be_absent_where_not_needed():
    table = read(HEAD + ROW + ROW.replace("100.0", "104.0"))
    assert len(table) == 1 and table.time_s[0] == pytest.approx(np.sqrt(0.1 * 0.104))
    assert read("cores,cpu_khz,gpu_hz,emc_hz\n4,1190400,624750000,2133000000\n", False).time_s is None


@pytest.mark.parametrize("text", ["", "cores\n", HEAD])
def test_an_empty_table_is_refused(text):
    with pytest.raises(BadTable):
        read(text)
