"""Take-aways 18 to 24 of SIGMETRICS 2023: power modes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from edgetrain.analysis import Bound
from edgetrain.schema import PowerMode
from edgetrain.studies.conditions import Conditions
from edgetrain.studies.data import CLOCKS, CampaignData, Family
from edgetrain.studies.judging import Case, Claim, all_kept, at_least, at_most, change
from edgetrain.studies.needed import BASELOAD, ENERGY, LATER_EPOCHS, PARAMETERS, STALL
from edgetrain.studies.repeated import RepeatedRuns
from edgetrain.studies.uncertain import Uncertain, highest, lowest
from edgetrain.studies.units import same_units

BIG_PARAMETERS = 1_000_000  # LeNet has 60,000, the paper's big networks 5 million and more
SAME_CLOCK = 0.02  # sources print 1200 MHz for 1190.4, and 670 for 675.75
# A share of the energy is large from here on (the paper: 20 to 80 %).
LARGE_SHARE = 0.2
# Energy varies modestly within this (the paper: 12 % for MobileNet, 27 % for LeNet).
MODEST_SHARE = 0.15
MIN_MODES = 3
# Two clocks are compared when they differ by this factor: the paper's pairs differ by 1.34 and more, and by 2 in EMC.
FURTHER, FURTHER_EMC = 1.25, 1.5
# Compute follows a clock when doubling it saves at least 1 - 2^-0.3 = 19 % (the paper's networks: 0.46 to 0.86, LeNet
# -0.2 for the GPU; LeNet 0.8 for the CPU).
FOLLOWS = 0.3
# Fewer cores than workers hurt sharply when the stall grows by this much (the paper: +88 to +119 %).
SHARPLY_SHARE = 0.3


@dataclass(frozen=True)
class _Rival:
    """A mode compared with the factory default."""

    name: str
    bounds: list[Bound]
    runs: tuple[RepeatedRuns, RepeatedRuns]

    @property
    def beats(self) -> bool | None:
        """Whether it is faster and needs less energy; None where that is undecided."""
        return all_kept(self.bounds)


def _default_beaten(data: CampaignData, case: Case) -> None:
    """Whether another mode is faster and needs less energy than the factory default, for one network at least."""
    case.any_suffices = True
    by_board: dict[str, list[_Rival]] = {}
    for conditions, modes in _modes(data):
        default = data.factory_default(conditions.board)
        factory = next((group for group in modes if default and _is_mode(group.conditions, default)), None)
        for group in modes if factory is not None else ():
            pair = None if factory is None or group is factory else same_units(group, factory)
            rival = _against(*pair) if pair else None
            if rival is not None:
                by_board.setdefault(conditions.board, []).append(rival)
            elif group is not factory and pair is None:
                data.note_inseparable("power mode", conditions)
    for board, rivals in by_board.items():
        best = min(rivals, key=lambda one: (one.beats is not True, one.beats is False))
        case.add(f"{board}, against its factory default: {best.name}", best.bounds, of=best.runs)


def _against(group: RepeatedRuns, default: RepeatedRuns) -> _Rival | None:
    bounds = []
    for metric, name in (("e2e", "time changes by"), ("energy", "energy changes by")):
        mine, factory = group.get(metric), default.get(metric)
        if mine is None or factory is None:
            return None
        bounds.append(at_most(name, mine / factory - 1, 0.0))
    return _Rival(f"{group.conditions.network}, {_spell_mode(group.conditions)}", bounds, (group, default))


def _baseload_large(data: CampaignData, case: Case) -> None:
    for conditions, groups in _modes(data, fewest=1):
        shares = []
        for group in groups:
            baseload, energy = group.get("baseload"), group.get("energy")
            if baseload is not None and energy is not None:
                shares.append((baseload / energy, group))
        if shares:
            share, lowest_one = min(shares, key=lambda one: one[0].value)
            what = f"{data.label(conditions)}, {_spell_mode(lowest_one.conditions)} (lowest of {len(shares)})"
            case.add(what, [at_least("baseload of the energy", share, LARGE_SHARE)], of=[lowest_one])


def _energy_modest(data: CampaignData, case: Case) -> None:
    for conditions, modes in _modes(data):
        top_hz = max((group.conditions.gpu_hz or 0 for group in modes), default=0)
        lower = {group.conditions: group for group in modes if (group.conditions.gpu_hz or 0) < top_hz}
        for groups in data.on_shared_units("power mode", conditions, lower):
            energies = [energy for group in groups.values() if (energy := group.get("energy")) is not None]
            if _is_big(modes[0]) and len(energies) >= MIN_MODES:
                most, least = highest(energies), lowest(energies)
                what = f"{data.label(conditions)}, {len(energies)} modes below the highest GPU clock"
                bound = at_most("energy varies by", (most - least) / most, MODEST_SHARE)
                case.add(what, [bound], of=list(groups.values()))


def _gpu_clock(data: CampaignData, case: Case) -> None:
    big = light = False
    for family, slow, fast, ratio in _pairs(data, "gpu_hz", FURTHER):
        follows = _elasticity(slow, fast, "compute", ratio)
        if follows is None or _is_big(slow) is None:
            continue
        what, numbers = f"{family.label}, compute, {_spell_step(slow, fast, 'gpu_hz')}", _spell_change(slow, fast)
        if _is_big(slow):
            bound = at_least("follows the clock by", follows, FOLLOWS)
            case.add(what, [bound], numbers, spell=_plain, of=(slow, fast))
            big = True
        else:
            bound = at_most("follows the clock by", follows, FOLLOWS)
            case.add(what, [bound], numbers, spell=_plain, of=(slow, fast))
            light = True
    case.require(big, "a network of a million parameters or more at two GPU clocks")
    case.require(light, "a light network, such as LeNet, at two GPU clocks")


def _cpu_cuts_stall(data: CampaignData, case: Case) -> None:
    clocks = cores = fewer = False
    for family, slow, fast, _ in _pairs(data, "cpu_hz", FURTHER):
        before, after = slow.visible_stall(), fast.get("stall")
        if before is not None and after is not None:
            what = f"{family.label}, stall, {_spell_step(slow, fast, 'cpu_hz')}"
            case.add(what, [at_least("removed", 1 - after / before, 0.0)], change(before, after), of=(slow, fast))
            clocks = True
    for family in data.families("cores"):
        workers, counted = family.conditions.workers, family.ordered()
        if not workers:
            continue
        enough = [group for count, group in counted if count >= workers]
        few, many = counted[0][1], counted[-1][1]
        fewer |= counted[0][0] < workers and _more_cores(case, family, few, many, workers)
        cores |= len(enough) > 1 and _more_cores(case, family, enough[0], enough[-1], workers)
    case.require(clocks, "two CPU clocks with everything else equal")
    case.require(cores, "two core counts, none below the number of workers, with everything else equal")
    case.require(fewer, "a core count below the number of workers and a higher one, with everything else equal")


def _more_cores(case: Case, family: Family, few: RepeatedRuns, many: RepeatedRuns, workers: int) -> bool:
    """Compare two core counts; return whether they could be compared."""
    before, after = few.visible_stall(), many.get("stall")
    low, high = few.conditions.cores or 0, many.conditions.cores or 0
    if before is None or after is None or high < FURTHER * low:
        return False
    what = f"{family.label}, stall, {low} → {high} cores"
    if low < workers:
        bound = at_least("fewer cores than workers: larger by", before / after - 1, SHARPLY_SHARE)
    else:
        bound = at_least("removed", 1 - after / before, 0.0)
    case.add(what, [bound], change(before, after), of=(few, many))
    return True


@dataclass(frozen=True)
class _Follows:
    """How compute of one network follows the CPU clock."""

    what: str
    exponent: Uncertain
    runs: tuple[RepeatedRuns, RepeatedRuns]


def _cpu_shortens_compute(data: CampaignData, case: Case) -> None:
    # By everything but the network, and by both clocks: what is compared differs in nothing else.
    big: dict[tuple[Conditions, int | None, int | None], list[_Follows]] = {}
    light: dict[tuple[Conditions, int | None, int | None], list[_Follows]] = {}
    for family, slow, fast, ratio in _pairs(data, "cpu_hz", FURTHER):
        exponent, is_big = _elasticity(slow, fast, "compute", ratio), _is_big(slow)
        if exponent is None or is_big is None:
            continue
        what = f"{family.label}, compute, {_spell_step(slow, fast, 'cpu_hz')}"
        # The size of a dataset of the user's own is one of its network.
        alike = replace(family.conditions.without("dataset_bytes"), network="")
        key = alike, slow.conditions.cpu_hz, fast.conditions.cpu_hz
        (big if is_big else light).setdefault(key, []).append(_Follows(what, exponent, (slow, fast)))
        if not is_big:
            bound = at_least("follows the clock by", exponent, FOLLOWS)
            case.add(what, [bound], _spell_change(slow, fast), spell=_plain, of=(slow, fast))
    compared = False
    for key in [key for key in big if key in light]:
        for one in big[key]:
            least = min(light[key], key=lambda each: each.exponent.value)
            bound = at_least("follows the clock less than a light network by", least.exponent - one.exponent, 0.0)
            case.add(one.what, [bound], spell=_plain, of=(*one.runs, *least.runs))
            compared = True
    case.require(bool(light), "a light network, such as LeNet, at two CPU clocks")
    case.require(bool(big), "a network of a million parameters or more at two CPU clocks")
    if light and big:
        case.require(compared, "both at the same two CPU clocks of a board, with everything else equal")


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
            case.add(f"{family.label}, {_spell_step(slow, fast, 'emc_hz')}", bounds, of=(slow, fast))


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
        "the factory-default mode and others, with energy", _default_beaten,
        (LATER_EPOCHS, ENERGY), simulated=_FITTED, emulated=_POWER,
    ),
    Claim(
        "19", "Baseload is a large share of the training energy",
        "AGX: 65 to 80 % for LeNet, 20 to 45 % for ResNet and MobileNet",
        "runs with --baseload-s on a device with a power sensor for the whole module or board", _baseload_large,
        (LATER_EPOCHS, ENERGY, BASELOAD), simulated=_FITTED, emulated=_POWER,
    ),
    Claim(
        "20", "Energy per epoch varies modestly across modes for big networks, the highest GPU clock left out",
        "AGX, modes a to f: ResNet 6 %, MobileNet 12 % (LeNet 27 %)",
        f"{MIN_MODES} modes or more below the highest GPU clock, with energy", _energy_modest,
        (LATER_EPOCHS, ENERGY, PARAMETERS), simulated=_FITTED, emulated=_POWER,
    ),
    Claim(
        "21", "Compute is inverse to the GPU clock for big networks only",
        "AGX, 670 → 900 MHz: ResNet -22 %, MobileNet -13 %, LeNet +5.5 %",
        "a light and a big network in modes that differ in the GPU clock only", _gpu_clock,
        (LATER_EPOCHS, STALL, PARAMETERS), simulated=_FITTED, emulated=_CLOCKS, paced=_PACED,
    ),
    Claim(
        "22", "CPU clock and core count cut the stall; fewer cores than workers hurt sharply",
        "AGX: 1200 → 2100 MHz -31 to -39 %, 4 → 8 cores -18 to -20 %; 8 → 2 cores with 4 workers doubles it",
        "modes that differ in the CPU clock only, and in the core count only, above and below the number of workers",
        _cpu_cuts_stall, (LATER_EPOCHS, STALL), simulated=_FITTED,
    ),
    Claim(
        "23", "The CPU clock also shortens the time on the GPU, mostly for light networks",
        "AGX, 1200 → 2100 MHz: LeNet -37 %, MobileNet -9.7 %, ResNet -2 %",
        "a light and a big network in modes that differ in the CPU clock only", _cpu_shortens_compute,
        (LATER_EPOCHS, STALL, PARAMETERS), simulated=_FITTED, emulated=_CLOCKS, paced=_PACED,
    ),
    Claim(
        "24", "The memory clock affects both compute and stall",
        "AGX, 1066 → 2133 MHz: -26 to -34 % of both",
        "modes that differ in the memory clock only", _memory_clock,
        (LATER_EPOCHS, STALL), simulated=_FITTED, emulated=_CLOCKS, paced=_PACED,
    ),
)  # fmt: skip
