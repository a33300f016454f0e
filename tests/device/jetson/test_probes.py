"""Probes: units, sleepers, vanished cores, alarms."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from edgetrain.device.jetson.board import JetsonDevice
from edgetrain.device.jetson.probes import AlarmProbe, EmcProbe, GpuProbe, Reader, ThermalProbe
from edgetrain.device.simulated.build import put
from edgetrain.errors import ProbeUnavailable
from tests import boards


def reading(probe) -> dict[str, float]:
    return dict(zip(probe.columns, probe.read(), strict=True))


def test_temperatures_are_celsius_and_placeholders_are_left_out(tmp_path: Path) -> None:
    nano = ThermalProbe(boards.open_fixture("nano-jp4", tmp_path / "nano").tree)
    assert reading(nano)["cpu_temp_c"] == pytest.approx(42.0)
    assert not any("pmic" in column for column in nano.columns)
    orin = ThermalProbe(boards.open_fixture("orin-agx-jp5", tmp_path / "orin").tree)
    assert not any("cv0" in column for column in orin.columns)  # -256 °C: its block is off
    newer = ThermalProbe(boards.open_fixture("orin-agx-jp6", tmp_path / "newer").tree)
    assert {"cpu_temp_c", "tj_temp_c", "gpu_temp_c"} <= set(newer.columns)  # one word for both spellings


def test_a_zone_that_sleeps_is_nan_and_wakes_up(tmp_path: Path) -> None:
    root = boards.build("orin-agx-jp6", tmp_path)
    zone = "/sys/class/thermal/thermal_zone3/temp"
    boards.plant(root, read_errors={zone: boards.EAGAIN})
    asleep = ThermalProbe(boards.open_tree(root).tree)
    assert math.isnan(reading(asleep)["gpu_temp_c"]) and not math.isnan(reading(asleep)["cpu_temp_c"])
    boards.plant(root)
    assert reading(ThermalProbe(boards.open_tree(root).tree))["gpu_temp_c"] == pytest.approx(46.0)
    awake = ThermalProbe(boards.open_tree(root).tree)
    put(root, zone, "-256000")
    assert math.isnan(reading(awake)["gpu_temp_c"])


def test_gpu_load_is_per_mille_and_clocks_are_hertz(orin: JetsonDevice) -> None:
    put(orin.tree.root, "/sys/devices/gpu.0/load", "715")
    put(orin.tree.root, f"{orin.clocks.gpu}/cur_freq", "624750000")
    found = reading(GpuProbe(orin.tree, orin.clocks))
    assert found["gpu_util_pct"] == pytest.approx(71.5) and found["gpu_hz"] == 624_750_000


def test_a_gpu_below_its_cap_under_full_load_is_throttling_and_told_once(orin: JetsonDevice) -> None:
    put(orin.tree.root, "/sys/devices/gpu.0/load", "1000")
    put(orin.tree.root, f"{orin.clocks.gpu}/cur_freq", "420750000")
    probe = GpuProbe(orin.tree, orin.clocks)
    told = []
    for _ in range(6):
        probe.read()
        told += list(probe.told())
    assert [kind for kind, _ in told] == ["throttle"]
    put(orin.tree.root, "/sys/devices/gpu.0/load", "300")  # a GPU with little to do may idle low
    quiet = GpuProbe(orin.tree, orin.clocks)
    for _ in range(6):
        quiet.read()
    assert not list(quiet.told())


def test_memory_load_is_activity_over_the_clock(orin: JetsonDevice) -> None:
    put(orin.tree.root, "/sys/kernel/debug/bpmp/debug/actmon/mc_all_avg_activity", "319900")
    assert reading(EmcProbe(orin.tree, orin.clocks)) == {"emc_hz": 3_199_000_000, "emc_util_pct": pytest.approx(10.0)}


def test_an_over_current_alarm_is_told_when_it_rises(orin: JetsonDevice) -> None:
    probe = AlarmProbe(orin.tree, orin.rails)
    probe.read()
    assert not list(probe.told())
    put(orin.tree.root, orin.rails.rails[0].alarms[0], "1")
    put(orin.tree.root, "/sys/class/thermal/cooling_device0/cur_state", "2")
    fresh = AlarmProbe(orin.tree, orin.rails)
    fresh.read()
    assert {kind for kind, _ in fresh.told()} == {"over_current", "throttle"}
    fresh.read()
    assert not list(fresh.told())


def test_a_file_that_vanishes_is_counted_and_found_again(tmp_path: Path) -> None:
    device = boards.open_fixture("nano-jp4", tmp_path)
    name = "/sys/devices/system/cpu/cpu3/cpufreq/scaling_cur_freq"
    reader = Reader(device.tree, [name, "/sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq"])
    assert reader.number(0) > 0
    device.tree.write("/sys/devices/system/cpu/cpu3/online", "0")
    reader.close()  # a real kernel kills the descriptor; a folder keeps it
    assert math.isnan(reader.number(0)) and reader.number(1) > 0 and reader.failures == 1
    device.tree.write("/sys/devices/system/cpu/cpu3/online", "1")
    assert reader.number(0) > 0


def test_nonsense_in_a_register_is_nan_and_counted(orin: JetsonDevice) -> None:
    put(orin.tree.root, "/sys/devices/gpu.0/load", "\x00\x01garbage")
    assert math.isnan(reading(GpuProbe(orin.tree, orin.clocks))["gpu_util_pct"])


def test_a_board_that_hides_its_memory_clock_says_what_would_show_it(tmp_path: Path) -> None:
    import shutil

    device = boards.open_fixture("orin-agx-jp5", tmp_path)
    shutil.rmtree(tmp_path / "sys/kernel/debug")
    hidden = boards.open_tree(tmp_path)
    with pytest.raises(ProbeUnavailable, match="sudo"):
        EmcProbe(hidden.tree, hidden.clocks)
    space = hidden.modes()
    assert space is not None and space.emc_hz  # the cap can still be set
    assert device.spec == hidden.spec


def test_one_sensor_missing_never_takes_the_others_along(pair: JetsonDevice) -> None:
    every = {probe.name for probe in pair.probes()}
    for area, build in pair.builders().items():
        probe = build() if not (area == "gpu" and pair.clocks.gpu is None) else None
        assert probe is None or probe.name in every
