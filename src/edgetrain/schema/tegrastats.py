"""Reads one line of tegrastats, of any era from JetPack 4 to 7, into readings in our units.

It stands in `schema` because both halves need it: the importer for old logs, the board for its live fallback.
Order and spelling of the fields drift from release to release, so a line is read token by token; a token nobody
knows is kept as data. A value that cannot be what its place says (an impossible clock, a unit tegrastats never
prints, more RAM used than there is) is left out and named in `problems`: a missing reading can be seen later, a
wrong unit cannot. Standard library only.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from edgetrain.units import HZ_PER_MHZ, W_PER_MW

# tegrastats counts in powers of two and writes them as if they were decimal.
_BYTES_PER = {"kB": 2**10, "KB": 2**10, "MB": 2**20, "GB": 2**30}
_MOST_RAM_BYTES = 2**40
_LEAST_HZ, _MOST_HZ = 10 * HZ_PER_MHZ, 9_900 * HZ_PER_MHZ  # what a clock of such a board can be
_MOST_RAIL_W = 300.0  # no Jetson takes half of this
_LEAST_INPUT_W = 0.3  # nor runs Linux on less: numbers below are in another unit
_SENSOR_OFF_C = -256.0  # a sensor whose block is powered down reads this
_LEAST_C, _MOST_C = -55.0, 150.0
_DUMMY_TEMPERATURES = frozenset({"pmic"})  # always 50 or 100: a constant of the driver, not a reading
_ENGINE = re.compile(r"(?:NVENC|NVDEC|NVJPG|MSENC|NVDLA|DLA|PVA|VIC|APE|OFA|SE|ISP|NVCSI|TSEC|VI)\d*(?:_\w+)?$")

_STAMP = re.compile(r"\s*(\d\d-\d\d-\d{4} \d\d:\d\d:\d\d)(?=\s|$)")
_USED = re.compile(r"(RAM|SWAP|IRAM) (\d+)/(\d+)([A-Za-z]+)(?=[\s(]|$)")
_ASIDE = re.compile(r"\s*\((lfb|cached) (?:(\d+)x)?(\d+)([A-Za-z]+)\)")
_CORES = re.compile(r"CPU \[([^\][]*)\](?:@(\d+))?(?=\s|$)")
_CORE = re.compile(r"(\d+)%(?:@(\d+))?$")
_BUSY = re.compile(r"(\w+) (?:(\d+)%)?(?:@(?:\[([\d,]+)\]|(\d+)))?(?=\s|$)")
_MTS = re.compile(r"MTS fg \d+% bg \d+%")
_TEMPERATURE = re.compile(r"([\w.-]+)@(-?\d+(?:\.\d+)?)C(?:/-?\d+(?:\.\d+)?C)?(?=\s|$)")
_RAIL = re.compile(r"([A-Za-z]\w*) (-?\d+)([A-Za-z]*)/(-?\d+)([A-Za-z]*)(?:/(-?\d+)([A-Za-z]*))?(?=\s|$)")
_ENGINE_OFF = re.compile(r"(\w+) off(?=\s|$)")
_ENGINE_BARE = re.compile(r"(\w+) (\d+)(?=\s|$)")
_WORD = re.compile(r"\S+")


@dataclass(slots=True)
class TegrastatsLine:
    """One line of tegrastats in bytes, hertz, watts, percent and °C; absent where it was not there or not sane."""

    stamp: datetime | None = None  # the board's local wall clock, whole seconds
    memory: dict[str, float] = field(default_factory=dict)  # ram_used_bytes, ram_total_bytes, swap_…
    cores: list[tuple[float | None, float | None] | None] = field(default_factory=list)  # (load %, hertz); None: off
    gpu: dict[str, float] = field(default_factory=dict)  # gpu_util_pct, gpu_hz
    emc: dict[str, float] = field(default_factory=dict)  # emc_util_pct, emc_hz
    engines: dict[str, float | None] = field(default_factory=dict)  # hertz; None: off
    temperatures_c: dict[str, float | None] = field(default_factory=dict)  # None: the sensor is powered down
    rails_w: dict[str, float] = field(default_factory=dict)  # instant values; keys as the board prints them
    rails_mean_w: dict[str, float] = field(default_factory=dict)  # since tegrastats was started
    unknown: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    @property
    def recognised(self) -> bool:
        """Whether the line had anything of tegrastats in it."""
        return bool(self.memory or self.cores or self.gpu or self.emc or self.rails_w or self.temperatures_c)

    def total_w(self) -> float | None:
        """Power of the whole module, counting nothing twice; None where the line does not have all of it."""
        names = total_rails(self.rails_w)
        return sum(self.rails_w[name] for name in names) if names else None

    def streams(self) -> dict[str, dict[str, float]]:
        """Return the readings by stream and column, NaN where a core or a sensor is off."""
        streams: dict[str, dict[str, float]] = {
            "rails": {f"{name}_w": watts for name, watts in self.rails_w.items()},
            "cpu": {},
            "gpu": dict(self.gpu),
            "emc": dict(self.emc),
            "memory": dict(self.memory),
            "thermal": {
                f"{name}_temp_c": math.nan if celsius is None else celsius
                for name, celsius in self.temperatures_c.items()
            },
        }
        for index, core in enumerate(self.cores):
            load, hertz = core if core is not None else (None, None)
            streams["cpu"][f"cpu{index}_share"] = math.nan if load is None else load / 100
            streams["cpu"][f"cpu{index}_hz"] = math.nan if hertz is None else hertz
        return {name: columns for name, columns in streams.items() if columns}


# Which rails add up to the board's input. The first whose names are all there counts; an input rail wins over the
# parts it feeds. VDDQ_VDD2_1V8AO of AGX Orin hangs off VIN_SYS_5V0 and is therefore not in its sum.
_TOTALS: tuple[tuple[str, ...], ...] = (
    ("VIN",),
    ("VDD_IN",),
    ("POM_5V_IN",),
    ("VDD_GPU_SOC", "VDD_CPU_CV", "VIN_SYS_5V0"),
    ("GPU", "CPU", "SOC", "CV", "VDDRQ", "SYS5V"),
)


def total_rails(names: Iterable[str]) -> tuple[str, ...]:
    """Return the rails whose sum is the module's input power; empty where these are not among them."""
    there = set(names)
    return next((total for total in _TOTALS if there.issuperset(total)), ())


def parse_tegrastats(text: str) -> TegrastatsLine:
    """Read one line; what is not of tegrastats ends up in `unknown`, never in an exception."""
    line = TegrastatsLine()
    at = 0
    stamp = _STAMP.match(text)
    if stamp:
        at = stamp.end()
        try:
            line.stamp = datetime.strptime(stamp[1], "%m-%d-%Y %H:%M:%S")
        except ValueError:
            line.problems.append(f"no such time: {stamp[1]}")
    rails: list[tuple[str, re.Match[str]]] = []
    while at < len(text):
        if text[at].isspace():
            at += 1
            continue
        for reader in _READERS:
            end = reader(line, text, at, rails)
            if end:
                at = end
                break
    _settle_rails(line, rails)
    return line


_Rails = list[tuple[str, re.Match[str]]]


def _read_used(line: TegrastatsLine, text: str, at: int, rails: _Rails) -> int:
    match = _USED.match(text, at)
    if not match:
        return 0
    end = match.end()
    aside = _ASIDE.match(text, end)
    if aside:
        end = aside.end()
    what, used, total, unit = match[1].lower(), int(match[2]), int(match[3]), match[4]
    if unit not in _BYTES_PER or total * _BYTES_PER[unit] > _MOST_RAM_BYTES or used > total:
        line.problems.append(f"cannot be memory: {match[0]}")
        return end
    if what != "iram":  # a few kB inside the chip, of no use to anyone
        line.memory[f"{what}_used_bytes"] = float(used * _BYTES_PER[unit])
        line.memory[f"{what}_total_bytes"] = float(total * _BYTES_PER[unit])
        if aside and aside[1] == "lfb" and aside[2] and aside[4] in _BYTES_PER:
            blocks = int(aside[2]) * int(aside[3]) * _BYTES_PER[aside[4]]
            if blocks <= _MOST_RAM_BYTES:
                line.memory["largest_free_blocks_bytes"] = float(blocks)
    return end


def _clock(line: TegrastatsLine, mhz: str | None, where: str) -> float | None:
    """Convert MHz to hertz; zero is what a gated clock reads; leave out what no clock can be."""
    if mhz is None:
        return None
    hertz = int(mhz) * HZ_PER_MHZ if len(mhz) < 12 else math.inf
    if hertz and not _LEAST_HZ <= hertz <= _MOST_HZ:
        line.problems.append(f"not a clock in MHz: {where}@{mhz[:20]}")
        return None
    return float(hertz)


def _load(line: TegrastatsLine, percent: str | None, where: str) -> float | None:
    if percent is None:
        return None
    if len(percent) > 3 or int(percent) > 100:
        line.problems.append(f"above 100 %: {where} {percent[:20]}%")
        return None
    return float(percent)


def _read_cores(line: TegrastatsLine, text: str, at: int, rails: _Rails) -> int:
    match = _CORES.match(text, at)
    if not match or line.cores:
        return 0
    for index, word in enumerate(match[1].split(",")):
        core = _CORE.match(word.strip())
        if word.strip() == "off":
            line.cores.append(None)
        elif core:
            name = f"cpu{index}"
            load = _load(line, core[1], name)
            line.cores.append((load, _clock(line, core[2] or match[2], name)))
        else:
            line.problems.append(f"not a core: {word[:40]!r}")
            line.cores.append((None, None))
    return match.end()


def _read_busy(line: TegrastatsLine, text: str, at: int, rails: _Rails) -> int:
    """Read `EMC_FREQ 4%@1600`, `GR3D_FREQ 71%@[612,612]`, `GR3D_FREQ @[690,690,690]`, `VIC 12%@115`."""
    match = _BUSY.match(text, at)
    if not match or (match[2] is None and match[3] is None and match[4] is None):
        return 0
    name, percent, several, one = match.groups()
    key = {"EMC_FREQ": "emc", "EMC": "emc", "GR3D_FREQ": "gpu", "GR3D": "gpu"}.get(name)
    if key is None:
        if not _ENGINE.match(name):
            return 0
        line.engines[name] = _clock(line, one or (several or "").split(",")[0] or None, name)
        return match.end()
    load = _load(line, percent, name)
    clocks = [_clock(line, mhz, name) for mhz in several.split(",") if mhz] if several else [_clock(line, one, name)]
    part = line.emc if key == "emc" else line.gpu
    if load is not None:
        part[f"{key}_util_pct"] = load
    if clocks and all(clock is not None for clock in clocks):
        part[f"{key}_hz"] = max(clock for clock in clocks if clock is not None)
    return match.end()


def _read_mts(line: TegrastatsLine, text: str, at: int, rails: _Rails) -> int:
    # Time spent translating code on Denver and Carmel cores; nobody has asked for it yet.
    match = _MTS.match(text, at)
    return match.end() if match else 0


def _read_temperature(line: TegrastatsLine, text: str, at: int, rails: _Rails) -> int:
    match = _TEMPERATURE.match(text, at)
    if not match:
        return 0
    name, celsius = match[1].lower(), float(match[2])
    if name in _DUMMY_TEMPERATURES:
        return match.end()
    if celsius == _SENSOR_OFF_C:
        line.temperatures_c[name] = None
    elif _LEAST_C <= celsius <= _MOST_C:
        line.temperatures_c[name] = celsius
    else:
        line.problems.append(f"not a temperature: {match[0][:40]}")
    return match.end()


def _read_rail(line: TegrastatsLine, text: str, at: int, rails: _Rails) -> int:
    match = _RAIL.match(text, at)
    if not match or match[1] in ("RAM", "SWAP", "IRAM"):
        return 0
    rails.append((match[1], match))
    return match.end()


def _settle_rails(line: TegrastatsLine, rails: Sequence[tuple[str, re.Match[str]]]) -> None:
    """Take the rails once all are seen: they share one unit per line, and a line that mixes them is not believed."""
    units = {unit for _, match in rails for unit in (match[3], match[5], match[7]) if unit is not None}
    with_unit = "mW" in units
    for name, match in rails:
        own = {unit for unit in (match[3], match[5], match[7]) if unit is not None}
        now, mean = match[2], match[4]
        if own != ({"mW"} if with_unit else {""}):
            line.problems.append(f"a rail without the unit of the others: {match[0][:60]}")
            continue
        if len(now) > 9 or len(mean) > 9 or not 0 <= int(now) * W_PER_MW <= _MOST_RAIL_W:
            line.problems.append(f"not a power in mW: {match[0][:60]}")
            continue
        if name == "NC":
            continue  # not connected: the channel measures nothing
        key, twin = name, 2
        while key in line.rails_w:
            key, twin = f"{name}_{twin}", twin + 1
        if key != name:
            line.problems.append(f"two rails are called {name}")
        line.rails_w[key] = int(now) * W_PER_MW
        line.rails_mean_w[key] = int(mean) * W_PER_MW
    total = line.total_w()
    if total is not None and total < _LEAST_INPUT_W:
        line.problems.append(f"not the input power of a board in mW: {total / W_PER_MW:g}")
        line.rails_w.clear()
        line.rails_mean_w.clear()


def _read_engine(line: TegrastatsLine, text: str, at: int, rails: _Rails) -> int:
    match = _ENGINE_OFF.match(text, at)
    if match:
        line.engines[match[1]] = None
        return match.end()
    match = _ENGINE_BARE.match(text, at)
    # Only for known engines: anything else with one bare number may be a rail that was cut in half.
    if match and _ENGINE.match(match[1]):
        line.engines[match[1]] = _clock(line, match[2], match[1])
        return match.end()
    return 0


def _read_unknown(line: TegrastatsLine, text: str, at: int, rails: _Rails) -> int:
    match = _WORD.match(text, at)
    if match is None:
        return at + 1
    line.unknown.append(match[0][:80])
    return match.end()


_READERS: tuple[Callable[[TegrastatsLine, str, int, _Rails], int], ...] = (
    _read_used,
    _read_cores,
    _read_temperature,
    _read_rail,
    _read_mts,
    _read_busy,
    _read_engine,
    _read_unknown,
)
