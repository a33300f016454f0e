"""Interprets a record: steady state, where time and energy went, why the loop waited, comparison, doubts.

Pure: `summarize(run)` reads a Run and returns a Summary, which is also the JSON document of `run`, `profile` and
`show`. It never touches hardware.
"""

from edgetrain.analysis.bins import Bins, put_in_bins
from edgetrain.analysis.breakdown import break_down
from edgetrain.analysis.cache_curves import CacheCurve, cache_curve, lru_hit_share
from edgetrain.analysis.campaign import CampaignResult, campaign_result
from edgetrain.analysis.clocks import ClockUse, clock_use
from edgetrain.analysis.compare import Comparison, Difference, compare
from edgetrain.analysis.diagnosis import (
    COMPUTE,
    LAUNCH,
    MIN_RECORDED_MINIBATCHES,
    NOTHING_TO_GAIN,
    DiagnosisFact,
    LimitVerdict,
    find_verdict,
    is_launch_bound,
    verdict_sentence,
)
from edgetrain.analysis.energy import Energy, energy_between
from edgetrain.analysis.factors import (
    EpochTimes,
    FactorRow,
    conclusions,
    label,
    settings,
    tabulate,
)
from edgetrain.analysis.findings import (
    Bound,
    Evidence,
    FindingsReport,
    SectionCost,
    SectionScale,
    StudyFinding,
    StudyReport,
    Verdict,
)
from edgetrain.analysis.joined_rows import RecordedRows, recorded_rows
from edgetrain.analysis.loop import (
    TrainingLoop,
    find_loop,
    find_loops,
    loader_minibatches,
    slowest,
    training_loader,
)
from edgetrain.analysis.parts import Parts
from edgetrain.analysis.resampling import LEVEL, MIN_RUNS, RESAMPLES, expansion, resampled_means
from edgetrain.analysis.sample_size import SampleSize
from edgetrain.analysis.sensor_traces import Trace, TraceKind, dataset_disk, power_traces, rate, traces
from edgetrain.analysis.services import COLD_BYTES
from edgetrain.analysis.software_effects import SoftwareDifference
from edgetrain.analysis.spread import Spread, spreads
from edgetrain.analysis.summarizing import summarize
from edgetrain.analysis.summary import (
    EnergyByCause,
    EpochSummary,
    EvaluationSummary,
    MachineReadings,
    MinibatchTimes,
    OwnCost,
    PowerSummary,
    ProcessSpread,
    ProcessSummary,
    StallCauses,
    Summary,
)
from edgetrain.analysis.turns import OTHER_THREAD
from edgetrain.analysis.unit_runs import UNIT_FACTORS, UnitEpoch, UnitRun, software_of, unit_run
from edgetrain.analysis.unit_table import read_unit_table
from edgetrain.analysis.variability import variability
from edgetrain.analysis.variability_types import (
    MeasureVariability,
    SettingVariability,
    UnitVariation,
    VariabilityReport,
)

__all__ = [
    "COLD_BYTES",
    "COMPUTE",
    "LAUNCH",
    "LEVEL",
    "MIN_RECORDED_MINIBATCHES",
    "MIN_RUNS",
    "NOTHING_TO_GAIN",
    "OTHER_THREAD",
    "RESAMPLES",
    "UNIT_FACTORS",
    "Bins",
    "Bound",
    "CacheCurve",
    "CampaignResult",
    "ClockUse",
    "Comparison",
    "DiagnosisFact",
    "Difference",
    "Energy",
    "EnergyByCause",
    "EpochSummary",
    "EpochTimes",
    "EvaluationSummary",
    "Evidence",
    "FactorRow",
    "FindingsReport",
    "LimitVerdict",
    "MachineReadings",
    "MeasureVariability",
    "MinibatchTimes",
    "OwnCost",
    "Parts",
    "PowerSummary",
    "ProcessSpread",
    "ProcessSummary",
    "RecordedRows",
    "SampleSize",
    "SectionCost",
    "SectionScale",
    "SettingVariability",
    "SoftwareDifference",
    "Spread",
    "StallCauses",
    "StudyFinding",
    "StudyReport",
    "Summary",
    "Trace",
    "TraceKind",
    "TrainingLoop",
    "UnitEpoch",
    "UnitRun",
    "UnitVariation",
    "VariabilityReport",
    "Verdict",
    "break_down",
    "cache_curve",
    "campaign_result",
    "clock_use",
    "compare",
    "conclusions",
    "dataset_disk",
    "energy_between",
    "expansion",
    "find_loop",
    "find_loops",
    "find_verdict",
    "is_launch_bound",
    "label",
    "loader_minibatches",
    "lru_hit_share",
    "power_traces",
    "put_in_bins",
    "rate",
    "read_unit_table",
    "recorded_rows",
    "resampled_means",
    "settings",
    "slowest",
    "software_of",
    "spreads",
    "summarize",
    "tabulate",
    "traces",
    "training_loader",
    "unit_run",
    "variability",
    "verdict_sentence",
]
