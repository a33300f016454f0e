"""What a statement needs of every run that could answer it, so that its absence can be named first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from edgetrain.studies.conditions import WHOLE_DEVICE
from edgetrain.studies.data import CampaignData
from edgetrain.studies.observations import ObservedEpoch, ObservedRun
from edgetrain.studies.repeated import COLD, LATER, RepeatedRuns


@dataclass(frozen=True, slots=True)
class Needed:
    """Something that a run must have recorded."""

    what: str  # as in: no run has ...
    has: Callable[[RepeatedRuns], bool]
    why: Callable[[Sequence[ObservedRun]], str] = lambda runs: ""  # why these runs have none, where they say


def _any_epoch(group: RepeatedRuns, value: Callable[[ObservedEpoch], float | None]) -> bool:
    return any(value(epoch) is not None for phase in (COLD, LATER) for run in group.epochs(phase) for epoch in run)


def _why_not_cold(runs: Sequence[ObservedRun]) -> str:
    return next((run.not_cold for run in runs if run.not_cold), "")


def _why_no_energy(runs: Sequence[ObservedRun]) -> str:
    scope = next((run.power_scope for run in runs if run.power_scope not in (None, *WHOLE_DEVICE)), None)
    return "" if scope is None else f"their sensor measures the {scope} only"


LATER_EPOCHS = Needed("an epoch after the first (--epochs 2 or more)", lambda group: bool(group.epochs(LATER)))
COLD_EPOCH = Needed(
    "a first epoch with a cold page cache (--cache cold)", lambda group: bool(group.epochs(COLD)), _why_not_cold
)
STALL = Needed(
    "a fetch stall (a data loader that was watched)", lambda group: _any_epoch(group, lambda epoch: epoch.stall_s)
)
ENERGY = Needed(
    "the energy of the whole module or board (a power sensor)",
    lambda group: _any_epoch(group, lambda epoch: epoch.energy_j),
    _why_no_energy,
)
BASELOAD = Needed("a baseload (--baseload-s 30)", lambda group: _any_epoch(group, lambda epoch: epoch.baseload_j))
PARAMETERS = Needed("a known number of parameters", lambda group: group.parameters is not None)


def lacking(needed: Sequence[Needed], data: CampaignData) -> str:
    """Return what none of the runs has, in words; nothing where there are no runs or all of it is there."""
    absent = [one for one in needed if data.groups and not any(one.has(group) for group in data.groups)]
    if not absent:
        return ""
    runs = [run for group in data.groups for run in group.runs]
    reasons = "; ".join(dict.fromkeys(why for one in absent if (why := one.why(runs))))
    return f"no run has {', or '.join(one.what for one in absent)}" + (f": {reasons}" if reasons else "")
