"""A fitted predictor as versioned text, and back."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import numpy as np

from edgetrain.errors import PredictError
from edgetrain.predict.modes.fit import Fitted
from edgetrain.predict.modes.physics import Reference
from edgetrain.predict.modes.residual import Kernel, Residual

FORMAT = "edgetrain-predictor-1"


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    return value


def dump_predictor(fitted: Fitted) -> str:
    """Return the predictor as JSON; numbers are written so that they read back exactly."""
    return json.dumps({"schema": FORMAT, **_plain(asdict(fitted))}) + "\n"


def parse_predictor(text: str, name: str = "predictor") -> Fitted:
    """Read it back."""
    try:
        document = json.loads(text)
    except ValueError as error:
        raise PredictError(f"{name} is no saved predictor: {error}") from error
    if not isinstance(document, dict) or document.get("schema") != FORMAT:
        raise PredictError(f"{name} is not of schema {FORMAT}; fit it again with this version")
    try:
        fields = {key: value for key, value in document.items() if key != "schema"}
        for key in ("time", "time_mean", "power", "low", "high"):
            fields[key] = None if fields[key] is None else np.array(fields[key], dtype=float)
        for key in ("time_rest", "power_rest"):
            rest = fields[key]
            kernel = Kernel(rest["kernel"]["amplitude"], tuple(rest["kernel"]["lengths"]))
            fields[key] = Residual(kernel, *(np.array(rest[part]) for part in ("at", "factor", "weights")))
        fields["reference"] = Reference(**fields["reference"])
        fields["warnings"] = tuple(fields["warnings"])
        return Fitted(**fields)
    except (KeyError, TypeError, ValueError) as error:
        raise PredictError(f"{name} is a damaged predictor: {error!r}; fit it again") from error
