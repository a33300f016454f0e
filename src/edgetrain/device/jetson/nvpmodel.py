"""Reads a board's nvpmodel configuration: its stock modes and what they really cap.

Mode names are clock caps, not power budgets, and the same id means different modes on different boards and
releases, so the board's own file is the only source. It is read tolerantly, as NVIDIA's own files require:
`<PARAM` without a blank, misspelt headers, double blanks, gaps in the ids. What could not be read is listed.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from edgetrain.device.tree import Tree
from edgetrain.units import HZ_PER_KHZ

CONFIG = "/etc/nvpmodel.conf"
STATUS = "/var/lib/nvpmodel/status"
MAX_LINES = 20_000
# -1 in files; the largest integer in what `-p --verbose` prints on JetPack 4 and on JetPack 6.
NO_LIMIT = {-1, 2_147_483_647, 4_294_967_295, 9_223_372_036_854_775_807}
IGNORED_SECTIONS = {"FAN_CONFIG"}  # the fan's profile; JetPack 4 writes it without NAME or ID
_HEADER = re.compile(r"<\s*([A-Za-z_]+)\s*([^>]*)>")
_PAIR = re.compile(r"([A-Za-z_]+)\s*=\s*(\"[^\"]*\"|\S+)")


@dataclass(frozen=True, slots=True)
class Param:
    """One thing a mode may set: FILE (verbatim), CLOCK (integer) or HWMON (folder and file)."""

    kind: str
    name: str
    paths: Mapping[str, tuple[str, ...]]  # by argument: the path, on HWMON folder and file name

    def path(self, argument: str, exists: Callable[[str], bool] = lambda path: True) -> str | None:
        """Return where an argument is written: the path for newer kernels (`_KNEXT`) where that exists."""
        named = ["/".join(self.paths[name]) for name in (f"{argument}_KNEXT", argument) if self.paths.get(name)]
        return next((path for path in named if exists(path)), named[-1] if named else None)

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
class ModeEntry:
    """One stock mode of the file, as written."""

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
    masks: Mapping[str, str]  # parts of the GPU that are switched off
    cpu_floor_hz: Mapping[int, int] = field(default_factory=dict)  # minimum that the governors keep
    gpu_floor_hz: int | None = None


@dataclass(frozen=True, slots=True)
class NvpmodelConfig:
    """A whole configuration file."""

    params: Mapping[str, Param]
    modes: tuple[ModeEntry, ...]
    default: int | None
    problems: tuple[str, ...]

    def mode(self, number: int) -> ModeEntry | None:
        """Return a mode by its id."""
        return next((mode for mode in self.modes if mode.id == number), None)


def parse(text: str) -> NvpmodelConfig:
    """Read a configuration; never raises: what it could not read is listed in `problems`."""
    params: dict[str, Param] = {}
    modes: dict[int, tuple[str, list[tuple[str, str, str]]]] = {}
    problems: list[str] = []
    default: int | None = None
    section: tuple[str, str | int] | None = None
    for number, raw in enumerate(text.splitlines()[:MAX_LINES], 1):
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
            elif word not in IGNORED_SECTIONS:
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
    stock = tuple(ModeEntry(identity, name, tuple(rows)) for identity, (name, rows) in sorted(modes.items()))
    for mode in stock:
        for name in sorted({row[0] for row in mode.settings} - set(params)):
            problems.append(f"mode {mode.id} {mode.name} sets {name}, which no section declares")
    return NvpmodelConfig(params, stock, default, tuple(problems))


def read_config(tree: Tree) -> NvpmodelConfig | None:
    """Read the board's configuration, or None where there is none."""
    text = tree.text(CONFIG)
    if text is None:
        # The boot script makes an absolute link, which leads elsewhere where a folder serves as the board.
        with contextlib.suppress(OSError):
            text = tree.text(os.readlink(tree.at(CONFIG)))
    return parse(text) if text else None


def caps(config: NvpmodelConfig, mode: ModeEntry, present: tuple[int, ...]) -> Caps:
    """Return what a mode really caps on a board with these cores."""
    off: set[int] = set()
    listed: set[int] = set()
    cpu: dict[str, dict[int, int]] = {"MAX_FREQ": {}, "MIN_FREQ": {}}
    gpu: dict[str, int] = {}
    emc_hz: int | None = None
    masks: dict[str, str] = {}
    for name, argument, value in mode.settings:
        core = re.fullmatch(r"CORE_(\d+)", argument)
        number = _integer(value)
        if core:
            listed.add(int(core[1]))
            if number == 0:
                off.add(int(core[1]))
        elif "MASK" in argument.upper() or "POWER_GATING" in name.upper():
            masks[f"{name}.{argument}"] = value if number is None else str(number)
        elif argument in cpu and number is not None and number > 0 and number not in NO_LIMIT:
            if name.upper().startswith("CPU"):
                param = config.params.get(name)
                first = param.core if param else None
                # CPU clocks are in kHz, all others in Hz.
                cpu[argument][first if first is not None else 0] = number * HZ_PER_KHZ
            elif name.upper() == "EMC" and argument == "MAX_FREQ":
                emc_hz = number  # absent, 0 and -1: no cap
            # Thor's second GPU clock (gpu-nvd-0) is of its video engines.
            elif name.upper().startswith("GPU") and not re.search("POWER|NVD", name.upper()):
                gpu[argument] = number
    # TX2 never lists core 0, which is always on; a core that no line switches off stays on.
    everyone = set(present) or listed | {0}
    return Caps(
        mode.id, mode.name, tuple(sorted(everyone - off)), cpu["MAX_FREQ"], gpu.get("MAX_FREQ"), emc_hz, masks,
        cpu["MIN_FREQ"], gpu.get("MIN_FREQ"),
    )  # fmt: skip


def active_mode(tree: Tree) -> int | None:
    """Return the id that nvpmodel set last, from its status file, else by asking it; None: not known."""
    found = re.search(r"pmode:\s*(\d+)", tree.text(STATUS) or "")
    if found:
        return int(found[1])  # decimal with leading zeros
    answer = tree.run("nvpmodel", ["-q"])
    return read_query(answer[1])[1] if answer else None


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


def _integer(text: str) -> int | None:
    try:
        return int(text, 0) if not re.fullmatch(r"0\d+", text) else int(text)
    except ValueError:
        return None
