"""Take-aways 12 to 17 of SIGMETRICS 2023: variability over time, units and software, and DVFS."""

from __future__ import annotations

import math
import statistics

import numpy as np

from edgetrain.analysis import RESAMPLES
from edgetrain.studies.data import CampaignData
from edgetrain.studies.judging import Case, Claim, at_least, at_most, milliseconds, within
from edgetrain.studies.repeated import RepeatedRuns
from edgetrain.studies.uncertain import Uncertain, highest, lowest

# The paper calls 8.8 % between units little.
LITTLE_SHARE = 0.1
RANGE_DEVIATIONS = 3.92  # 95 % of epochs lie in a range of this many standard deviations
FEWEST_EPOCHS = 5  # later ones of a run, as in the paper
FEWEST_UNITS = 3
# Versions that change the epoch time by this much cause variability (the paper: up to 40 %).
REAL_SHARE = 0.05
# DVFS hardly changes what stays within this (the paper calls ResNet's 2.4 % negligible).
HARDLY_SHARE = 0.05
# Clocks move when one is below 90 % of its highest for this share of the time (the paper: 49 % and more).
MOVES_SHARE = 0.1
CLOCK_SPREAD = 0.1  # between runs, of that share


def _over_epochs(data: CampaignData, case: Case) -> None:
    for seed, group in enumerate(data.groups):
        logs = [
            [math.log(epoch.e2e_s / epoch.minibatches) for epoch in run.later if epoch.e2e_s and epoch.minibatches]
            for run in group.runs
        ]
        long = [run for run in logs if len(run) >= FEWEST_EPOCHS]
        if not long:
            continue
        freedom = sum(len(run) - 1 for run in long)
        deviation = math.sqrt(sum(statistics.variance(run) * (len(run) - 1) for run in long) / freedom)
        drawn = deviation * np.sqrt(freedom / np.random.default_rng(seed).chisquare(freedom, RESAMPLES))
        spread = Uncertain(RANGE_DEVIATIONS * deviation, RANGE_DEVIATIONS * drawn)
        what = f"{data.label(group.conditions)}, {sum(map(len, long))} later epochs"
        case.add(what, [at_most("95 % of them lie within", spread, LITTLE_SHARE)])
    for printed in data.printed.spreads:
        bound = at_most("spread", Uncertain.exact(printed.over_time), LITTLE_SHARE)
        case.add(f"{printed.board}, {printed.network}, over 15 h on one unit, as printed", [bound])


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
        if len(known) < FEWEST_UNITS:
            continue
        most, least = highest(known), lowest(known)
        what = f"{data.label(group.conditions)}, {len(known)} units"
        case.add(what, [at_most("spread", (most - least) / most, LITTLE_SHARE)])


def _software(data: CampaignData, case: Case) -> None:
    for family in data.families("software"):
        known = {name: epoch for name, group in family.members.items() if (epoch := group.get("e2e")) is not None}
        if len(known) < 2:
            continue
        most, least = highest(known.values()), lowest(known.values())
        named = " / ".join(f"{name}: {milliseconds(epoch.value)}" for name, epoch in known.items())
        case.add(f"{family.label}, end to end", [at_least("apart by", most / least - 1, REAL_SHARE)], named)


def _dvfs_pairs(data: CampaignData) -> list[tuple[str, RepeatedRuns, RepeatedRuns]]:
    return [(family.label, family.members[False], family.members[True]) for family in data.families("dvfs")]


def _dvfs_hardly(data: CampaignData, case: Case) -> None:
    for label, off, on in _dvfs_pairs(data):
        bounds = []
        for metric, name in (("e2e", "time changes by"), ("energy", "energy changes by")):
            before, after = off.get(metric), on.get(metric)
            if before is not None and after is not None:
                bounds.append(within(name, after / before - 1, HARDLY_SHARE))
        if bounds:
            case.add(f"{label}, DVFS off → on", bounds)


def _clocks_move(data: CampaignData, case: Case) -> None:
    for group in data.groups:
        if not group.conditions.dvfs:
            continue
        known = [run.clocks.most for run in group.runs if run.clocks is not None and run.clocks.most is not None]
        if not known:
            continue
        below = statistics.fmean(known)
        share = Uncertain.around(below, CLOCK_SPREAD * below / math.sqrt(len(known)), len(known))
        what = f"{data.label(group.conditions)}, the clock that moves most"
        case.add(what, [at_least("below 90 % of its highest", share, MOVES_SHARE)])
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
        f"runs with {FEWEST_EPOCHS} epochs or more after the first", _over_epochs, simulated=_NOISE,
        paced="its step times are settings",
    ),
    Claim(
        "13", "Epoch times vary little across units",
        "five units each: AGX 1 %, NX 5.4 %, Nano 7.8 %",
        f"the same setting on {FEWEST_UNITS} units or more", _across_units, simulated=_NOISE, emulated=_BOARD,
    ),
    Claim(
        "14", "Energy varies little across units",
        "five units each: AGX 5.9 %, NX 5.5 %, Nano 8.8 %",
        f"the same setting on {FEWEST_UNITS} units or more with a power sensor", _energy_across_units,
        simulated=_NOISE, emulated=_BOARD,
    ),
    Claim(
        "15", "Software versions cause real variability",
        "up to 40 %, without the runs behind it",
        "the same setting under two versions of JetPack, kernel, torch or CUDA", _software,
        simulated="it has no software versions",
    ),
    Claim(
        "16", "DVFS hardly changes time or energy",
        "AGX, off → on: ResNet +2.4 % time, -2.3 % energy; MobileNet +0.8 %, +0.7 %; LeNet +12 %, -6 % by its bars",
        "the same setting with DVFS on and off", _dvfs_hardly, simulated=_DVFS,
        emulated="the lab does not set clocks",
    ),
    Claim(
        "17", "With DVFS the clocks do move",
        "AGX: the CPU is below 90 % of its highest clock for 49 % (LeNet) to 89 % (ResNet) of the time",
        "runs with DVFS on and recorded clocks", _clocks_move, simulated=_DVFS,
        emulated="the lab does not set clocks",
    ),
)  # fmt: skip
