"""Replacements of the board's own programs, acting on the simulated board's files.

nvpmodel asks before it reboots and keeps the old mode unless the answer is YES (which here would only be noted), can
refuse, and can do nothing at all while ending with status 0, as it does in a container. jetson_clocks asks before it
overwrites a stored file. tegrastats prints lines in the format of the board's release.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from edgetrain.device.jetson import nvpmodel as config
from edgetrain.device.simulated.kernel import SimulatedKernel
from edgetrain.device.simulated.shapes import CPU


def nvpmodel(root: str, arguments: Sequence[str]) -> int:
    """Query or change the stock mode."""
    kernel = SimulatedKernel(Path(root))
    fault = kernel.faults().get("nvpmodel")
    text = (Path(root) / "etc/nvpmodel.conf").read_text()
    parsed = config.parse(text)
    status = Path(root) / "var/lib/nvpmodel/status"
    found = re.search(r"pmode:(\d+)", status.read_text() if status.exists() else "")
    active = int(found[1]) if found else parsed.default or 0
    if "-q" in arguments:
        mode = parsed.mode(active)
        print("NVPM WARN: fan mode is not set!")
        print(f"NV Power Mode: {mode.name if mode else 'unknown'}\n{active}")
        return 0
    if "-m" not in arguments:
        print("NVPM ERROR: nothing to do")
        return 1
    asked = arguments[list(arguments).index("-m") + 1]
    mode = parsed.mode(int(asked)) if asked.isdigit() else None
    if fault == "silent":
        return 0
    if fault == "chroot" and mode is not None:
        print("NVPM WARN: Running in chroot, ignoring request.")
        kernel.put("var/lib/nvpmodel/status", f"pmode:{mode.id:04d}")
        return 0
    if mode is None or fault == "refuse":
        print(f"NVPM ERROR: Error setting mode {asked}")
        return 255
    masks = dict(zip(kernel.shape.masks, _masks(kernel, parsed, mode), strict=False))
    golden = kernel.get(f"{kernel.shape.gpu_folder.split('/devfreq')[0]}/golden_img_status")
    if golden and any(kernel.get(path) != value for (_, _, path), value in masks.items()):
        print("NVPM WARN: Golden image context is already created")
        print(f"NVPM WARN: Reboot required for changing to this power mode: {mode.id}")
        print("NVPM WARN: DO YOU WANT TO REBOOT NOW? enter YES/yes to confirm:")
        answer = sys.stdin.readline().strip()
        if answer not in ("YES", "yes"):
            print("NVPM ERROR: User did not confirm, mode not changed")
            return 255
        (Path(root) / ".sim/rebooted").write_text("YES was answered\n")
    for warning in put_mode(kernel, parsed, mode):
        print(warning)
    kernel.put("var/lib/nvpmodel/status", f"pmode:{mode.id:04d}")
    return 0


def _masks(kernel: SimulatedKernel, parsed: config.NvpmodelConfig, mode: config.ModeEntry) -> list[int]:
    found = config.caps(parsed, mode, kernel.shape.cores).masks
    return [int(found.get(f"{section}.{argument}", "0")) for section, argument, _ in kernel.shape.masks]


def put_mode(kernel: SimulatedKernel, parsed: config.NvpmodelConfig, mode: config.ModeEntry) -> list[str]:
    """Write what a stock mode says, cores first so that their clocks can be reached; return what was refused."""
    warnings = []
    rows = sorted(
        mode.settings, key=lambda row: (not row[1].startswith("CORE_") or row[2] != "1", row[1].startswith("MAX"))
    )
    for name, argument, value in rows:
        param = parsed.params.get(name)
        path = param.path(argument) if param else None
        if path is None:
            continue
        real = (kernel.root / path.lstrip("/")).resolve()
        if not real.exists():
            continue
        target = "/" + str(real.relative_to(kernel.root.resolve()))
        number = int(value)
        if argument == "MAX_FREQ" and number <= 0:
            table = kernel.shape.cpu_khz if name.startswith("CPU") else kernel.shape.gpu_hz
            # No limit: JetPack 4 and 5 write 0 for the memory, JetPack 6 the largest integer.
            number = (number if number == 0 else 2**63 - 1) if name == "EMC" else table[-1]
        text = f"gpu_pg_mask_param={number}" if argument == "GPU_PG_MASK" else str(max(number, 0))
        try:
            kernel.write(target, text)
        except OSError as error:
            warnings.append(f"NVPM WARN: {target}: {error.strerror}")
    return warnings


def jetson_clocks(root: str, arguments: Sequence[str]) -> int:
    """Show, store, restore or lock the clocks."""
    kernel = SimulatedKernel(Path(root))
    base = Path(root)
    if "--show" in arguments:
        print("SOC family:tegra234  Machine:simulated")
        print(f"Online CPUs: {(base / CPU / 'online').read_text().strip()}")
        for core in kernel.shape.cores:
            folder = f"{CPU}/cpu{core}/cpufreq"
            if kernel.get(f"{CPU}/cpu{core}/online"):
                print(
                    f"cpu{core}: Online=1 Governor=schedutil MinFreq={kernel.get(f'{folder}/scaling_min_freq')} "
                    f"MaxFreq={kernel.get(f'{folder}/scaling_max_freq')} "
                    f"CurrentFreq={kernel.get(f'{folder}/scaling_cur_freq')} IdleStates: WFI=1 c7=1"
                )
        gpu = kernel.shape.gpu_folder
        print(
            f"GPU MinFreq={kernel.get(f'{gpu}/min_freq')} MaxFreq={kernel.get(f'{gpu}/max_freq')} "
            f"CurrentFreq={kernel.get(f'{gpu}/cur_freq')}"
        )
        return 0
    if "--store" in arguments:
        at = list(arguments).index("--store") + 1
        file = Path(arguments[at]) if at < len(arguments) else base / "root/l4t_dfs.conf"
        if file.exists():
            print(f"File {file} already exists. Can I overwrite it? Y/N:")
            if sys.stdin.readline().strip().upper() != "Y":
                return 1
        file.write_text(f"{kernel.shape.gpu_folder}/min_freq:{kernel.get(f'{kernel.shape.gpu_folder}/min_freq')}\n")
        return 0
    for cluster in kernel.shape.clusters:
        policy = f"/{CPU}/cpufreq/policy{cluster[0]}"
        if any(kernel.get(f"{CPU}/cpu{core}/online") for core in cluster):
            kernel.write(f"{policy}/scaling_min_freq", str(kernel.get(f"{policy}/scaling_max_freq")))
    gpu = kernel.shape.gpu_folder
    kernel.write(f"{gpu}/min_freq", str(kernel.get(f"{gpu}/max_freq")))
    for file in base.glob(f"{CPU}/cpu*/cpuidle/state[0-9]/disable"):  # state 0 too
        kernel.write("/" + str(file.relative_to(base)), "1")
    return 0


def tegrastats(root: str, arguments: Sequence[str]) -> int:
    """Print a line each interval until it is stopped, in the shape of the board's release."""
    from edgetrain.device.jetson.probes import RailsProbe
    from edgetrain.device.simulated.opening import open_root

    words = list(arguments)
    interval_s = int(words[words.index("--interval") + 1]) / 1000 if "--interval" in words else 1.0
    count = int(words[words.index("--count") + 1]) if "--count" in words else -1  # ours, for tests
    device = open_root(Path(root), real_time=True)
    newer = not device.world.shape.kernel.startswith("4.")
    # Not through device.probes(): without rails in sysfs that starts tegrastats, which is this program.
    rails = RailsProbe(device.tree, device.rails) if device.rails.rails else None
    columns = list(rails.columns) if rails else []
    sums = [0.0] * len(columns)
    lines = 0
    while count < 0 or lines < count:
        lines += 1
        row = rails.read() if rails else []
        sums = [total + value for total, value in zip(sums, row, strict=True)]
        unit = "mW" if newer else ""
        power = " ".join(
            f"{column[:-2]} {value * 1e3:.0f}{unit}/{total / lines * 1e3:.0f}{unit}"
            for column, value, total in zip(columns, row, sums, strict=True)
        )
        shape = device.world.shape
        mode = device.world.mode()
        cores = ",".join(
            f"{3 + core}%@{mode.cpu_hz // 1_000_000}" if core < mode.cores else "off" for core in shape.cores
        )
        stamp = time.strftime("%m-%d-%Y %H:%M:%S ") if newer else ""
        megabytes = shape.ram_kb // 1024
        print(
            f"{stamp}RAM {megabytes // 5}/{megabytes}MB (lfb 5x4MB) SWAP 0/{megabytes // 2}MB (cached 0MB) "
            f"CPU [{cores}] EMC_FREQ 1%@{(mode.emc_hz or 0) // 1_000_000} "
            f"GR3D_FREQ 0%@{(mode.gpu_hz or 0) // 1_000_000} CPU@{device.world.temp_c():.1f}C {power}",
            flush=True,
        )
        if count < 0 or lines < count:
            time.sleep(interval_s)
    return 0
