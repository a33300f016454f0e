"""Take-aways 10 and 11 of SIGMETRICS 2023: batch sizes."""

from __future__ import annotations

import itertools
import math

from edgetrain.studies.data import CampaignData
from edgetrain.studies.judging import Case, Claim, at_least, at_most, change, milliseconds
from edgetrain.studies.needed import LATER_EPOCHS, STALL
from edgetrain.studies.uncertain import Uncertain

# The first doublings help when each shortens the epoch by this much (the paper: 38 to 50 %).
HELPS_SHARE = 0.05
MIN_SIZES = 3


def _until_full(data: CampaignData, case: Case) -> None:
    helps = filled = False
    for family in data.families("batch_size"):
        groups = [(size, group) for size, group in family.ordered() if group.get("e2e") is not None]
        sizes = [(size, epoch / size) for size, group in groups if (epoch := group.get("e2e")) is not None]
        if len(sizes) < MIN_SIZES:
            continue
        gains = [_per_doubling(*small, *large) for small, large in itertools.pairwise(sizes)]
        if gains[0].hi < HELPS_SHARE and all(gain.lo <= HELPS_SHARE for gain in gains):
            continue  # no size helps: the smallest one may fill the GPU already
        bounds = [at_least("first doublings gain", gains[0], HELPS_SHARE)]
        if gains[-1].hi <= HELPS_SHARE:
            bounds.append(at_most("last ones gain", gains[-1], HELPS_SHARE))
            filled = True
        spelled = " / ".join(f"{size:g}: {milliseconds(epoch.value)}" for size, epoch in sizes)
        what = f"{family.label}, end to end per sample by batch size"
        case.add(what, bounds, spelled, of=[group for _, group in groups])
        helps = True
    case.require(helps, "three batch sizes or more, the smallest of which leaves the GPU partly idle (smaller ones)")
    case.require(filled, "three batch sizes or more, the largest of which fills the GPU (larger ones)")


def _per_doubling(small: float, before: Uncertain, large: float, after: Uncertain) -> Uncertain:
    """Return the share of the time per sample that one doubling of the batch saves."""
    return 1 - (after / before).power(1 / math.log2(large / small))


def _stall_by_size(data: CampaignData, case: Case) -> None:
    for family in data.families("batch_size"):
        seen = [(size, group) for size, group in family.ordered() if group.visible_stall() is not None]
        sizes = [(size, stall) for size, group in seen if (stall := group.visible_stall()) is not None]
        if len(sizes) < 2:
            continue
        (small, before), (large, after) = sizes[0], sizes[-1]
        bounds = [
            at_least("per minibatch it grows by", after / before - 1, 0.0),
            at_most("per epoch it becomes", (after / large) / (before / small), 1.0),
        ]
        numbers = f"{change(before, after)} per minibatch"
        what = f"{family.label}, stall at batch size {small:g} → {large:g}"
        case.add(what, bounds, numbers, of=(seen[0][1], seen[-1][1]))


_RULE = "how its steps follow the batch size was taken from the same figure"
_PACED = "its step times are settings"

CLAIMS = (
    Claim(
        "10", "Bigger batches help until the GPU is full",
        "AGX, batch 1 → 128: MobileNet 2175 → 258 s, ResNet best at 64 with 205 s, LeNet 607 → 6.4 s per epoch",
        "three batch sizes or more", _until_full, (LATER_EPOCHS,), simulated=_RULE, paced=_PACED,
    ),
    Claim(
        "11", "Bigger batches raise the stall per batch and lower it per epoch",
        "AGX, batch 1 → 128: MobileNet 3.9 → 48 ms per batch, 89 → 8.6 s per epoch",
        "two batch sizes or more", _stall_by_size, (LATER_EPOCHS, STALL), simulated=_RULE,
    ),
)  # fmt: skip
