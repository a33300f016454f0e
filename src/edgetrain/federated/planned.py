"""The planner of `edgetrain round` behind a federated strategy: margins for the spread of rounds, transfers, limits.

RoundPlanAssigner(devices, RoundRules(deadline_s=60))      devices are those of a round file, by the unit's name
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from edgetrain.errors import UsageError
from edgetrain.federated.assignment import AssignedRound, FederatedUnit, UnitAssignment
from edgetrain.recommendation import RoundAssignment, RoundDevice, RoundRules, plan_round


class RoundPlanAssigner:
    """Plans each round anew with what was learned about each unit; a device that the plan leaves out sits out."""

    def __init__(self, devices: Sequence[RoundDevice], rules: RoundRules, seed: int = 1) -> None:
        if rules.least_epochs is not None and rules.least_epochs < rules.epochs:
            raise UsageError(
                "local epochs are decided by the client app: leave least_epochs out and let devices sit out instead"
            )
        self._devices = {device.name: device for device in devices}
        self._rules, self._seed = rules, seed

    def assign(self, server_round: int, units: Sequence[FederatedUnit]) -> AssignedRound:
        """Return what each unit is to do; UsageError as `plan_round` raises it."""
        if not units:
            return AssignedRound((), self._rules.deadline_s)
        devices = [self._corrected(unit) for unit in units]
        plan = plan_round(devices, self._rules, self._seed)
        found = [
            self._assignment(unit, one)
            for unit, one in zip(units, plan.assignments, strict=True)
            if one.row is not None
        ]
        return AssignedRound(tuple(found), plan.deadline_s)

    def _known(self, unit: FederatedUnit) -> RoundDevice:
        name = unit.identity.unit
        if name not in self._devices:
            known = ", ".join(sorted(self._devices)) or "none"
            raise UsageError(f"the round has no device {name!r}; there are: {known}")
        return self._devices[name]

    def _corrected(self, unit: FederatedUnit) -> RoundDevice:
        """Return the device with its learned factor, and its modes with what was learned about single ones."""
        device = self._known(unit)
        if not unit.time.tried:
            return device
        whole = unit.time.unit_factor
        modes = [device.modes.modes.mode(row) for row in range(len(device.modes.modes))]
        time_s = device.modes.time_s * np.array(unit.time.factors(modes)) / whole
        return replace(device, time_factor=whole, modes=replace(device.modes, time_s=time_s))

    def _assignment(self, unit: FederatedUnit, one: RoundAssignment) -> UnitAssignment:
        device = self._known(unit)
        assert one.row is not None
        minibatches = device.minibatches(one.epochs)
        kind_s = float(device.modes.time_s[one.row]) * minibatches
        power_w = device.modes.power_w
        kind_j = None if power_w is None else float(power_w[one.row]) * kind_s
        predicted_j = None if kind_j is None else kind_j * unit.energy.factor(one.mode)
        return UnitAssignment(one.device, one.mode, one.train_s, predicted_j, kind_s, kind_j, minibatches)
