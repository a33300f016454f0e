"""Who trains in which power mode in a round: the protocol that a planner implements, and a small built-in planner.

`PowerModeStrategy` asks a `ModeAssigner` once per round. It hands over each unit with what was learned about it, and
gets back per unit the mode and the predicted seconds and joules: nothing else crosses this boundary, so that any
planner of rounds can be put behind it.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from edgetrain.errors import UsageError
from edgetrain.federated.correction import RoundCorrection
from edgetrain.federated.messages import BoardIdentity
from edgetrain.prediction import ModeTable, results
from edgetrain.schema import PowerMode

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class FederatedUnit:
    """A board that is asked to train in this round, with what was learned about its time and energy so far."""

    identity: BoardIdentity
    time: RoundCorrection = field(default_factory=RoundCorrection)
    energy: RoundCorrection = field(default_factory=RoundCorrection)


@dataclass(frozen=True, slots=True)
class UnitAssignment:
    """What one unit is to do. `kind_s` and `kind_j` are predictions for its kind of board, without its factors."""

    unit: str
    mode: PowerMode | None
    predicted_s: float | None = None
    predicted_j: float | None = None
    kind_s: float | None = None
    kind_j: float | None = None
    minibatches: int | None = None


@dataclass(frozen=True, slots=True)
class AssignedRound:
    """A round as planned: a unit that is not in it sits out. `deadline_s` is for the training alone."""

    assignments: tuple[UnitAssignment, ...]
    deadline_s: float | None = None

    def of(self, unit: str) -> UnitAssignment | None:
        """Return what a unit is to do; None where it sits out."""
        return next((each for each in self.assignments if each.unit == unit), None)


class ModeAssigner(Protocol):
    """Plans one round. Raises UsageError where a unit is not known to it, or by prediction cannot meet the deadline.

    A unit that turned out too slow in earlier rounds is no error, which would end the training of all: it runs in its
    fastest mode.
    """

    def assign(self, server_round: int, units: Sequence[FederatedUnit]) -> AssignedRound:
        """Return what each unit is to do."""


@dataclass(frozen=True, slots=True)
class ModeCost:
    """What one minibatch costs in one power mode."""

    mode: PowerMode
    minibatch_s: float
    power_w: float


def mode_costs(table: ModeTable) -> tuple[ModeCost, ...]:
    """Return a table of modes, measured or predicted, as costs; the mean time per minibatch where the table has it."""
    time_s, power_w = results(table)
    mean_s = time_s if table.time_mean_s is None else table.time_mean_s
    return tuple(ModeCost(table.mode(row), float(mean_s[row]), float(power_w[row])) for row in range(len(table)))


@dataclass(frozen=True, slots=True)
class UnitProfile:
    """What is known about one unit beforehand: the costs of its kind of board, its work per round, its idle power."""

    costs: tuple[ModeCost, ...]
    minibatches: int
    idle_w: float | None = None  # drawn while it waits for the others; None: not known, waiting is not charged


@dataclass(frozen=True)
class DeadlineAssigner:
    """Per unit the mode with least energy that meets the deadline; left out, that of the slowest unit at its fastest.

    A unit that has finished idles until the deadline, at its idle power. Predictions of modes that are about equally
    good are compared as they are: margins for the spread between rounds are the round planner's task.
    """

    profiles: Mapping[str, UnitProfile] = field(default_factory=dict)
    deadline_s: float | None = None

    def assign(self, server_round: int, units: Sequence[FederatedUnit]) -> AssignedRound:
        """Return what each unit is to do."""
        fastest_s = {each.identity.unit: float(self._seconds(each).min()) for each in units}
        if not fastest_s:
            return AssignedRound((), self.deadline_s)
        slowest = max(fastest_s, key=lambda name: fastest_s[name])
        deadline_s = self.deadline_s if self.deadline_s is not None else fastest_s[slowest]
        too_slow = {each.identity.unit: bool(each.time.tried) for each in units}
        too_slow = {name: tried for name, tried in too_slow.items() if fastest_s[name] > deadline_s}
        for name in too_slow:
            logger.warning(
                "%s needs %.1f s in its fastest mode, more than the deadline of %g s", name, fastest_s[name], deadline_s
            )
        if not all(too_slow.values()):
            slowest = max((name for name, tried in too_slow.items() if not tried), key=lambda name: fastest_s[name])
            raise UsageError(
                f"{slowest} needs {fastest_s[slowest]:.1f} s in its fastest mode, more than the deadline of "
                f"{deadline_s:g} s; allow it more time, give it less data, or leave it out"
            )
        return AssignedRound(tuple(self._assign_one(each, deadline_s) for each in units), deadline_s)

    def _profile(self, unit: FederatedUnit) -> UnitProfile:
        name = unit.identity.unit
        if name not in self.profiles:
            known = ", ".join(sorted(self.profiles)) or "none"
            raise UsageError(f"nothing is known about the unit {name!r}; profiled units: {known}")
        return self.profiles[name]

    def _seconds(self, unit: FederatedUnit) -> NDArray[np.float64]:
        profile = self._profile(unit)
        kind_s = np.array([cost.minibatch_s * profile.minibatches for cost in profile.costs])
        return kind_s * np.array(unit.time.factors([cost.mode for cost in profile.costs]))

    def _assign_one(self, unit: FederatedUnit, deadline_s: float) -> UnitAssignment:
        profile, seconds = self._profile(unit), self._seconds(unit)
        kind_j = np.array([cost.power_w * cost.minibatch_s * profile.minibatches for cost in profile.costs])
        own_j = kind_j * np.array(unit.energy.factors([cost.mode for cost in profile.costs]))
        waiting_j = (deadline_s - seconds) * (profile.idle_w or 0.0)
        total_j = np.where(seconds <= deadline_s * (1 + 1e-9), own_j + waiting_j, np.inf)
        row = int(np.argmin(total_j if np.isfinite(total_j).any() else seconds))
        return UnitAssignment(
            unit.identity.unit,
            profile.costs[row].mode,
            float(seconds[row]),
            float(own_j[row]),
            profile.costs[row].minibatch_s * profile.minibatches,
            float(kind_j[row]),
            profile.minibatches,
        )
