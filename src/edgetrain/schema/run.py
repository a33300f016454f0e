"""A run as it is read back: what was observed, as columns; everything else is derived from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    import numpy as np

SCHEMA = "edgetrain/1"  # carried by every manifest and every JSON document

Columns: TypeAlias = "Mapping[str, np.ndarray[Any, Any]]"


@dataclass(frozen=True)
class Run:
    """One execution of an experiment, with all it recorded.

    Instants are int64 microseconds on the run's monotonic clock (`*_us`); an instant that was not seen is
    NULL_INSTANT (-1). Float readings that were not taken are NaN. `lost` names what could not be read back.
    """

    run: str  # its id
    path: Path | None
    manifest: Mapping[str, Any]
    minibatches: Columns  # see docs/format.md
    workers: Columns
    samples: Mapping[str, Columns] = field(default_factory=dict)  # by probe name
    events: tuple[Mapping[str, Any], ...] = ()
    lost: tuple[str, ...] = ()
