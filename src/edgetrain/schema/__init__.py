"""The domain types: devices, power modes, workloads, experiments, limits, estimates, doubts.

The half that touches hardware and the half that interprets meet only here and in `record`.
"""

from edgetrain.schema.board import Board, BoardDetails, BoardList, ClockTable, PublishedMode
from edgetrain.schema.boards import (
    DoctorReport,
    Finding,
    IdlePreview,
    IdleRow,
    IdleTable,
    ModeChange,
    ModeClocks,
    ModeListing,
    ModeRestore,
    ProbeCost,
    Restored,
    SamplingCost,
    SettingWrite,
    SocketRow,
)
from edgetrain.schema.campaign import CampaignPreview, PlanCost, PlannedRow
from edgetrain.schema.dataset import DatasetFacts, DatasetPreview
from edgetrain.schema.device import DeviceSpec, PowerMode
from edgetrain.schema.doubt import Doubt
from edgetrain.schema.estimate import Estimate
from edgetrain.schema.experiment import (
    DEFAULT_BATCH_SIZE,
    POWER_MODE,
    SECTIONS,
    Experiment,
    Limits,
    Loading,
    Workload,
    all_settings,
    build_experiment,
)
from edgetrain.schema.fleet import (
    FleetBoardProgress,
    FleetCheck,
    FleetDoctor,
    FleetPreview,
    FleetProgress,
    FleetRow,
    FleetStatus,
)
from edgetrain.schema.lab import (
    LabDown,
    LabMeasured,
    LabMechanisms,
    LabPreview,
    LabStatus,
    LabUp,
    LimitProof,
    SessionFacts,
)
from edgetrain.schema.limits import (
    CoresGot,
    CpuShareGot,
    LimitsAsked,
    LimitsGot,
    RamGot,
    ReadsServed,
    StorageGot,
    StorageModel,
)
from edgetrain.schema.measure import Measure, ModeMeasurement
from edgetrain.schema.memory import MemoryNeed
from edgetrain.schema.modes import ModeSpace, StockMode
from edgetrain.schema.origin import Origin, weakest
from edgetrain.schema.power import PowerSource
from edgetrain.schema.setting import Declared, Scalar, Setting, settings_of
from edgetrain.schema.tegrastats import TegrastatsLine, parse_tegrastats, total_rails
from edgetrain.schema.tuning import LoaderArguments, LoaderMeasurement, LoaderTarget, MeasureLoader, RamUse
from edgetrain.schema.version import SCHEMA

__all__ = [
    "DEFAULT_BATCH_SIZE",
    "POWER_MODE",
    "SCHEMA",
    "SECTIONS",
    "Board",
    "BoardDetails",
    "BoardList",
    "CampaignPreview",
    "ClockTable",
    "CoresGot",
    "CpuShareGot",
    "DatasetFacts",
    "DatasetPreview",
    "Declared",
    "DeviceSpec",
    "DoctorReport",
    "Doubt",
    "Estimate",
    "Experiment",
    "Finding",
    "FleetBoardProgress",
    "FleetCheck",
    "FleetDoctor",
    "FleetPreview",
    "FleetProgress",
    "FleetRow",
    "FleetStatus",
    "IdlePreview",
    "IdleRow",
    "IdleTable",
    "LabDown",
    "LabMeasured",
    "LabMechanisms",
    "LabPreview",
    "LabStatus",
    "LabUp",
    "LimitProof",
    "Limits",
    "LimitsAsked",
    "LimitsGot",
    "LoaderArguments",
    "LoaderMeasurement",
    "LoaderTarget",
    "Loading",
    "Measure",
    "MeasureLoader",
    "MemoryNeed",
    "ModeChange",
    "ModeClocks",
    "ModeListing",
    "ModeMeasurement",
    "ModeRestore",
    "ModeSpace",
    "Origin",
    "PlanCost",
    "PlannedRow",
    "PowerMode",
    "PowerSource",
    "ProbeCost",
    "PublishedMode",
    "RamGot",
    "RamUse",
    "ReadsServed",
    "Restored",
    "SamplingCost",
    "Scalar",
    "SessionFacts",
    "Setting",
    "SettingWrite",
    "SocketRow",
    "StockMode",
    "StorageGot",
    "StorageModel",
    "TegrastatsLine",
    "Workload",
    "all_settings",
    "build_experiment",
    "parse_tegrastats",
    "settings_of",
    "total_rails",
    "weakest",
]
