"""Prints one JSON document on stdout; what was not measured is null, never NaN."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import Any


def plain(value: Any) -> Any:
    """Return a value as JSON can hold it: numpy scalars as numbers, NaN and infinity as None."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, Enum):
        return plain(value.value)
    if isinstance(value, (list, tuple, set)):
        return [plain(item) for item in value]
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Path):
        return str(value)
    return value


def emit(document: Mapping[str, Any]) -> None:
    """Write the document to stdout, and nothing else."""
    sys.stdout.write(json.dumps(plain(document), indent=2, ensure_ascii=False) + "\n")
    sys.stdout.flush()
