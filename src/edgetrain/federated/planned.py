"""The planner of `edgetrain round` behind a federated strategy: margins for the spread of rounds, transfers, limits.

RoundPlanAssigner(devices, RoundRules(deadline_s=60))      devices are those of a round file, by the unit's name
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from edgetrain.errors import DeadlineError, UsageError
from edgetrain.federated.assignment import AssignedRound, FederatedUnit, UnitAssignment
from edgetrain.recommendation import RoundDevice, RoundRules, plan_round

logger = logging.getLogger(__name__)


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
        """Return what each unit is to do; UsageError as `plan_round` raises it.

        A unit that only its earlier rounds show to be too slow runs in its fastest mode.
        """
        if not units:
            return AssignedRound((), self._rules.deadline_s)
        devices = {unit.identity.unit: self._corrected(unit) for unit in units}
        try:
            return self._planned(units, devices)
        except DeadlineError as error:
            slow = [unit for unit in units if unit.identity.unit in error.devices]
            if not slow or not all(unit.time.tried for unit in slow):
                raise
            logger.warning("%s", error)
        planned = self._planned([unit for unit in units if unit not in slow], devices)
        hurried = [self._fastest(unit, devices[unit.identity.unit]) for unit in slow]
        return AssignedRound((*planned.assignments, *hurried), planned.deadline_s)

    def _planned(self, units: Sequence[FederatedUnit], devices: Mapping[str, RoundDevice]) -> AssignedRound:
        if not units:
            return AssignedRound((), self._rules.deadline_s)
        plan = plan_round([devices[unit.identity.unit] for unit in units], self._rules, self._seed)
        found = [
            self._assignment(unit, one.row, one.epochs, one.train_s)
            for unit, one in zip(units, plan.assignments, strict=True)
            if one.row is not None
        ]
        return AssignedRound(tuple(found), plan.deadline_s)

    def _fastest(self, unit: FederatedUnit, device: RoundDevice) -> UnitAssignment:
        time_s, power_w = device.modes.time_s, device.modes.power_w
        if device.max_power_w is not None and power_w is not None:
            time_s = np.where(power_w <= device.max_power_w, time_s, np.inf)
        row, epochs = int(np.argmin(time_s)), self._rules.epochs
        train_s = device.minibatches(epochs) * float(device.modes.time_s[row]) * (device.time_factor or 1.0)
        return self._assignment(unit, row, epochs, train_s)

    def _known(self, unit: FederatedUnit) -> RoundDevice:
        name = unit.identity.unit
        if name not in self._devices:
            known = ", ".join(sorted(self._devices)) or "none"
            raise UsageError(f"the round has no device {name!r}; known: {known}")
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

    def _assignment(self, unit: FederatedUnit, row: int, epochs: int, train_s: float | None) -> UnitAssignment:
        device = self._known(unit)
        minibatches = device.minibatches(epochs)
        kind_s = float(device.modes.time_s[row]) * minibatches
        power_w, mode = device.modes.power_w, device.modes.modes.mode(row)
        kind_j = None if power_w is None else float(power_w[row]) * kind_s
        predicted_j = None if kind_j is None else kind_j * unit.energy.factor(mode)
        return UnitAssignment(device.name, mode, train_s, predicted_j, kind_s, kind_j, minibatches)
