"""Builds a folder that looks like a board: its sysfs, its nvpmodel configuration, its programs."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from edgetrain.device.simulated.nvpmodel_file import nvpmodel_text
from edgetrain.device.simulated.shapes import CPU, ISO_CAP, Chip, Shape

SHAPE = ".sim/shape.json"
BPMP = "sys/kernel/debug/bpmp/debug"
BPMP_EMC = f"{BPMP}/clk/emc"
T210_EMC = "sys/kernel/debug/clk/override.emc"
BWMGR = "sys/devices/platform/bwmgr/devfreq/bwmgr"
JP4_FAN = "sys/devices/pwm-fan"
FAN_PWM = 80
PROGRAM = """#!{python} -E
# Replaces the board's own program; acts on the folder it lies in.
import sys
sys.path[:0] = {path!r}
from edgetrain.device.simulated.programs import {name}
sys.exit({name}({root!r}, sys.argv[1:]))
"""


def build(shape: Shape, root: Path, final: Path | None = None) -> Path:
    """Write the board's tree under `root` (made where it is missing); return it.

    `final` is where the folder will lie in the end, which the board's programs must know.
    """
    root.mkdir(parents=True, exist_ok=True)
    _identity(shape, root)
    _cores(shape, root)
    _gpu(shape, root)
    _emc(shape, root)
    for chip in shape.chips:
        _chip(chip, shape, root)
    _heat(shape, root)
    _storage(shape, root)
    if shape.stock:
        put(root, "etc/nvpmodel/nvpmodel_board.conf", nvpmodel_text(shape))
        link(root, "etc/nvpmodel.conf", "nvpmodel/nvpmodel_board.conf")
    if shape.active is not None:
        put(root, "var/lib/nvpmodel/status", f"pmode:{shape.active:04d}")
    if shape.programs:
        _programs(root, final or root)
    put(root, SHAPE, shape.text())
    _start(shape, root)
    return root


def _start(shape: Shape, root: Path) -> None:
    """Put the stock mode in force that the board booted with."""
    from edgetrain.device.jetson.nvpmodel import parse
    from edgetrain.device.simulated.kernel import SimulatedKernel
    from edgetrain.device.simulated.programs import put_mode

    if shape.active is not None and shape.stock and not shape.offline:
        config = parse(nvpmodel_text(shape))
        mode = config.mode(shape.active)
        if mode is not None:
            put_mode(SimulatedKernel(root, shape), config, mode)


def put(root: Path, name: str, text: str) -> None:
    """Write one file of the tree."""
    path = root / name.lstrip("/")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text + "\n")


def link(root: Path, name: str, target: str) -> None:
    """Make a relative link, as sysfs has them."""
    path = root / name.lstrip("/")
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_symlink():
        path.unlink()
    path.symlink_to(target)


def _identity(shape: Shape, root: Path) -> None:
    base = root / "sys/firmware/devicetree/base"
    base.mkdir(parents=True, exist_ok=True)
    # Device-tree strings end in NUL and have no newline.
    (base / "model").write_bytes(shape.model.encode() + b"\0")
    (base / "compatible").write_bytes(b"".join(word.encode() + b"\0" for word in shape.compatible))
    (base / "serial-number").write_bytes(shape.serial.encode() + b"\0")
    link(root, "proc/device-tree", "../sys/firmware/devicetree/base")
    if shape.release:
        put(root, "etc/nv_tegra_release", shape.release)
    free_kb = int(shape.ram_kb * 0.78)
    put(
        root,
        "proc/meminfo",
        f"MemTotal:       {shape.ram_kb} kB\nMemFree:        {free_kb} kB\nMemAvailable:   {free_kb + 900_000} kB\n"
        f"Buffers:        40000 kB\nCached:         860000 kB\nAnonPages:      700000 kB\nDirty:          120 kB\n"
        f"SwapTotal:      {shape.ram_kb // 2} kB\nSwapFree:       {shape.ram_kb // 2} kB",
    )
    put(root, "proc/sys/kernel/osrelease", shape.kernel)
    put(root, "proc/sys/kernel/random/boot_id", "6d1f2f5e-0f0b-4a2e-9a51-3d1c0b8f7a10")
    put(root, "proc/stat", stat_text({core: (0, 0) for core in shape.cores if core not in shape.offline}))


def stat_text(ticks: dict[int, tuple[int, int]]) -> str:
    """Return /proc/stat for these cores: busy and idle ticks of each."""
    busy = sum(pair[0] for pair in ticks.values())
    idle = sum(pair[1] for pair in ticks.values())
    lines = [f"cpu  {busy} 0 0 {idle} 0 0 0 0 0 0"]
    lines += [f"cpu{core} {pair[0]} 0 0 {pair[1]} 0 0 0 0 0 0" for core, pair in sorted(ticks.items())]
    return "\n".join(
        [*lines, "intr 0", "ctxt 0", "btime 1700000000", "processes 1", "procs_running 1", "procs_blocked 0"]
    )


def _heat(shape: Shape, root: Path) -> None:
    thermal = "sys/class/thermal"
    for index, (kind, millidegrees) in enumerate(shape.zones):
        put(root, f"{thermal}/thermal_zone{index}/type", kind)
        put(root, f"{thermal}/thermal_zone{index}/temp", "" if millidegrees is None else str(millidegrees))
    for index, kind in enumerate(shape.cooling):
        put(root, f"{thermal}/cooling_device{index}/type", kind)
        put(root, f"{thermal}/cooling_device{index}/cur_state", "2" if kind == "pwm-fan" else "0")
    if shape.over_current:
        folder = "sys/devices/platform/soctherm-oc-event/hwmon/hwmon8"
        put(root, f"{folder}/name", "soctherm_oc")
        for number in (1, 2, 3):
            put(root, f"{folder}/oc{number}_event_cnt", "0")
            put(root, f"{folder}/oc{number}_throt_en", "1")
    if shape.fan == "hwmon":
        put(root, "sys/devices/platform/pwm-fan/hwmon/hwmon9/pwm1", str(FAN_PWM))
        put(root, "sys/devices/platform/39c0000.tachometer/hwmon/hwmon10/name", "pwm_tach")
        put(root, "sys/devices/platform/39c0000.tachometer/hwmon/hwmon10/rpm", "1450")
        link(root, "sys/class/hwmon/hwmon10", "../../devices/platform/39c0000.tachometer/hwmon/hwmon10")
    elif shape.fan == "jp4":
        for name, value in (
            ("target_pwm", FAN_PWM), ("cur_pwm", FAN_PWM), ("temp_control", 1), ("rpm_measured", 1450),
        ):  # fmt: skip
            put(root, f"{JP4_FAN}/{name}", str(value))


def _cores(shape: Shape, root: Path) -> None:
    cores = shape.cores
    put(root, f"{CPU}/present", f"0-{cores[-1]}")
    put(root, f"{CPU}/possible", f"0-{cores[-1]}")
    put(root, f"{CPU}/online", ",".join(str(core) for core in cores if core not in shape.offline))
    for cluster in shape.clusters:
        folder, table = f"{CPU}/cpufreq/policy{cluster[0]}", shape.cpu_khz
        put(root, f"{folder}/scaling_available_frequencies", " ".join(map(str, table)))
        put(root, f"{folder}/scaling_governor", "schedutil")
        put(root, f"{folder}/related_cpus", " ".join(map(str, cluster)))
        for name, value in (
            ("cpuinfo_max_freq", table[-1]), ("cpuinfo_min_freq", table[0]), ("scaling_max_freq", table[-1]),
            ("scaling_min_freq", table[0]), ("scaling_cur_freq", table[-1]),
        ):  # fmt: skip
            put(root, f"{folder}/{name}", str(value))
        for core in cluster:
            # A core that goes offline keeps its link.
            link(root, f"{CPU}/cpu{core}/cpufreq", f"../cpufreq/policy{cluster[0]}")
            put(root, f"{CPU}/cpu{core}/online", "0" if core in shape.offline else "1")
            for index, name in enumerate(shape.idle_states):
                put(root, f"{CPU}/cpu{core}/cpuidle/state{index}/name", name)
                put(root, f"{CPU}/cpu{core}/cpuidle/state{index}/disable", "0")


def _gpu(shape: Shape, root: Path) -> None:
    folder = shape.gpu_folder.lstrip("/")
    put(root, f"{folder}/available_frequencies", " ".join(map(str, shape.gpu_hz)))
    for name, value in (("max_freq", shape.gpu_hz[-1]), ("min_freq", shape.gpu_hz[0]), ("cur_freq", shape.gpu_hz[0])):
        put(root, f"{folder}/{name}", str(value))
    put(root, f"{folder}/governor", "nvhost_podgov")
    device = folder.split("/devfreq")[0]
    if shape.gpu_node:
        put(root, f"{device}/of_node/name", shape.gpu_node)
    link(root, f"{folder}/device", os.path.relpath(root / device, root / folder))
    up = os.path.relpath(root / folder, root / "sys/class/devfreq")
    link(root, f"sys/class/devfreq/{shape.gpu_class}", up)
    if shape.gpu_load:
        put(root, shape.gpu_load, "0")
    if shape.railgate is not None:
        put(root, f"{device}/railgate_enable", str(shape.railgate))
    if shape.golden is not None:
        put(root, f"{device}/golden_img_status", str(shape.golden))
    active = next((mode for mode in shape.stock if mode.id == shape.active), None)
    for index, (_, argument, path) in enumerate(shape.masks):
        value = active.masks[index] if active and active.masks else 0
        # Thor keeps its mask as a parameter of the GPU's module.
        put(root, path, f"gpu_pg_mask_param={value}" if argument == "GPU_PG_MASK" else str(value))


def _emc(shape: Shape, root: Path) -> None:
    top = shape.emc_hz[-1]
    if shape.emc_hold == "bpmp":
        for name, value in (
            ("rate", top), ("min_rate", shape.emc_hz[0]), ("max_rate", top), ("mrq_rate_locked", 0), ("state", 1),
        ):  # fmt: skip
            put(root, f"{BPMP_EMC}/{name}", str(value))
        put(root, f"{BPMP}/bwmgr/bwmgr_halt", "0")
        rates = " ".join(str(hertz // 1000) for hertz in shape.emc_hz)
        put(root, f"{BPMP}/emc/possible_rates", f"{rates} (kHz)")
        put(root, f"{BPMP}/actmon/mc_all_avg_activity", "0")
    elif shape.emc_hold == "t210":
        for name, value in (("clk_rate", top), ("clk_update_rate", top), ("clk_state", 0)):
            put(root, f"{T210_EMC}/{name}", str(value))
        put(root, "sys/kernel/debug/tegra_bwmgr/emc_min_rate", str(shape.emc_hz[0]))
        put(root, "sys/kernel/debug/tegra_bwmgr/emc_max_rate", str(top))
        put(root, "sys/kernel/actmon_avg_activity/mc_all", "0")
    if shape.emc_cap == "bwmgr":
        put(root, f"{BWMGR}/available_frequencies", " ".join(map(str, shape.emc_hz)))
        for name, value in (("cur_freq", top), ("min_freq", shape.emc_hz[0]), ("max_freq", top)):
            put(root, f"{BWMGR}/{name}", str(value))
        link(root, "sys/class/devfreq/bwmgr", "../../devices/platform/bwmgr/devfreq/bwmgr")
    elif shape.emc_cap:
        # The older file shows what was written, 0 for no cap; the newer one the cap that holds.
        put(root, shape.emc_cap, "0" if shape.emc_cap == ISO_CAP else str(top))


def chip_folder(chip: Chip) -> str:
    """Return the folder in which a power monitor's registers lie."""
    if chip.driver == "ina3221x":
        return f"sys/bus/i2c/drivers/ina3221x/{chip.address}/iio:device0"
    return f"sys/bus/i2c/drivers/{chip.driver}/{chip.address}/hwmon/hwmon{chip.hwmon}"


def _chip(chip: Chip, shape: Shape, root: Path) -> None:
    folder = chip_folder(chip)
    if chip.driver == "ina3221x":
        for index, (label, millivolts, _) in enumerate(chip.channels):
            put(root, f"{folder}/rail_name_{index}", label)
            for name, value in (("voltage", millivolts), ("current", 0), ("power", 0)):
                put(root, f"{folder}/in_{name}{index}_input", str(value))
            put(root, f"{folder}/crit_current_limit_{index}", "32760")
            put(root, f"{folder}/polling_delay_{index}", "0")
        _protect(root / folder, shape.rails_mode)
        return
    put(root, f"{folder}/name", chip.driver)
    link(root, f"sys/class/hwmon/hwmon{chip.hwmon}", os.path.relpath(root / folder, root / "sys/class/hwmon"))
    if chip.driver == "ina238":
        # This driver has no label, shunt or interval of a channel; the hwmon itself may have a label.
        label, millivolts, _ = chip.channels[0]
        if label:
            put(root, f"{folder}/label", label)
        for name, value in (("in0_input", 0), ("in1_input", millivolts), ("curr1_input", 0), ("power1_input", 0)):
            put(root, f"{folder}/{name}", str(value))
        return
    put(root, f"{folder}/update_interval", str(shape.interval_ms(chip, chip.samples)))
    put(root, f"{folder}/samples", str(chip.samples))
    for index, (label, millivolts, _) in enumerate(chip.channels, 1):
        if label:
            put(root, f"{folder}/in{index}_label", label)
        put(root, f"{folder}/in{index}_input", str(millivolts))
        put(root, f"{folder}/in{index}_enable", "1")
        put(root, f"{folder}/curr{index}_input", "0")
        put(root, f"{folder}/shunt{index}_resistor", str(chip.shunt_uohm))
        put(root, f"{folder}/in{index + 3}_input", "0")
        if shape.alarms:
            put(root, f"{folder}/curr{index}_crit_alarm", "0")
            put(root, f"{folder}/curr{index}_max_alarm", "0")
    if shape.alarms:
        put(root, f"{folder}/curr4_crit_alarm", "0")
    put(root, f"{folder}/in7_label", "sum of shunt voltages")
    put(root, f"{folder}/in7_input", "0")
    _protect(root / folder, shape.rails_mode)


def _protect(folder: Path, mode: int) -> None:
    if mode != 0o644:
        for file in folder.glob("*_input"):
            file.chmod(mode)


def _storage(shape: Shape, root: Path) -> None:
    lines = []
    for index, name in enumerate(shape.storage):
        put(root, f"sys/block/{name}/size", "62333952")
        lines.append(f" 259 {index} {name} 100 0 20000 50 10 0 800 5 0 50 55")
    put(root, "proc/diskstats", "\n".join(lines))


def _programs(root: Path, final: Path) -> None:
    path = [entry for entry in sys.path if entry]
    for name in ("nvpmodel", "jetson_clocks", "tegrastats"):
        folder = root / ("usr/sbin" if name == "nvpmodel" else "usr/bin")
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / name
        file.write_text(PROGRAM.format(python=sys.executable, path=path, name=name, root=str(final.absolute())))
        file.chmod(0o755)
