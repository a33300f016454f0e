"""The power monitors of a Jetson: which rails there are, which of them is the total, how fine and how fast they are.

INA3221 chips in the two layouts of JetPack 4 (`ina3221x`, iio) and 5+ (`ina3221`, hwmon), and the INA238 of Thor.
hwmon numbers move between boots, so bus and address name a chip. Which rails contain which is known per board;
the owner of a custom carrier can say it in `/etc/edgetrain/rails.yaml` (docs/boards.md).
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from edgetrain.device.base import FAST_S, SLOW_S
from edgetrain.device.jetson.averaging import (
    ASSUMED_SHUNT_OHM,
    INA238_SHUNT_STEP_V,
    INA238_WINDOW_S,
    NVIDIA_WINDOW_S,
    SHUNT_STEP_V,
    ina3221_window_s,
)
from edgetrain.device.jetson.rail_map import RAIL_MAP, RailMap, read_rail_map
from edgetrain.device.tree import Tree
from edgetrain.errors import BadTable
from edgetrain.schema import PowerSource
from edgetrain.units import W_PER_MW, W_PER_UW

OHM_PER_UOHM = 1e-6
NOT_CONNECTED = {"NC", "N/C", "(null)"}
_HWMON = ("/sys/bus/i2c/drivers/ina3221/*/hwmon/hwmon*", "/sys/bus/i2c/drivers/ina238/*/hwmon/hwmon*")

# Rails that add up to the total, what they measure, and the chip that has them (None: any). The first whose rails are
# all there is taken; sums are of rails that do not contain one another: AGX Orin's VDDQ_VDD2_1V8AO hangs off the 5 V.
TOTALS: tuple[tuple[tuple[str, ...], str, str | None], ...] = (
    (("VIN",), "board", "tegra264"),  # Thor only: elsewhere a monitor of a carrier may have that label
    (("VDD_MUX",), "board", None),  # TX1 and TX2 kits: the carrier's input, with monitors of its own
    (("VDD_IN",), "module", None),
    (("POM_5V_IN",), "board", None),  # Nano: the sensor sits at the board's input
    (("VDD_GPU_SOC", "VDD_CPU_CV", "VIN_SYS_5V0"), "module", None),  # AGX Orin
    (("GPU", "CPU", "SOC", "CV", "VDDRQ", "SYS5V"), "module", None),  # AGX Xavier: six parallel rails
)

# Which rail contains which: the rest of a board's rails are siblings.
CONTAINS: Mapping[str, tuple[str, ...]] = {
    "VIN": ("VDD_GPU", "VDD_CPU_SOC_MSS", "VIN_SYS_5V0"),
    "VDD_MUX": (
        "VDD_IN", "VDD_5V0_IO_SYS", "VDD_3V3_SYS", "VDD_3V3_IO_SLP", "VDD_1V8_IO", "VDD_3V3_SYS_M2",
        "VDD_SYS_GPU", "VDD_SYS_SOC", "VDD_SYS_CPU", "VDD_SYS_DDR", "VDD_4V0_WIFI", "VDD_GPU", "VDD_CPU",
    ),
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

    label: str  # empty: the board gives it none
    chip: str  # bus and address: 1-0040
    channel: int
    voltage: str | None  # file in mV
    current: str | None  # file in mA
    power: str | None  # file, where the chip multiplies itself
    power_scale_w: float  # watts per unit of that file
    shunt_ohm: float
    shunt_assumed: bool
    window_s: float  # time over which the chip averages
    window_assumed: bool
    step_v: float = SHUNT_STEP_V
    column: str = ""  # VDD_IN_w

    @property
    def place(self) -> str:
        """Bus, address and channel: the name of a rail in rails.yaml."""
        return f"{self.chip}.{self.channel}"

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
    alarms: tuple[tuple[str, str], ...] = ()  # column and file of every alarm of the monitors
    root_only: tuple[str, ...] = ()  # files that this user may not read

    @property
    def window_s(self) -> float:
        """The averaging window of the slowest monitor in the total, or of any where there is no total."""
        wanted = [rail for rail in self.rails if rail.column in self.total] or list(self.rails)
        return max((rail.window_s for rail in wanted), default=NVIDIA_WINDOW_S)

    @property
    def period_s(self) -> float:
        """The sampling interval: the chips keep a running average, so reading more than once per window adds little."""
        return min(max(self.window_s, FAST_S), SLOW_S)

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
        return PowerSource("rails", self.total, None, self.scope, max(self.window_s, self.period_s), quantum_w)


def find_rails(tree: Tree, chip: str | None = None) -> Rails:
    """Find every rail that is wired up, and the total among them; `chip` is the board's (tegra234)."""
    problems: list[str] = []
    root_only: list[str] = []
    owners = read_rail_map(tree)
    folders = _folders(tree)
    found = [rail for folder, address in folders for rail in _hwmon(tree, folder, address, problems, root_only)]
    found += _iio(tree, root_only)
    rails = _name_columns(_labelled(found, owners, problems), problems)
    columns = {rail.label: rail.column for rail in rails}
    total, scope = _total(columns, chip, owners)
    contains = {
        columns[outer]: tuple(columns[name] for name in inner if name in columns)
        for outer, inner in {**CONTAINS, **owners.contains}.items()
        if outer in columns
    }
    for outer in total:
        inside = [name for name in total if name in contains.get(outer, ())]
        if inside:
            raise BadTable(f"{RAIL_MAP} adds {', '.join(inside)} to the total although {outer} already contains it")
    alarms = tuple(alarm for folder, address in folders for alarm in _alarms(tree, folder, address))
    return Rails(tuple(rails), total, scope, contains, tuple(problems), alarms, tuple(root_only))


def _labelled(found: Sequence[Rail], owners: RailMap, problems: list[str]) -> list[Rail]:
    """Name the rails as the board or its owner does; leave out those without a name and those not connected."""
    kept = []
    for rail in found:
        label = owners.labels.get(rail.place, rail.label)
        if not label:
            problems.append(f"{rail.place} has no label; name it in {RAIL_MAP} to record it")
        elif label not in NOT_CONNECTED:
            shunt = owners.shunts_ohm.get(rail.place)
            known = replace(rail, label=label)
            kept.append(known if shunt is None else replace(known, shunt_ohm=shunt, shunt_assumed=False))
    return kept


def _total(columns: Mapping[str, str], chip: str | None, owners: RailMap) -> tuple[tuple[str, ...], str]:
    """Return the columns of the total and their scope: the owner's, else those known for the board."""
    known = [
        (names, scope)
        for names, scope, only in TOTALS
        if all(name in columns for name in names) and only in (None, chip)
    ]
    names, scope = known[0] if known else ((), "module")
    if owners.total is not None:
        names = owners.total
        missing = [name for name in names if name not in columns]
        if missing:
            raise BadTable(f"{RAIL_MAP} adds {', '.join(missing)} to the total; this board has {', '.join(columns)}")
    return tuple(columns[name] for name in names), owners.scope or scope


def _folders(tree: Tree) -> list[tuple[str, str]]:
    """Return the hwmon folders of power monitors with bus and address."""
    folders = {}
    for pattern in _HWMON:
        for folder in tree.glob(pattern):
            folders[tree.real(folder) or folder] = folder.split("/")[-3]
    for folder in tree.glob("/sys/class/hwmon/hwmon*"):
        if (tree.text(f"{folder}/name") or "") in ("ina3221", "ina238"):
            real = tree.real(folder) or folder
            address = re.search(r"/(\d+-00[0-9a-f]{2})/", real + "/")
            folders.setdefault(real, address[1] if address else real.rsplit("/", 1)[-1])
    return sorted(folders.items(), key=lambda item: item[1])


def _hwmon(tree: Tree, folder: str, chip: str, problems: list[str], root_only: list[str]) -> list[Rail]:
    if (tree.text(f"{folder}/name") or "ina3221") == "ina238":
        return _ina238(tree, folder, chip, problems)
    enabled = [channel for channel in (1, 2, 3) if tree.number(f"{folder}/in{channel}_enable") != 0]
    window_s, assumed = ina3221_window_s(
        tree.number(f"{folder}/samples"),
        len(enabled),
        tree.number(f"{folder}/update_interval"),
        tree.text("/proc/sys/kernel/osrelease") or "",
    )
    rails = []
    for channel in (1, 2, 3):
        current = f"{folder}/curr{channel}_input"
        if not tree.exists(current):
            continue
        if tree.refused(current):
            root_only.append(current)
            continue
        label = (tree.text(f"{folder}/in{channel}_label") or "").strip()
        if channel not in enabled:
            if label and label not in NOT_CONNECTED:
                problems.append(f"{chip}: {label} is switched off (in{channel}_enable is 0)")
            continue
        shunt = (tree.number(f"{folder}/shunt{channel}_resistor") or 0) * OHM_PER_UOHM
        rails.append(
            Rail(
                label, chip, channel, f"{folder}/in{channel}_input", current, None, 1.0, shunt or ASSUMED_SHUNT_OHM,
                not shunt, window_s, assumed,
            )
        )  # fmt: skip
    return rails


def _ina238(tree: Tree, folder: str, chip: str, problems: list[str]) -> list[Rail]:
    """Return the one rail of an INA238: its driver has no label, shunt or interval file, only the hwmon's own label."""
    power = f"{folder}/power1_input"
    if not tree.exists(power):
        problems.append(f"{chip}: INA238 without a power file")
        return []
    label = tree.text(f"{folder}/label") or ""
    shunt = ASSUMED_SHUNT_OHM
    return [
        Rail(
            label, chip, 1, f"{folder}/in1_input", None, power, W_PER_UW, shunt, True, INA238_WINDOW_S, True,
            INA238_SHUNT_STEP_V,
        )
    ]  # fmt: skip


def _iio(tree: Tree, root_only: list[str]) -> list[Rail]:
    rails = []
    seen = set()
    for folder in tree.glob("/sys/bus/i2c/drivers/ina3221x/*/iio*device*"):
        chip = folder.split("/")[-2]
        for channel in (0, 1, 2):
            power = f"{folder}/in_power{channel}_input"
            if (chip, channel) in seen or not tree.exists(power):
                continue
            seen.add((chip, channel))
            if tree.refused(power):
                root_only.append(power)
                continue
            rails.append(
                Rail(
                    (tree.text(f"{folder}/rail_name_{channel}") or "").strip(), chip, channel,
                    f"{folder}/in_voltage{channel}_input", f"{folder}/in_current{channel}_input", power, W_PER_MW,
                    ASSUMED_SHUNT_OHM, True, NVIDIA_WINDOW_S, True,
                )
            )  # fmt: skip
    return rails


def _alarms(tree: Tree, folder: str, chip: str) -> list[tuple[str, str]]:
    """Return every alarm of a monitor, `curr4_crit_alarm` of the summed shunts included."""
    found = []
    for name in tree.glob(f"{folder}/*_alarm"):
        word = name.rsplit("/", 1)[1]
        channel = re.match(r"curr([123])_", word)
        label = (tree.text(f"{folder}/in{channel[1]}_label") or "") if channel else ""
        if label not in NOT_CONNECTED:
            found.append((f"{label or chip}_{word.split('_', 1)[1] if label else word}", name))
    return found


def _name_columns(rails: Sequence[Rail], problems: list[str]) -> list[Rail]:
    """Give each rail its own column; a label that occurs twice is distinguished by chip and channel."""
    counts: dict[str, int] = {}
    for rail in rails:
        counts[rail.label] = counts.get(rail.label, 0) + 1
    named = []
    first_seen: set[str] = set()
    for rail in rails:
        word = re.sub(r"[^A-Za-z0-9_.+-]+", "_", rail.label)
        if counts[rail.label] > 1 and rail.label in first_seen:
            problems.append(
                f"label {rail.label} occurs {counts[rail.label]} times; {rail.place} is recorded separately"
            )
            # The first keeps the name, so that a total that asks for it still finds one, and only one.
            named.append(replace(rail, label=f"{rail.label}@{rail.place}", column=f"{word}@{rail.place}_w"))
            continue
        first_seen.add(rail.label)
        named.append(replace(rail, column=f"{word}_w"))
    return named
