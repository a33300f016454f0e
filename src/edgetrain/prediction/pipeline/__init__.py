"""Predicts a training under another setting of loader, storage, RAM, cores or batch size from one recorded run.

`PipelinePredictor(run, summary).predict(setting)` simulates the epochs of a training loop, its loader workers, storage,
page cache, cores and accelerator, with the costs that the run's own record shows.
"""

from edgetrain.prediction.pipeline.calibrate import CalibratedPipeline, calibrate
from edgetrain.prediction.pipeline.changes import (
    MODELLED,
    BoardFacts,
    ChangeFacts,
    ModeEffect,
    PublishedStep,
    changed_setting,
    in_mode,
    read_changes,
)
from edgetrain.prediction.pipeline.costs import HandOver, PipelineCosts, StepCosts, StepKind, assumed_hand_over
from edgetrain.prediction.pipeline.epoch import Budget, SimulatedEpoch, simulate_epoch
from edgetrain.prediction.pipeline.from_record import RecordedPipeline, later_mean_s, read_pipeline, whole_epochs
from edgetrain.prediction.pipeline.page_cache import DatasetOnMedium
from edgetrain.prediction.pipeline.predictor import (
    EpochPoint,
    EpochPrediction,
    PipelinePrediction,
    PipelinePredictor,
    PointPrediction,
)
from edgetrain.prediction.pipeline.recorded_storage import RECORDED_MEDIUM, TrainingMemory
from edgetrain.prediction.pipeline.setting import PipelineSetting
from edgetrain.prediction.pipeline.what_if import (
    LATER_EPOCHS,
    RecordedEpoch,
    WhatIfAnswer,
    WhatIfModel,
    WhatIfRow,
    WhatIfValues,
    total_of,
)

__all__ = [
    "LATER_EPOCHS",
    "MODELLED",
    "RECORDED_MEDIUM",
    "BoardFacts",
    "Budget",
    "CalibratedPipeline",
    "ChangeFacts",
    "DatasetOnMedium",
    "EpochPoint",
    "EpochPrediction",
    "HandOver",
    "ModeEffect",
    "PipelineCosts",
    "PipelinePrediction",
    "PipelinePredictor",
    "PipelineSetting",
    "PointPrediction",
    "PublishedStep",
    "RecordedEpoch",
    "RecordedPipeline",
    "SimulatedEpoch",
    "StepCosts",
    "StepKind",
    "TrainingMemory",
    "WhatIfAnswer",
    "WhatIfModel",
    "WhatIfRow",
    "WhatIfValues",
    "assumed_hand_over",
    "calibrate",
    "changed_setting",
    "in_mode",
    "later_mean_s",
    "read_changes",
    "read_pipeline",
    "simulate_epoch",
    "total_of",
    "whole_epochs",
]
