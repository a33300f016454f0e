"""The server: FedAvg with a power mode per board and round, chosen from predictions for each kind of board."""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from pathlib import Path

from flwr.app import ArrayRecord, Context
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

from edgetrain.documents import from_document, to_document
from edgetrain.federated import DeadlineAssigner, PowerModeStrategy, UnitProfile, mode_costs
from edgetrain.prediction import read_table
from federated_cifar.task import initial_weights

app = ServerApp()


@dataclass(frozen=True)
class PlannedUnit:
    """What the server knows about one unit: the predicted table of its kind, its minibatches, its idle power."""

    table: str
    minibatches: int
    idle_w: float | None = None


@dataclass(frozen=True)
class FederationPlan:
    """What the server knows about the federation."""

    units: dict[str, PlannedUnit]
    deadline_s: float | None = None


def read_profiles(plan: FederationPlan) -> dict[str, UnitProfile]:
    """Return the profiles of all units; a table that several share is read once."""
    tables = {unit.table for unit in plan.units.values()}
    costs = {table: mode_costs(read_table(table, need_results=True)) for table in tables}
    return {name: UnitProfile(costs[unit.table], unit.minibatches, unit.idle_w) for name, unit in plan.units.items()}


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Train, and write the rounds."""
    logging.getLogger("edgetrain").setLevel(logging.INFO)
    config = context.run_config
    plan = from_document(FederationPlan, json.loads(Path(str(config["plan"])).read_text()))
    strategy = PowerModeStrategy(
        FedAvg(fraction_evaluate=0.0, min_train_nodes=1, min_available_nodes=1),
        DeadlineAssigner(read_profiles(plan), plan.deadline_s),
        nodes=int(config["nodes"]),
        nodes_s=float(config["nodes-s"]),
        overhead_s=float(config["overhead-s"]),
    )
    strategy.start(grid, ArrayRecord(initial_weights()), num_rounds=int(config["num-server-rounds"]))
    Path(str(config["result"])).write_text(json.dumps([to_document(each) for each in strategy.rounds]))
