"""Log folders in the shape that edge-train-bench writes, with our own numbers, and ways to damage them."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

NAMES_OLD = "r/s,w/s,rkB/s,wkB/s,rrqm/s,wrqm/s,%rrqm,%wrqm,r_await,w_await,aqu-sz,rareq-sz,wareq-sz,svctm,%util"
NAMES_NEW = "r/s,rkB/s,rrqm/s,%rrqm,r_await,rareq-sz,w/s,wkB/s,wrqm/s,%wrqm,w_await,wareq-sz,d/s,dkB/s,drqm/s"
PREFIX = "mn_nw4_pf2_"


def write_folder(folder: Path, dice: random.Random, minibatches: int = 12, stale: int = 1) -> dict[str, Path]:
    """Write one run of a 4-core mode; return its files by kind. Fetch 30 ms, compute 200 ms, whole 232 ms, 11 W."""
    folder.mkdir(parents=True, exist_ok=True)
    texts: dict[str, list[str]] = {
        "fetch": ["epoch,batch_idx,fetchtime,fetchtime_ms,log_time"],
        "compute": ["epoch,batch_idx,computetime,computetime_ms,log_time"],
        "epoch_stats": ["epoch,time,loss,accuracy,epochtime_ms,log_time"],
        "tegrastats": [
            "time,uptime,jetson_clocks,nvp model,CPU1,CPU2,CPU3,CPU4,CPU5,CPU6,GPU1,RAM,EMC,SWAP,fan,Temp CPU,Temp GPU,"
            "power cur,power avg,log_time"
        ],
        "cpufreq_stats": ["1,2,3,4,5,6,log_time"],
        "gpufreq_stats": ["1,2,log_time"],
        "emc_stats": ["val,frq,min_freq,max_freq,FreqOverride,log_time"],
        "ram_stats": ["use,tot,unit,lfb,shared,table,log_time"],
        "io_stats": [NAMES_OLD + ",log_time"],
        "mem_stats": ["total,used,free,shared,buff/cache,available,log_time"],
        "swap_stats": ["total,used,free,log_time"],
        "vmtouch_stats": [
            "files,directories,resident_pages,resident_pages_size,resident_pages_%,elapsed,redundant,log_time",
            "100,1,250/1000,1M/4M,25%,0.1,seconds,0.5",
        ],
    }
    clock = 2.0
    for batch in range(minibatches):
        fetch, compute = 30.0 + dice.random(), (4000.0 if batch == 0 else 200.0) + dice.random()
        whole = fetch + compute + 2.0
        clock += whole / 1000 + 0.003  # the logger takes 3 ms to write
        texts["fetch"].append(f"0,{batch},null,{fetch},{clock - 0.0005}")
        texts["compute"].append(f"0,{batch},null,{compute},{clock}")
        texts["epoch_stats"].append(f'0,null,":",null,{whole},{clock + 0.0004}')
    samples = int(clock / 1.2) + 2
    for sample in range(samples):
        at = 0.4 + sample * 1.2
        old = sample < stale
        cores = 2 if old else 4
        loads = [str(dice.randint(5, 95)) if core < cores else "OFF" for core in range(6)]
        power = 11_000 + dice.randint(-400, 400)
        texts["tegrastats"].append(
            f"2026-02-03 10:00:{sample % 60:02d}.5,0 days 01:00:00,ON,pm_new,{','.join(loads)},80,2371612,9,5,100.0,"
            f"45.2,44.1,{power},{power},{at}"
        )
        khz = 268_800 if old else 883_200
        core = f"\"{{'val': 50, 'frq': {khz - 800}, 'governor': 'schedutil', 'min_freq': {khz}, 'max_freq': {khz}}}\""
        texts["cpufreq_stats"].append(",".join([core] * cores + ["{}"] * (6 - cores)) + f",{at}")
        gpu = "\"{'val': 80, 'frq': 509000, 'min_freq': 510000000, 'max_freq': 510000000}\""
        texts["gpufreq_stats"].append(f"{gpu},{gpu},{at}")
        texts["emc_stats"].append(f"9,2133000,204000000,{665600000 if old else 2133000000},1,{at}")
        table = "[['Client', 'Process', 'PID', 'Size'], [{'Client': 'user', 'Size': {'val': 2362932, 'unit': 'k'}}]]"
        texts["ram_stats"].append(
            f"5426160,7512668,k,\"{{'nblock': 4, 'size': 4, 'unit': 'M'}}\",20000,\"{table}\",{at}"
        )
        values = ",".join(f"{value}.00" for value in range(15))
        texts["io_stats"].append(f"{NAMES_NEW},{values},{at}" if sample % 2 else f"{values},{at}")
        texts["mem_stats"].append(f"7.2Gi,2.1Gi,3.1Gi,20Mi,2.0Gi,4.9Gi,{at}")
        texts["swap_stats"].append(f"3.6Gi,4.0Mi,3.6Gi,{at}")
    files = {}
    for kind, lines in texts.items():
        files[kind] = folder / f"{PREFIX}{kind}.csv"
        files[kind].write_text("\n".join(lines) + "\n")
    shown = ["SOC family:tegra234  Machine:NVIDIA Orin Nano Developer Kit", "Online CPUs: 0-3"]
    shown += [
        f"cpu{core}: Online={int(core < 4)} Governor=schedutil MinFreq=883200 MaxFreq=883200 CurrentFreq=883200 "
        "IdleStates: WFI=0 c7=0 "
        for core in range(6)
    ]
    shown += [
        "GPU MinFreq=510000000 MaxFreq=510000000 CurrentFreq=510000000",
        "EMC MinFreq=204000000 MaxFreq=2133000000 CurrentFreq=2133000000 FreqOverride=1",
    ]
    files["log_file"] = folder / "log_file_pm_14"
    files["log_file"].write_text("\n".join(shown) + "\n")
    files["train_log"] = folder / "train_log_file_pm_14"
    console = ["/media/ssd/data/", "No. of model parameters = 4131561", "No. of training batches = 1443"]
    console += [f"Batch index = {batch}" for batch in range(minibatches)]
    files["train_log"].write_text("\n".join(console) + "\n")
    return files


def _some(files: dict[str, Path], dice: random.Random) -> list[Path]:
    return dice.sample(list(files.values()), dice.randint(1, 4))


def noise(folder: Path, files: dict[str, Path], dice: random.Random) -> str:
    for file in _some(files, dice):
        data = bytearray(file.read_bytes())
        for _ in range(dice.randint(1, 40)):
            at = dice.randrange(len(data) + 1)
            data[at : at + dice.randint(0, 8)] = bytes(dice.randrange(256) for _ in range(dice.randint(0, 8)))
        file.write_bytes(data)
    return ""


def torn(folder: Path, files: dict[str, Path], dice: random.Random) -> str:
    for file in _some(files, dice):
        data = file.read_bytes()
        file.write_bytes(data[: dice.randrange(len(data))])
    return ""


def zeroed(folder: Path, files: dict[str, Path], dice: random.Random) -> str:
    for file in _some(files, dice):
        data = bytearray(file.read_bytes())
        at = dice.randrange(len(data))
        data[at : at + 4096] = bytes(len(data[at : at + 4096]))
        file.write_bytes(data)
    return ""


def missing(folder: Path, files: dict[str, Path], dice: random.Random) -> str:
    for file in dice.sample(list(files.values()), dice.randint(1, len(files) - 1)):
        file.unlink()
    return ""


def empty(folder: Path, files: dict[str, Path], dice: random.Random) -> str:
    for file in _some(files, dice):
        file.write_bytes(dice.choice([b"", b"\n", b"\xef\xbb\xbf", b"log_time\n", bytes(300)]))
    return ""


def shuffled_rows(folder: Path, files: dict[str, Path], dice: random.Random) -> str:
    for file in _some(files, dice):
        lines = file.read_text().splitlines()
        dice.shuffle(lines)
        file.write_text("\n".join(lines))
    return ""


def hostile_literal(folder: Path, files: dict[str, Path], dice: random.Random) -> str:
    cell = dice.choice(
        ["[" * 5000, "(" * 90_000, "{'val': 9**9**9**9}", "__import__('os').system('true')",
         "{'val': 1e999, 'frq': 'x'}",
         "{'frq': 10**400}", "{'frq': -5, 'max_freq': None}", "{1: {2: {3: 4}}}"]
    )  # fmt: skip
    with files["cpufreq_stats"].open("a") as file:
        file.write(f'"{cell}","{cell}",{{}},{{}},{{}},{{}},9.5\n')
    with files["ram_stats"].open("a") as file:
        file.write(f'5426160,7512668,k,"{cell}",20000,"{cell}",9.5\n')
    return ""


def power_in_another_unit(folder: Path, files: dict[str, Path], dice: random.Random) -> str:
    scale = dice.choice([1e-3, 1e3])
    lines = files["tegrastats"].read_text().splitlines()
    rows = []
    for line in lines[1:]:
        cells = line.split(",")
        cells[-3] = f"{float(cells[-3]) * scale:g}"
        cells[-2] = f"{float(cells[-2]) * scale:g}"
        rows.append(",".join(cells))
    files["tegrastats"].write_text("\n".join([lines[0], *rows]) + "\n")
    return "power unit"


def clocks_in_another_unit(folder: Path, files: dict[str, Path], dice: random.Random) -> str:
    scale = dice.choice([1000, 1_000_000])
    for kind, old in (("cpufreq_stats", "'frq': "), ("gpufreq_stats", "'frq': ")):
        text = files[kind].read_text()
        files[kind].write_text("".join(_scaled(part, old, scale) for part in text.splitlines(keepends=True)))
    return "clock unit"


def _scaled(line: str, key: str, scale: int) -> str:
    parts = line.split(key)
    for place in range(1, len(parts)):
        digits = parts[place].split(",")[0]
        parts[place] = parts[place].replace(digits, str(int(digits) * scale), 1)
    return key.join(parts)


def sizes_without_unit(folder: Path, files: dict[str, Path], dice: random.Random) -> str:
    text = files["mem_stats"].read_text()
    files["mem_stats"].write_text(text.replace("Gi", dice.choice(["", "Gx", "G!", " "])))
    return ""


MUTATIONS: list[Callable[[Path, dict[str, Path], random.Random], str]] = [
    noise, noise, torn, zeroed, missing, empty, shuffled_rows, hostile_literal, power_in_another_unit,
    clocks_in_another_unit, sizes_without_unit,
]  # fmt: skip
