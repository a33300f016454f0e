"""Boards that no fixture is built from: plain files in the shapes of other modules and releases."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from edgetrain.cli import main
from edgetrain.device import ModeRequest, open_device
from edgetrain.device.jetson.board import JetsonDevice

CPU = "sys/devices/system/cpu"


def cores(clusters: Mapping[int, int], khz: str, present: int) -> dict[str, str]:
    """Return the files of CPU clusters: first core → number of cores."""
    files = {f"{CPU}/present": f"0-{present - 1}", f"{CPU}/online": f"0-{present - 1}"}
    for first, count in clusters.items():
        related = range(first, first + count)
        policy = f"{CPU}/cpufreq/policy{first}"
        files[f"{policy}/related_cpus"] = " ".join(map(str, related))
        files[f"{policy}/scaling_available_frequencies"] = khz
        files[f"{policy}/scaling_max_freq"] = files[f"{policy}/scaling_cur_freq"] = khz.split()[-1]
        files[f"{policy}/scaling_min_freq"] = khz.split()[0]
        for core in related:
            files[f"{CPU}/cpu{core}/cpufreq"] = f"-> ../cpufreq/policy{first}"
            files[f"{CPU}/cpu{core}/online"] = "1"
            files[f"{CPU}/cpu{core}/cpuidle/state0/disable"] = "0"
            files[f"{CPU}/cpu{core}/cpuidle/state1/disable"] = "0"
    files["proc/stat"] = "cpu 1 0 0 9 0 0 0 0 0 0\n" + "\n".join(f"cpu{n} 1 0 0 9 0 0 0 0 0 0" for n in range(present))
    return files


def hwmon(bus: str, number: int, labels: tuple[str, ...], interval: str, shunt: int) -> dict[str, str]:
    """Return the files of an INA3221 on JetPack 5 and later; an empty label is left out."""
    folder = f"sys/bus/i2c/drivers/ina3221/{bus}/hwmon/hwmon{number}"
    files = {f"{folder}/name": "ina3221", f"{folder}/samples": "512", f"{folder}/update_interval": interval}
    for channel, label in enumerate(labels, 1):
        files[f"{folder}/in{channel}_label"] = label
        files[f"{folder}/in{channel}_enable"] = "1"
        files[f"{folder}/in{channel}_input"] = "5000"
        files[f"{folder}/curr{channel}_input"] = "1000"
        files[f"{folder}/shunt{channel}_resistor"] = str(shunt)
        files[f"{folder}/curr{channel}_crit_alarm"] = files[f"{folder}/curr{channel}_max_alarm"] = "0"
    return {**files, f"{folder}/curr4_crit_alarm": "0", f"{folder}/in7_label": "sum of shunt voltages"}


def zones(*kinds: str) -> dict[str, str]:
    files = {}
    for index, kind in enumerate(kinds):
        files[f"sys/class/thermal/thermal_zone{index}/type"] = kind
        files[f"sys/class/thermal/thermal_zone{index}/temp"] = "45500"
    return files


def tree(root: Path, compatible: str, release: str, kernel: str, files: Mapping[str, str]) -> str:
    """Write a board's files; `-> target` makes a link. Return how the device is named."""
    base = root / "sys/firmware/devicetree/base"
    base.mkdir(parents=True)
    (base / "compatible").write_bytes(compatible.replace(" ", "\0").encode() + b"\0")
    (base / "model").write_bytes(b"NVIDIA Jetson\0")
    (base / "serial-number").write_bytes(b"1421022000000\0")
    common = {
        "etc/nv_tegra_release": f"# R{release.split('.')[0]} (release), REVISION: {release.split('.', 1)[1]}, GCID: 1",
        "proc/sys/kernel/osrelease": kernel,
        "proc/meminfo": "MemTotal: 16000000 kB\nMemFree: 9000000 kB\nMemAvailable: 9900000 kB",
    }
    for name, text in {**common, **files}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if text.startswith("-> "):
            path.symlink_to(text[3:])
        else:
            path.write_text(text + "\n")
    return f"jetson:{root}"


ORIN_KHZ = "115200 729600 1190400 1420800 1497600 1984000"
NX_CONF = """
< PARAM TYPE=FILE NAME=CPU_ONLINE >
CORE_0 /sys/devices/system/cpu/cpu0/online
CORE_4 /sys/devices/system/cpu/cpu4/online
CORE_5 /sys/devices/system/cpu/cpu5/online
CORE_6 /sys/devices/system/cpu/cpu6/online
CORE_7 /sys/devices/system/cpu/cpu7/online
< PARAM TYPE=FILE NAME=FBP_POWER_GATING >
FBP_PG_MASK /sys/devices/gpu.0/fbp_pg_mask
FBP_PG_MASK_KNEXT /sys/devices/platform/gpu.0/fbp_pg_mask
<PARAM TYPE=FILE NAME=TPC_POWER_GATING>
TPC_PG_MASK /sys/devices/gpu.0/tpc_pg_mask
TPC_PG_MASK_KNEXT /sys/devices/platform/gpu.0/tpc_pg_mask
< PARAM TYPE=FILE NAME=GPU_POWER_CONTROL_ENABLE >
GPU_PWR_CNTL_EN /sys/devices/gpu.0/power/control
GPU_PWR_CNTL_EN_KNEXT /sys/devices/platform/gpu.0/power/control
< PARAM TYPE=CLOCK NAME=CPU_A78_0 >
MAX_FREQ /sys/devices/system/cpu/cpu0/cpufreq/scaling_max_freq
MIN_FREQ /sys/devices/system/cpu/cpu0/cpufreq/scaling_min_freq
MAX_FREQ_KNEXT /sys/devices/system/cpu/cpufreq/policy0/scaling_max_freq
< PARAM TYPE=CLOCK NAME=CPU_A78_1 >
MAX_FREQ /sys/devices/system/cpu/cpu4/cpufreq/scaling_max_freq
MIN_FREQ /sys/devices/system/cpu/cpu4/cpufreq/scaling_min_freq
< PARAM TYPE=CLOCK NAME=GPU >
MAX_FREQ /sys/devices/17000000.ga10b/devfreq/17000000.ga10b/max_freq
MAX_FREQ_KNEXT /sys/devices/platform/17000000.gpu/devfreq_dev/max_freq
< PARAM TYPE=CLOCK NAME=EMC >
MAX_FREQ /sys/kernel/nvpmodel_emc_cap/emc_iso_cap
MAX_FREQ_KNEXT /sys/kernel/nvpmodel_clk_cap/emc
< PARAM TYPE=CLOCK NAME=DLA0_CORE >
MAX_FREQ /sys/kernel/nvpmodel_emc_cap/dla0_core
MAX_FREQ_KNEXT /sys/kernel/nvpmodel_clk_cap/dla0_core
< POWER_MODEL ID=0 NAME=MAXN_SUPER >
CPU_ONLINE CORE_0 1
CPU_ONLINE CORE_4 1
FBP_POWER_GATING FBP_PG_MASK 2
TPC_POWER_GATING TPC_PG_MASK 240
GPU_POWER_CONTROL_ENABLE GPU_PWR_CNTL_EN on
CPU_A78_0 MIN_FREQ 729600
CPU_A78_0 MAX_FREQ -1
CPU_A78_1 MIN_FREQ 729600
CPU_A78_1 MAX_FREQ -1
GPU MIN_FREQ 0
GPU MAX_FREQ -1
EMC MAX_FREQ -1
DLA0_CORE MAX_FREQ -1
< POWER_MODEL ID=1 NAME=10W >
CPU_ONLINE CORE_0 1
CPU_ONLINE CORE_4 0
CPU_ONLINE CORE_5 0
CPU_ONLINE CORE_6 0
CPU_ONLINE CORE_7 0
FBP_POWER_GATING FBP_PG_MASK 2
TPC_POWER_GATING TPC_PG_MASK 252
CPU_A78_0 MIN_FREQ 729600
CPU_A78_0 MAX_FREQ 1190400
GPU MIN_FREQ 0
GPU MAX_FREQ 612000000
EMC MAX_FREQ 2133000000
DLA0_CORE MAX_FREQ 153600000
< POWER_MODEL ID=4 NAME=40W >
CPU_ONLINE CORE_4 1
FBP_POWER_GATING FBP_PG_MASK 2
TPC_POWER_GATING TPC_PG_MASK 240
CPU_A78_0 MAX_FREQ 1497600
CPU_A78_1 MAX_FREQ 1497600
GPU MAX_FREQ 1173000000
EMC MAX_FREQ 9223372036854775807
< PM_CONFIG DEFAULT=2 >
"""


def orin_nx(root: Path) -> str:
    """Return an Orin NX 16 GB in super configuration, JetPack 6.2, without root's debugfs."""
    gpu = "sys/devices/platform/bus@0/17000000.gpu"
    files = {
        **cores({0: 4, 4: 4}, ORIN_KHZ, 8),
        **hwmon("1-0040", 1, ("VDD_IN", "VDD_CPU_GPU_CV", "VDD_SOC"), "1", 5000),
        **zones("cpu-thermal", "gpu-thermal", "soc0-thermal", "tj-thermal"),
        "etc/nvpmodel/nvpmodel_p3767_0000_super.conf": NX_CONF,
        "etc/nvpmodel.conf": "-> /etc/nvpmodel/nvpmodel_p3767_0000_super.conf",
        "var/lib/nvpmodel/status": "pmode:0000 fmode:fan_mode_quiet",
        f"{gpu}/devfreq/17000000.gpu/available_frequencies": "306000000 612000000 918000000 1173000000",
        f"{gpu}/devfreq/17000000.gpu/max_freq": "1173000000",
        f"{gpu}/devfreq/17000000.gpu/min_freq": "306000000",
        f"{gpu}/devfreq/17000000.gpu/cur_freq": "306000000",
        f"{gpu}/devfreq_dev": "-> devfreq/17000000.gpu",
        f"{gpu}/load": "0",
        f"{gpu}/railgate_enable": "1",
        f"{gpu}/golden_img_status": "1",
        f"{gpu}/tpc_pg_mask": "240",
        f"{gpu}/fbp_pg_mask": "2",
        "sys/devices/platform/gpu.0": "-> bus@0/17000000.gpu",
        "sys/devices/platform/17000000.gpu": "-> bus@0/17000000.gpu",
        "sys/class/devfreq/17000000.gpu": "-> ../../devices/platform/bus@0/17000000.gpu/devfreq/17000000.gpu",
        "sys/kernel/nvpmodel_clk_cap/emc": "3199000000",
        "sys/class/thermal/cooling_device0/type": "hot-surface-alert",
        "sys/class/thermal/cooling_device0/cur_state": "1",
        "sys/class/thermal/cooling_device1/type": "cpufreq-cpu0",
        "sys/class/thermal/cooling_device1/cur_state": "0",
    }
    compatible = "nvidia,p3768-0000+p3767-0000-super nvidia,p3767-0000 nvidia,tegra234"
    return tree(root, compatible, "36.4.4", "5.15.148-tegra", files)


def t4000(root: Path) -> str:
    """Return a T4000, JetPack 7.1: devfreq names of Thor, INA238, mask in a file that the GPU's module reads."""
    gpu = "sys/devices/platform/bus@0/a808480000.pcie/pci0000:00/0000:01:00.0/devfreq"
    ina238 = "sys/bus/i2c/drivers/ina238/2-0044/hwmon/hwmon4"
    modes = ((0, "MAXN", 512, -1), (1, "70W", 17353, 945_000_000))
    conf = [
        "< PARAM TYPE=FILE NAME=GPU_POWER_GATING >",
        "GPU_PG_MASK /opt/nvidia/l4t-gpusetup/gpu_pg_mask",
        "< PARAM TYPE=CLOCK NAME=GPU_GPC >",
        "MAX_FREQ /sys/class/devfreq/gpu-gpc-0/max_freq",
        "< PARAM TYPE=CLOCK NAME=GPU_NVD >",
        "MAX_FREQ /sys/class/devfreq/gpu-nvd-0/max_freq",
    ]
    for number, name, mask, cap in modes:
        conf += [f"< POWER_MODEL ID={number} NAME={name} >", f"GPU_POWER_GATING GPU_PG_MASK {mask}"]
        conf += [f"GPU_GPC MAX_FREQ {cap}", f"GPU_NVD MAX_FREQ {cap}"]
    files = {
        **cores(dict.fromkeys(range(0, 12, 2), 2), "162000 972000 1944000 2601000", 12),
        **hwmon("2-0040", 3, ("VDD_GPU", "VDD_CPU_SOC_MSS", "VIN_SYS_5V0"), "1", 2000),
        **zones("cpu-thermal", "tj-thermal", "soc012-thermal", "gpu-thermal", "soc345-thermal"),
        "etc/nvpmodel.conf": "\n".join([*conf, "< PM_CONFIG DEFAULT=0 >"]),
        "opt/nvidia/l4t-gpusetup/gpu_pg_mask": "gpu_pg_mask_param=512",
        "var/lib/nvpmodel/status": "pmode:0000",
        f"{ina238}/name": "ina238",
        f"{ina238}/label": "VIN",
        f"{ina238}/in0_input": "2",
        f"{ina238}/in1_input": "19968",
        f"{ina238}/curr1_input": "1560",
        f"{ina238}/power1_input": "31150000",
        f"{gpu}/gpu-gpc-0/available_frequencies": "315000000 945000000 1575000000",
        f"{gpu}/gpu-gpc-0/max_freq": "1575000000",
        f"{gpu}/gpu-gpc-0/min_freq": "315000000",
        f"{gpu}/gpu-gpc-0/cur_freq": "0",
        f"{gpu}/gpu-nvd-0/max_freq": "1692000000",
        "sys/class/devfreq/gpu-gpc-0": f"-> ../../../{gpu}/gpu-gpc-0",
        "sys/class/devfreq/gpu-nvd-0": f"-> ../../../{gpu}/gpu-nvd-0",
        "sys/kernel/nvpmodel_clk_cap/emc": "4266000000",
    }
    return tree(root, "nvidia,p4071-0000+p3834-0000 nvidia,tegra264", "38.4.0", "6.8.12-tegra", files)


def tx2_nx(root: Path) -> str:
    """Return a TX2 NX, JetPack 4.6: iio power monitor, two kinds of cores, railgating off."""
    iio = "sys/bus/i2c/drivers/ina3221x/1-0040/iio:device0"
    gpu = "sys/devices/17000000.gp10b"
    files = {
        **cores({0: 1, 1: 2, 3: 3}, "345600 806400 1113600 1420800 2035200", 6),
        **zones("BCPU-therm", "MCPU-therm", "GPU-therm", "PMIC-Die", "thermal-fan-est"),
        **{f"{iio}/rail_name_{n}": name for n, name in enumerate(("VDD_IN", "VDD_CPU_GPU", "VDD_SOC"))},
        **{f"{iio}/in_voltage{n}_input": "5000" for n in range(3)},
        **{f"{iio}/in_current{n}_input": "800" for n in range(3)},
        **{f"{iio}/in_power{n}_input": "4000" for n in range(3)},
        f"{gpu}/devfreq/17000000.gp10b/available_frequencies": "114750000 854250000 1300500000",
        f"{gpu}/devfreq/17000000.gp10b/max_freq": "1300500000",
        f"{gpu}/devfreq/17000000.gp10b/min_freq": "114750000",
        f"{gpu}/devfreq/17000000.gp10b/cur_freq": "114750000",
        f"{gpu}/load": "0",
        f"{gpu}/railgate_enable": "0",
        "sys/devices/gpu.0": "-> 17000000.gp10b",
        "sys/kernel/nvpmodel_emc_cap/emc_iso_cap": "0",
        "sys/kernel/debug/bpmp/debug/clk/emc/rate": "1600000000",
        "sys/kernel/debug/bpmp/debug/clk/emc/max_rate": "1600000000",
        "sys/kernel/debug/bpmp/debug/clk/emc/mrq_rate_locked": "0",
        "sys/kernel/debug/bpmp/debug/clk/emc/state": "1",
        "sys/kernel/debug/bpmp/debug/emc/possible_rates": "408000 1062400 1331200 1600000 (kHz)",
        "sys/class/thermal/cooling_device0/type": "bcpu-throttle-alert",
        "sys/class/thermal/cooling_device0/cur_state": "0",
        "sys/devices/pwm-fan/target_pwm": "0",
        "sys/devices/pwm-fan/cur_pwm": "0",
        "sys/devices/pwm-fan/temp_control": "1",
    }
    # A57 cores are 0, 3, 4 and 5; Denver cores 1 and 2.
    for core in (3, 4, 5):
        files[f"{CPU}/cpu{core}/cpufreq"] = "-> ../cpufreq/policy0"
    files = {name: text for name, text in files.items() if "/policy3/" not in name}
    files[f"{CPU}/cpufreq/policy0/related_cpus"] = "0 3 4 5"
    return tree(root, "nvidia,p3509-0000+p3636-0001 nvidia,tegra186", "32.7.4", "4.9.337-tegra", files)


BOARDS = {"orin-nx-super": orin_nx, "thor-t4000": t4000, "tx2-nx": tx2_nx}
TOTALS = {"orin-nx-super": ("VDD_IN_w",), "thor-t4000": ("VIN_w",), "tx2-nx": ("VDD_IN_w",)}
NOW = {
    "orin-nx-super": (8, 1_984_000_000, 1_173_000_000, 3_199_000_000),
    "thor-t4000": (12, 2_601_000_000, 1_575_000_000, 4_266_000_000),
    "tx2-nx": (6, 2_035_200_000, 1_300_500_000, 1_600_000_000),
}


@pytest.mark.parametrize("name", BOARDS)
def test_a_board_never_seen_is_named_measured_and_set(name: str, tmp_path: Path) -> None:
    device = open_device(BOARDS[name](tmp_path))
    assert isinstance(device, JetsonDevice) and device.spec.name == name
    source, space, control = device.total_power(), device.modes(), device.control()
    assert source is not None and source.columns == TOTALS[name]
    assert space is not None and control is not None
    now = control.read()
    assert (now.cores, now.cpu_hz, now.gpu_hz, now.emc_hz) == NOW[name]
    assert {"rails", "gpu", "cpu", "thermal"} <= {probe.name for probe in device.probes()}
    before = device.state()
    with control.hold(ModeRequest(next(iter(space)))):
        assert control.drift() == []
    assert device.state() == before


@pytest.mark.parametrize("name", BOARDS)
def test_doctor_and_modes_work_on_a_board_never_seen(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    device = BOARDS[name](tmp_path)
    assert main(["modes", "list", "--device", device, "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert listed["device"]["name"] == name
    works = {finding.what: finding.works for finding in open_device(device).findings()}
    assert works["power per rail"] and works["GPU load and clock"] and works["temperatures"] and works["power modes"]
    assert "board" not in works  # it is in our tables


def test_stock_modes_of_orin_nx_are_read_with_masks_floors_and_every_spelling_of_no_limit(tmp_path: Path) -> None:
    device = open_device(orin_nx(tmp_path))
    space = device.modes()
    assert space is not None and not space.problems
    stock = {mode.name: mode for mode in space.stock}
    assert stock["MAXN_SUPER"].active and not stock["MAXN_SUPER"].gates_gpu and stock["MAXN_SUPER"].reboot is None
    assert stock["10W"].gates_gpu and "252" in str(stock["10W"].reboot)  # the GPU was used since boot
    assert stock["40W"].reboot is None and stock["40W"].mode.emc_hz == 3_199_000_000
    slow = stock["10W"].mode
    assert (slow.cores, slow.cpu_hz, slow.gpu_hz, slow.emc_hz) == (4, 1_190_400_000, 612_000_000, 2_133_000_000)


def test_thors_mask_needs_a_reboot_and_its_video_clock_is_no_gpu_clock(tmp_path: Path) -> None:
    space = open_device(t4000(tmp_path)).modes()
    assert space is not None
    full, small = space.stock
    assert full.reboot is None and "17353" in str(small.reboot) and small.gates_gpu
    assert small.mode.gpu_hz == 945_000_000
