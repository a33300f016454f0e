"""A small machine as a folder: two cores, one disk, a package with energy counters, three temperatures."""

from __future__ import annotations

from pathlib import Path

STAT = """cpu  {a} 0 100 {idle} 50 0 0 10 0 0
cpu0 {a} 0 50 {idle0} 25 0 0 5 0 0
cpu1 0 0 50 {idle1} 25 0 0 5 0 0
intr 12345 0 0 1
ctxt 99
procs_running 4
procs_blocked 0
"""
MEMINFO = """MemTotal:        8000000 kB
MemFree:         1000000 kB
MemAvailable:    5000000 kB
Buffers:           10000 kB
Cached:          3000000 kB
SwapTotal:       2000000 kB
SwapFree:        1500000 kB
Dirty:               100 kB
AnonPages:        900000 kB
"""
DISKSTATS = """   7       0 loop0 0 0 0 0 0 0 0 0 0 0 0
 259       0 nvme0n1 1000 5 2048 1500 10 0 80 20 0 900 1520 0 0 0 0 0 0
 259       1 nvme0n1p1 900 5 2000 1400 10 0 80 20 0 900 1420 0 0 0 0 0 0
"""


def write(root: Path, name: str, text: str) -> Path:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def stat(root: Path, busy: int, idle: int) -> None:
    write(root, "proc/stat", STAT.format(a=busy, idle=2 * idle, idle0=idle - busy, idle1=idle))


def build(root: Path) -> Path:
    """Write the tree; return its root."""
    stat(root, 100, 1000)
    write(root, "proc/meminfo", MEMINFO)
    write(root, "proc/diskstats", DISKSTATS)
    write(root, "proc/cpuinfo", "processor\t: 0\nmodel name\t: Example 9000\n")
    for what, total in (("cpu", 1000), ("io", 2000), ("memory", 0)):
        line = f"avg10=0.00 avg60=0.00 avg300=0.00 total={total}"
        write(root, f"proc/pressure/{what}", f"some {line}\nfull {line}\n")
    for core in (0, 1):
        write(root, f"sys/devices/system/cpu/cpu{core}/cpufreq/scaling_cur_freq", f"{2_000_000 + core}\n")
        write(root, f"sys/devices/system/cpu/cpu{core}/cpufreq/scaling_governor", "schedutil\n")
    write(root, "sys/block/loop0/size", "0\n")
    write(root, "sys/block/nvme0n1/size", "500118192\n")
    write(root, "sys/class/thermal/thermal_zone0/type", "x86_pkg_temp\n")
    write(root, "sys/class/thermal/thermal_zone0/temp", "45500\n")
    write(root, "sys/class/thermal/thermal_zone1/type", "x86_pkg_temp\n")
    write(root, "sys/class/thermal/thermal_zone1/temp", "-256000\n")
    write(root, "sys/class/hwmon/hwmon3/name", "nvme\n")
    write(root, "sys/class/hwmon/hwmon3/temp1_input", "38850\n")
    write(root, "sys/class/hwmon/hwmon3/temp1_label", "Composite\n")
    for package in (0, 1):
        folder = f"sys/class/powercap/intel-rapl:{package}"
        write(root, f"{folder}/name", f"package-{package}\n")
        write(root, f"{folder}/energy_uj", "1000000\n")
        write(root, f"{folder}/max_energy_range_uj", "262143328850\n")
    write(root, "sys/class/powercap/intel-rapl:0/intel-rapl:0:0/name", "dram\n")
    write(root, "sys/class/powercap/intel-rapl:0/intel-rapl:0:0/energy_uj", "500\n")
    write(root, "sys/class/powercap/intel-rapl:0/intel-rapl:0:0/max_energy_range_uj", "262143328850\n")
    return root
