"""Predicts time, power and energy of power modes that were not profiled from a few that were.

fit(profiled, prior)                  a Predictor for every mode of the board
choose_modes(candidates, count)       which modes to profile, the most informative first
ModePredictor.of(profiled, board, …)  the same with the board's modes: `.at(mode)`, `.table()`
compare_methods(table, …)             how wrong that is on a table in which every mode was measured
load_prior("orin")                    what the fits of other networks imply
PipelinePredictor(run, summary)       one recorded run under other workers, storage, RAM, batch size, …
"""

from __future__ import annotations

from edgetrain.prediction.active import ActiveStep, profile_until
from edgetrain.prediction.base import (
    CLOCKS,
    FACTORS,
    Array,
    ModeTable,
    Predictions,
    Predictor,
    bare,
    exact_predictions,
    join,
    largest,
    results,
    varies,
)
from edgetrain.prediction.baselines import gaussian_process, linear_model, transferred_network
from edgetrain.prediction.costs import ProfilingCost
from edgetrain.prediction.evaluate import (
    ErrorFigures,
    IntervalFigures,
    MethodComparison,
    MethodErrors,
    PerSeedFigures,
    PredictionMethod,
    SeedFigure,
    compare_methods,
    physics,
)
from edgetrain.prediction.intervals import LEVEL, bounds, energy, estimate, expected_error
from edgetrain.prediction.mode_predictor import (
    ExpectedError,
    ModePrediction,
    ModePredictor,
    PredictionColumns,
    PredictionTable,
    PriorUsed,
    UnitFactors,
)
from edgetrain.prediction.modes.design import ModeDesign, plan_modes
from edgetrain.prediction.modes.fit import Fitted, fit_modes
from edgetrain.prediction.modes.learn import learn_entry
from edgetrain.prediction.modes.prior import GENERIC, Prior, PriorEntry
from edgetrain.prediction.modes.prior_files import dump_prior, load_prior, shipped_priors
from edgetrain.prediction.modes.saved import dump_predictor, parse_predictor
from edgetrain.prediction.modes.unit_correction import UnitCorrection, unit_correction
from edgetrain.prediction.pipeline import (
    LATER_EPOCHS,
    MODELLED,
    RECORDED_MEDIUM,
    BoardFacts,
    Budget,
    CalibratedPipeline,
    ChangeFacts,
    DatasetOnMedium,
    EpochPrediction,
    HandOver,
    ModeEffect,
    PipelineCosts,
    PipelinePrediction,
    PipelinePredictor,
    PipelineSetting,
    PublishedStep,
    RecordedEpoch,
    RecordedPipeline,
    SimulatedEpoch,
    StepCosts,
    StepKind,
    TrainingMemory,
    WhatIfAnswer,
    WhatIfModel,
    WhatIfRow,
    WhatIfValues,
    assumed_hand_over,
    calibrate,
    changed_setting,
    in_mode,
    later_mean_s,
    read_changes,
    read_pipeline,
    simulate_epoch,
    total_of,
    whole_epochs,
)
from edgetrain.prediction.prior_list import PriorList, PriorSummary, summarize_prior, with_entry
from edgetrain.prediction.profiling import (
    MINIBATCHES,
    PlannedMode,
    ProfilingPlan,
    ProfilingRun,
    ProfilingStep,
    plan_profiling,
    run_profiling,
)
from edgetrain.prediction.table import parse_table, read_table, write_table
from edgetrain.student import probability_below as student_probability_below
from edgetrain.student import quantile as student_quantile

__all__ = [
    "CLOCKS",
    "FACTORS",
    "GENERIC",
    "LATER_EPOCHS",
    "LEVEL",
    "MINIBATCHES",
    "MODELLED",
    "RECORDED_MEDIUM",
    "ActiveStep",
    "Array",
    "BoardFacts",
    "Budget",
    "CalibratedPipeline",
    "ChangeFacts",
    "DatasetOnMedium",
    "EpochPrediction",
    "ErrorFigures",
    "ExpectedError",
    "Fitted",
    "HandOver",
    "IntervalFigures",
    "MethodComparison",
    "MethodErrors",
    "ModeDesign",
    "ModeEffect",
    "ModePrediction",
    "ModePredictor",
    "ModeTable",
    "PerSeedFigures",
    "PipelineCosts",
    "PipelinePrediction",
    "PipelinePredictor",
    "PipelineSetting",
    "PlannedMode",
    "PredictionColumns",
    "PredictionMethod",
    "PredictionTable",
    "Predictions",
    "Predictor",
    "Prior",
    "PriorEntry",
    "PriorList",
    "PriorSummary",
    "PriorUsed",
    "ProfilingCost",
    "ProfilingPlan",
    "ProfilingRun",
    "ProfilingStep",
    "PublishedStep",
    "RecordedEpoch",
    "RecordedPipeline",
    "SeedFigure",
    "SimulatedEpoch",
    "StepCosts",
    "StepKind",
    "TrainingMemory",
    "UnitCorrection",
    "UnitFactors",
    "WhatIfAnswer",
    "WhatIfModel",
    "WhatIfRow",
    "WhatIfValues",
    "assumed_hand_over",
    "bare",
    "bounds",
    "calibrate",
    "changed_setting",
    "choose_modes",
    "compare_methods",
    "dump_predictor",
    "dump_prior",
    "energy",
    "estimate",
    "exact_predictions",
    "expected_error",
    "fit",
    "fit_modes",
    "gaussian_process",
    "in_mode",
    "join",
    "largest",
    "later_mean_s",
    "learn_entry",
    "linear_model",
    "load_prior",
    "parse_predictor",
    "parse_table",
    "physics",
    "plan_modes",
    "plan_profiling",
    "profile_until",
    "read_changes",
    "read_pipeline",
    "read_table",
    "results",
    "run_profiling",
    "shipped_priors",
    "simulate_epoch",
    "student_probability_below",
    "student_quantile",
    "summarize_prior",
    "total_of",
    "transferred_network",
    "unit_correction",
    "varies",
    "whole_epochs",
    "with_entry",
    "write_table",
]


def fit(profiled: ModeTable, prior: Prior | None = None, seed: int = 0, board: ModeTable | None = None) -> Fitted:
    """Fit profiled modes; `board` (all modes there are) provides the largest clocks if they were not profiled."""
    return fit_modes(profiled, prior, seed, board)


def choose_modes(
    candidates: ModeTable,
    count: int,
    profiled: ModeTable | None = None,
    prior: Prior | None = None,
    seed: int = 0,
    board: ModeTable | None = None,
) -> list[int]:
    """Return the rows of `candidates` to profile next, the most informative first."""
    return plan_modes(candidates, count, profiled, prior, seed, board).rows
