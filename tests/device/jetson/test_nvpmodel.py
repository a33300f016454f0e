"""nvpmodel configurations: every dialect, and what the modes really cap."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from edgetrain.device.jetson.board import JetsonDevice
from edgetrain.device.jetson.nvpmodel import Caps, caps, parse, read_query
from edgetrain.device.jetson.state import TargetMode, desired
from edgetrain.device.jetson.stock import differences, gating_modes
from edgetrain.device.jetson.tegrastats_live import rails_of
from edgetrain.device.privileged import ISO_CAP
from edgetrain.device.simulated.build import put
from edgetrain.errors import ControlRefused
from edgetrain.schema import StockMode
from tests import boards
from tests.torture import nvpmodel as torture

ODD = """
# blanks missing, words misspelt, tabs and trailing blanks, an id that is skipped
<PARAM TYPE=FILE NAME=CPU_ONLINE>
CORE_1   /sys/devices/system/cpu/cpu1/online
CORE_2 /sys/devices/system/cpu/cpu2/online\t
CORE_3 /sys/devices/system/cpu/cpu3/online
< PRAM TYPE=CLOCK NAME=CPU_DENVER_0 >
MAX_FREQ  /sys/devices/system/cpu/cpu0/cpufreq/scaling_max_freq
MAX_FREQ_KNEXT /sys/devices/system/cpu/cpufreq/policy0/scaling_max_freq
< PARAM TYPE=CLOCK NAME=GPU >
MAX_FREQ /sys/gpu/max_freq
< PARAM TYPE=CLOCK NAME=EMC >
MAX_FREQ /sys/kernel/nvpmodel_emc_cap/emc_iso_cap
< PARAM TYPE=HWMON NAME=VDDIN_OC_LIMIT >
WARN /sys/devices/platform/c250000.i2c/i2c-7/7-0040/hwmon curr1_max
< POWER_MODEL ID=0 NAME=MAXN >
CPU_ONLINE CORE_1 1
CPU_ONLINE CORE_2 1
CPU_ONLINE CORE_3 1
CPU_DENVER_0 MAX_FREQ -1
GPU MAX_FREQ 9223372036854775807
EMC MAX_FREQ 0
VDDIN_OC_LIMIT WARN 3600
<POWER_MODEL ID=7 NAME=15W_DESKTOP >
CPU_ONLINE CORE_1 1
CPU_ONLINE CORE_2 0
CPU_ONLINE CORE_3 0
CPU_DENVER_0  MAX_FREQ  1200000\t
CPU_DENVER_0 MIN_FREQ 729600
GPU MAX_FREQ 670000000
EMC MAX_FREQ 3199000000
TPC_POWER_GATING TPC_PG_MASK 240
< PM_CONFIG DEFAULT=7 >
< FAN_CONFIG DEFAULT=cool >
"""


def test_an_odd_file_is_read_and_its_oddities_are_named() -> None:
    config = parse(ODD)
    assert [(mode.id, mode.name) for mode in config.modes] == [(0, "MAXN"), (7, "15W_DESKTOP")]
    assert config.default == 7
    assert any("PRAM" in problem for problem in config.problems)
    assert not any("FAN_CONFIG" in problem for problem in config.problems)
    assert any("TPC_POWER_GATING" in problem for problem in config.problems)
    clock = config.params["CPU_DENVER_0"]
    newer, older = "cpufreq/policy0/scaling_max_freq", "cpu0/cpufreq/scaling_max_freq"
    assert clock.path("MAX_FREQ") == f"/sys/devices/system/cpu/{newer}"
    assert clock.path("MAX_FREQ", lambda path: path.endswith(older)) == f"/sys/devices/system/cpu/{older}"
    assert (
        config.params["VDDIN_OC_LIMIT"].path("WARN") == "/sys/devices/platform/c250000.i2c/i2c-7/7-0040/hwmon/curr1_max"
    )


def test_no_limit_has_several_spellings_and_core_0_is_always_on() -> None:
    config = parse(ODD)
    free = caps(config, config.modes[0], (0, 1, 2, 3))
    assert free.cores == (0, 1, 2, 3) and free.cpu_hz == {} and free.gpu_hz is None and free.emc_hz is None
    tight = caps(config, config.modes[1], (0, 1, 2, 3))
    assert tight.cores == (0, 1)  # core 0 is listed nowhere
    assert tight.cpu_hz == {0: 1_200_000_000}  # kHz
    assert tight.cpu_floor_hz == {0: 729_600_000} and tight.gpu_floor_hz is None
    assert tight.gpu_hz == 670_000_000  # Hz
    assert tight.emc_hz == 3_199_000_000  # more than 32 bits hold
    assert tight.masks == {"TPC_POWER_GATING.TPC_PG_MASK": "240"}


STOCK = {
    "nano-jp4": {0: (4, 1479, 921.6, 1600), 1: (2, 921.6, 614.4, 1600)},
    "tx2-jp4": {1: (4, 1113.6, 828.75, 1331.2), 4: (2, 1881.6, 1032.75, 1600)},
    "xavier-agx-jp4": {2: (4, 1190.4, 624.75, 1331.2), 6: (2, 2035.2, 828.75, 1600)},
    "orin-agx-jp5": {1: (4, 1113.6, 420.75, 2133), 3: (12, 1497.6, 828.75, 3199)},
    "orin-agx-jp6": {0: (12, 2201.6, 1300.5, 3199), 1: (4, 1113.6, 408, 2133), 2: (8, 1728, 612, 3199)},
    "orin-nano-super-jp6": {1: (6, 1344, 918, 3199), 2: (6, 1728, 1020, 3199), 3: (4, 960, 408, 2133)},
    "orin-nano-jp7": {0: (6, 1497.6, 612, 2133), 2: (6, 1728, 1020, 3199)},
    "thor-jp7": {0: (14, 2601, 1575, 4266), 3: (12, 1620, 945, 4266)},
}


@pytest.mark.parametrize("name", STOCK)
def test_stock_modes_are_shown_as_what_they_really_cap(name: str, tmp_path: Path) -> None:
    space = boards.open_fixture(name, tmp_path).modes()
    assert space is not None
    found = {stock.id: stock.mode for stock in space.stock}
    for identity, (cores, cpu, gpu, emc) in STOCK[name].items():
        mode = found[identity]
        assert (mode.cores, mode.cpu_hz, mode.gpu_hz, mode.emc_hz) == (
            cores, round(cpu * 1e6), round(gpu * 1e6), round(emc * 1e6),
        )  # fmt: skip


def test_every_stock_mode_is_a_mode_of_its_board(pair: JetsonDevice) -> None:
    space = pair.modes()
    assert space is not None
    for stock in space.stock:
        assert stock.mode in space


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("NV Power Mode: MAXN\n0\n", ("MAXN", 0)),
        ("NVPM WARN: fan mode is not set!\nNV Fan Mode:quiet\nNV Power Mode: 15W_DESKTOP\n7\n", ("15W_DESKTOP", 7)),
        ("NV Power Mode: MODE_30W_ALL\n", ("MODE_30W_ALL", None)),
        ("command not found", (None, None)),
    ],
)
def test_what_nvpmodel_prints_is_read_among_its_warnings(text: str, found: tuple[str | None, int | None]) -> None:
    assert read_query(text) == found


def test_tegrastats_rails_of_every_era_come_out_in_watts() -> None:
    nano = "RAM 1810/3956MB (lfb 3x2MB) CPU [12%@1224,off] GPU@38C POM_5V_IN 5120/4410 POM_5V_GPU 1640/1210"
    orin = "CPU [1%@729] EMC_FREQ 8%@3199 VDD_GPU_SOC 5572mW/5174mW/7120mW NC 0mW/0mW VDD_CPU_CV 1990mW/1592mW"
    xavier = "thermal@41.2C Tboard@39C GPU 13475/12320 CPU 1925/1790 SOC 3850/3790"
    assert rails_of(nano) == pytest.approx({"POM_5V_IN": 5.12, "POM_5V_GPU": 1.64})
    assert rails_of(orin) == pytest.approx({"VDD_GPU_SOC": 5.572, "VDD_CPU_CV": 1.99})
    assert rails_of(xavier) == pytest.approx({"GPU": 13.475, "CPU": 1.925, "SOC": 3.85})


def test_mutated_configurations_never_crash_and_never_change_a_unit() -> None:
    assert "mutated" in torture.run(400, seed=5)


@pytest.mark.parametrize("text", ["30W", "MODE_30W", "mode_30w", " 30w ", "2"])
def test_a_stock_mode_is_found_with_and_without_its_prefix(text: str, tmp_path: Path) -> None:
    space = boards.open_fixture("orin-agx-jp6", tmp_path).modes()
    assert space is not None
    found = space.find(text)
    assert isinstance(found, StockMode) and found.id == 2 and found.name == "MODE_30W"


def test_the_absolute_link_that_the_boot_script_makes_is_followed_below_the_root(tmp_path: Path) -> None:
    root = boards.build("orin-agx-jp6", tmp_path)
    (root / "etc/nvpmodel.conf").unlink()
    (root / "etc/nvpmodel.conf").symlink_to("/etc/nvpmodel/nvpmodel_board.conf")
    space = boards.open_tree(root).modes()
    assert space is not None and len(space.stock) == 4


def test_the_video_engines_clock_is_not_the_gpus() -> None:
    text = """
< PARAM TYPE=CLOCK NAME=GPU_GPC >
MAX_FREQ /sys/class/devfreq/gpu-gpc-0/max_freq
< PARAM TYPE=CLOCK NAME=GPU_NVD >
MAX_FREQ /sys/class/devfreq/gpu-nvd-0/max_freq
< POWER_MODEL ID=1 NAME=120W >
GPU_GPC MAX_FREQ 1386000000
GPU_NVD MAX_FREQ 1692000000
"""
    config = parse(text)
    assert caps(config, config.modes[0], (0,)).gpu_hz == 1_386_000_000


@pytest.mark.parametrize("shown", [0, 2_147_483_647, 9_223_372_036_854_775_807])
def test_no_cap_on_the_memory_has_several_spellings(shown: int, tmp_path: Path) -> None:
    root = boards.build("orin-agx-jp5", tmp_path)
    put(root, ISO_CAP, str(shown))
    assert boards.open_tree(root).current_mode().emc_hz == 3_199_000_000


def test_a_cap_that_every_user_may_read_shows_a_memory_clock_that_no_table_knows(tmp_path: Path) -> None:
    root = boards.build("orin-nano-super-jp6", tmp_path)
    shutil.rmtree(root / "sys/kernel/debug")
    base = root / "sys/firmware/devicetree/base"
    (base / "compatible").write_bytes(b"nvidia,p3768-0000+p3767-0005\0nvidia,tegra234\0")  # does not say super
    device = boards.open_tree(root)
    assert device.spec.name == "orin-nano"
    assert device.clocks.emc_table_hz == (204_000_000, 665_600_000, 2_133_000_000, 3_199_000_000)


def test_a_floor_belongs_to_the_cluster_whichever_of_its_cores_the_file_names(tmp_path: Path) -> None:
    clocks = boards.open_fixture("orin-agx-jp6", tmp_path).clocks
    target = TargetMode(dict.fromkeys(range(8), 1728000000), None, None, {5: 729_600_000})
    names = ["cpu0.min_khz", "cpu4.min_khz"]
    wanted = desired(clocks, names, target, dvfs=True, idle_states=True, found={})
    assert wanted == {"cpu0.min_khz": 115_200, "cpu4.min_khz": 729_600}


# Masks of each mode in order, and the modes that switch more of the GPU off than another one.
MASKS = {
    "agx orin": ((0, 248, 240, 0), {1, 2}),
    "agx orin 32 gb": ((128, 248, 240, 128), {1, 2}),
    "orin nx": ((240, 252, 252, 240), {1, 2}),
    "orin nano super": ((240, 240, 240, 252), {3}),
    "orin nano 4 gb": ((252, 252, 252), set()),
    "xavier nx": ((1,) * 9, set()),
    "thor": ((512, 512, 17353, 17353), {2, 3}),
}


@pytest.mark.parametrize("board", MASKS)
def test_a_mode_gates_the_gpu_where_another_mode_of_the_board_leaves_more_on(board: str) -> None:
    masks, gating = MASKS[board]
    modes = [
        Caps(
            number,
            str(number),
            (0,),
            {},
            None,
            None,
            {"TPC_POWER_GATING.TPC_PG_MASK": str(mask), "FBP.FBP_PG_MASK": "2"},
        )
        for number, mask in enumerate(masks)
    ]
    assert gating_modes(modes) == gating


def test_a_run_in_the_fullest_mode_of_a_module_has_no_doubt_about_its_gpu(tmp_path: Path) -> None:
    space = boards.open_fixture("orin-nano-super-jp6", tmp_path).modes()
    assert space is not None
    assert {stock.name: stock.gates_gpu for stock in space.stock} == {
        "15W": False,
        "25W": False,
        "MAXN_SUPER": False,
        "7W": True,
    }


@pytest.mark.parametrize("max_khz", [1_200_000, 1_190_400])  # as written, or rounded by a newer kernel
def test_a_cap_between_two_clocks_is_in_force_however_the_kernel_shows_it(max_khz: int, tmp_path: Path) -> None:
    device = boards.open_fixture("xavier-agx-jp4", tmp_path)
    config = device.config
    assert config is not None
    wanted = caps(config, config.modes[2], device.clocks.present)  # 15 W: 1200 MHz, GPU 670 MHz
    now = {"cpu0.max_khz": max_khz, "cpu2.max_khz": max_khz, "gpu.max_hz": 670_000_000, "emc.iso_cap_hz": 1_331_000_000}
    assert differences(device.tree, device.clocks, wanted, now) == []
    wrong = differences(device.tree, device.clocks, wanted, {**now, "cpu2.max_khz": 1_267_200, "emc.iso_cap_hz": 0})
    assert len(wrong) == 2 and "cpu2.max_khz reads 1267200, not 1190400" in wrong[0]


def test_an_nvpmodel_that_ends_with_an_error_although_the_mode_is_in_force_is_a_doubt(tmp_path: Path) -> None:
    device = boards.open_fixture("orin-nano-jp7", tmp_path)
    text = "NVPM ERROR: Error opening /sys/class/devfreq/bwmgr/max_freq: 5"
    (doubt,) = device.check_stock(1, 255, text, device.state())
    assert "status 255" in doubt and "in force" in doubt
    assert device.check_stock(1, 0, "", device.state()) == []
    with pytest.raises(ControlRefused, match="asked nvpmodel for mode 0 15W"):
        device.check_stock(0, 255, text, device.state())
