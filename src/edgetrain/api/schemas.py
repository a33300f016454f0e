"""The JSON Schema of every document that a command prints with --json, generated from its type."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from edgetrain.analysis import (
    CampaignResult,
    Comparison,
    FindingsReport,
    SectionCost,
    StudyReport,
    Summary,
    VariabilityReport,
)
from edgetrain.api.drawing import FiguresWritten
from edgetrain.api.fitting import FitReport
from edgetrain.api.quickstart import Characterisation
from edgetrain.api.records import Exported, ImportResult, Pruned, RunList
from edgetrain.api.reports import PageWritten
from edgetrain.documents import json_schema
from edgetrain.errors import UsageError
from edgetrain.prediction import PredictionTable, PriorList, ProfilingPlan, ProfilingRun, WhatIfAnswer
from edgetrain.recommendation import (
    DeviceRanking,
    Diagnosis,
    Evaluation,
    Recommendation,
    RoundAnswer,
    Sensitivity,
    TuneResult,
)
from edgetrain.runner import plan_schema
from edgetrain.schema import (
    SCHEMA,
    BoardDetails,
    BoardList,
    CampaignPreview,
    DatasetFacts,
    DatasetPreview,
    DoctorReport,
    FleetDoctor,
    FleetPreview,
    FleetStatus,
    IdlePreview,
    IdleTable,
    LabDown,
    LabMeasured,
    LabPreview,
    LabStatus,
    LabUp,
    ModeChange,
    ModeListing,
    ModeRestore,
)


@dataclass(frozen=True, slots=True)
class StudyCosts:
    """The document of `reproduce --dry-run`."""

    sections: tuple[SectionCost, ...]


@dataclass(frozen=True, slots=True)
class CommandOption:
    """One option or argument of a command."""

    names: tuple[str, ...]
    kind: str  # option | argument
    type: str
    required: bool
    several: bool
    default: str | None
    help: str


@dataclass(frozen=True, slots=True)
class CommandHelp:
    """One command: what it answers and what it takes."""

    command: str
    group: str
    help: str
    json: bool  # has --json
    schema: bool  # `edgetrain schema COMMAND` prints the schema of that document
    dry_run: bool  # has --dry-run: without it, the command may change the machine or delete something
    options: tuple[CommandOption, ...]


@dataclass(frozen=True, slots=True)
class CommandList:
    """The document of `edgetrain --help --json`."""

    version: str
    commands: tuple[CommandHelp, ...]


@dataclass(frozen=True, slots=True)
class SchemaList:
    """The document of `edgetrain schema --json`: what has a schema."""

    documents: tuple[str, ...]


DOCUMENTS: Mapping[str, type] = {
    "quickstart": Characterisation,
    "doctor": DoctorReport,
    "run": Summary,
    "data": DatasetFacts,
    "data --dry-run": DatasetPreview,
    "profile": Summary,
    "ls": RunList,
    "show": Summary,
    "compare": Comparison,
    "diagnose": Diagnosis,
    "findings": FindingsReport,
    "whatif": WhatIfAnswer,
    "export": Exported,
    "import": ImportResult,
    "prune": Pruned,
    "recommend": Recommendation,
    "sensitivity": Sensitivity,
    "tune": TuneResult,
    "choose-device": DeviceRanking,
    "predict plan": ProfilingPlan,
    "predict plan --until": ProfilingRun,
    "predict table": PredictionTable,
    "evaluate": Evaluation,
    "prior list": PriorList,
    "prior add": PriorList,
    "lab up": LabUp,
    "lab up --dry-run": LabPreview,
    "lab down": LabDown,
    "lab status": LabStatus,
    "lab measure": LabMeasured,
    "campaign": CampaignResult,
    "campaign --dry-run": CampaignPreview,
    "reproduce": StudyReport,
    "reproduce --dry-run": StudyCosts,
    "devices": BoardList,
    "devices --fits": FitReport,
    "devices show": BoardDetails,
    "round": RoundAnswer,
    "modes list": ModeListing,
    "modes set": ModeChange,
    "modes restore": ModeRestore,
    "baseload": IdleTable,
    "baseload --dry-run": IdlePreview,
    "fleet doctor": FleetDoctor,
    "fleet up": FleetStatus,
    "fleet up --dry-run": FleetPreview,
    "fleet down": FleetStatus,
    "fleet down --dry-run": FleetPreview,
    "fleet status": FleetStatus,
    "report": PageWritten,
    "figures": FiguresWritten,
    "variability": VariabilityReport,
    "schema": SchemaList,
    "--help": CommandList,
}


def document_names() -> tuple[str, ...]:
    """Return every document that has a schema: commands, and `plan` (what `campaign` reads)."""
    return tuple(sorted([*DOCUMENTS, "plan"]))


def document_schema(name: str) -> dict[str, Any]:
    """Return the JSON Schema of what a command prints with --json, or of a plan."""
    if name == "plan":
        return plan_schema()
    if name not in DOCUMENTS:
        raise UsageError(f"there is no schema for {name!r}; known: {', '.join(document_names())}")
    found = json_schema(DOCUMENTS[name], f"edgetrain {name} --json" if name != "--help" else "edgetrain --help --json")
    version = {"properties": {"schema": {"type": "string", "const": SCHEMA}}, "required": ["schema"]}
    return {**found, "allOf": [version]}
