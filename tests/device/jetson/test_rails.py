"""Rails: found in every layout, named once, added up without counting anything twice."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from edgetrain.device.jetson.averaging import ina3221_window_s
from edgetrain.device.jetson.board import JetsonDevice
from edgetrain.device.jetson.doctor import root_fix
from edgetrain.device.jetson.probes import RailsProbe
from edgetrain.device.jetson.rail_map import RAIL_MAP
from edgetrain.device.jetson.rails import find_rails
from edgetrain.device.jetson.tegrastats_live import TegrastatsProbe
from edgetrain.device.simulated.build import chip_folder, put
from edgetrain.device.tree import Tree
from edgetrain.errors import BadTable, ProbeUnavailable
from tests import boards

TOTALS = {
    "nano-jp4": (("POM_5V_IN_w",), "board"),
    "tx2-jp4": (("VDD_IN_w",), "module"),
    "xavier-agx-jp4": (("GPU_w", "CPU_w", "SOC_w", "CV_w", "VDDRQ_w", "SYS5V_w"), "module"),
    "xavier-nx-jp5": (("VDD_IN_w",), "module"),
    "orin-agx-jp5": (("VDD_GPU_SOC_w", "VDD_CPU_CV_w", "VIN_SYS_5V0_w"), "module"),
    "orin-agx-jp6": (("VDD_GPU_SOC_w", "VDD_CPU_CV_w", "VIN_SYS_5V0_w"), "module"),
    "orin-nano-super-jp6": (("VDD_IN_w",), "module"),
    "orin-nano-jp7": (("VDD_IN_w",), "module"),
    "thor-jp7": (("VIN_w",), "board"),
}


@pytest.mark.parametrize("name", TOTALS)
def test_the_total_is_the_boards_own(name: str, tmp_path: Path) -> None:
    source = boards.open_fixture(name, tmp_path).total_power()
    assert source is not None
    assert (source.columns, source.scope) == TOTALS[name]


def test_no_rail_of_the_total_contains_another(pair: JetsonDevice) -> None:
    for outer in pair.rails.total:
        assert not set(pair.rails.contains.get(outer, ())) & set(pair.rails.total)


def test_unconnected_channels_and_sums_of_shunts_are_no_rails(orin: JetsonDevice) -> None:
    assert [rail.label for rail in orin.rails.rails] == ["VDD_GPU_SOC", "VDD_CPU_CV", "VIN_SYS_5V0", "VDDQ_VDD2_1V8AO"]


@pytest.mark.parametrize(
    ("name", "volts", "amperes", "watts"),
    [
        ("orin-agx-jp6", 19000, 520, 9.88),
        ("xavier-agx-jp4", 19000, 520, 9.88),
        ("orin-nano-super-jp6", 5000, 2400, 12.0),
    ],
)
def test_millivolts_and_milliamperes_become_watts(
    name: str, volts: int, amperes: int, watts: float, tmp_path: Path
) -> None:
    device = boards.open_fixture(name, tmp_path)
    chip = boards.PAIRS[name]().chips[0]
    folder = chip_folder(chip)
    if chip.driver == "ina3221":
        put(tmp_path, f"{folder}/in1_input", str(volts))
        put(tmp_path, f"{folder}/curr1_input", str(amperes))
    else:
        put(tmp_path, f"{folder}/in_power0_input", str(round(volts * amperes / 1000)))
    assert RailsProbe(device.tree, device.rails).read()[0] == pytest.approx(watts)


def test_thors_input_is_in_microwatts(tmp_path: Path) -> None:
    device = boards.open_fixture("thor-jp7", tmp_path)
    put(tmp_path, f"{chip_folder(boards.PAIRS['thor-jp7']().chips[1])}/power1_input", "31240000")
    probe = RailsProbe(device.tree, device.rails)
    assert dict(zip(probe.columns, probe.read(), strict=True))["VIN_w"] == pytest.approx(31.24)


def test_quantum_and_window_are_the_boards_own(tmp_path: Path) -> None:
    orin = boards.open_fixture("orin-agx-jp6", tmp_path / "agx").total_power()
    nano = boards.open_fixture("orin-nano-super-jp6", tmp_path / "nano").total_power()
    assert orin is not None and nano is not None
    # 40 µV over 2 mΩ are 20 mA: 0.38 W at 19 V; over 5 mΩ at 5 V 40 mW.
    assert orin.quantum_w == pytest.approx(math.sqrt(2 * 0.38**2 + 0.1**2))
    assert nano.quantum_w == pytest.approx(0.04)
    assert orin.refresh_s == pytest.approx(0.43, rel=0.01)


def test_moved_hwmon_numbers_change_nothing(tmp_path: Path) -> None:
    moved = boards.open_fixture("moved hwmon numbers", tmp_path)
    assert moved.rails.rails[0].chip == "1-0040"
    assert moved.total_power() is not None


def test_the_same_label_twice_is_counted_once(tmp_path: Path) -> None:
    device = boards.open_fixture("two monitors with the same labels", tmp_path)
    assert len({rail.column for rail in device.rails.rails}) == len(device.rails.rails) == 4
    source = device.total_power()
    assert source is not None and source.columns == ("VDD_IN_w",)
    assert any("occurs 2 times" in problem for problem in device.rails.problems)


def test_a_board_without_a_monitor_says_so_and_measures_the_rest(tmp_path: Path) -> None:
    device = boards.open_fixture("nano without a power monitor", tmp_path)
    assert device.total_power() is None
    assert {"cpu", "thermal", "gpu"} <= {probe.name for probe in device.probes()}
    assert any(finding.area == "power" and finding.works is False for finding in device.findings())
    with pytest.raises(ProbeUnavailable):
        RailsProbe(device.tree, device.rails)


def test_a_sensor_that_answers_eagain_is_counted_and_the_others_stand(tmp_path: Path) -> None:
    root = boards.build("orin-agx-jp5", tmp_path)
    chip = boards.PAIRS["orin-agx-jp5"]().chips[0]
    boards.plant(root, read_errors={f"/{chip_folder(chip)}/curr2_input": boards.EAGAIN})
    device = boards.open_tree(root)
    probe = RailsProbe(device.tree, device.rails)
    first = probe.read()
    assert math.isnan(first[1]) and not math.isnan(first[0]) and not math.isnan(first[2])
    assert probe.failures == 1
    probe.read()
    assert probe.failures == 2


def test_the_owner_of_a_carrier_says_which_rail_is_the_total(tmp_path: Path) -> None:
    root = boards.build("unwired carrier", tmp_path)
    assert boards.open_tree(root).total_power() is None
    put(
        root,
        RAIL_MAP,
        "labels: {9-0040.1: CARRIER_IN}\nshunts_ohm: {9-0040.1: 0.01}\ntotal: [CARRIER_IN]\nscope: board",
    )
    source = boards.open_tree(root).total_power()
    assert source is not None and source.columns == ("CARRIER_IN_w",) and source.scope == "board"
    assert source.quantum_w == pytest.approx(40e-6 / 0.01 * 12.0)


@pytest.mark.parametrize(
    "text",
    [
        "total: [NOT_THERE]",
        "total: 5",
        "surprise: 1",
        "- a\n- b",
        "total: [RAIL_A, RAIL_B]\ncontains: {RAIL_A: [RAIL_B]}",
        "{",
    ],
)
def test_a_rail_map_that_cannot_be_meant_is_refused(text: str, tmp_path: Path) -> None:
    root = boards.build("unwired carrier", tmp_path)
    put(root, RAIL_MAP, text)
    with pytest.raises(BadTable):
        find_rails(Tree(root))


@pytest.mark.parametrize(
    ("samples", "channels", "interval_ms", "kernel", "window_s"),
    [
        (512, 3, 430, "5.10.104-tegra", 0.43),  # the whole window
        (512, 3, 1, "5.15.148-tegra", 0.430),  # the samples are left out: NVIDIA's boot setting
        (512, 1, 0, "6.8.12-tegra", 0.1434),
        (512, 3, 1, "6.1.0-32-arm64", 0.430),
        (1024, 3, 7, "6.8.0", 1024 * 6.6e-3),  # the driver's default of 1.1 ms per conversion
        (1, 3, 7, "5.15.0", 6.6e-3),
        (64, 3, 1, "5.15.0", 64 * 3 * 2 * 204e-6),  # 140 or 204 µs: the longer one is assumed
    ],
)
def test_the_averaging_window_is_found_on_every_kernel(
    samples: int, channels: int, interval_ms: int, kernel: str, window_s: float
) -> None:
    assert ina3221_window_s(samples, channels, interval_ms, kernel)[0] == pytest.approx(window_s, rel=0.01)


@pytest.mark.parametrize("name", ["orin-agx-jp5", "orin-agx-jp6", "orin-nano-jp7", "xavier-nx-jp5"])
def test_rails_are_read_once_per_window_and_the_uncertainty_knows_it(name: str, tmp_path: Path) -> None:
    device = boards.open_fixture(name, tmp_path)
    probe, source = RailsProbe(device.tree, device.rails), device.total_power()
    assert source is not None
    assert probe.period_s == pytest.approx(0.43, rel=0.01) and source.refresh_s == pytest.approx(0.43, rel=0.01)


def test_a_monitor_that_averages_little_is_not_read_without_pause(tmp_path: Path) -> None:
    assert boards.open_fixture("orin-agx-jp6", tmp_path).rails.window_s > 0.4
    for samples in tmp_path.glob("sys/bus/i2c/drivers/ina3221/*/hwmon/hwmon*/samples"):
        samples.write_text("1\n")
    again = boards.open_tree(tmp_path)
    assert again.rails.window_s < 0.002 and RailsProbe(again.tree, again.rails).period_s >= 0.1


def test_an_input_monitor_of_a_carrier_does_not_take_over_the_total(tmp_path: Path) -> None:
    device = boards.open_fixture("carrier with an input monitor", tmp_path)
    source = device.total_power()
    assert source is not None and source.columns == ("VDD_IN_w",)
    assert "VIN_w" in {rail.column for rail in device.rails.rails}


def test_channels_without_a_label_can_be_named_by_the_owner(tmp_path: Path) -> None:
    root = boards.build("unlabelled carrier", tmp_path)
    bare = boards.open_tree(root)
    assert bare.rails.rails == () and bare.total_power() is None
    assert sum("has no label" in problem for problem in bare.rails.problems) == 4
    put(
        root,
        RAIL_MAP,
        "labels: {9-0040.1: GPU, 9-0045.1: INPUT}\ntotal: [INPUT]\ncontains: {INPUT: [GPU]}\nscope: board",
    )
    named = boards.open_tree(root)
    source = named.total_power()
    assert source is not None and source.columns == ("INPUT_w",) and source.scope == "board"
    assert [rail.label for rail in named.rails.rails] == ["GPU", "INPUT"]


def test_the_kit_of_tx2_measures_the_input_of_its_carrier(tmp_path: Path) -> None:
    device = boards.open_fixture("tx2 kit", tmp_path)
    source = device.total_power()
    assert source is not None and (source.columns, source.scope) == (("VDD_MUX_w",), "board")
    assert "VDD_IN_w" in device.rails.contains["VDD_MUX_w"]


def test_tegrastats_takes_the_input_of_a_carrier_as_the_total_on_thor_only(tmp_path: Path) -> None:
    program = tmp_path / "tegrastats"
    program.write_text("#!/bin/sh\necho 'VDD_IN 5120mW/5100mW VIN 31240mW/30110mW'\nsleep 5\n")
    program.chmod(0o755)
    for chip, columns in (("tegra234", ("VDD_IN_w",)), ("tegra264", ("VIN_w",))):
        probe = TegrastatsProbe(str(program), chip=chip)
        source = probe.power_source()
        probe.close()
        assert source is not None and source.columns == columns


def test_the_fix_for_rails_of_root_opens_every_monitor() -> None:
    folders = [f"/sys/bus/i2c/drivers/ina3221/1-004{index}/hwmon/hwmon{index}" for index in (0, 1)]
    files = tuple(f"{folder}/curr{channel}_input" for folder in folders for channel in (1, 2, 3))
    fix = root_fix("power", ProbeUnavailable("root only", root_only=files))
    assert fix is not None and all(fix.count(f"{folder}/*") == 1 for folder in folders)
