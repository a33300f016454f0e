"""The power monitors of a Jetson: which rails there are, which of them is the total, how fine and how often they read.

INA3221 chips in the two layouts of JetPack 4 (`ina3221x`, iio) and 5+ (`ina3221`, hwmon), and the INA238 of Thor.
hwmon numbers move between boots, so bus and address name a chip. Which rails contain which is known per board;
a custom carrier's owner can say it in `/etc/edgetrain/rails.yaml` (docs/boards.md).
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from edgetrain.device.base import PowerSource
from edgetrain.device.tree import Tree
from edgetrain.errors import BadTable
from edgetrain.units import MS_PER_S, W_PER_MW, W_PER_UW

RAIL_MAP = "/etc/edgetrain/rails.yaml"
MOST_MAP_BYTES = 1 << 16
SHUNT_STEP_V = 40e-6  # INA3221: 13 bits over ±163.8 mV (datasheet)
INA238_SHUNT_STEP_V = 5e-6  # 16 bits over ±163.84 mV (datasheet)
OHM_PER_UOHM = 1e-6
# JetPack 4 shows no shunt; 5 mΩ is what NVIDIA's device trees of that time mostly say. Marked as assumed.
ASSUMED_SHUNT_OHM = 0.005
# Without `update_interval`: what NVIDIA's boot script sets on tegra194 and tegra234.
ASSUMED_REFRESH_S = 0.43
SAMPLES = (1, 4, 16, 64, 128, 256, 512, 1024)  # conversions an INA3221 can average
NOT_CONNECTED = {"", "NC", "N/C", "(null)"}

# Total → the scope its rails measure. The first whose rails are all there is taken; sums are of rails that do not
# contain one another. AGX Orin's VDDQ_VDD2_1V8AO hangs off VIN_SYS_5V0 and must not be added.
TOTALS: tuple[tuple[tuple[str, ...], str], ...] = (
    (("VIN",), "board"),  # Thor
    (("VDD_IN",), "module"),
    (("POM_5V_IN",), "board"),  # Nano: the sensor sits at the board's input
    (("VDD_GPU_SOC", "VDD_CPU_CV", "VIN_SYS_5V0"), "module"),  # AGX Orin
    (("GPU", "CPU", "SOC", "CV", "VDDRQ", "SYS5V"), "module"),  # AGX Xavier: six parallel rails
)

# Which rail contains which: the rest of a board's rails are siblings.
CONTAINS: Mapping[str, tuple[str, ...]] = {
    "VIN": ("VDD_GPU", "VDD_CPU_SOC_MSS", "VIN_SYS_5V0"),
    "VDD_IN": (
        "VDD_CPU_GPU_CV", "VDD_CPU_GPU", "VDD_SOC", "VDD_GPU", "VDD_CPU",
        "VDD_SYS_GPU", "VDD_SYS_SOC", "VDD_SYS_CPU", "VDD_SYS_DDR", "VDD_4V0_WIFI",
    ),
    "POM_5V_IN": ("POM_5V_GPU", "POM_5V_CPU"),
    "VIN_SYS_5V0": ("VDDQ_VDD2_1V8AO",),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Rail:
    """One measured supply line and where its registers are."""

    label: str
    chip: str  # bus and address: 1-0040
    channel: int
    column: str  # VDD_IN_w
    voltage: str | None  # file in mV
    current: str | None  # file in mA
    power: str | None  # file, where the chip multiplies itself
    power_scale_w: float  # watts per unit of that file
    shunt_ohm: float
    shunt_assumed: bool
    refresh_s: float
    refresh_assumed: bool
    alarms: tuple[str, ...] = ()
    step_v: float = SHUNT_STEP_V

    def quantum_w(self, volts: float) -> float:
        """Return the smallest step of this rail's power at a bus voltage."""
        return self.step_v / self.shunt_ohm * volts


@dataclass(frozen=True, slots=True)
class Rails:
    """All rails of a board and what is known of their tree."""

    rails: tuple[Rail, ...]
    total: tuple[str, ...]  # columns to add; empty where it is not known
    scope: str
    contains: Mapping[str, tuple[str, ...]]  # columns
    problems: tuple[str, ...] = ()
    samples_files: tuple[str, ...] = ()  # averaging depth, root may lower it

    @property
    def refresh_s(self) -> float:
        """Return the period of the slowest sensor in the total, or of any where there is no total."""
        wanted = [rail for rail in self.rails if rail.column in self.total] or list(self.rails)
        return max((rail.refresh_s for rail in wanted), default=ASSUMED_REFRESH_S)

    def source(self, tree: Tree) -> PowerSource | None:
        """Return which columns are the total and how fine they are."""
        if not self.total:
            return None
        steps = []
        for rail in self.rails:
            if rail.column in self.total:
                millivolts = tree.number(rail.voltage) if rail.voltage else None
                steps.append(rail.quantum_w((millivolts or 5000) * 1e-3))
        # Independent roundings add in squares.
        quantum_w = math.sqrt(sum(step**2 for step in steps))
        return PowerSource("rails", self.total, None, self.scope, self.refresh_s, quantum_w)


def find_rails(tree: Tree) -> Rails:
    """Find every rail that is wired up, and the total among them."""
    problems: list[str] = []
    found = [*_hwmon(tree, problems), *_iio(tree, problems)]
    rails = _name_columns(found, problems)
    total: tuple[str, ...] = ()
    scope = "module"
    labels = {rail.label: rail.column for rail in rails}
    for names, where in TOTALS:
        if all(name in labels for name in names):
            total, scope = tuple(labels[name] for name in names), where
            break
    contains = {
        labels[outer]: tuple(labels[name] for name in inner if name in labels)
        for outer, inner in CONTAINS.items()
        if outer in labels
    }
    samples = tuple(tree.glob("/sys/bus/i2c/drivers/ina3221/*/hwmon/hwmon*/samples"))
    known = Rails(tuple(rails), total, scope, contains, tuple(problems), samples)
    return _apply_map(tree, known)


def _hwmon(tree: Tree, problems: list[str]) -> list[Rail]:
    rails: list[Rail] = []
    folders = {}
    for pattern in ("/sys/bus/i2c/drivers/ina3221/*/hwmon/hwmon*", "/sys/bus/i2c/drivers/ina2*/*/hwmon/hwmon*"):
        for folder in tree.glob(pattern):
            folders[tree.real(folder) or folder] = folder.split("/")[-3]
    for folder in tree.glob("/sys/class/hwmon/hwmon*"):
        if (tree.text(f"{folder}/name") or "") in ("ina3221", "ina238"):
            real = tree.real(folder) or folder
            address = re.search(r"/(\d+-00[0-9a-f]{2})/", real + "/")
            folders.setdefault(real, address[1] if address else real.rsplit("/", 1)[-1])
    for folder, chip in sorted(folders.items(), key=lambda item: item[1]):
        name = tree.text(f"{folder}/name") or "ina3221"
        interval_ms = tree.number(f"{folder}/update_interval")
        refresh_s = (interval_ms or 0) / MS_PER_S or ASSUMED_REFRESH_S
        if name == "ina238":
            label = tree.text(f"{folder}/in1_label") or tree.text(f"{folder}/power1_label") or "VIN"
            power = f"{folder}/power1_input"
            if not tree.exists(power):
                problems.append(f"{chip}: INA238 without a power file")
                continue
            shunt = (tree.number(f"{folder}/shunt_resistor") or 0) * OHM_PER_UOHM
            rails.append(
                Rail(
                    label, chip, 1, "", f"{folder}/in1_input", None, power, W_PER_UW, shunt or ASSUMED_SHUNT_OHM,
                    not shunt, refresh_s, not interval_ms, step_v=INA238_SHUNT_STEP_V,
                )
            )  # fmt: skip
            continue
        for channel in (1, 2, 3):
            label = (tree.text(f"{folder}/in{channel}_label") or "").strip()
            if label in NOT_CONNECTED:
                continue
            if tree.number(f"{folder}/in{channel}_enable") == 0:
                problems.append(f"{chip}: {label} is switched off (in{channel}_enable is 0)")
                continue
            shunt = (tree.number(f"{folder}/shunt{channel}_resistor") or 0) * OHM_PER_UOHM
            alarms = [f"{folder}/curr{channel}_{kind}_alarm" for kind in ("crit", "max")]
            rails.append(
                Rail(
                    label.strip(), chip, channel, "", f"{folder}/in{channel}_input", f"{folder}/curr{channel}_input",
                    None, 1.0, shunt or ASSUMED_SHUNT_OHM, not shunt, refresh_s, not interval_ms,
                    tuple(alarm for alarm in alarms if tree.exists(alarm)),
                )
            )  # fmt: skip
    return rails


def _iio(tree: Tree, problems: list[str]) -> list[Rail]:
    rails = []
    seen = set()
    for folder in tree.glob("/sys/bus/i2c/drivers/ina3221x/*/iio*device*"):
        chip = folder.split("/")[-2]
        for channel in (0, 1, 2):
            label = tree.text(f"{folder}/rail_name_{channel}")
            if label is None or label.strip() in NOT_CONNECTED or (chip, channel) in seen:
                continue
            seen.add((chip, channel))
            delay_ms = tree.number(f"{folder}/polling_delay")
            rails.append(
                Rail(
                    label.strip(), chip, channel, "", f"{folder}/in_voltage{channel}_input",
                    f"{folder}/in_current{channel}_input", f"{folder}/in_power{channel}_input", W_PER_MW,
                    ASSUMED_SHUNT_OHM, True, (delay_ms or 0) / MS_PER_S or ASSUMED_REFRESH_S, not delay_ms,
                )
            )  # fmt: skip
    return rails


def _name_columns(rails: Sequence[Rail], problems: list[str]) -> list[Rail]:
    """Give each rail its own column; a label that occurs twice is told apart by chip and channel."""
    counts: dict[str, int] = {}
    for rail in rails:
        counts[rail.label] = counts.get(rail.label, 0) + 1
    named = []
    first_seen: set[str] = set()
    for rail in rails:
        word = re.sub(r"[^A-Za-z0-9_.+-]+", "_", rail.label)
        if counts[rail.label] > 1 and rail.label in first_seen:
            place = f"{rail.chip}.{rail.channel}"
            problems.append(f"label {rail.label} occurs {counts[rail.label]} times; the one at {place} is kept apart")
            # The first keeps the name, so that a total that asks for it still finds one, and only one.
            named.append(replace(rail, label=f"{rail.label}@{place}", column=f"{word}@{place}_w"))
            continue
        first_seen.add(rail.label)
        named.append(replace(rail, column=f"{word}_w"))
    return named


def _apply_map(tree: Tree, rails: Rails) -> Rails:
    """Let the owner of a custom carrier say which rail is which: labels, shunts, total, scope."""
    text = tree.text(RAIL_MAP)
    if text is None:
        return rails
    document = _read_map(text)
    renamed = []
    for rail in rails.rails:
        place = f"{rail.chip}.{rail.channel}"
        label = str(document.get("labels", {}).get(place, rail.label))
        shunt = document.get("shunts_ohm", {}).get(place)
        named = replace(rail, label=label, column=f"{re.sub(r'[^A-Za-z0-9_.+-]+', '_', label)}_w")
        renamed.append(named if shunt is None else replace(named, shunt_ohm=float(shunt), shunt_assumed=False))
    columns = {rail.label: rail.column for rail in renamed}
    if len(columns) != len(renamed):
        raise BadTable(f"{RAIL_MAP} gives one label to two rails: {', '.join(sorted(r.label for r in renamed))}")
    asked = document.get("total")
    total = rails.total
    if asked is not None:
        missing = [name for name in asked if name not in columns]
        if missing:
            raise BadTable(f"{RAIL_MAP} adds {', '.join(missing)} to the total; this board has {', '.join(columns)}")
        total = tuple(columns[name] for name in asked)
    contains = {
        columns[outer]: tuple(columns[name] for name in inner if name in columns)
        for outer, inner in {**CONTAINS, **document.get("contains", {})}.items()
        if outer in columns
    }
    for outer in total:
        inside = [name for name in total if name in contains.get(outer, ())]
        if inside:
            raise BadTable(f"{RAIL_MAP} adds {', '.join(inside)} to the total although {outer} already contains it")
    scope = str(document.get("scope", rails.scope))
    return Rails(tuple(renamed), total, scope, contains, rails.problems, rails.samples_files)


def _read_map(text: str) -> dict[str, Any]:
    import yaml  # only where somebody wrote a map

    if len(text) > MOST_MAP_BYTES:
        raise BadTable(f"{RAIL_MAP} is longer than {MOST_MAP_BYTES} bytes")
    try:
        document = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise BadTable(f"cannot read {RAIL_MAP}: {error}") from error
    shapes = {"labels": dict, "shunts_ohm": dict, "total": list, "contains": dict, "scope": str}
    if not isinstance(document, dict) or any(
        name not in shapes or not isinstance(value, shapes[name]) for name, value in document.items()
    ):
        raise BadTable(f"{RAIL_MAP} must map {', '.join(shapes)} as docs/boards.md shows")
    return document
