"""Probes: units, sleepers, vanished cores, alarms."""

from __future__ import annotations

import math
import os
import shutil
import time
from pathlib import Path

import pytest

from edgetrain.device import detect, text_of
from edgetrain.device.jetson.board import JetsonDevice
from edgetrain.device.jetson.probes import EmcProbe, FanProbe, JetsonGpuProbe, JetsonThermalProbe
from edgetrain.device.jetson.reader import Reader
from edgetrain.device.jetson.throttling import ThrottleProbe
from edgetrain.device.privileged import MAY_HANG, active_throttles
from edgetrain.device.simulated.build import link, put
from edgetrain.device.tree import Tree
from edgetrain.errors import ProbeUnavailable
from edgetrain.runner.settle import hottest_c
from tests import boards


def reading(probe) -> dict[str, float]:
    return dict(zip(probe.columns, probe.read(), strict=True))


def test_temperatures_are_celsius_and_placeholders_are_left_out(tmp_path: Path) -> None:
    nano = JetsonThermalProbe(boards.open_fixture("nano-jp4", tmp_path / "nano").tree)
    assert reading(nano)["cpu_temp_c"] == pytest.approx(42.0)
    assert not any("pmic" in column for column in nano.columns)
    orin = JetsonThermalProbe(boards.open_fixture("orin-agx-jp5", tmp_path / "orin").tree)
    assert not any("cv0" in column for column in orin.columns)  # -256 °C: its block is off
    newer = JetsonThermalProbe(boards.open_fixture("orin-agx-jp6", tmp_path / "newer").tree)
    assert {"cpu_temp_c", "tj_temp_c", "gpu_temp_c"} <= set(newer.columns)  # one word for both spellings


def test_a_zone_that_sleeps_is_nan_and_wakes_up(tmp_path: Path) -> None:
    root = boards.build("orin-agx-jp6", tmp_path)
    zone = "/sys/class/thermal/thermal_zone1/temp"
    boards.plant(root, read_errors={zone: boards.EAGAIN})
    asleep = JetsonThermalProbe(boards.open_tree(root).tree)
    assert math.isnan(reading(asleep)["gpu_temp_c"]) and not math.isnan(reading(asleep)["cpu_temp_c"])
    boards.plant(root)
    assert reading(JetsonThermalProbe(boards.open_tree(root).tree))["gpu_temp_c"] == pytest.approx(46.0)
    awake = JetsonThermalProbe(boards.open_tree(root).tree)
    put(root, zone, "-256000")
    assert math.isnan(reading(awake)["gpu_temp_c"])


def test_gpu_load_is_per_mille_and_clocks_are_hertz(orin: JetsonDevice) -> None:
    put(orin.tree.root, f"{orin.clocks.gpu_device}/load", "715")
    put(orin.tree.root, f"{orin.clocks.gpu}/cur_freq", "624750000")
    found = reading(JetsonGpuProbe(orin.tree, orin.clocks))
    assert found["gpu_util_pct"] == pytest.approx(71.5) and found["gpu_hz"] == 624_750_000


def test_a_gpu_below_its_cap_under_full_load_is_throttling_and_reported_once(orin: JetsonDevice) -> None:
    put(orin.tree.root, f"{orin.clocks.gpu_device}/load", "1000")
    put(orin.tree.root, f"{orin.clocks.gpu}/cur_freq", "420750000")
    probe = JetsonGpuProbe(orin.tree, orin.clocks)
    events = []
    for _ in range(6):
        probe.read()
        events += list(probe.pop_events())
    assert [event.kind for event in events] == ["throttle"]
    put(orin.tree.root, f"{orin.clocks.gpu_device}/load", "300")  # a GPU with little to do may idle low
    quiet = JetsonGpuProbe(orin.tree, orin.clocks)
    for _ in range(6):
        quiet.read()
    assert not list(quiet.pop_events())


def test_memory_load_is_activity_over_the_clock(orin: JetsonDevice) -> None:
    put(orin.tree.root, "/sys/kernel/debug/bpmp/debug/actmon/mc_all_avg_activity", "319900")
    assert reading(EmcProbe(orin.tree, orin.clocks)) == {"emc_hz": 3_199_000_000, "emc_util_pct": pytest.approx(10.0)}


def test_alarms_and_throttles_are_reported_when_they_begin(tmp_path: Path) -> None:
    device = boards.open_fixture("orin-agx-jp6", tmp_path)
    probe = ThrottleProbe(device.tree, device.rails)
    probe.read()
    assert not list(probe.pop_events())
    columns = dict(device.rails.alarms)
    assert "1-0040_curr4_crit_alarm" in columns and "VDD_GPU_SOC_max_alarm" in columns
    cooling = {kind: index for index, kind in enumerate(boards.ORIN_COOLING)}
    put(tmp_path, columns["1-0040_curr4_crit_alarm"], "1")
    put(tmp_path, f"/sys/class/thermal/cooling_device{cooling['cpufreq-cpu4']}/cur_state", "2")
    put(tmp_path, "/sys/devices/platform/soctherm-oc-event/hwmon/hwmon8/oc3_event_cnt", "7")
    probe.read()
    events = [(event.kind, event.text) for event in probe.pop_events()]
    assert {kind for kind, _ in events} == {"over_current", "throttle"}
    assert any("instantaneous over-current throttled the board 7 times" in text for _, text in events)
    assert any("cpufreq-cpu4" in text for _, text in events)
    probe.read()
    assert not list(probe.pop_events())


def test_a_hot_surface_and_a_fan_are_no_throttling(tmp_path: Path) -> None:
    device = boards.open_fixture("orin-agx-jp6", tmp_path)
    cooling = {kind: index for index, kind in enumerate(boards.ORIN_COOLING)}
    for kind in ("hot-surface-alert", "pwm-fan"):
        put(tmp_path, f"/sys/class/thermal/cooling_device{cooling[kind]}/cur_state", "1")
    probe = ThrottleProbe(device.tree, device.rails)
    probe.read()
    assert not list(probe.pop_events())
    assert not any("surface" in column or "fan" in column for column in probe.columns)
    assert active_throttles(device.tree) == []


def test_counters_from_before_the_run_are_no_event(tmp_path: Path) -> None:
    device = boards.open_fixture("orin-agx-jp6", tmp_path)
    put(tmp_path, "/sys/devices/platform/soctherm-oc-event/hwmon/hwmon8/oc1_event_cnt", "41")
    probe = ThrottleProbe(device.tree, device.rails)
    assert reading(probe)["oc1_events"] == 41
    assert not list(probe.pop_events())


def test_the_cap_of_each_cluster_is_recorded(tmp_path: Path) -> None:
    device = boards.open_fixture("orin-agx-jp6", tmp_path)
    put(tmp_path, "/sys/devices/system/cpu/cpufreq/policy4/scaling_max_freq", "729600")
    found = reading(ThrottleProbe(device.tree, device.rails))
    assert (found["cpu0_cap_hz"], found["cpu4_cap_hz"]) == (2_201_600_000, 729_600_000)
    assert device.current_mode().cpu_hz == 729_600_000  # the lowest cluster counts, not the highest


@pytest.mark.parametrize("name", ["orin-agx-jp6", "nano-jp4"])
def test_the_fan_is_read_as_a_share_of_full_speed_and_in_revolutions(name: str, tmp_path: Path) -> None:
    device = boards.open_fixture(name, tmp_path)
    assert reading(FanProbe(device.tree)) == {"fan_share": pytest.approx(80 / 255), "fan_rpm": 1450}


def test_a_zone_that_really_answers_eagain_is_no_crash(tmp_path: Path) -> None:
    root = boards.build("orin-agx-jp6", tmp_path)
    zone = root / "sys/class/thermal/thermal_zone2/temp"  # cv0
    zone.unlink()
    os.mkfifo(zone)
    holder = os.open(zone, os.O_RDWR | os.O_NONBLOCK)  # a writer that writes nothing: reading gives EAGAIN
    try:
        tree = Tree(root)
        with pytest.raises(BlockingIOError):
            tree.read_bytes("/sys/class/thermal/thermal_zone2/temp")
        assert tree.text("/sys/class/thermal/thermal_zone2/temp") is None and text_of(zone) is None
        probe = JetsonThermalProbe(tree)
        assert not any(column.startswith("cv") for column in probe.columns)
        assert hottest_c(root / "sys/class/thermal") == pytest.approx(50.1)
        assert detect(root).findings()
    finally:
        os.close(holder)


def test_a_gpu_whose_temperature_cannot_be_read_while_it_is_off_keeps_its_column(tmp_path: Path) -> None:
    probe = JetsonThermalProbe(boards.open_fixture("thor-jp7", tmp_path).tree)
    assert math.isnan(reading(probe)["gpu_temp_c"])


def test_a_reading_that_never_returns_is_given_up(tmp_path: Path) -> None:
    root = boards.build("thor-jp7", tmp_path)
    clock = root / "sys/devices/platform/bus@0/d0b0000000.pcie/gpu-gpc-0/devfreq/gpu-gpc-0/min_freq"

    class Hanging(Tree):
        """A board whose file never answers."""

        def descriptor(self, path: str) -> bytes:
            if path == os.fspath(clock):
                time.sleep(60)
            return super().descriptor(path)

    tree = Hanging(root)
    tree.read_limit_s = 0.1
    name = "/" + str(clock.relative_to(root))
    began = time.monotonic()
    assert tree.text(name) is None and tree.text(name) is None
    assert time.monotonic() - began < 1.0  # the second time it is not even tried


def test_a_clock_whose_cluster_goes_offline_is_counted_and_read_again_later(tmp_path: Path) -> None:
    device = boards.open_fixture("orin-nano-jp7", tmp_path)
    cpu = "/sys/devices/system/cpu"
    reader = Reader(device.tree, [f"{cpu}/cpu4/cpufreq/scaling_cur_freq", f"{cpu}/cpu0/cpufreq/scaling_cur_freq"])
    assert reader.number(0) > 0
    for core in (4, 5):
        device.tree.write(f"{cpu}/cpu{core}/online", "0")
    reader.close()  # a real kernel fails the open descriptor; a folder keeps it
    assert math.isnan(reader.number(0)) and reader.number(1) > 0 and reader.failures == 1
    device.tree.write(f"{cpu}/cpu4/online", "1")
    assert reader.number(0) > 0


def test_nonsense_in_a_register_is_nan_and_counted(orin: JetsonDevice) -> None:
    put(orin.tree.root, f"{orin.clocks.gpu_device}/load", "\x00\x01garbage")
    assert math.isnan(reading(JetsonGpuProbe(orin.tree, orin.clocks))["gpu_util_pct"])


def test_a_board_that_hides_its_memory_clock_says_what_would_show_it(tmp_path: Path) -> None:
    device = boards.open_fixture("orin-agx-jp5", tmp_path)
    shutil.rmtree(tmp_path / "sys/kernel/debug")
    hidden = boards.open_tree(tmp_path)
    with pytest.raises(ProbeUnavailable, match="sudo"):
        EmcProbe(hidden.tree, hidden.clocks)
    space = hidden.modes()
    assert space is not None and space.emc_hz  # the cap can still be set
    assert device.spec == hidden.spec


def test_without_root_the_memory_cap_is_shown_where_everybody_may_read_it(tmp_path: Path) -> None:
    boards.build("orin-agx-jp6", tmp_path)
    shutil.rmtree(tmp_path / "sys/kernel/debug")
    hidden = boards.open_tree(tmp_path)
    assert reading(EmcProbe(hidden.tree, hidden.clocks)) == {"emc_cap_hz": 3_199_000_000}


def test_one_sensor_missing_never_takes_the_others_along(pair: JetsonDevice) -> None:
    every = {probe.name for probe in pair.probes()}
    for area, build in pair.builders().items():
        probe = build() if not (area == "gpu" and pair.clocks.gpu is None) else None
        assert probe is None or probe.name in every


def test_counters_and_fans_are_found_by_the_name_of_their_hwmon(tmp_path: Path) -> None:
    root = boards.build("orin-agx-jp6", tmp_path)
    for number, folder, name in ((20, "soctherm-oc-event", "soctherm_oc"), (21, "pwm-fan", "pwmfan")):
        shutil.rmtree(root / f"sys/devices/platform/{folder}")
        put(root, f"/sys/devices/elsewhere/{folder}/name", name)
        link(root, f"/sys/class/hwmon/hwmon{number}", f"../../devices/elsewhere/{folder}")
    put(root, "/sys/devices/elsewhere/soctherm-oc-event/oc2_event_cnt", "3")
    put(root, "/sys/devices/elsewhere/pwm-fan/pwm1", "51")
    device = boards.open_tree(root)
    assert reading(ThrottleProbe(device.tree, device.rails))["oc2_events"] == 3
    assert reading(FanProbe(device.tree))["fan_share"] == pytest.approx(0.2)
    assert device.settings()["fan.pwm"] == "/sys/devices/elsewhere/pwm-fan/pwm1"


@pytest.mark.parametrize("name", ["nano-jp4", "tx2-jp4", "xavier-agx-jp4", "xavier-nx-jp5", "orin-agx-jp6"])
def test_the_gpu_is_found_in_its_device_folder_alone(name: str, tmp_path: Path) -> None:
    root = boards.build(name, tmp_path)
    listed = boards.open_tree(root).clocks
    shutil.rmtree(root / "sys/class/devfreq")
    bare = boards.open_tree(root)
    assert bare.clocks.gpu == listed.gpu and bare.clocks.gpu_load == listed.gpu_load
    shutil.rmtree(tmp_path / str(listed.gpu_device).lstrip("/") / "devfreq")  # early at boot, before its first use
    early = boards.open_tree(root).clocks
    assert early.gpu is None and early.gpu_load == listed.gpu_load and early.gpu_device == listed.gpu_device


@pytest.mark.parametrize("name", ["gpu-gpc-0/min_freq", "bwmgr/cur_freq"])
def test_every_devfreq_file_that_may_hang_is_read_with_a_limit(name: str) -> None:
    assert MAY_HANG.search(f"/sys/class/devfreq/{name}")
    assert not MAY_HANG.search("/sys/devices/platform/bus@0/17000000.gpu/devfreq/17000000.gpu/cur_freq")
