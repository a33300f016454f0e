"""Take-aways 18 to 24 of SIGMETRICS 2023: power modes."""

from __future__ import annotations

import math
from collections.abc import Iterator

from edgetrain.analysis import Bound
from edgetrain.schema import PowerMode
from edgetrain.studies.conditions import Conditions
from edgetrain.studies.data import CLOCKS, CampaignData, Family
from edgetrain.studies.judging import Case, Claim, at_least, at_most, change
from edgetrain.studies.repeated import RepeatedRuns
from edgetrain.studies.uncertain import Uncertain, highest, lowest

BIG_PARAMETERS = 1_000_000  # LeNet has 60,000, the paper's big networks 5 million and more
SAME_CLOCK = 0.02  # sources print 1200 MHz for 1190.4, and 670 for 675.75
# A share of the energy is large from here on (the paper: 20 to 80 %).
LARGE_SHARE = 0.2
# Energy varies modestly within this (the paper: 12 % for MobileNet, 27 % for LeNet).
MODEST_SHARE = 0.15
FEWEST_MODES = 3
# Two clocks are compared when they differ by this factor: the paper's pairs differ by 1.34 and more, and by 2 in EMC.
FURTHER, FURTHER_EMC = 1.25, 1.5
# Compute follows a clock when doubling it saves at least 1 - 2^-0.3 = 19 % (the paper's networks: 0.46 to 0.86, LeNet
# -0.2 for the GPU; LeNet 0.8 for the CPU).
FOLLOWS = 0.3
# Fewer cores than workers hurt sharply when the stall grows by this much (the paper: +88 to +119 %).
SHARPLY_SHARE = 0.3


def _default_beaten(data: CampaignData, case: Case) -> None:
    """Whether another mode is faster and needs less energy than the factory default, for one network at least."""
    by_board: dict[str, list[tuple[bool | None, str, list[Bound]]]] = {}
    for conditions, modes in _modes(data):
        default = data.factory_default(conditions.board)
        factory = next((group for group in modes if default and _is_mode(group.conditions, default)), None)
        if factory is None:
            continue
        rivals = [_against(group, factory) for group in modes if group is not factory]
        known = [rival for rival in rivals if rival is not None]
        if not known:
            continue
        kept = [_both_kept(bounds) for _, bounds in known]
        beaten = True if True in kept else None if None in kept else False
        name, bounds = known[kept.index(beaten)]
        by_board.setdefault(conditions.board, []).append((beaten, f"{conditions.network}, {name}", bounds))
    for board, found in by_board.items():
        beaten, name, bounds = min(found, key=lambda one: (one[0] is not True, one[0] is False))
        case.add(f"{board}, against its factory default: {name}", bounds)


def _against(group: RepeatedRuns, default: RepeatedRuns) -> tuple[str, list[Bound]] | None:
    bounds = []
    for metric, name in (("e2e", "time changes by"), ("energy", "energy changes by")):
        mine, factory = group.get(metric), default.get(metric)
        if mine is None or factory is None:
            return None
        bounds.append(at_most(name, mine / factory - 1, 0.0))
    return _spell_mode(group.conditions), bounds


def _both_kept(bounds: list[Bound]) -> bool | None:
    kept = [bound.kept for bound in bounds]
    return False if False in kept else None if None in kept else True


def _baseload_large(data: CampaignData, case: Case) -> None:
    for conditions, groups in _modes(data, fewest=1):
        shares = {}
        for group in groups:
            baseload, energy = group.get("baseload"), group.get("energy")
            if baseload is not None and energy is not None:
                shares[_spell_mode(group.conditions)] = baseload / energy
        if shares:
            mode = min(shares, key=lambda one: shares[one].value)
            what = f"{data.label(conditions)}, {mode} (lowest of {len(shares)})"
            case.add(what, [at_least("baseload of the energy", shares[mode], LARGE_SHARE)])


def _energy_modest(data: CampaignData, case: Case) -> None:
    for conditions, groups in _modes(data):
        top_hz = max((group.conditions.gpu_hz or 0 for group in groups), default=0)
        lower = [group for group in groups if (group.conditions.gpu_hz or 0) < top_hz]
        energies = [energy for group in lower if (energy := group.get("energy")) is not None]
        if _is_big(groups[0]) and len(energies) >= FEWEST_MODES:
            most, least = highest(energies), lowest(energies)
            what = f"{data.label(conditions)}, {len(energies)} modes below the highest GPU clock"
            case.add(what, [at_most("energy varies by", (most - least) / most, MODEST_SHARE)])


def _gpu_clock(data: CampaignData, case: Case) -> None:
    big = light = False
    for family, slow, fast, ratio in _pairs(data, "gpu_hz", FURTHER):
        follows = _elasticity(slow, fast, "compute", ratio)
        if follows is None or _is_big(slow) is None:
            continue
        what, numbers = f"{family.label}, compute, {_spell_step(slow, fast, 'gpu_hz')}", _spell_change(slow, fast)
        if _is_big(slow):
            case.add(what, [at_least("follows the clock by", follows, FOLLOWS)], numbers, spell=_plain)
            big = True
        else:
            case.add(what, [at_most("follows the clock by", follows, FOLLOWS)], numbers, spell=_plain)
            light = True
    case.require(big, "a network of a million parameters or more at two GPU clocks")
    case.require(light, "a light network, such as LeNet, at two GPU clocks")


def _cpu_cuts_stall(data: CampaignData, case: Case) -> None:
    clocks = cores = False
    for family, slow, fast, _ in _pairs(data, "cpu_hz", FURTHER):
        before, after = slow.visible_stall(), fast.get("stall")
        if before is not None and after is not None:
            what = f"{family.label}, stall, {_spell_step(slow, fast, 'cpu_hz')}"
            case.add(what, [at_least("removed", 1 - after / before, 0.0)], change(before, after))
            clocks = True
    for family, few, many, _ in _pairs(data, "cores", FURTHER):
        before, after = few.visible_stall(), many.visible_stall()
        workers = few.conditions.workers
        if before is None or after is None or not workers:
            continue
        what = f"{family.label}, stall, {few.conditions.cores} → {many.conditions.cores} cores"
        if (few.conditions.cores or 0) < workers:
            grows = at_least("fewer cores than workers: larger by", before / after - 1, SHARPLY_SHARE)
            case.add(what, [grows], change(before, after))
        else:
            case.add(what, [at_least("removed", 1 - after / before, 0.0)], change(before, after))
        cores = True
    case.require(clocks, "two CPU clocks with everything else equal")
    case.require(cores, "two core counts with everything else equal")


def _cpu_shortens_compute(data: CampaignData, case: Case) -> None:
    found: dict[bool, list[tuple[str, str, Uncertain]]] = {True: [], False: []}
    for family, slow, fast, ratio in _pairs(data, "cpu_hz", FURTHER):
        follows, big = _elasticity(slow, fast, "compute", ratio), _is_big(slow)
        if follows is not None and big is not None:
            what = f"{family.label}, compute, {_spell_step(slow, fast, 'cpu_hz')}"
            found[big].append((slow.conditions.board, what, follows))
            if not big:
                bound = at_least("follows the clock by", follows, FOLLOWS)
                case.add(what, [bound], _spell_change(slow, fast), spell=_plain)
    for board, what, follows in found[True]:
        light = [one for name, _, one in found[False] if name == board]
        if light:
            bound = at_least("follows the clock less than a light network by", lowest(light) - follows, 0.0)
            case.add(what, [bound], spell=_plain)
    case.require(bool(found[False]), "a light network, such as LeNet, at two CPU clocks")
    case.require(bool(found[True]), "a network of a million parameters or more at two CPU clocks")


def _memory_clock(data: CampaignData, case: Case) -> None:
    for family, slow, fast, _ in _pairs(data, "emc_hz", FURTHER_EMC):
        pairs = (
            ("compute", slow.get("compute"), fast.get("compute")),
            ("stall", slow.visible_stall(), fast.get("stall")),
        )
        bounds = [
            at_least(f"{metric} falls by", 1 - after / before, 0.0)
            for metric, before, after in pairs
            if before is not None and after is not None
        ]
        if len(bounds) == len(pairs):
            case.add(f"{family.label}, {_spell_step(slow, fast, 'emc_hz')}", bounds)


def _modes(data: CampaignData, fewest: int = 2) -> Iterator[tuple[Conditions, list[RepeatedRuns]]]:
    """Yield the groups that differ in their power mode only."""
    found: dict[Conditions, list[RepeatedRuns]] = {}
    for group in data.groups:
        if group.conditions.cpu_hz is not None or fewest < 2:
            found.setdefault(group.conditions.without(*CLOCKS), []).append(group)
    for conditions, groups in found.items():
        if len(groups) >= fewest:
            yield conditions, groups


def _pairs(data: CampaignData, name: str, further: float) -> Iterator[tuple[Family, RepeatedRuns, RepeatedRuns, float]]:
    """Yield the lowest and the highest of one clock, or core count, with everything else equal."""
    for family in data.families(name):
        (low, slow), (high, fast) = family.ordered()[0], family.ordered()[-1]
        if high >= further * low:
            yield family, slow, fast, high / low


def _elasticity(slow: RepeatedRuns, fast: RepeatedRuns, metric: str, ratio: float) -> Uncertain | None:
    """Return the exponent with which a time falls as the clock rises: 1 is inverse, 0 does not follow."""
    before, after = slow.get(metric), fast.get(metric)
    return (before / after).log() / math.log(ratio) if before is not None and after is not None else None


def _is_big(group: RepeatedRuns) -> bool | None:
    return None if group.parameters is None else group.parameters >= BIG_PARAMETERS


def _is_mode(conditions: Conditions, mode: PowerMode) -> bool:
    pairs = ((conditions.cpu_hz, mode.cpu_hz), (conditions.gpu_hz, mode.gpu_hz), (conditions.emc_hz, mode.emc_hz))
    return conditions.cores == mode.cores and all(
        None not in (mine, wanted) and abs((mine or 0) / (wanted or 1) - 1) <= SAME_CLOCK for mine, wanted in pairs
    )


def _spell_mode(conditions: Conditions) -> str:
    clocks = (conditions.cpu_hz, conditions.gpu_hz, conditions.emc_hz)
    if conditions.cpu_hz is None:
        return "its mode"
    return "/".join(["–" if conditions.cores is None else str(conditions.cores), *(_mhz(one) for one in clocks)])


def _spell_step(slow: RepeatedRuns, fast: RepeatedRuns, name: str) -> str:
    low, high = (group.conditions.by_name()[name] for group in (slow, fast))
    part = {"cpu_hz": "CPU", "gpu_hz": "GPU", "emc_hz": "memory"}[name]
    return f"{part} {_mhz(low)} → {_mhz(high)} MHz"


def _spell_change(slow: RepeatedRuns, fast: RepeatedRuns) -> str:
    before, after = slow.get("compute"), fast.get("compute")
    return change(before, after) if before is not None and after is not None else ""


def _mhz(hertz: object) -> str:
    return f"{hertz / 1e6:.0f}" if isinstance(hertz, int) else "–"


def _plain(value: float) -> str:
    return f"{value:.2f}"


_FITTED = "its times and powers were fitted to the same figures"
_POWER = "the power is this machine's, not the board's"
_CLOCKS = "the lab does not set clocks"
_PACED = "its step times are settings"

CLAIMS = (
    Claim(
        "18", "The factory-default mode need not be Pareto optimal",
        "AGX, 15 W default: LeNet in mode e takes 45 % less time and 14 % less energy",
        "the factory-default mode and others, with energy", _default_beaten, simulated=_FITTED, emulated=_POWER,
    ),
    Claim(
        "19", "Baseload is a large share of the training energy",
        "AGX: 65 to 80 % for LeNet, 20 to 45 % for ResNet and MobileNet",
        "runs with --baseload-s on a device with a power sensor", _baseload_large, simulated=_FITTED, emulated=_POWER,
    ),
    Claim(
        "20", "Energy per epoch varies modestly across modes for big networks, the highest GPU clock left out",
        "AGX, modes a to f: ResNet 6 %, MobileNet 12 % (LeNet 27 %)",
        f"{FEWEST_MODES} modes or more below the highest GPU clock, with energy", _energy_modest,
        simulated=_FITTED, emulated=_POWER,
    ),
    Claim(
        "21", "Compute is inverse to the GPU clock for big networks only",
        "AGX, 670 → 900 MHz: ResNet -22 %, MobileNet -13 %, LeNet +5.5 %",
        "a light and a big network in modes that differ in the GPU clock only", _gpu_clock,
        simulated=_FITTED, emulated=_CLOCKS, paced=_PACED,
    ),
    Claim(
        "22", "CPU clock and core count cut the stall; fewer cores than workers hurt sharply",
        "AGX: 1200 → 2100 MHz -31 to -39 %, 4 → 8 cores -18 to -20 %; 8 → 2 cores with 4 workers doubles it",
        "modes that differ in the CPU clock only, and in the core count only", _cpu_cuts_stall, simulated=_FITTED,
    ),
    Claim(
        "23", "The CPU clock also shortens the time on the GPU, mostly for light networks",
        "AGX, 1200 → 2100 MHz: LeNet -37 %, MobileNet -9.7 %, ResNet -2 %",
        "a light and a big network in modes that differ in the CPU clock only", _cpu_shortens_compute,
        simulated=_FITTED, emulated=_CLOCKS, paced=_PACED,
    ),
    Claim(
        "24", "The memory clock affects both compute and stall",
        "AGX, 1066 → 2133 MHz: -26 to -34 % of both",
        "modes that differ in the memory clock only", _memory_clock, simulated=_FITTED, emulated=_CLOCKS, paced=_PACED,
    ),
)  # fmt: skip
