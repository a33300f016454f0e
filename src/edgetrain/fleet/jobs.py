"""One run of a campaign on a fleet: where it may run, and as what a board gets it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from edgetrain.fleet.inventory import FleetBoard
from edgetrain.runner import Planned
from edgetrain.schema import Experiment


@dataclass(frozen=True, slots=True)
class FleetJob:
    """One run to be made: on one board where the plan wants every unit, else on any that fits."""

    key: str
    planned: Planned
    board: str | None

    def fits(self, board: FleetBoard) -> bool:
        """Return whether a board may make it: the one it is for, with the storage medium it asks for.

        A simulated board has a model of every medium.
        """
        if self.board is not None and self.board != board.name:
            return False
        storage = self.planned.experiment.limits.storage
        return storage is None or board.simulated or storage in board.storage

    def experiment_for(self, board: FleetBoard) -> Experiment:
        """Return the experiment as this board carries it out: a medium of the inventory is really there."""
        experiment = self.planned.experiment
        storage = experiment.limits.storage
        if board.simulated or storage not in board.storage:
            return experiment
        workload = replace(experiment.workload, dataset=board.storage[str(storage)])
        return replace(experiment, workload=workload, limits=replace(experiment.limits, storage=None))
