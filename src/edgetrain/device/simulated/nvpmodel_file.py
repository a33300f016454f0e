"""Writes a simulated board's stock modes in the format of nvpmodel's configuration."""

from __future__ import annotations

from edgetrain.device.simulated.shapes import CPU, Shape, StockShape


def nvpmodel_text(shape: Shape) -> str:
    """Write the stock modes in the vendor's format, with edgetrain's own figures and names."""
    head = shape.header
    lines = ["# stock modes of a board that does not exist; clocks of the CPU in kHz, all others in Hz", ""]
    cores = [core for core in shape.cores if core or shape.lists_core_0]
    lines.append(head.format("PARAM TYPE=FILE NAME=CPU_ONLINE"))
    lines += [f"CORE_{core} /{CPU}/cpu{core}/online" for core in cores]
    for section, argument, path in shape.masks:
        lines += ["", head.format(f"PARAM TYPE=FILE NAME={section}"), f"{argument} {path}"]
    for name, cluster in zip(shape.cluster_names, shape.clusters, strict=True):
        folder = f"/{CPU}/cpu{cluster[0]}/cpufreq"
        lines += ["", head.format(f"PARAM TYPE=CLOCK NAME={name}")]
        lines.append(f"FREQ_TABLE {folder}/scaling_available_frequencies")
        lines += [f"MAX_FREQ  {folder}/scaling_max_freq", f"MIN_FREQ  {folder}/scaling_min_freq "]
    gpu = shape.gpu_folder
    lines += ["", head.format("PARAM TYPE=CLOCK NAME=GPU"), f"FREQ_TABLE {gpu}/available_frequencies"]
    lines += [f"MAX_FREQ {gpu}/max_freq", f"MIN_FREQ {gpu}/min_freq"]
    cap = "/sys/class/devfreq/bwmgr/max_freq" if shape.emc_cap == "bwmgr" else shape.emc_cap
    if cap:
        lines += ["", head.format("PARAM TYPE=CLOCK NAME=EMC"), f"MAX_FREQ {cap}"]
    for mode in shape.stock:
        lines += ["", head.format(f"POWER_MODEL ID={mode.id} NAME={mode.name}"), *_mode_lines(shape, mode)]
    if shape.default is not None:
        lines += ["", head.format(f"PM_CONFIG DEFAULT={shape.default}")]
    if shape.fan_config:
        lines += ["", head.format("FAN_CONFIG DEFAULT=cool")]
    return "\n".join(lines)


def _mode_lines(shape: Shape, mode: StockShape) -> list[str]:
    lines = [f"CPU_ONLINE CORE_{core} {int(core in mode.on)}" for core in shape.cores if core or shape.lists_core_0]
    for (section, argument, _), value in zip(shape.masks, mode.masks, strict=False):
        lines.append(f"{section} {argument} {value}")
    for name, cluster in zip(shape.cluster_names, shape.clusters, strict=True):
        if mode.cpu_khz is not None and set(cluster) & set(mode.on):
            lines.append(f"{name} MIN_FREQ  {shape.cpu_floor_khz}")
            lines.append(f"{name} MAX_FREQ {mode.cpu_khz} ")
    if mode.gpu_hz is not None:
        lines += ["GPU MIN_FREQ 0", f"GPU MAX_FREQ {mode.gpu_hz}"]
    if mode.emc_hz is not None and shape.emc_cap:
        lines.append(f"EMC MAX_FREQ {mode.emc_hz}")
    return lines
