"""Take-aways 3 to 7 of SIGMETRICS 2023: loader workers."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace

from edgetrain.studies.conditions import Conditions
from edgetrain.studies.data import CLOCKS, PHASES, CampaignData, Family
from edgetrain.studies.judging import Case, Claim, at_least, at_most, change
from edgetrain.studies.needed import ENERGY, LATER_EPOCHS, STALL
from edgetrain.studies.repeated import COLD, LATER, RepeatedRuns
from edgetrain.studies.uncertain import Uncertain

# Falls of the epoch time that differ by this much depend on network and device (the paper's: 2.9 to 50 %).
DEPENDS_SHARE = 0.1
# Fetching counts as longer or shorter than compute beyond this ratio; between, chance decides what is left.
LONGER = 1.15
# What is left of a stall is hidden below this share of the compute (the paper's floor is 3 to 5 %).
HIDDEN_SHARE = 0.1
# A second worker helps when it removes this much of what the first left (the paper: 67 %).
HELPS_SHARE = 0.2
# Where one worker keeps up, more of them gain at most this share of an epoch (the paper: 0.4 %).
NO_GAIN_SHARE = 0.05
# Energy is kept within this share (the paper's exception, LeNet on the Nano, is 4.7 %).
KEPT_SHARE = 0.05
PRINTED_DEVIATION = 0.028  # of a ratio of two energies: each scatters by 2 %, see RunSpread
MAX_WORKERS = 4  # energy is compared at the paper's default


def _always_cuts(data: CampaignData, case: Case) -> None:
    for family in data.families("workers"):
        pair = _first_workers(family)
        if pair is None:
            continue
        for phase in (COLD, LATER):
            none, some = pair[0].visible_stall(phase), pair[1].get("stall", phase)
            if none is None or some is None:
                continue
            what = f"{family.label}, {PHASES[phase]}, {_workers(pair)}, stall"
            case.add(what, [at_least("removed", 1 - some / none, 0.0)], change(none, some), of=pair)


@dataclass(frozen=True)
class _Fall:
    """By how much the first worker shortens the epoch in one setting."""

    conditions: Conditions
    share: Uncertain
    runs: tuple[RepeatedRuns, RepeatedRuns]

    @property
    def subject(self) -> str:
        """The board and the network."""
        return f"{self.conditions.board} {self.conditions.network}"


def _depends(data: CampaignData, case: Case) -> None:
    """Whether the fall differs between two networks or boards where everything else is the same."""
    case.any_suffices = True
    alike: dict[tuple[Conditions, str, str], list[_Fall]] = {}
    for family in data.families("workers"):
        pair = _first_workers(family)
        phase = _common_phase(*pair) if pair else None
        epochs = _both(*pair, "e2e", phase) if pair and phase else None
        if not pair or not phase or not epochs:
            continue
        # Clocks may differ between boards only, see `_comparable`; energy is not looked at.
        known = replace(family.conditions.without(*CLOCKS, "power_scope"), board="", network="")
        fall = _Fall(family.conditions, 1 - epochs[1] / epochs[0], pair)
        alike.setdefault((known, phase, _workers(pair)), []).append(fall)
    for (known, phase, workers), falls in alike.items():
        pairs = [(one, other) for one, other in itertools.combinations(falls, 2) if _comparable(one, other)]
        if not pairs:
            continue
        one, other = max(pairs, key=lambda two: abs(two[0].share.value - two[1].share.value))
        more, less = (one, other) if one.share.value >= other.share.value else (other, one)
        setting = f"{known.medium or 'unknown medium'}, batch {known.batch_size or 'unknown'}, {PHASES[phase]}"
        named = ", ".join(f"{fall.subject} {fall.share.value:.1%}" for fall in (more, less))
        bound = at_least("more than the other by", more.share - less.share, DEPENDS_SHARE)
        case.add(f"{setting}, {workers}: end-to-end time falls by", [bound], named, of=(*more.runs, *less.runs))


def _comparable(one: _Fall, other: _Fall) -> bool:
    """Return whether two falls are of two networks in one mode of a board, or of two boards."""
    if one.conditions.board != other.conditions.board:
        return True
    modes = [[fall.conditions.by_name()[name] for name in CLOCKS] for fall in (one, other)]
    return one.conditions.network != other.conditions.network and modes[0] == modes[1]


def _common_phase(*groups: RepeatedRuns) -> str | None:
    """Return the epochs in which these groups can be compared: the later ones, else the cold one; None: neither."""
    return next(
        (phase for phase in (LATER, COLD) if all(group.get("e2e", phase) is not None for group in groups)), None
    )


@dataclass(frozen=True)
class _Fetching:
    """How long one setting fetches, and on what: board, clocks and medium."""

    hardware: tuple[object, ...]
    wait: Uncertain


def _relative_speeds(data: CampaignData, case: Case) -> None:
    sides: dict[bool, list[_Fetching]] = {True: [], False: []}  # by whether fetching takes longer than compute
    for family in data.families("workers"):
        for phase in (COLD, LATER):
            ratio = _fetch_over_compute(family, phase)
            none, one = family.members.get(0), family.members.get(1)
            stall, compute = (one.get("stall", phase), one.compute()) if one else (None, None)
            wait = none.get("wait", phase) if none else None
            if ratio is None or none is None or one is None or stall is None or compute is None or wait is None:
                continue
            left = stall / compute
            what = f"{family.label}, {PHASES[phase]}, fetching takes {ratio.value:.2f} of the compute time"
            known = family.conditions
            hardware = (known.board, known.medium, *(known.by_name()[name] for name in CLOCKS))
            if ratio.hi < 1 / LONGER:
                bound = at_most("stall with 1 worker, of compute", left, HIDDEN_SHARE)
            elif ratio.lo > LONGER:
                bound = at_least("stall with 1 worker, of compute", left, HIDDEN_SHARE)
            else:
                continue
            case.add(what, [bound], of=(none, one))
            sides[ratio.lo > LONGER].append(_Fetching(hardware, wait))
    case.require(bool(sides[False]), "a setting with 0 and 1 worker where fetching is clearly shorter than compute")
    case.require(bool(sides[True]), "a setting with 0 and 1 worker where fetching is clearly longer than compute")
    case.require(
        any(_apart(one, other) for side in sides.values() for one, other in itertools.combinations(side, 2)),
        "the same relation on two boards, at two clocks or on two media, one of which clearly fetches faster",
    )


def _apart(one: _Fetching, other: _Fetching) -> bool:
    """Return whether one hardware fetches clearly faster than another."""
    ratio = one.wait / other.wait
    return one.hardware != other.hardware and (ratio.lo > LONGER or ratio.hi < 1 / LONGER)


def _more_workers(data: CampaignData, case: Case) -> None:
    keeps_up = falls_behind = False
    for family in data.families("workers"):
        more = next((group for count, group in family.ordered() if count > 1), None)
        one = family.members.get(1)
        for phase in (COLD, LATER) if one and more else ():
            assert one is not None and more is not None
            ratio = _fetch_over_compute(family, phase)
            stalls, epochs = _both(one, more, "stall", phase), _both(one, more, "e2e", phase)
            if ratio is None or stalls is None or epochs is None:
                continue
            what = f"{family.label}, {PHASES[phase]}, 1 → {more.conditions.workers} workers"
            if ratio.lo > LONGER:
                bound = at_least("removed", 1 - stalls[1] / stalls[0], HELPS_SHARE)
                case.add(f"{what}, one cannot keep up; stall", [bound], change(*stalls), of=(one, more))
                falls_behind = True
            elif ratio.hi < 1 / LONGER:
                bound = at_most("gained", 1 - epochs[1] / epochs[0], NO_GAIN_SHARE)
                case.add(f"{what}, one keeps up; end to end", [bound], change(*epochs), of=(one, more))
                keeps_up = True
    case.require(keeps_up, "0, 1 and 2 workers where one keeps up")
    case.require(falls_behind, "0, 1 and 2 workers where one cannot keep up")


def _energy_kept(data: CampaignData, case: Case) -> None:
    for family in data.families("workers"):
        counted = [(count, group) for count, group in family.ordered() if count <= MAX_WORKERS]
        if len(counted) < 2 or counted[0][0] != 0:
            continue
        # Power is energy over time of the same runs.
        none, some = counted[0][1].having("energy"), counted[-1][1].having("energy")
        energies, epochs = _both(none, some, "energy", LATER), _both(none, some, "e2e", LATER)
        if energies is None or epochs is None:
            continue
        powers = energies[0] / epochs[0], energies[1] / epochs[1]
        bounds = [
            at_least("power changes by", powers[1] / powers[0] - 1, 0.0),
            at_most("energy changes by", energies[1] / energies[0] - 1, KEPT_SHARE),
        ]
        numbers = f"{powers[0].value:.1f} → {powers[1].value:.1f} W"
        case.add(f"{family.label}, {_workers((none, some))}", bounds, numbers, of=(none, some))
    for seed, printed in enumerate(data.printed.pipelining_energy):
        rise = Uncertain.around(printed.change, PRINTED_DEVIATION, seed)
        bound = at_most("energy changes by", rise, KEPT_SHARE)
        case.add(f"{printed.board}, {printed.network}, 0 → 4 workers, as printed", [bound])


def _fetch_over_compute(family: Family, phase: str) -> Uncertain | None:
    """Return how long a minibatch is fetched, over its compute: without workers the loop waits for all of it.

    Part of that wait may be hidden behind earlier steps, where the loop does not wait for each of them.
    """
    none = family.members.get(0)
    if none is None:
        return None
    wait, compute = none.get("wait", phase), none.compute()
    return wait / compute if wait is not None and compute is not None else None


def _first_workers(family: Family) -> tuple[RepeatedRuns, RepeatedRuns] | None:
    """Return the runs without workers and with the fewest."""
    counted = family.ordered()
    return (counted[0][1], counted[1][1]) if counted[0][0] == 0 else None


def _both(one: RepeatedRuns, other: RepeatedRuns, metric: str, phase: str) -> tuple[Uncertain, Uncertain] | None:
    first, second = one.get(metric, phase), other.get(metric, phase)
    return (first, second) if first is not None and second is not None else None


def _workers(pair: tuple[RepeatedRuns, RepeatedRuns]) -> str:
    counts = pair[0].conditions.workers, pair[1].conditions.workers
    return f"{counts[0]} → {counts[1]} {'worker' if counts[1] == 1 else 'workers'}"


# It was fitted to epochs with 4 workers (figure 9); with 0 workers its cached stalls are 2 to 20 times the paper's.
_LOADER = "its loader was not fitted to the paper's figures at 0 and 1 workers, and does not match them"

CLAIMS = (
    Claim(
        "3", "Pipelining always cuts the stall",
        "AGX: LeNet 21.9 → 12.1 s, ResNet 24.7 → 13.3 s, MobileNet 286 → 13.3 s per epoch",
        "the same setting with 0 and 1 worker", _always_cuts, (STALL,),
    ),
    Claim(
        "4", "How much the epoch time falls with pipelining depends on network and device",
        "AGX: ResNet 2.9 %, MobileNet about 50 %; NX: MobileNet 38.7 %",
        "0 and 1 worker for two networks in one power mode, or on two devices, everything else equal", _depends,
        simulated=f"{_LOADER}; its steps were fitted to the same figures",
    ),
    Claim(
        "5", "The relative speeds of storage, CPU and GPU decide the stall, not their absolute speeds",
        "NX, MobileNet, HDD: fetching takes twice the compute time, one worker leaves 456 s; AGX, ResNet: 13.3 s",
        "settings with 0 and 1 worker on two boards, clocks or media, some where fetching is shorter than compute, "
        "some where it is longer",
        _relative_speeds, (STALL,), simulated=_LOADER,
    ),
    Claim(
        "6", "More workers help only where one cannot keep up",
        "NX, MobileNet, HDD: 67 % less stall with the second; AGX: no change",
        "0, 1 and 2 workers, where one keeps up and where it does not", _more_workers, (STALL,),
        simulated=f"how its workers share the cores is a fixed rule, and {_LOADER}",
    ),
    Claim(
        "7", "Pipelining raises power but keeps or lowers energy",
        "0 → 4 workers: AGX LeNet -5.4 %, MobileNet -20 %, NX MobileNet -39 %; exception: Nano LeNet +4.7 %",
        "0 and 4 workers on a device with a power sensor for the whole module or board", _energy_kept,
        (LATER_EPOCHS, ENERGY),
        simulated="its power model was fitted to the same figures",
        emulated="the power is this machine's, not the board's",
    ),
)  # fmt: skip
