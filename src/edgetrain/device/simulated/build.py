"""Builds a folder that looks like a board: its sysfs, its nvpmodel configuration, its programs."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from edgetrain.device.simulated.shapes import Chip, Shape, StockShape

SHAPE = ".sim/shape.json"
CPU = "sys/devices/system/cpu"
BPMP_EMC = "sys/kernel/debug/bpmp/debug/clk/emc"
T210_EMC = "sys/kernel/debug/clk/override.emc"
PROGRAM = """#!{python} -E
# Stands in for the board's own program; acts on the folder it lies in.
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
    for index, (kind, millidegrees) in enumerate(shape.zones):
        put(root, f"sys/class/thermal/thermal_zone{index}/type", kind)
        put(root, f"sys/class/thermal/thermal_zone{index}/temp", str(millidegrees))
    put(root, "sys/class/thermal/cooling_device0/type", "gpu-throttle")
    put(root, "sys/class/thermal/cooling_device0/cur_state", "0")
    put(root, "sys/class/thermal/cooling_device1/type", "pwm-fan")
    put(root, "sys/class/thermal/cooling_device1/cur_state", "2")
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
    from edgetrain.device.simulated.kernel import Kernel
    from edgetrain.device.simulated.programs import put_mode

    if shape.active is not None and shape.stock and not shape.offline:
        config = parse(nvpmodel_text(shape))
        mode = config.mode(str(shape.active))
        if mode is not None:
            put_mode(Kernel(root, shape), config, mode)


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


def _cores(shape: Shape, root: Path) -> None:
    cores = shape.cores
    put(root, f"{CPU}/present", f"0-{cores[-1]}")
    put(root, f"{CPU}/possible", f"0-{cores[-1]}")
    for cluster in shape.clusters:
        for core in cluster:
            put(root, f"{CPU}/cpu{core}/online", "0" if core in shape.offline else "1")
            for state in range(shape.idle_states + 1):
                put(root, f"{CPU}/cpu{core}/cpuidle/state{state}/disable", "0")
    online = [core for core in cores if core not in shape.offline]
    put(root, f"{CPU}/online", ",".join(str(core) for core in online))
    for core in online:
        show_clock(shape, root, core)


def show_clock(shape: Shape, root: Path, core: int) -> None:
    """Show a core's clock folder, as the kernel does when the core comes online."""
    cluster = next(cluster for cluster in shape.clusters if core in cluster)
    folder = f"{CPU}/cpufreq/policy{cluster[0]}" if shape.policy_links else f"{CPU}/cpu{core}/cpufreq"
    if not (root / folder / "related_cpus").exists():
        table = shape.cpu_khz
        put(root, f"{folder}/scaling_available_frequencies", " ".join(map(str, table)))
        put(root, f"{folder}/scaling_governor", "schedutil")
        for name, value in (
            ("cpuinfo_max_freq", table[-1]), ("cpuinfo_min_freq", table[0]), ("scaling_max_freq", table[-1]),
            ("scaling_min_freq", table[0]), ("scaling_cur_freq", table[-1]),
        ):  # fmt: skip
            put(root, f"{folder}/{name}", str(value))
        # Last: a folder without it was being made when its maker was killed, and is made again.
        put(root, f"{folder}/related_cpus", " ".join(map(str, cluster)))
    if shape.policy_links:
        link(root, f"{CPU}/cpu{core}/cpufreq", f"../cpufreq/policy{cluster[0]}")


def _gpu(shape: Shape, root: Path) -> None:
    folder = shape.gpu_folder.lstrip("/")
    put(root, f"{folder}/available_frequencies", " ".join(map(str, shape.gpu_hz)))
    for name, value in (("max_freq", shape.gpu_hz[-1]), ("min_freq", shape.gpu_hz[0]), ("cur_freq", shape.gpu_hz[0])):
        put(root, f"{folder}/{name}", str(value))
    put(root, f"{folder}/governor", "nvhost_podgov")
    device = folder.split("/devfreq")[0]
    put(root, f"{device}/of_node/name", shape.gpu_node)
    link(root, f"{folder}/device", os.path.relpath(root / device, root / folder))
    up = os.path.relpath(root / folder, root / "sys/class/devfreq")
    link(root, f"sys/class/devfreq/{shape.gpu_class}", up)
    if shape.gpu_load:
        put(root, shape.gpu_load, "0")
    if shape.railgate:
        put(root, f"{device}/railgate_enable", "1")
    if shape.mask_path:
        mask = next((mode.mask for mode in shape.stock if mode.id == shape.active), 0)
        put(root, shape.mask_path, str(mask or 0))


def _emc(shape: Shape, root: Path) -> None:
    top = shape.emc_hz[-1]
    if shape.emc == "bpmp":
        for name, value in (
            ("rate", top),
            ("min_rate", shape.emc_hz[0]),
            ("max_rate", top),
            ("mrq_rate_locked", 0),
            ("state", 1),
        ):
            put(root, f"{BPMP_EMC}/{name}", str(value))
        put(root, "sys/kernel/debug/bpmp/debug/actmon/mc_all_avg_activity", "0")
    elif shape.emc == "t210":
        for name, value in (("clk_rate", top), ("clk_update_rate", top), ("clk_state", 0)):
            put(root, f"{T210_EMC}/{name}", str(value))
        put(root, "sys/kernel/debug/tegra_bwmgr/emc_min_rate", str(shape.emc_hz[0]))
        put(root, "sys/kernel/debug/tegra_bwmgr/emc_max_rate", str(top))
        put(root, "sys/kernel/actmon_avg_activity/mc_all", "0")
    elif shape.emc == "devfreq":
        folder = "sys/devices/platform/bwmgr/devfreq/bwmgr"
        put(root, f"{folder}/available_frequencies", " ".join(map(str, shape.emc_hz)))
        for name, value in (("cur_freq", top), ("min_freq", shape.emc_hz[0]), ("max_freq", top)):
            put(root, f"{folder}/{name}", str(value))
        link(root, "sys/class/devfreq/bwmgr", "../../devices/platform/bwmgr/devfreq/bwmgr")
    if shape.emc_cap:
        put(root, shape.emc_cap, "0")


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
        return
    put(root, f"{folder}/name", chip.driver)
    put(root, f"{folder}/update_interval", str(chip.update_ms))
    link(root, f"sys/class/hwmon/hwmon{chip.hwmon}", os.path.relpath(root / folder, root / "sys/class/hwmon"))
    if chip.driver == "ina238":
        label, millivolts, _ = chip.channels[0]
        put(root, f"{folder}/in1_label", label)
        put(root, f"{folder}/in1_input", str(millivolts))
        put(root, f"{folder}/power1_input", "0")
        put(root, f"{folder}/shunt_resistor", str(chip.shunt_uohm))
        return
    put(root, f"{folder}/samples", str(chip.samples))
    for index, (label, millivolts, _) in enumerate(chip.channels, 1):
        put(root, f"{folder}/in{index}_label", label)
        put(root, f"{folder}/in{index}_input", str(millivolts))
        put(root, f"{folder}/in{index}_enable", "1")
        put(root, f"{folder}/curr{index}_input", "0")
        put(root, f"{folder}/shunt{index}_resistor", str(chip.shunt_uohm))
        put(root, f"{folder}/in{index + 3}_input", "0")
        if shape.alarms:
            put(root, f"{folder}/curr{index}_crit_alarm", "0")
            put(root, f"{folder}/curr{index}_max_alarm", "0")
    put(root, f"{folder}/in7_label", "sum of shunt voltages")
    put(root, f"{folder}/in7_input", "0")


def _storage(shape: Shape, root: Path) -> None:
    lines = []
    for index, name in enumerate(shape.storage):
        put(root, f"sys/block/{name}/size", "62333952")
        lines.append(f" 259 {index} {name} 100 0 20000 50 10 0 800 5 0 50 55")
    put(root, "proc/diskstats", "\n".join(lines))


def nvpmodel_text(shape: Shape) -> str:
    """Write the stock modes in the vendor's format, with figures and words of our own."""
    head = shape.header
    lines = ["# stock modes of a board that does not exist; clocks of the CPU in kHz, all others in Hz", ""]
    cores = [core for core in shape.cores if core or shape.lists_core_0]
    lines.append(head.format("PARAM TYPE=FILE NAME=CPU_ONLINE"))
    lines += [f"CORE_{core} /{CPU}/cpu{core}/online" for core in cores]
    if shape.mask_path:
        lines += ["", head.format("PARAM TYPE=FILE NAME=TPC_POWER_GATING"), f"TPC_PG_MASK {shape.mask_path}"]
    for name, cluster in zip(shape.cluster_names, shape.clusters, strict=True):
        folder = f"/{CPU}/cpu{cluster[0]}/cpufreq"
        lines += [
            "",
            head.format(f"PARAM TYPE=CLOCK NAME={name}"),
            f"FREQ_TABLE {folder}/scaling_available_frequencies",
        ]
        lines += [f"MAX_FREQ  {folder}/scaling_max_freq", f"MIN_FREQ  {folder}/scaling_min_freq "]
    gpu = shape.gpu_folder
    lines += ["", head.format("PARAM TYPE=CLOCK NAME=GPU"), f"FREQ_TABLE {gpu}/available_frequencies"]
    lines += [f"MAX_FREQ {gpu}/max_freq", f"MIN_FREQ {gpu}/min_freq"]
    if shape.emc_cap:
        lines += ["", head.format("PARAM TYPE=CLOCK NAME=EMC"), f"MAX_FREQ {shape.emc_cap}"]
    for mode in shape.stock:
        lines += ["", head.format(f"POWER_MODEL ID={mode.id} NAME={mode.name}"), *_mode_lines(shape, mode)]
    if shape.default is not None:
        lines += ["", head.format(f"PM_CONFIG DEFAULT={shape.default}")]
    return "\n".join(lines)


def _mode_lines(shape: Shape, mode: StockShape) -> list[str]:
    lines = [f"CPU_ONLINE CORE_{core} {int(core in mode.on)}" for core in shape.cores if core or shape.lists_core_0]
    if mode.mask is not None and shape.mask_path:
        lines.append(f"TPC_POWER_GATING TPC_PG_MASK {mode.mask}")
    for name, cluster in zip(shape.cluster_names, shape.clusters, strict=True):
        if mode.cpu_khz is not None and set(cluster) & set(mode.on):
            lines.append(f"{name} MIN_FREQ  0")
            lines.append(f"{name} MAX_FREQ {mode.cpu_khz} ")
    if mode.gpu_hz is not None:
        lines += ["GPU MIN_FREQ 0", f"GPU MAX_FREQ {mode.gpu_hz}"]
    if mode.emc_hz is not None and shape.emc_cap:
        lines.append(f"EMC MAX_FREQ {mode.emc_hz}")
    return lines


def _programs(root: Path, final: Path) -> None:
    path = [entry for entry in sys.path if entry]
    for name in ("nvpmodel", "jetson_clocks", "tegrastats"):
        folder = root / ("usr/sbin" if name == "nvpmodel" else "usr/bin")
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / name
        file.write_text(PROGRAM.format(python=sys.executable, path=path, name=name, root=str(final.absolute())))
        file.chmod(0o755)
