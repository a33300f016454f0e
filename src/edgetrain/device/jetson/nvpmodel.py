"""Reads a board's nvpmodel configuration: its stock modes, what they really cap, and which need a reboot.

Mode names are clock caps, not power budgets, and the same id means different modes on different boards and
releases, so the board's own file is the only source. It is read tolerantly, as NVIDIA's own files need it:
`<PARAM` without a blank, misspelt headers, double blanks, gaps in the ids. What could not be read is listed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from edgetrain.device.tree import Tree
from edgetrain.units import HZ_PER_KHZ

CONFIG = "/etc/nvpmodel.conf"
STATUS = "/var/lib/nvpmodel/status"
MOST_LINES = 20_000
NO_LIMIT = {-1, 2_147_483_647, 4_294_967_295}  # -1 in files; INT_MAX in what `-p --verbose` prints
_HEADER = re.compile(r"<\s*([A-Za-z_]+)\s*([^>]*)>")
_PAIR = re.compile(r"([A-Za-z_]+)\s*=\s*(\"[^\"]*\"|\S+)")


@dataclass(frozen=True, slots=True)
class Param:
    """One thing a mode may set: FILE (verbatim), CLOCK (integer) or HWMON (folder and file)."""

    kind: str
    name: str
    paths: Mapping[str, tuple[str, ...]]  # by argument: the path, on HWMON folder and file name

    def path(self, argument: str) -> str | None:
        """Return where an argument is written; the newer kernel's path where it has one."""
        for name in (f"{argument}_KNEXT", argument):
            if self.paths.get(name):
                return "/".join(self.paths[name])
        return None

    @property
    def core(self) -> int | None:
        """Return the core whose cpufreq folder this clock writes, or None."""
        for words in self.paths.values():
            for word in words:
                found = re.search(r"/cpu/(?:cpu|cpufreq/policy)(\d+)/?", word)
                if found:
                    return int(found[1])
        return None


@dataclass(frozen=True, slots=True)
class StockMode:
    """One mode of the file, as written."""

    id: int
    name: str
    settings: tuple[tuple[str, str, str], ...]  # parameter, argument, value


@dataclass(frozen=True, slots=True)
class Caps:
    """What a stock mode really caps. None: no cap, the hardware's own maximum holds."""

    id: int
    name: str
    cores: tuple[int, ...]  # those online
    cpu_hz: Mapping[int, int]  # by first core of a cluster; a cluster not listed is uncapped
    gpu_hz: int | None
    emc_hz: int | None
    masks: Mapping[str, str]  # power gating: changing one needs a reboot


@dataclass(frozen=True, slots=True)
class Config:
    """A whole file."""

    params: Mapping[str, Param]
    modes: tuple[StockMode, ...]
    default: int | None
    problems: tuple[str, ...]

    def mode(self, name: str) -> StockMode | None:
        """Return a mode by id or by name (any case)."""
        for mode in self.modes:
            if str(mode.id) == name.strip() or mode.name.lower() == name.strip().lower():
                return mode
        return None


def parse(text: str) -> Config:
    """Read a configuration; never raises, what it could not read stands in `problems`."""
    params: dict[str, Param] = {}
    modes: dict[int, tuple[str, list[tuple[str, str, str]]]] = {}
    problems: list[str] = []
    default: int | None = None
    section: tuple[str, str | int] | None = None
    for number, raw in enumerate(text.splitlines()[:MOST_LINES], 1):
        line = raw.split("#", 1)[0].strip()
        if not line:
            continue
        if line.startswith("<"):
            section = None
            header = _HEADER.match(line)
            if header is None:
                problems.append(f"line {number}: header without an end: {line[:60]!r}")
                continue
            word = header[1].upper()
            facts = {key.upper(): value.strip('"') for key, value in _PAIR.findall(header[2])}
            if word == "PM_CONFIG":
                default = _integer(facts.get("DEFAULT", ""))
            elif word == "POWER_MODEL" or "ID" in facts:
                identity = _integer(facts.get("ID", ""))
                if identity is None or identity < 0:
                    problems.append(f"line {number}: a power model without an id")
                    continue
                if identity in modes:
                    problems.append(f"line {number}: id {identity} is given twice; the later one counts")
                modes[identity] = (facts.get("NAME", f"MODE_{identity}"), [])
                section = ("mode", identity)
            elif "NAME" in facts:
                # NVIDIA's file for AGX Xavier misspells one PARAM: a section with a TYPE and a NAME is one.
                if word != "PARAM":
                    problems.append(f"line {number}: read {word!r} as PARAM")
                name = facts["NAME"]
                params[name] = Param(facts.get("TYPE", "FILE").upper(), name, {})
                section = ("param", name)
            else:
                problems.append(f"line {number}: unknown section {word!r}")
            continue
        words = line.split()
        if section is None:
            problems.append(f"line {number}: outside any section: {line[:60]!r}")
        elif section[0] == "param":
            param = params[str(section[1])]
            if len(words) < 2 or not words[1].startswith("/"):
                problems.append(f"line {number}: {param.name} {words[0]} names no path")
                continue
            params[param.name] = Param(param.kind, param.name, {**param.paths, words[0]: tuple(words[1:3])})
        elif len(words) != 3:
            problems.append(f"line {number}: expected parameter, argument and value: {line[:60]!r}")
        else:
            modes[int(section[1])][1].append((words[0], words[1], words[2]))
    stock = tuple(StockMode(identity, name, tuple(rows)) for identity, (name, rows) in sorted(modes.items()))
    for mode in stock:
        for name in sorted({row[0] for row in mode.settings} - set(params)):
            problems.append(f"mode {mode.id} {mode.name} sets {name}, which no section declares")
    return Config(params, stock, default, tuple(problems))


def read_config(tree: Tree) -> Config | None:
    """Read the board's configuration, or None where there is none."""
    text = tree.text(CONFIG)
    return parse(text) if text else None


def caps(config: Config, mode: StockMode, present: tuple[int, ...]) -> Caps:
    """Return what a mode really caps on a board with these cores."""
    off: set[int] = set()
    cpu_hz: dict[int, int] = {}
    gpu_hz: int | None = None
    emc_hz: int | None = None
    masks: dict[str, str] = {}
    listed: set[int] = set()
    for name, argument, value in mode.settings:
        core = re.fullmatch(r"CORE_(\d+)", argument)
        number = _integer(value)
        if core:
            listed.add(int(core[1]))
            if number == 0:
                off.add(int(core[1]))
        elif "MASK" in argument.upper() or "POWER_GATING" in name.upper():
            masks[f"{name}.{argument}"] = value if number is None else str(number)
        elif argument == "MAX_FREQ" and number is not None:
            limit = None if number in NO_LIMIT or number <= 0 else number
            if name.upper().startswith("CPU"):
                param = config.params.get(name)
                first = param.core if param else None
                if limit is not None:
                    # CPU clocks are in kHz, all others in Hz.
                    cpu_hz[first if first is not None else 0] = limit * HZ_PER_KHZ
            elif name.upper() == "EMC":
                emc_hz = limit  # 0 means none in the files of JetPack 4 and 5
            elif name.upper().startswith("GPU") and "POWER" not in name.upper():
                gpu_hz = limit
    # TX2 never lists core 0, which is always on; a core that no line switches off stays on.
    everyone = set(present) or listed | {0}
    return Caps(mode.id, mode.name, tuple(sorted(everyone - off)), cpu_hz, gpu_hz, emc_hz, masks)


def active_mode(tree: Tree) -> int | None:
    """Return the id that nvpmodel has in force, from its status file, else by asking it; None: not known."""
    found = re.search(r"pmode:\s*(\d+)", tree.text(STATUS) or "")
    if found:
        return int(found[1])  # decimal with leading zeros
    answer = tree.run("nvpmodel", ["-q"])
    return read_query(answer.text)[1] if answer else None


def read_query(text: str) -> tuple[str | None, int | None]:
    """Read what `nvpmodel -q` prints: `NV Power Mode: NAME`, then the id on a line of its own, among warnings."""
    name: str | None = None
    for line in text.splitlines():
        if name is None:
            found = re.match(r"\s*NV Power Mode\s*:\s*(\S.*)", line)
            name = found[1].strip() if found else None
        elif re.fullmatch(r"\s*\d{1,4}\s*", line):
            return name, int(line)
    return name, None


def needs_reboot(now: Caps | None, then: Caps, module: str | None) -> str | None:
    """Return why changing to a mode needs a reboot, or None where it does not.

    Gating masks cannot change once a GPU context exists. On Orin NX and Nano a change of the core count needs it too.
    """
    if now is None:
        if then.masks and any(value not in ("0", "-1") for value in then.masks.values()):
            return "the mode gates parts of the GPU, and which mode is in force now is not known"
        return None
    for name, value in then.masks.items():
        before = now.masks.get(name)
        if before is not None and before != value:
            return f"{name} changes from {before} to {value}"
    missing = set(now.masks) ^ set(then.masks)
    if any((now.masks.get(name) or then.masks.get(name) or "0") not in ("0", "-1") for name in missing):
        return f"the power gating of {', '.join(sorted(missing))} changes"
    if (module or "").startswith("p3767") and len(now.cores) != len(then.cores):
        return f"this module changes from {len(now.cores)} to {len(then.cores)} cores only by rebooting"
    return None


def _integer(text: str) -> int | None:
    try:
        return int(text, 0) if not re.fullmatch(r"0\d+", text) else int(text)
    except ValueError:
        return None
