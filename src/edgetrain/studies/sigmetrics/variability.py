"""Take-aways 12 to 17 of SIGMETRICS 2023: variability over time, units and software, and DVFS."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

import numpy as np

from edgetrain.analysis import RESAMPLES
from edgetrain.studies.data import CampaignData
from edgetrain.studies.judging import Case, Claim, at_least, at_most, milliseconds, within
from edgetrain.studies.needed import ENERGY, LATER_EPOCHS
from edgetrain.studies.observations import ObservedRun
from edgetrain.studies.repeated import RepeatedRuns
from edgetrain.studies.uncertain import Uncertain, highest, lowest, share_seen
from edgetrain.units import spell_seconds

# The paper calls 8.8 % between units little.
LITTLE_SHARE = 0.1
RANGE_DEVIATIONS = 3.92  # 95 % of epochs lie in a range of this many standard deviations
# Of one unit, after the first of each run: five give a standard deviation within a factor of 2.9 (chi-square, 95 %),
# which can show a spread of 1 %, as the paper's is, to be below the limit; four give it within 3.7.
MIN_EPOCHS = 5
# A tenth of the paper's 15 h: a board has warmed up (tens of minutes) and its hourly jobs have run. Shorter runs do not
# show what time does to a board; more than the limit within minutes is too much over hours as well.
MIN_SPAN_S = 1.5 * 3600
MIN_UNITS = 3
# Versions that change the epoch time by this much cause variability (the paper: up to 40 %).
REAL_SHARE = 0.05
# DVFS hardly changes what stays within this (the paper calls ResNet's 2.4 % negligible).
HARDLY_SHARE = 0.05
# Clocks move when one is below 90 % of its highest for this share of the time (the paper: 49 % and more).
MOVES_SHARE = 0.1
CLOCK_SPREAD, CLOCK_FLOOR = 0.1, 0.01  # between runs, of that share and in itself


def _over_epochs(data: CampaignData, case: Case) -> None:
    long_enough = False
    of_units = [(group, unit) for group in data.groups for unit in sorted(group.units)]
    for seed, (group, unit) in enumerate(of_units):
        runs = group.of_unit(unit).runs
        logs = [
            [math.log(epoch.e2e_s / epoch.minibatches) for epoch in run.later if epoch.e2e_s and epoch.minibatches]
            for run in runs
        ]
        logs = [run for run in logs if run]
        count = sum(map(len, logs))
        if count < MIN_EPOCHS:
            continue
        bound = at_most("95 % of them lie within", _range_over_time(logs, seed), LITTLE_SHARE)
        span_s = _span_s(runs)
        if span_s >= MIN_SPAN_S:
            long_enough = True
        elif bound.kept is not False:
            continue
        made = "1 run" if len(logs) == 1 else f"{len(logs)} runs"
        over = f"{count} later epochs of {made} on {unit} over {spell_seconds(span_s)}"
        case.add(f"{data.label(group.conditions)}, {over}", [bound], of=[group])
    for printed in data.printed.spreads:
        bound = at_most("spread", Uncertain.exact(printed.over_time), LITTLE_SHARE)
        case.add(f"{printed.board}, {printed.network}, over 15 h on one unit, as printed", [bound])
        long_enough = True
    case.require(
        long_enough,
        f"{MIN_EPOCHS} epochs or more after the first on one unit over at least {spell_seconds(MIN_SPAN_S)}, "
        "in one run or several",
    )


def _range_over_time(runs: Sequence[Sequence[float]], seed: int) -> Uncertain:
    """Return the range that 95 % of one unit's epochs lie in: within its runs, and from run to run.

    `runs` are logarithms of epoch times. The variance of an epoch is that between runs plus that within them; its
    freedom is Satterthwaite's.
    """
    freedom_within = sum(len(run) - 1 for run in runs)
    squares = sum(statistics.variance(run) * (len(run) - 1) for run in runs if len(run) > 1)
    parts = [(squares / freedom_within, freedom_within)] if freedom_within else []
    if len(runs) > 1:
        each = len(runs) / sum(1 / len(run) for run in runs)  # epochs of a run, as a harmonic mean
        between = statistics.variance([statistics.fmean(run) for run in runs])
        parts = [(between, len(runs) - 1), *((variance * (1 - 1 / each), freedom) for variance, freedom in parts)]
    total = sum(part for part, _ in parts)
    uncertainty = sum(part**2 / freedom for part, freedom in parts)
    freedom = total**2 / uncertainty if uncertainty else 1.0
    deviation = math.sqrt(total)
    drawn = deviation * np.sqrt(freedom / np.random.default_rng(seed).chisquare(freedom, RESAMPLES))
    return Uncertain(RANGE_DEVIATIONS * deviation, RANGE_DEVIATIONS * drawn)


def _span_s(runs: Sequence[ObservedRun]) -> float:
    """Return the time from the start of the first of these runs to the end of the last; 0 where it is not known."""
    known = [(run.started_s, run.took_s) for run in runs if run.took_s is not None]
    begins = [started_s for started_s, _ in known if started_s is not None]
    if known and len(begins) == len(known):
        return max((started_s or 0.0) + took_s for started_s, took_s in known) - min(begins)
    return max((took_s for _, took_s in known), default=0.0)


def _across_units(data: CampaignData, case: Case) -> None:
    _units(data, case, "e2e")
    for printed in data.printed.spreads:
        bound = at_most("spread", Uncertain.exact(printed.across_units), LITTLE_SHARE)
        case.add(f"{printed.board}, {printed.network}, epoch time of five units, as printed", [bound])


def _energy_across_units(data: CampaignData, case: Case) -> None:
    _units(data, case, "energy")
    for printed in data.printed.spreads:
        bound = at_most("spread", Uncertain.exact(printed.energy), LITTLE_SHARE)
        case.add(f"{printed.board}, {printed.network}, energy per epoch of five units, as printed", [bound])


def _units(data: CampaignData, case: Case, metric: str) -> None:
    for group in data.groups:
        units = sorted({run.unit for run in group.runs})
        known = [value for unit in units if (value := group.of_unit(unit).get(metric)) is not None]
        if len(known) < MIN_UNITS:
            continue
        most, least = highest(known), lowest(known)
        what = f"{data.label(group.conditions)}, {len(known)} units"
        case.add(
            what, [at_most("spread", (most - least) / most, LITTLE_SHARE)], of=[group.of_unit(one) for one in units]
        )


def _software(data: CampaignData, case: Case) -> None:
    """Whether two versions differ for one setting at least."""
    case.any_suffices = True
    for family in data.families("software"):
        known = {name: epoch for name, group in family.members.items() if (epoch := group.get("e2e")) is not None}
        if len(known) < 2:
            continue
        most, least = highest(known.values()), lowest(known.values())
        named = " / ".join(f"{name}: {milliseconds(epoch.value)}" for name, epoch in known.items())
        bound = at_least("apart by", most / least - 1, REAL_SHARE)
        case.add(f"{family.label}, end to end", [bound], named, of=list(family.members.values()))


def _dvfs_pairs(data: CampaignData) -> list[tuple[str, RepeatedRuns, RepeatedRuns]]:
    return [(family.label, family.members[False], family.members[True]) for family in data.families("dvfs")]


def _dvfs_hardly(data: CampaignData, case: Case) -> None:
    with_energy = False
    for label, off, on in _dvfs_pairs(data):
        bounds = []
        for metric, name in (("e2e", "time changes by"), ("energy", "energy changes by")):
            before, after = off.get(metric), on.get(metric)
            if before is not None and after is not None:
                bounds.append(within(name, after / before - 1, HARDLY_SHARE))
                with_energy |= metric == "energy"
        if bounds:
            case.add(f"{label}, DVFS off → on", bounds, of=(off, on))
    case.require(with_energy, "the energy of the whole module or board with DVFS on and off (a power sensor)")


def _clocks_move(data: CampaignData, case: Case) -> None:
    for group in data.groups:
        if not group.conditions.dvfs:
            continue
        known = [run.clocks.most for run in group.runs if run.clocks is not None and run.clocks.most is not None]
        if not known:
            continue
        share = share_seen(known, CLOCK_SPREAD, CLOCK_FLOOR, len(known))
        what = f"{data.label(group.conditions)}, the clock that moves most"
        case.add(what, [at_least("below 90 % of its highest", share, MOVES_SHARE)], of=[group])
    for printed in data.printed.clocks:
        what = f"{printed.board}, {printed.network}, {printed.part} clock, as printed"
        case.add(what, [at_least("below 90 % of its highest", Uncertain.exact(printed.below), MOVES_SHARE)])


_NOISE = "the spread of its noise is a setting"
_DVFS = "how it behaves with DVFS was taken from the same figures"
_BOARD = "this is one machine, not boards"

CLAIMS = (
    Claim(
        "12", "Epoch times vary little over time",
        "15 h: AGX ResNet 1 %, NX MobileNet 5 %, Nano LeNet 1 %",
        f"{MIN_EPOCHS} epochs or more after the first on one unit, over {spell_seconds(MIN_SPAN_S)} or more",
        _over_epochs, (LATER_EPOCHS,), simulated=_NOISE,
        paced="its step times are settings",
    ),
    Claim(
        "13", "Epoch times vary little across units",
        "five units each: AGX 1 %, NX 5.4 %, Nano 7.8 %",
        f"the same setting on {MIN_UNITS} units or more", _across_units, (LATER_EPOCHS,), simulated=_NOISE,
        emulated=_BOARD,
    ),
    Claim(
        "14", "Energy varies little across units",
        "five units each: AGX 5.9 %, NX 5.5 %, Nano 8.8 %",
        f"the same setting on {MIN_UNITS} units or more with a power sensor for the whole module or board",
        _energy_across_units, (LATER_EPOCHS, ENERGY),
        simulated=_NOISE, emulated=_BOARD,
    ),
    Claim(
        "15", "Software versions cause real variability",
        "up to 40 %, without the runs behind it",
        "the same setting under two versions of JetPack, kernel, torch or CUDA on one unit", _software,
        (LATER_EPOCHS,),
        simulated="it has no software versions",
    ),
    Claim(
        "16", "DVFS hardly changes time or energy",
        "AGX, off → on: ResNet +2.4 % time, -2.3 % energy; MobileNet +0.8 %, +0.7 %; LeNet +12 %, -6 % by its bars",
        "the same setting with DVFS on and off, with energy", _dvfs_hardly, (LATER_EPOCHS,), simulated=_DVFS,
        emulated="the lab does not set clocks",
    ),
    Claim(
        "17", "With DVFS the clocks do move",
        "AGX: the CPU is below 90 % of its highest clock for 49 % (LeNet) to 89 % (ResNet) of the time",
        "runs with DVFS on and recorded clocks", _clocks_move, simulated=_DVFS,
        emulated="the lab does not set clocks",
    ),
)  # fmt: skip
