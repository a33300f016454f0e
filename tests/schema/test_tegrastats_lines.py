"""A line of tegrastats of any era is read in our units; what cannot be believed is absent and named."""

from __future__ import annotations

import math

import pytest

from edgetrain.schema import parse_tegrastats, total_rails
from tests.torture.importers import make_line, readings, torture_lines

# Our own numbers in the shape of each era.
LINES = {
    "nano-jp4": (
        "RAM 1810/3956MB (lfb 3x2MB) SWAP 120/1978MB (cached 4MB) IRAM 0/252kB(lfb 252kB) CPU "
        "[12%@1224,9%@1224,off,off] "
        "EMC_FREQ 4%@1600 GR3D_FREQ 61%@921 APE 25 PLL@36C CPU@39.5C PMIC@50C GPU@38C AO@44C thermal@39C "
        "POM_5V_IN 5120/4410 POM_5V_GPU 1640/1210 POM_5V_CPU 980/760",
        5.12,
    ),
    "tx2-jp4": (
        "RAM 3120/7856MB (lfb 11x4MB) SWAP 0/3928MB (cached 0MB) CPU [31%@2035,off,off,28%@2034,25%@2035,22%@2035] "
        "EMC_FREQ 6%@1866 GR3D_FREQ 88%@1300 APE 150 MTS fg 0% bg 2% PLL@44C MCPU@44C PMIC@50C Tboard@37C GPU@43.5C "
        "BCPU@44C thermal@43.6C Tdiode@42.25C VDD_SYS_GPU 4870/4210 VDD_SYS_SOC 1060/1020 VDD_4V0_WIFI 19/19 "
        "VDD_IN 11840/10930 VDD_SYS_CPU 1830/1610 VDD_SYS_DDR 1790/1650",
        11.84,
    ),
    "xavier-agx-jp4": (
        "RAM 6120/31919MB (lfb 5120x4MB) SWAP 0/15959MB (cached 0MB) CPU "
        "[44%@2265,40%@2265,off,off,12%@2265,8%@2265,off,"
        "off] EMC_FREQ 11%@2133 GR3D_FREQ 92%@1377 APE 150 MTS fg 0% bg 4% AO@38.5C GPU@44C Tdiode@43.25C PMIC@50C "
        "AUX@38.5C CPU@41C thermal@41.2C Tboard@39C GPU 13475/12320 CPU 1925/1790 SOC 3850/3790 CV 0/0 VDDRQ 1155/1080 "
        "SYS5V 3230/3180",
        23.635,
    ),
    "orin-agx-jp5": (
        "03-11-2026 10:20:30 RAM 8120/30536MB (lfb 4100x4MB) SWAP 0/15268MB (cached 0MB) CPU "
        "[31%@1728,30%@1728,off,off] "
        "EMC_FREQ 12%@3199 GR3D_FREQ 71%@[612,612] VIC_FREQ 729 APE 174 CV0@-256C CPU@51.3C Tboard@36C tj@51.3C "
        "VDD_GPU_SOC 9950mW/9160mW VDD_CPU_CV 2786mW/2390mW VIN_SYS_5V0 4530mW/4410mW NC 0mW/0mW "
        "VDDQ_VDD2_1V8AO 903mW/850mW NC 0mW/0mW",
        17.266,
    ),
    "orin-agx-jp7": (
        "08-30-2026 12:01:55 RAM 11870/62817MB (lfb 6x2MB) CPU [19%@2201,18%@2201] EMC_FREQ 5%@3199 "
        "GR3D_FREQ 37%@[918,918] "
        "NVENC0 off NVDEC0 off APE 174 cpu@49.5C/50.1C soc2@46.2C/46.5C gpu@45.8C/46.0C VDD_GPU_SOC "
        "6340mW/6105mW/7120mW "
        "VDD_CPU_CV 2870mW/2790mW/3410mW VIN_SYS_5V0 5230mW/5190mW/5400mW",
        14.44,
    ),
    "thor-jp7": (
        "09-05-2026 16:30:10 RAM 43210/125772MB (lfb 60x4MB) CPU [3%@1296,2%@1296] EMC_FREQ 1%@2750 "
        "GR3D_FREQ @[690,690,690] "
        "NVENC0_FREQ @690 VIC off PVA0_FREQ off APE 300 cpu@41.2C tj@43.6C VDD_GPU 8120mW/7760mW "
        "VDD_CPU_SOC_MSS 7350mW/7210mW VIN_SYS_5V0 5980mW/5910mW VIN 31240mW/30110mW",
        31.24,
    ),
}


@pytest.mark.parametrize("era", LINES)
def test_every_era_is_read_whole_and_its_input_power_counts_nothing_twice(era):
    text, total_w = LINES[era]
    line = parse_tegrastats(text)
    assert line.problems == [] and line.unknown == []
    assert line.total_w() == pytest.approx(total_w)
    assert line.memory["ram_total_bytes"] > 3.5 * 2**30
    assert line.cores and line.gpu["gpu_hz"] > 500e6
    assert "pmic" not in line.temperatures_c


def test_bare_names_are_distinguished_as_cores_temperature_and_rail():
    line = parse_tegrastats(LINES["xavier-agx-jp4"][0])
    assert line.cores[0] == (44.0, 2265e6) and line.cores[2] is None
    assert line.temperatures_c["cpu"] == 41.0
    assert line.rails_w["CPU"] == pytest.approx(1.925)


def test_a_powered_down_sensor_and_an_offline_core_are_missing_not_zero():
    streams = parse_tegrastats(LINES["orin-agx-jp5"][0]).streams()
    assert math.isnan(streams["thermal"]["cv0_temp_c"])
    assert math.isnan(streams["cpu"]["cpu2_share"]) and math.isnan(streams["cpu"]["cpu2_hz"])


def test_rails_that_are_not_connected_are_not_rails():
    assert "NC" not in parse_tegrastats(LINES["orin-agx-jp5"][0]).rails_w


def test_a_clock_shared_by_all_cores_is_each_cores_clock():
    assert parse_tegrastats("CPU [10%,20%]@1190 RAM 1/2MB").cores == [(10.0, 1190e6), (20.0, 1190e6)]


def test_unprivileged_lines_have_loads_without_clocks():
    line = parse_tegrastats("RAM 1810/3956MB (lfb 3x2MB) CPU [12%@1224,off] EMC_FREQ 0% GR3D_FREQ 61%")
    assert line.gpu == {"gpu_util_pct": 61.0} and line.emc == {"emc_util_pct": 0.0}


@pytest.mark.parametrize(
    "text",
    [
        "VDD_IN 7640W/7010W",
        "VDD_IN 7640uW/7010uW",
        "VDD_IN 7640mW/7010mW VDD_SOC 1180/1140",
        "VDD_IN 7640000/7010000",
        "VDD_IN 8/7",
        "VDD_IN 76",
        "GR3D_FREQ 50%@803000",
        "CPU [33%@1420000]",
        "CPU [133%@1420]",
        "RAM 9000/6849MB",
        "RAM 2987/6849TB",
        "CPU@43.5F",
        "CPU@435C",
    ],
)
def test_a_value_in_an_impossible_unit_is_absent_and_named(text):
    line = parse_tegrastats(text)
    found = readings(line)
    assert line.problems or line.unknown
    assert not any(key.endswith(("_c", "_bytes")) for key in found)
    assert all(value < 300 for key, value in found.items() if not key.endswith("_hz"))
    assert line.total_w() in (None, pytest.approx(7.64))


def test_twin_rails_keep_their_own_values_and_are_reported():
    line = parse_tegrastats("VDD_IN 7000mW/7000mW VDD_SOC 1000mW/1000mW VDD_SOC 2000mW/2000mW")
    assert line.rails_w == {"VDD_IN": 7.0, "VDD_SOC": 1.0, "VDD_SOC_2": 2.0}
    assert line.problems == ["two rails are called VDD_SOC"]


def test_an_input_rail_wins_over_the_parts_it_feeds():
    assert total_rails(["VDD_GPU", "VIN_SYS_5V0", "VIN"]) == ("VIN",)
    assert total_rails(["VDD_GPU_SOC", "VDD_CPU_CV"]) == ()


def test_made_lines_are_what_the_torture_believes_they_are():
    import random

    made = make_line(random.Random(4))
    assert {key: pytest.approx(value) for key, value in made.truth.items()}.items() <= readings(
        parse_tegrastats(made.text)
    ).items()


def test_mutated_lines_never_crash_and_never_say_a_wrong_unit():
    assert torture_lines(3000, seed=20) == 3000
