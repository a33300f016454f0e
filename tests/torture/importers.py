"""Mutated logs: tegrastats lines, nvpmodel files and log folders that no importer may crash on or misread.

`run(count, seed)` does `count` lines, a fifth as many nvpmodel files and a twentieth as many folders. A line is made
from fields whose truth is known, so that after a mutation every reading must be the truth, or absent: a wrong unit
that passes is a failure, not only a crash.
"""

from __future__ import annotations

import math
import os
import random
import re
import shutil
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from edgetrain.analysis import summarize
from edgetrain.errors import EdgetrainError
from edgetrain.importers import import_path
from edgetrain.record import FolderStore
from edgetrain.schema import TegrastatsLine, parse_tegrastats

FULL = 100_000
NOISE = [bytes([value]) for value in range(256)]
WORDS = [
    "NVENC",
    "@",
    "%",
    "mW",
    "[",
    "]",
    "off",
    "RAM",
    "-256C",
    "1e999",
    "nan",
    "\x00",
    "�",
    "CPU",
    "9" * 400,
    "/",
    "_",
]


@dataclass
class Made:
    """A line as fields, and what each field says in our units."""

    fields: list[str] = field(default_factory=list)
    truth: dict[str, float] = field(default_factory=dict)
    of_field: dict[int, list[str]] = field(default_factory=dict)  # readings by place of their field

    def add(self, text: str, **truth: float) -> None:
        self.of_field[len(self.fields)] = list(truth)
        self.fields.append(text)
        self.truth.update(truth)

    @property
    def text(self) -> str:
        return " ".join(self.fields)


def make_line(dice: random.Random) -> Made:
    """Make one line in the shape of a random era."""
    made = Made()
    era = dice.choice(["jp4", "jp5", "jp6", "jp7"])
    if era != "jp4":
        made.add(f"{dice.randint(1, 12):02d}-{dice.randint(1, 28):02d}-2026 09:15:{dice.randint(0, 59):02d}")
    total = dice.choice([3956, 7765, 31919, 62840])
    used = dice.randint(200, total)
    made.add(
        f"RAM {used}/{total}MB (lfb {dice.randint(1, 99)}x4MB)",
        **{"memory.ram_used_bytes": used * 2.0**20, "memory.ram_total_bytes": total * 2.0**20},
    )
    if dice.random() < 0.8:
        swap = dice.randint(0, 1900)
        made.add(f"SWAP {swap}/1978MB (cached 4MB)", **{"memory.swap_used_bytes": swap * 2.0**20})
    cores = []
    truth = {}
    for core in range(dice.choice([4, 6, 8, 12])):
        if core and dice.random() < 0.2:
            cores.append("off")
            continue
        load, mhz = dice.randint(0, 100), dice.randint(102, 2601)
        cores.append(f"{load}%@{mhz}")
        truth |= {f"cpu.cpu{core}_share": load / 100, f"cpu.cpu{core}_hz": mhz * 1e6}
    made.add(f"CPU [{','.join(cores)}]", **truth)
    load, mhz = dice.randint(0, 100), dice.choice([204, 665, 1600, 2133, 3199])
    made.add(f"EMC_FREQ {load}%@{mhz}", **{"emc.emc_util_pct": float(load), "emc.emc_hz": mhz * 1e6})
    load, mhz = dice.randint(0, 100), dice.randint(76, 1377)
    clock = f"@{mhz}" if era == "jp4" else f"@[{mhz},{mhz}]"
    made.add(f"GR3D_FREQ {load}%{clock}", **{"gpu.gpu_util_pct": float(load), "gpu.gpu_hz": mhz * 1e6})
    if era in ("jp6", "jp7"):
        made.add("NVENC off")
        made.add("VIC 12%@115")
    made.add("APE 150")
    for name in dice.sample(["CPU", "GPU", "AO", "tj", "soc0", "Tboard"], 4):
        celsius = dice.randint(200, 900) / 10
        made.add(f"{name}@{celsius:g}C", **{f"thermal.{name.lower()}_temp_c": celsius})
    made.add("PMIC@50C")
    unit = "" if era == "jp4" else "mW"
    rails = dice.choice(
        [
            ("VDD_IN", "VDD_CPU_GPU_CV", "VDD_SOC"),
            ("GPU", "CPU", "SOC", "CV", "VDDRQ", "SYS5V"),
            ("VDD_GPU_SOC", "VDD_CPU_CV", "VIN_SYS_5V0"),
            ("POM_5V_IN", "POM_5V_GPU", "POM_5V_CPU"),
            ("VDD_GPU", "VDD_CPU_SOC_MSS", "VIN_SYS_5V0", "VIN"),
        ]
    )
    for rail in rails:
        mw = dice.randint(900, 30_000)
        third = f"/{mw + 50}{unit}" if era == "jp7" else ""
        made.add(f"{rail} {mw}{unit}/{mw - 100}{unit}{third}", **{f"rails.{rail}_w": mw / 1000})
    return made


def readings(line: TegrastatsLine) -> dict[str, float]:
    """Return a parsed line as `stream.column`."""
    return {
        f"{stream}.{column}": value
        for stream, columns in line.streams().items()
        for column, value in columns.items()
        if not math.isnan(value)
    }


def assert_sane(line: TegrastatsLine, text: str) -> None:
    """Whatever was done to a line, what comes out could have come from a board."""
    for key, value in readings(line).items():
        limits = {
            "bytes": (0, 2**40),
            "hz": (0, 9.9e9),
            "pct": (0, 100),
            "share": (0, 1),
            "c": (-55, 150),
            "w": (0, 300),
        }
        least, most = limits[key.rpartition("_")[2]]
        assert least <= value <= most, f"{key} = {value} from {text!r}"


def _same(found: dict[str, float], truth: dict[str, float], but: set[str], text: str) -> None:
    for key, value in truth.items():
        if key not in but:
            assert key in found, f"lost {key} in {text!r}"
            assert math.isclose(found[key], value, rel_tol=1e-9), f"{key}: {found[key]} for {value} in {text!r}"
    assert not any("pmic" in key for key in found), f"a constant of the driver taken for a reading in {text!r}"
    for key in but:
        # The field whose unit was changed: absent, or right. Never a number in the wrong unit.
        assert key not in found or math.isclose(found[key], truth[key], rel_tol=1e-9), f"{key} in {text!r}"


def _shuffled(made: Made, dice: random.Random) -> None:
    stamp = made.fields[:1] if re.match(r"\d\d-", made.fields[0]) else []
    rest = made.fields[len(stamp) :]
    dice.shuffle(rest)
    text = " ".join(stamp + rest)
    _same(readings(parse_tegrastats(text)), made.truth, set(), text)


def _thinned(made: Made, dice: random.Random) -> None:
    gone = set(dice.sample(range(len(made.fields)), dice.randint(1, len(made.fields) - 1)))
    text = " ".join(part for place, part in enumerate(made.fields) if place not in gone)
    truth = {key: made.truth[key] for place, keys in made.of_field.items() if place not in gone for key in keys}
    found = readings(parse_tegrastats(text))
    _same(found, truth, set(), text)


def _strange_tokens(made: Made, dice: random.Random) -> None:
    fields = list(made.fields)
    for _ in range(dice.randint(1, 4)):
        word = "".join(dice.choice("XYZQW") for _ in range(dice.randint(1, 9))) + dice.choice(["", "=3", "#"])
        fields.insert(dice.randint(1, len(fields)), word)
    text = "  ".join(fields)
    _same(readings(parse_tegrastats(text)), made.truth, set(), text)


def _wrong_unit(made: Made, dice: random.Random) -> None:
    fields = list(made.fields)
    places = [place for place, keys in made.of_field.items() if keys]
    place = dice.choice(places)
    part = fields[place]
    if "MB" in part:
        fields[place] = re.sub(r"(\d)MB", dice.choice([r"\1TB", r"\1Mb", r"\1", r"\1%"]), part, count=1)
    elif part.startswith("CPU ["):
        fields[place] = re.sub(r"@(\d+)", dice.choice([r"@\g<1>000", r"@\g<1>000000", r"@\1kHz"]), part)
    elif "FREQ" in part:
        fields[place] = re.sub(r"(\d{2,})(?=[\],]|$)", dice.choice([r"\g<1>000", r"\g<1>000000"]), part)
    elif re.search(r"@-?[\d.]+C", part):
        fields[place] = part[:-1] + dice.choice(["F", "K", "mC", ""])
    else:
        # One rail, or all of them, in watts or microwatts, with and without saying so.
        rails = [p for p, keys in made.of_field.items() if keys and keys[0].startswith("rails.")]
        chosen = rails if dice.random() < 0.5 else [place]
        how = dice.choice(["W", "uW", "bare", "bare watts"] if chosen is rails else ["W", "uW", "bare"])
        for each in chosen:
            scale = {"W": 1e-3, "uW": 1e3, "bare": 1e3, "bare watts": 1e-3}[how]
            unit = "" if how.startswith("bare") else how
            if how == "bare" and "mW" in fields[each] and chosen is not rails:
                scale = 1  # a rail that alone lost its unit
            fields[each] = _rescale(fields[each], scale, unit)
        changed = {key for each in chosen for key in made.of_field[each]}
        text = " ".join(fields)
        _same(readings(parse_tegrastats(text)), made.truth, changed | _rails_of(made), text)
        return
    text = " ".join(fields)
    found = readings(parse_tegrastats(text))
    _same(found, made.truth, set(made.of_field[place]), text)
    # The digits are as they were or the unit is none of tegrastats': the reading itself must be gone.
    for key in made.of_field[place]:
        assert not key.endswith(("_hz", "_bytes", "_c")) or key not in found, f"{key} in {text!r}"


def _rescale(part: str, scale: float, unit: str) -> str:
    return re.sub(r"(\d+)(?:mW)?(?=/|$)", lambda match: f"{int(match[1]) * scale:.0f}{unit}", part)


def _rails_of(made: Made) -> set[str]:
    # One rail in another unit may cost the whole line its rails; it may not change one.
    return {key for key in made.truth if key.startswith("rails.")}


def _noise(made: Made, dice: random.Random) -> None:
    data = bytearray(made.text.encode())
    for _ in range(dice.randint(1, 12)):
        at = dice.randrange(len(data) + 1)
        what = dice.random()
        if what < 0.4 and at < len(data):
            data[at] = dice.randrange(256)
        elif what < 0.6 and at < len(data):
            del data[at : at + dice.randint(1, 9)]
        elif what < 0.8:
            data[at:at] = dice.choice(WORDS).encode()
        else:
            data[at:at] = bytes(dice.randrange(256) for _ in range(dice.randint(1, 9)))
    text = data.decode("utf-8", errors="replace")
    assert_sane(parse_tegrastats(text), text)


def _cut(made: Made, dice: random.Random) -> None:
    text = made.text[: dice.randrange(len(made.text))]
    line = parse_tegrastats(text)
    assert_sane(line, text)
    assert not any("VDD" in name or "POM" in name for name in line.engines), f"half a rail as an engine in {text!r}"
    # All but the reading under the knife must be the truth.
    wrong = [
        key
        for key, value in readings(line).items()
        if key in made.truth and not math.isclose(value, made.truth[key], rel_tol=1e-9)
    ]
    assert len(wrong) <= 1, f"{wrong} from {text!r}"


LINE_MUTATIONS: list[Callable[[Made, random.Random], None]] = [
    _shuffled, _thinned, _strange_tokens, _wrong_unit, _wrong_unit, _noise, _noise, _cut,
]  # fmt: skip


def torture_lines(count: int, seed: int) -> int:
    """Mutate `count` lines; return how many were checked."""
    dice = random.Random(seed)
    for number in range(count):
        made = make_line(dice)
        if number % 16 == 0:
            _same(readings(parse_tegrastats(made.text)), made.truth, set(), made.text)
        dice.choice(LINE_MUTATIONS)(made, dice)
    return count


NVPMODEL = """# a board of our own making
< PARAM TYPE=FILE NAME=CPU_ONLINE >
CORE_0 /sys/devices/system/cpu/cpu0/online
CORE_1 /sys/devices/system/cpu/cpu1/online
CORE_2 /sys/devices/system/cpu/cpu2/online
CORE_3 /sys/devices/system/cpu/cpu3/online
<PARAM TYPE=CLOCK NAME=CPU_A78_0 >
FREQ_TABLE /sys/devices/system/cpu/cpu0/cpufreq/scaling_available_frequencies
MAX_FREQ  /sys/devices/system/cpu/cpu0/cpufreq/scaling_max_freq
< PARAM TYPE=CLOCK NAME=GPU >
FREQ_TABLE /sys/devices/gpu.0/devfreq/available_frequencies
MAX_FREQ /sys/devices/gpu.0/devfreq/max_freq
< PARAM TYPE=CLOCK NAME=EMC >
MAX_FREQ /sys/kernel/nvpmodel_clk_cap/emc
< POWER_MODEL ID=0 NAME=MAXN >
CPU_ONLINE CORE_0 1
CPU_ONLINE CORE_1 1
CPU_ONLINE CORE_2 1
CPU_ONLINE CORE_3 1
CPU_A78_0 MAX_FREQ -1
GPU MAX_FREQ -1
EMC MAX_FREQ 0
< POWER_MODEL ID=2 NAME=15W >
CPU_ONLINE CORE_0 1
CPU_ONLINE CORE_1 1
CPU_ONLINE CORE_2 0
CPU_ONLINE CORE_3 0
CPU_A78_0 MAX_FREQ 1113600
GPU MAX_FREQ 408000000
EMC MAX_FREQ 2133000000
< PM_CONFIG DEFAULT=2 >
"""


def torture_nvpmodel(count: int, seed: int) -> int:
    """Mutate `count` nvpmodel files; return how many were checked (0 where there is no parser yet)."""
    try:
        from edgetrain.device.jetson import nvpmodel
    except ImportError:
        return 0
    dice = random.Random(seed)
    known = {1_113_600_000, 408_000_000, 2_133_000_000}
    for _ in range(count):
        text, digits_safe = _mutate_nvpmodel(dice)
        config = nvpmodel.parse(text)
        for mode in config.modes:
            caps = nvpmodel.caps(config, mode, (0, 1, 2, 3))
            assert set(caps.cores) <= {0, 1, 2, 3}, text
            for hertz in (*caps.cpu_hz.values(), caps.gpu_hz, caps.emc_hz):
                if hertz is not None:
                    assert hertz >= 0, text
                    if digits_safe:
                        assert hertz in known, f"{hertz} in {text!r}"
    return count


def _mutate_nvpmodel(dice: random.Random) -> tuple[str, bool]:
    """Return a mutated file, and whether no digit of it was touched."""
    lines = NVPMODEL.splitlines()
    what = dice.randrange(5)
    if what == 0:
        for _ in range(dice.randint(1, 6)):
            del lines[dice.randrange(len(lines))]
        return "\n".join(lines), True
    if what == 1:
        dice.shuffle(lines)
        return "\n".join(lines), True
    if what == 2:
        lines = [re.sub(" ", dice.choice(["  ", "\t", " "]), line) + dice.choice(["", "  ", "\r"]) for line in lines]
        return "\n".join(lines), True
    if what == 3:
        return NVPMODEL[: dice.randrange(len(NVPMODEL))], False
    data = bytearray(NVPMODEL.encode())
    for _ in range(dice.randint(1, 20)):
        at = dice.randrange(len(data))
        data[at : at + dice.randint(0, 3)] = dice.choice(NOISE) * dice.randint(0, 3)
    return data.decode("utf-8", errors="replace"), False


def run(count: int, seed: int) -> str:
    """Torture the importers; return one paragraph on what was done."""
    began = time.perf_counter()
    lines = torture_lines(count, seed)
    files = torture_nvpmodel(count // 5, seed)
    folders = torture_folders(max(count // 20, 1), seed)
    took = time.perf_counter() - began
    return (
        f"Importers: {lines:,} mutated tegrastats lines, {files:,} nvpmodel files and {folders:,} log folders "
        f"(seed {seed}): no crash, no reading in a wrong unit; {took:.0f} s."
    )


def torture_folders(count: int, seed: int) -> int:
    """Mutate `count` log folders, import each, open and sum up what came of it."""
    from tests.torture.folders import MUTATIONS, write_folder

    dice = random.Random(seed)
    # In memory where there is such a folder: thousands of records are synced, and no disk is under test here.
    memory = Path("/dev/shm")
    root = Path(tempfile.mkdtemp(prefix="edgetrain-torture-", dir=memory if os.access(memory, os.W_OK) else None))
    try:
        for number in range(count):
            folder = root / "resnet" / "pm_4_883200_510000000_2133000000"
            files = write_folder(folder, dice, minibatches=12)
            mutation = dice.choice(MUTATIONS)
            touched = mutation(folder, files, dice)
            store = FolderStore(root / "store")
            try:
                found = list(import_path(folder, store))
            except EdgetrainError as refusal:
                assert str(refusal), "a refusal without a word"
            else:
                for each in found:
                    check_import(store, each.id, each.problems, touched, mutation.__name__)
            if number % 50 == 0:
                shutil.rmtree(root / "store", ignore_errors=True)
            shutil.rmtree(folder)
    finally:
        shutil.rmtree(root, ignore_errors=True)
    return count


def check_import(store: FolderStore, run_id: str, problems: tuple[str, ...], touched: str, mutation: str) -> None:
    """An import opens, keeps its order of instants, and says nothing in a wrong unit."""
    run = store.open(run_id)
    assert not run.lost, run.lost
    summary = summarize(run)
    power = summary.power_w.median
    assert power is None or 0.5 <= power <= 150, f"{power} W after {mutation}"
    median = summary.minibatch.median_ms
    assert median is None or 0 <= median < 86_400_000
    if len(run.minibatches()):
        asked, ready, done = (run.minibatches()[name] for name in ("asked_us", "ready_us", "done_us"))
        seen = (asked >= 0) & (ready >= 0)
        assert (asked[seen] <= ready[seen]).all() and (ready[seen] <= done[seen]).all(), mutation
    if touched == "power unit":
        assert power is None or 8 <= power <= 14, f"{power} W after {mutation}"
        assert problems, mutation
    if touched == "clock unit":
        for stream, column in (("cpu_clock", "cpu0_hz"), ("gpu_clock", "gpu_hz"), ("emc_clock", "emc_hz")):
            clocks = run.samples(stream).get(column)
            if clocks is not None:
                sound = clocks[clocks == clocks]
                assert ((sound > 100e6) & (sound < 5e9)).all(), f"{column} after {mutation}"
        assert problems, mutation
