"""Federated training with Flower: a power mode per board and round, measured on the board, learned from by the server.

    ClientApp(mods=[power_mode_mod])                     on each board: holds the mode, records the training, reports
    PowerModeStrategy(FedAvg(...), assigner)             around any strategy: one message per board, with its mode
    DeadlineAssigner(profiles, deadline_s)               per unit the mode that meets the deadline with least energy
    RoundPlanAssigner(devices, rules)                    the planner of `edgetrain round` in its place
    LocalFederation(...)                                 SuperLink and SuperNodes on this machine, for trying it
    virtual_time_mod(boards)                             in Flower's simulation engine: time and energy from profiles

Flower carries the messages and aggregates; it is imported when a name that needs it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgetrain.flower_versions import version_problem
from edgetrain.lazy import load_on_use

if TYPE_CHECKING:
    from edgetrain.federated.assignment import (
        AssignedRound,
        DeadlineAssigner,
        FederatedUnit,
        ModeAssigner,
        ModeCost,
        UnitAssignment,
        UnitProfile,
        mode_costs,
    )
    from edgetrain.federated.board import NodeSettings, train_on_board
    from edgetrain.federated.correction import RoundCorrection
    from edgetrain.federated.grid import PollingGrid
    from edgetrain.federated.local import LocalFederation
    from edgetrain.federated.messages import BoardIdentity, TrainingReport, TrainingRequest
    from edgetrain.federated.mod import answer_identity, power_mode_mod
    from edgetrain.federated.planned import RoundPlanAssigner
    from edgetrain.federated.processes import FlowerInstall, flower_environment
    from edgetrain.federated.rounds import FederatedRound, UnitRound
    from edgetrain.federated.strategy import PowerModeStrategy
    from edgetrain.federated.virtual import VirtualBoard, virtual_time_mod

__all__ = [
    "AssignedRound",
    "BoardIdentity",
    "DeadlineAssigner",
    "FederatedRound",
    "FederatedUnit",
    "FlowerInstall",
    "LocalFederation",
    "ModeAssigner",
    "ModeCost",
    "NodeSettings",
    "PollingGrid",
    "PowerModeStrategy",
    "RoundCorrection",
    "RoundPlanAssigner",
    "TrainingReport",
    "TrainingRequest",
    "UnitAssignment",
    "UnitProfile",
    "UnitRound",
    "VirtualBoard",
    "answer_identity",
    "flower_environment",
    "mode_costs",
    "power_mode_mod",
    "train_on_board",
    "version_problem",
    "virtual_time_mod",
]

_MODULES = {
    "assignment": (
        "AssignedRound",
        "DeadlineAssigner",
        "FederatedUnit",
        "ModeAssigner",
        "ModeCost",
        "UnitAssignment",
        "UnitProfile",
        "mode_costs",
    ),
    "board": ("NodeSettings", "train_on_board"),
    "correction": ("RoundCorrection",),
    "grid": ("PollingGrid",),
    "local": ("LocalFederation",),
    "messages": ("BoardIdentity", "TrainingReport", "TrainingRequest"),
    "mod": ("answer_identity", "power_mode_mod"),
    "planned": ("RoundPlanAssigner",),
    "processes": ("FlowerInstall", "flower_environment"),
    "rounds": ("FederatedRound", "UnitRound"),
    "strategy": ("PowerModeStrategy",),
    "virtual": ("VirtualBoard", "virtual_time_mod"),
}

if not TYPE_CHECKING:  # a type checker must see that other names do not exist
    __getattr__ = load_on_use(__name__, _MODULES)
