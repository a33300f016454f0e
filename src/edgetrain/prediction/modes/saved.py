"""Writes a fitted predictor as versioned JSON, and reads it back."""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np

from edgetrain.documents import DocumentError, from_document, read_json, to_document
from edgetrain.errors import PredictError
from edgetrain.prediction.modes.fit import Fitted
from edgetrain.prediction.modes.physics import ReferenceMode
from edgetrain.prediction.modes.residual import MaternKernel, Residual
from edgetrain.prediction.modes.unit_correction import UnitCorrection

FORMAT = "edgetrain-predictor-1"


@dataclass(frozen=True, slots=True)
class _SavedResidual:
    kernel: MaternKernel
    at: list[list[float]]
    factor: list[list[float]]
    weights: list[float]

    def residual(self) -> Residual:
        return Residual(self.kernel, np.array(self.at), np.array(self.factor), np.array(self.weights))


@dataclass(frozen=True, slots=True)
class _SavedPredictor:
    """A predictor as it is in the file; lists instead of arrays."""

    schema: str
    reference: ReferenceMode
    time: list[list[float]]
    time_mean: list[list[float]] | None
    power: list[list[float]]
    time_rest: _SavedResidual
    power_rest: _SavedResidual
    time_noise: float
    power_noise: float
    mean_noise: float
    low: list[float]
    high: list[float]
    warnings: tuple[str, ...]
    unit: UnitCorrection | None = None


def dump_predictor(fitted: Fitted) -> str:
    """Return the predictor as JSON; numbers are written so that they read back exactly."""
    return json.dumps({"schema": FORMAT, **to_document(fitted)}) + "\n"


def parse_predictor(text: str, name: str = "predictor") -> Fitted:
    """Read a predictor from JSON; `name` is used in errors."""
    try:
        document = read_json(text)
    except ValueError as error:
        raise PredictError(f"{name} is not a saved predictor: {error}") from error
    if not isinstance(document, dict) or document.get("schema") != FORMAT:
        raise PredictError(f"{name} is not of schema {FORMAT}; fit it again with this version")
    try:
        saved = from_document(_SavedPredictor, document)
        return Fitted(
            saved.reference,
            np.array(saved.time),
            None if saved.time_mean is None else np.array(saved.time_mean),
            np.array(saved.power),
            saved.time_rest.residual(),
            saved.power_rest.residual(),
            saved.time_noise,
            saved.power_noise,
            saved.mean_noise,
            np.array(saved.low),
            np.array(saved.high),
            saved.warnings,
            saved.unit,
        )
    except (DocumentError, ValueError) as error:
        raise PredictError(f"{name} is a damaged predictor: {error}; fit it again") from error
